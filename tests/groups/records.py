"""Hand-made group records, for stories about the fold."""

import struct
from dataclasses import dataclass, field

from rebalance_streaming.groups.model import GroupRecord
from rebalance_streaming.wire.records import GroupMetadataMember, GroupMetadataValue


def text(value: str) -> bytes:
    """Encode a string as the consumer protocol does."""
    return struct.pack(">h", len(value.encode())) + value.encode()


def topic_partitions(partitions: dict[str, list[int]]) -> bytes:
    """Encode an array of topics with partitions."""
    encoded = struct.pack(">i", len(partitions))
    for topic, numbers in partitions.items():
        encoded += text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return encoded


def member(
    member_id: str,
    *,
    topics: tuple[str, ...] = ("orders",),
    owned: dict[str, list[int]] | None = None,
    assigned: dict[str, list[int]] | None = None,
    instance: str | None = None,
    client_id: str = "app",
    host: str = "/10.0.0.1",
    user_data: bytes | None = None,
) -> GroupMetadataMember:
    """Return a member that uses version 1 of the consumer protocol."""
    data = struct.pack(">i", -1) if user_data is None else struct.pack(">i", len(user_data)) + user_data
    subscription = struct.pack(">hi", 1, len(topics)) + b"".join(map(text, topics)) + data
    return GroupMetadataMember(
        member_id=member_id,
        group_instance_id=instance,
        client_id=client_id,
        client_host=host,
        rebalance_timeout=300_000,
        session_timeout=10_000,
        subscription=subscription + topic_partitions(owned or {}),
        assignment=struct.pack(">h", 1) + topic_partitions(assigned or {}) + struct.pack(">i", -1),
    )


@dataclass
class Log:
    """A group's log that grows record by record, a minute apart by default."""

    partition: int = 7
    now_ms: int = 1_000_000
    live: bool = True
    records: list[GroupRecord] = field(default_factory=list)

    def write(
        self,
        generation: int,
        *members: GroupMetadataMember,
        sync_ms: int = 20,
        after_ms: int = 60_000,
        protocol: str = "range",
    ) -> "Log":
        """Append a group record, as the broker does when a rebalance completes."""
        self.now_ms += after_ms
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol=protocol if members else None,
            leader=members[0].member_id if members else None,
            current_state_timestamp=self.now_ms - sync_ms,
            members=members,
        )
        return self._append(value)

    def create(self) -> "Log":
        """Append the Java coordinator's record of a new group."""
        self.now_ms += 1_000
        return self._append(GroupMetadataValue("", 0, None, None, self.now_ms, ()))

    def delete(self) -> "Log":
        """Append a tombstone."""
        self.now_ms += 1_000
        return self._append(None)

    def _append(self, value: GroupMetadataValue | None) -> "Log":
        # Offset commits lie between a group's records, so the offsets of these have gaps.
        offset = 3 * len(self.records)
        self.records.append(GroupRecord(self.partition, offset, self.now_ms, self.live, value))
        return self
