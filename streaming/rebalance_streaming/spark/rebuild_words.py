"""The words of `stream.rebuild`: each asks once for a new checkpoint, however often a process starts with it.

A checkpoint remembers those that were asked of it and of the ones that it took the place of. It knows no Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

#: More were not asked for in years; the oldest are forgotten.
_MOST = 100


@dataclass(frozen=True, slots=True)
class RebuildWords:
    """`asked` is the setting, empty: nothing is asked. `done` is what the checkpoint remembers, oldest first."""

    asked: str
    done: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether a new checkpoint is to be begun now."""
        return bool(self.asked) and self.asked not in self.done

    def kept(self) -> tuple[str, ...]:
        """Return what a checkpoint that is begun now has to remember."""
        return (*self.done, self.asked)[-_MOST:] if self.is_new else self.done


def encode_words(words: tuple[str, ...]) -> bytes:
    """Return the content of the file that a checkpoint remembers them in."""
    return msgspec.json.encode(words)


def decode_words(content: bytes) -> tuple[str, ...]:
    """Return what a file says; nothing where it is damaged, so that the setting can bring about another checkpoint."""
    try:
        return msgspec.json.decode(content, type=tuple[str, ...])
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        return ()
