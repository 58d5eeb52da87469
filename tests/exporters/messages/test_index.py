"""The index of messages: complete, consistent with the catalogue of diagnoses, and each text is found."""

import re
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from rebalance_devtools.docs import messages as docs
from rebalance_exporters.messages.index import Message, read_index
from rebalance_exporters.messages.matching import read_matcher
from rebalance_streaming.detect.catalogue import DIAGNOSES

INDEX = read_index()
DOCS = Path(__file__).parents[3] / "docs"
#: A value for each kind of place; none is a word of another message.
VALUES = {"number": "4711", "generation": "Generation{generationId=4711}", "coordinator": "b-2:9092 (id: 7 rack: null)"}


def printed(message: Message) -> str:
    """Return the text with values in its places."""
    return re.sub(r"\{(\w+)\}", lambda found: VALUES.get(found[1], f"<{found[1]}-1>"), message.text)


def test_every_cause_is_in_the_catalogue():
    """Unknown or duplicate causes fail here; a message without causes is harmless."""
    for meaning in INDEX.meanings.values():
        ids = [each.diagnosis for each in meaning.causes]
        assert set(ids) <= DIAGNOSES.keys(), meaning.id
        assert ids or (meaning.ordinary and "harmless" in meaning.meaning), meaning.id
        assert len(ids) == len(set(ids)), meaning.id


def test_texts_of_causes_are_sentences():
    """They are shown in tables, in a terminal and on the page."""
    for meaning in INDEX.meanings.values():
        for text in (meaning.meaning, *(cause.when for cause in meaning.causes), *meaning.look_at):
            assert text[0].isupper() or text[0] in "`/p", text
            assert text.endswith((".", "`.", "?")), text
            assert "  " not in text
            assert "\n" not in text


def test_a_cause_in_an_error_changes_the_meaning_to_one_that_exists():
    """Only messages with a place for an error have another meaning with it."""
    for meaning in INDEX.meanings.values():
        texts = [each.text for each in INDEX.messages if each.meaning is meaning]
        assert not meaning.with_error or any("{error}" in text or "{reason}" in text for text in texts), meaning.id
        assert set(meaning.with_error.values()) | meaning.with_error.keys() <= INDEX.meanings.keys()


def test_every_client_and_every_meaning_is_used():
    """Every described client and meaning is used by a message."""
    assert {each.meaning.id for each in INDEX.messages} == INDEX.meanings.keys()
    assert {printer.client.id for each in INDEX.messages for printer in each.printed} == INDEX.clients.keys()


@pytest.mark.parametrize("client", INDEX.clients)
def test_each_client_has_messages_with_their_sources(client):
    """A version and a file for each: texts without a source are not in the index."""
    own = [printer for each in INDEX.messages for printer in each.printed if printer.client.id == client]
    assert len(own) >= 8
    for printer in own:
        assert re.search(r"\d", printer.versions)
        assert re.fullmatch(r"[\w./-]+\.(java|scala|py|c|h|go|js)", printer.file)


def test_a_printed_text_finds_its_entry():
    """As printed, with a logger's prefix; of several entries the longest comes first."""
    for message in INDEX.messages:
        hits = read_matcher().match(f"2026-03-01 14:05:01,123 WARN [main] x.y.Z: {printed(message)} (x.y.Z:17)")
        assert hits[0].message.id == message.id


def test_a_name_is_read_where_the_text_has_one():
    """Groups and members are read back unchanged."""
    for message in INDEX.messages:
        hit = read_matcher().match(printed(message))[0]
        for place in ("group", "member", "client"):
            if f"{{{place}}}" in message.text:
                assert hit.places[place] == f"{place}-1", message.text


def test_settings_of_kafka_python_exist():
    """The settings of the installed client exist."""
    assert set(INDEX.clients["kafka-python"].settings.values()) <= KafkaConsumer.DEFAULT_CONFIG.keys()


def test_settings_are_named_as_the_client_calls_them():
    """A client without such a setting gets no such advice."""
    rows = {each.id: each.row() for each in INDEX.messages}
    assert [each.names for each in rows["kp_poll_expired"].settings] == [
        ("max_poll_records",),
        ("max_poll_interval_ms",),
    ]
    assert [each.names for each in rows["rdkafka_maxpoll"].settings] == [("max.poll.interval.ms",)]
    known = {setting for client in INDEX.clients.values() for setting in client.settings}
    assert all(set(each.settings) <= known for each in INDEX.meanings.values())


def test_the_committed_page_is_current():
    """After a change of the index run `make docs`."""
    assert (DOCS / "messages.md").read_text(encoding="utf-8") == docs.render(INDEX)


def test_links_of_the_page_lead_somewhere():
    """Its diagnoses are headings of their page, its contents its own anchors."""
    page = docs.render(INDEX)
    headings = set(re.findall(r"^### (\w+)$", (DOCS / "diagnoses.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"diagnoses\.md#(\w+)", page)) <= headings
    assert set(re.findall(r"\]\(#(\w+)\)", page)) == set(re.findall(r'<a id="(\w+)">', page))
