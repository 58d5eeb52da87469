"""The diagnosis as a separate process: an engine that blocks no query, started and supervised by its driver."""
