"""Records to what happened: folds the log into group state and rebalances, without Spark, clients or clock."""
