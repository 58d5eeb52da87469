"""Reasons why bytes could not be read: one class per cause."""

# ruff: noqa: N818 - the names are the causes; all are a DecodeError
from __future__ import annotations


class DecodeError(ValueError):
    """The bytes do not have the expected form; the text is one short clause."""


class Truncated(DecodeError):
    """A field reaches past the end of its buffer."""


class BadLength(DecodeError):
    """A length is negative where null is not allowed, or larger than the remaining bytes."""


class BadVarint(DecodeError):
    """A variable-length integer does not fit into 32 bits."""


class BadText(DecodeError):
    """A string is not UTF-8."""


class BadTag(DecodeError):
    """Tagged fields are out of order, repeated, or differ from the size that they claim."""


class TrailingBytes(DecodeError):
    """Bytes are left over after the last field."""


class BadVersion(DecodeError):
    """A version number that no writer uses."""
