"""The process from which Spark forks its Python workers (`spark.python.daemon.module`).

It imports what every worker needs, so that a worker starts without importing and shares the memory of it.
"""

from __future__ import annotations

import gc

import numpy  # noqa: F401  what workers share
import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import rebalance_streaming.spark.activity
import rebalance_streaming.spark.membership  # noqa: F401

if __name__ == "__main__":
    # A collection that touches what is shared would copy it.
    gc.collect()
    gc.freeze()
    manager()
