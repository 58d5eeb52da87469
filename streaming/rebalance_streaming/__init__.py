"""The stream: from the bytes of `__consumer_offsets` to what happened to every group."""
