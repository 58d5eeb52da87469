"""Failures a person can mend."""

from rebalance_contract.epochs import SUPERSEDED_EXIT_CODE


class StreamError(Exception):
    """The stream cannot start or go on; the text is one sentence that says what to do next."""


class AwayError(StreamError):
    """Brokers do not answer, or not all of them do that are needed. They may come: at its start the stream waits."""


class SupersededError(StreamError):
    """Another process runs the same queries, and took over from this one."""

    exit_code = SUPERSEDED_EXIT_CODE
