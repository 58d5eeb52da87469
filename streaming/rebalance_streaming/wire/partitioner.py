"""Which partition of the offsets topic contains a group."""

from __future__ import annotations

_SIGN, _WORD = 1 << 31, 1 << 32


def partition_for_group(group: str, partitions: int) -> int:
    """Return the partition of a group (GroupCoordinatorService.partitionFor: `Utils.abs(groupId.hashCode) % n`).

    Java's hash runs over UTF-16 code units, and the absolute value of its smallest number is 0. Masking the sign bit
    instead, as some tools do, is wrong for every group whose hash is negative.
    """
    value = 0
    units = group.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % _WORD
    signed = value - _WORD if value & _SIGN else value
    return 0 if signed == -_SIGN else abs(signed) % partitions
