"""What is known of all groups: rows of the stream's topics, kept in bounds and handed out as immutable snapshots."""
