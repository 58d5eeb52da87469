"""Names of the topics of groups with epochs, whose records have topic ids only.

Names come from records of older brokers, from probes, and from the subscription of a group that reads a single topic.
Members of a snapshot have a topic under its name once that is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rebalance_contract import Member, Partitions
from rebalance_streaming.groups.model import FoldDraft, member_of


def name_topics(draft: FoldDraft, names: Mapping[str, str]) -> None:
    """Learn names by topic id, and replace these ids by the names in all members."""
    new = {topic_id: name for topic_id, name in names.items() if draft.topic_names.get(topic_id) != name}
    if new:
        draft.topic_names = {**draft.topic_names, **new}
        members = tuple(_rename(member, new) for member in draft.snapshot.members)
        draft.snapshot = replace(draft.snapshot, members=members)


def take_probed_names(draft: FoldDraft, names: Mapping[str, str]) -> None:
    """Learn the names, by topic id, of all topics that a group reads now, and forget those it has nothing to do with.

    A group that reads a pattern may have thousands of topics a day that exist for a short time only.
    """
    name_topics(draft, names)
    if names and not draft.topic_names.keys() <= names.keys():
        used = {topic for member in draft.snapshot.members for topic in (*member.topics, *_all_places(member))}
        draft.topic_names = {
            topic_id: name for topic_id, name in draft.topic_names.items() if topic_id in names or name in used
        }


def learn_only_topic(draft: FoldDraft, member_id: str | None) -> None:
    """If all members subscribe to one topic only, the only unknown id in their assignments is that topic's.

    `member_id` is the member of the latest record, null for none. All members are looked at only if that member has an
    unknown id, or at a record of the whole group while the topic has no name: one of these comes last of a change.
    """
    members = draft.snapshot.members
    # A member whose own record has not been read yet subscribes to nothing as far as is known.
    first = next((member for member in members if member.topics or member.topic_regex), None)
    if first is None or len(first.topics) != 1:
        return
    own = set() if member_id is None else _places(member_of(members, member_id))
    if member_id is not None and not own:
        return
    (name,) = first.topics
    named = {name, *draft.topic_names.values()}
    # A topic that was deleted and recreated has another id.
    if own <= named and (member_id is not None or name in draft.topic_names.values()):
        return
    if any(member.topics not in ((), (name,)) or member.topic_regex for member in members):
        return
    # Without partitions of earlier topics that members still have and whose names are known.
    ids = {place for member in members for place in _places(member)} - named
    if len(ids) == 1:
        name_topics(draft, {ids.pop(): name})


def _rename(member: Member, names: Mapping[str, str]) -> Member:
    if names.keys().isdisjoint(_all_places(member)):
        return member

    def renamed(partitions: Partitions | None) -> Partitions | None:
        return partitions and {names.get(topic, topic): numbers for topic, numbers in partitions.items()}

    return replace(
        member,
        partitions=renamed(member.partitions),
        target=renamed(member.target),
        pending_revocation=renamed(member.pending_revocation),
    )


def _places(member: Member | None) -> set[str]:
    """Return the topics, by name or id, in a member's assignment or target."""
    return set() if member is None else {*(member.partitions or ()), *(member.target or ())}


def _all_places(member: Member) -> set[str]:
    """Return the topics, by name or id, of which a member has, gets or gives up partitions."""
    return {*_places(member), *(member.pending_revocation or ())}
