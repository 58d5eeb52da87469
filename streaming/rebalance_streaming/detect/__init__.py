"""What happened to why: holds groups' recent history against the catalogue of diagnoses. Knows no clock, no Spark."""
