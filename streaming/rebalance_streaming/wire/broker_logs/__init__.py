"""Log lines of brokers to events of groups' coordinators; the entry point is `decode.decode_record`."""
