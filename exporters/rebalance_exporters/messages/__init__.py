"""The index of client and coordinator log messages (messages.toml), and the lookup of log lines in it.

Receives pasted text or the lines of a log; returns entries of the index. Depends only on the standard library and the
contract, and on no group, API or output.
"""
