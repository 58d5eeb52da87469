"""The values of `stream.rebuild`: each one causes a single rebuild, however often a process starts with it.

A checkpoint stores the values for which it and its predecessors were created. This module does not use Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

#: Maximum number of values stored; the oldest are dropped.
_MOST = 100


@dataclass(frozen=True, slots=True)
class RebuildValues:
    """`asked` is the setting, empty if not set. `done` are the values stored in the checkpoint, oldest first."""

    asked: str
    done: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether a new checkpoint must be created."""
        return bool(self.asked) and self.asked not in self.done

    def kept(self) -> tuple[str, ...]:
        """Return the values to store in a checkpoint that is created now."""
        return (*self.done, self.asked)[-_MOST:] if self.is_new else self.done


def encode_values(values: tuple[str, ...]) -> bytes:
    """Return the content of the checkpoint's file with the values."""
    return msgspec.json.encode(values)


def decode_values(content: bytes) -> tuple[str, ...]:
    """Return the values in a file; empty if it is damaged, so that the setting can cause another rebuild."""
    try:
        return msgspec.json.decode(content, type=tuple[str, ...])
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        return ()
