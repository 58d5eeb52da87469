"""The process from which Spark forks its Python workers (`spark.python.daemon.module`).

It imports the modules that every worker needs, so that workers start without imports and share their memory.
"""

from __future__ import annotations

import gc

import numpy  # noqa: F401  shared by the workers
import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import rebalance_streaming.spark.activity
import rebalance_streaming.spark.membership  # noqa: F401

if __name__ == "__main__":
    # Freeze the objects, because garbage collection in a worker would touch and so copy the shared memory.
    gc.collect()
    gc.freeze()
    manager()
