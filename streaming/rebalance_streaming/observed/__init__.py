"""State of groups: rows of all sources as one history, and which members left when and how. `detect` judges why."""
