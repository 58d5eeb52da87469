"""What can go wrong in a way that the person at the terminal can repair."""


class ExporterError(Exception):
    """One sentence for a person: what is wrong and what to do about it."""
