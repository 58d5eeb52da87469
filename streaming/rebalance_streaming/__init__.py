"""The stream: reads `__consumer_offsets` and determines what happened to every consumer group."""
