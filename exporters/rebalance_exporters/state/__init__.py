"""State of all groups, built from the rows of the stream's topics: bounded, and read as immutable snapshots."""
