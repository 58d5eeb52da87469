"""The diagnosis: finds causes in groups' recent history, by the catalogue. Independent of the clock and of Spark."""
