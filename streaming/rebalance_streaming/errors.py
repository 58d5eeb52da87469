"""Errors that a user can fix."""

from rebalance_contract.epochs import SUPERSEDED_EXIT_CODE


class StreamError(Exception):
    """The stream cannot start or continue; the text is one sentence that says what to do."""


class BrokersUnreachableError(StreamError):
    """Brokers that are needed do not answer. The error may be temporary, so the stream waits at its start."""


class SupersededError(StreamError):
    """Another process runs the same queries and has superseded this one."""

    exit_code = SUPERSEDED_EXIT_CODE
