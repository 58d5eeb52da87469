"""The exception for errors that are shown to users."""


class UserError(Exception):
    """A problem the user can solve; its message is one or two sentences that say what to do next.

    The command line prints the message and exits with code 1, without a stack trace.
    """
