"""Entry point for `spark-submit`: the same stream as `rebalance-monitor stream`, on a cluster's own Spark.

    spark-submit --master spark://HOST:7077 --jars CONNECTOR_JARS deploy/spark/rebalance_stream.py \
        --bootstrap-server HOST:9092 --set stream.checkpoint=hdfs:///rebalance-monitor

See README.md in this directory for the jars and for distributing the package to the workers.
"""

import sys

from rebalance_deploy.cli import main

if __name__ == "__main__":
    # An empty master leaves master, memory and jars to spark-submit.
    sys.argv[1:] = ["stream", "--set", "stream.master=", *sys.argv[1:]]
    main()
