"""What users put into their own consumers, so that the monitor learns what only the client knows.

`kafka_python` and `confluent` each turn a consumer into one that reports itself to a topic; docs/client-metrics.md
shows how. This package runs inside other people's programs. It imports the standard library and the client that is
there anyway and nothing else, runs on every Python from 3.8 on, never waits in the program's threads but for a moment
when the consumer closes, takes no lock of the client, and no error of it reaches the program.
"""
