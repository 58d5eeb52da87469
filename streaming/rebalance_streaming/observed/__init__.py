"""What is known of groups: rows of all sources as one history, and who left when, and how. Why is for `detect`."""
