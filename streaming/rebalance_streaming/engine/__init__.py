"""The engine of the diagnosis: rows in, findings, lag, timing and impact out. Pure; Spark and the replay drive it."""
