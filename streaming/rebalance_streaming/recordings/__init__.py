"""Recordings of a cluster: written, read back, and run through folds and engine without Spark."""
