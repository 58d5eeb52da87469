"""Folds records of the log into group state and rebalances, without Spark, clients or clock."""
