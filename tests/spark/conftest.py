"""One Spark session for all tests that need a JVM."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from rebalance_deploy import jars
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.session import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with the stream's options."""
    session = start_session(StreamConfig(master="local[2]"), jars.resolve("connector"))
    yield session
    session.stop()
