"""The one error this package shows to people."""


class UserError(Exception):
    """A problem the user can solve; its message is one sentence or two that say what to do next.

    The command line prints the message and exits with code 1, without a stack trace.
    """
