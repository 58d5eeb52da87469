"""The Spark application around the Spark-free core; the only package that imports pyspark."""
