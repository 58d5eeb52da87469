"""What log messages of clients and coordinators mean: an index (messages.toml), and how a line is found in it.

Receives text that a person pasted, or the lines of a log; hands on entries of the index. Knows no group, no API and no
output, and needs nothing but the standard library and the contract.
"""
