"""Failures a person can mend."""


class StreamError(Exception):
    """The stream cannot start or go on; the text is one sentence that says what to do next."""
