import pytest
from confluent_kafka import Producer

from rebalance_kafka.grants import grant, grant_producer_id
from rebalance_kafka.refusals import refusals_as


def test_what_is_granted_can_be_typed_as_it_is_said() -> None:
    """Except for the brokers and the user: the shell expands no star."""
    head, tail = "grant it: kafka-acls --bootstrap-server HOST:PORT --add", "--allow-principal User:..."
    assert grant("Read", "Describe", topic="t") == f"{head} --operation Read --operation Describe --topic t {tail}"
    assert grant("Describe", group="*") == f"{head} --operation Describe --group '*' {tail}"
    assert (
        grant("DescribeConfigs", topic="own.", is_prefix=True)
        == f"{head} --operation DescribeConfigs --topic own. --resource-pattern-type prefixed {tail}"
    )


def test_a_producer_without_an_id_names_all_its_topics() -> None:
    """Or a placeholder, if it has written nothing yet."""
    write = "--add --operation Write --operation Describe"
    assert f"{write} --topic a --topic b --allow-principal User:..." in grant_producer_id(["a", "b"])
    assert f"{write} --topic own. --resource-pattern-type prefixed " in grant_producer_id(["own."], is_prefix=True)
    assert f"{write} --topic TOPIC " in grant_producer_id([])


def test_properties_that_a_client_refuses_are_an_error_for_people() -> None:
    """In the words of the client, as the error of the process that creates it."""
    with (
        pytest.raises(LookupError, match=r"^the Kafka client refuses its properties: No such configuration property"),
        refusals_as(LookupError),
    ):
        Producer({"bootstrap.server": "a:1"})
