"""The diagnosis as a process of its own: an engine that no query waits for, started and watched by its driver."""
