"""Errors that the user can fix."""


class ExporterError(Exception):
    """One sentence for a person: what is wrong and what to do about it."""
