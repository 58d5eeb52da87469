"""Packs the activity of groups into bounded rows on the executors; pure, stateless, without pyspark or a client."""
