"""Log lines of brokers to events of groups' coordinators; `decode.decode_lines` is the way in."""
