"""Reporters that users add to their own consumers, to report what only the client knows.

`kafka_python` and `confluent` each make a consumer report itself to a topic; docs/client-metrics.md shows how. This
package runs inside other people's programs. It imports only the standard library and the installed client, runs on
Python 3.8 and later, blocks the program's threads only for a moment when the consumer closes, takes no lock of the
client, and none of its errors reaches the program.
"""
