"""Lines as clients and coordinators write them: message texts from their sources with values, by the loggers in use.

The text of each is in the file that its entry in messages.toml names; the prefix and the values are made up.
"""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """A line, the entry that it matches, and the group and client that it names."""

    text: str
    message: str
    group: str | None = None
    client: str | None = None
    at: str | None = None


LINES = (
    # Java: log4j, logback and a JSON layout.
    Line(
        "2026-03-01 14:05:01,123 WARN  [kafka-coordinator-heartbeat-thread | orders] "
        "o.a.k.c.c.i.ConsumerCoordinator - [Consumer clientId=consumer-orders-1, groupId=orders] consumer "
        "poll timeout has expired. This means the time between subsequent calls to poll() was longer than "
        "the configured max.poll.interval.ms, which typically implies that the poll loop is spending too "
        "much time processing messages. You can address this either by increasing max.poll.interval.ms or by "
        "reducing the maximum size of batches returned in poll() with max.poll.records.",
        "java_poll_timeout",
        group="orders",
        client="consumer-orders-1",
        at="2026-03-01 14:05:01,123",
    ),
    Line(
        "[2026-03-01 14:05:01,123] INFO [Consumer clientId=c1, groupId=billing.eu] Attempt to heartbeat "
        "failed since group is rebalancing "
        "(org.apache.kafka.clients.consumer.internals.AbstractCoordinator:1052)",
        "java_heartbeat_rebalancing",
        group="billing.eu",
        client="c1",
        at="2026-03-01 14:05:01,123",
    ),
    Line(
        "14:05:01.123 [main] INFO org.apache.kafka.clients.consumer.internals.ConsumerCoordinator -- "
        "[Consumer clientId=c1, groupId=orders] Request joining group due to: group is already rebalancing",
        "java_request_joining",
        group="orders",
        client="c1",
        at="14:05:01.123",
    ),
    Line(
        'Exception in thread "main" org.apache.kafka.clients.consumer.CommitFailedException: Commit cannot '
        "be completed since the group has already rebalanced and assigned the partitions to another member. "
        "This means that the time between subsequent calls to poll() was longer than the configured "
        "max.poll.interval.ms",
        "java_commit_failed",
    ),
    Line(
        '{"@timestamp":"2026-03-01T14:05:01.123Z","level":"INFO","message":"[Consumer clientId=c1, '
        "groupId=orders] Member c1-0d1e sending LeaveGroup request to coordinator broker-2:9092 (id: "
        '2147483645 rack: null) due to consumer poll timeout has expired."}',
        "java_leave_poll",
        group="orders",
        client="c1",
        at="2026-03-01T14:05:01.123Z",
    ),
    Line(
        "[Consumer clientId=c1, groupId=orders] Member c1-0d1e sending LeaveGroup request to coordinator "
        "broker-2:9092 (id: 2147483645 rack: null) due to the consumer is being closed",
        "java_leave",
        group="orders",
        client="c1",
    ),
    Line(
        "[Consumer clientId=c1, groupId=orders] Group coordinator broker-2:9092 (id: 2147483645 rack: null) "
        "is unavailable or invalid due to cause: session timed out without receiving a heartbeat response. "
        "isDisconnected: false. Rediscovery will be attempted.",
        "java_coordinator_unavailable",
        group="orders",
        client="c1",
    ),
    Line(
        "[Consumer clientId=c1, groupId=orders] Resetting generation and member id due to: encountered "
        "UNKNOWN_MEMBER_ID from HEARTBEAT response",
        "java_resetting",
        group="orders",
        client="c1",
    ),
    Line(
        "[Consumer clientId=c1, groupId=orders] Offset commit failed on partition orders-3 at offset 4711: "
        "The coordinator is not aware of this member.",
        "java_commit_partition_failed",
        group="orders",
        client="c1",
    ),
    Line(
        "[Consumer instanceId=pod-1, clientId=c1, groupId=orders] JoinGroup failed: The group instance id "
        "Optional[pod-1] has been fenced by another instance. Sent generation was Generation{generationId=4}",
        "java_join_fenced",
        group="orders",
        client="c1",
    ),
    Line(
        "Marking the coordinator 10.0.0.7:9092 (id: 2147483646 rack: null) dead for group orders",
        "java_coordinator_dead",
    ),
    Line(
        "stream-thread [app-1-StreamThread-1] Detected that the thread is being fenced. This implies that "
        "this thread missed a rebalance and dropped out of the consumer group. Will close out all assigned "
        "tasks and rejoin the consumer group.",
        "java_streams_fenced",
    ),
    Line(
        "[Consumer clientId=c1, groupId=orders] ConsumerGroupHeartbeatRequest failed for member 0d1e because "
        "epoch 12 is fenced.",
        "java_kip848_fenced",
        group="orders",
        client="c1",
    ),
    Line(
        '{"instant":{"epochSecond":1709287200,"nanoOfSecond":123000000},"thread":"main","level":"INFO","message":'
        '"[Consumer clientId=c1, groupId=orders] (Re-)joining group"}',
        "kp_rejoining",
        group="orders",
        client="c1",
        at="2024-03-01T10:00:00.123Z",
    ),
    # Spring Kafka.
    Line(
        "2026-03-01T14:05:01.123+01:00  INFO 1 --- [ntainer#0-0-C-1] o.s.k.l.KafkaMessageListenerContainer    : "
        "orders.eu: partitions assigned: [orders-0, orders-1]",
        "spring_assigned",
        group="orders.eu",
        at="2026-03-01T14:05:01.123+01:00",
    ),
    Line(
        "2026-03-01T14:05:01.123+01:00 ERROR 1 --- [ntainer#0-0-C-1] o.s.k.l.KafkaMessageListenerContainer   "
        " : Stopping container due to fencing",
        "spring_stopping_fenced",
        at="2026-03-01T14:05:01.123+01:00",
    ),
    Line(
        "These offsets could not be committed; partition(s) lost during rebalance: "
        "{orders-1=OffsetAndMetadata{offset=7}}",
        "spring_lost_uncommitted",
    ),
    # librdkafka and its wrappers.
    Line(
        "%4|1772373901.123|MAXPOLL|billing#consumer-1| [thrd:main]: Application maximum poll interval "
        "(300000ms) exceeded by 420ms (adjust max.poll.interval.ms for long-running message processing): "
        "leaving group",
        "rdkafka_maxpoll",
        client="billing",
        at="2026-03-01T14:05:01.123Z",
    ),
    Line(
        "%4|1772373901.123|SESSTMOUT|billing#consumer-1| [thrd:main]: Consumer group session timed out (in "
        "join-state steady) after 45120 ms without a successful response from the group coordinator (broker "
        "2, last error was Success): revoking assignment and rejoining group",
        "rdkafka_session",
        client="billing",
        at="2026-03-01T14:05:01.123Z",
    ),
    Line(
        'cimpl.KafkaException: KafkaError{code=UNKNOWN_MEMBER_ID,val=25,str="Commit failed: Broker: Unknown member"}',
        "rdkafka_unknown_member",
    ),
    Line(
        "Confluent.Kafka.KafkaException: Broker: Static consumer fenced by other consumer with same group.instance.id",
        "rdkafka_fenced",
    ),
    # kafka-python.
    Line(
        "2026-03-01 14:05:01,123 kafka.coordinator WARNING Heartbeat failed for group orders because it is rebalancing",
        "kp_heartbeat_rebalancing",
        group="orders",
        at="2026-03-01 14:05:01,123",
    ),
    Line(
        "WARNING:kafka.coordinator:Heartbeat session expired, marking coordinator dead",
        "kp_session_expired",
    ),
    Line(
        "WARNING:kafka.coordinator:Heartbeat poll expired, leaving group",
        "kp_poll_expired",
    ),
    Line(
        "WARNING:kafka.coordinator:Marking the coordinator dead (node coordinator-1) for group orders: "
        "Heartbeat session expired.",
        "kp_coordinator_dead",
        group="orders",
    ),
    Line(
        "WARNING:kafka.coordinator:Heartbeat failed for group orders: generation id is not  current.",
        "kp_heartbeat_generation",
        group="orders",
    ),
    Line(
        "kafka.errors.CommitFailedError: CommitFailedError",
        "kp_exception_commit",
    ),
    # aiokafka.
    Line(
        "Heartbeat failed: local member_id was not recognized; resetting and re-joining group",
        "aio_heartbeat_member",
    ),
    Line(
        "OffsetCommit failed for group orders due to group error ([Error 25] UnknownMemberIdError: orders), "
        "will rejoin",
        "aio_commit_rejoin",
        group="orders",
    ),
    # Sarama and franz-go.
    Line(
        "[sarama] 2026/03/01 14:05:01 kafka server: The provided member is not known in the current generation",
        "sarama_unknown_member",
        at="2026/03/01 14:05:01",
    ),
    Line(
        "[sarama] 2026/03/01 14:05:01 consumer/broker/2 abandoned subscription to orders/3 because consuming "
        "was taking too long",
        "sarama_slow",
        at="2026/03/01 14:05:01",
    ),
    Line(
        "[INFO] heartbeat errored; group: orders, err: REBALANCE_IN_PROGRESS: The group is rebalancing, so a "
        "rejoin is needed.",
        "rejoin_needed",
        group="orders",
    ),
    Line(
        '{"level":"error","msg":"group manage loop errored","group":"orders","err":"unable to '
        'dial","time":1772373901123}',
        "franz_manage",
        group="orders",
        at="2026-03-01T14:05:01.123Z",
    ),
    Line(
        '{"level":"info","ts":1709287200.123,"logger":"kgo","msg":"new group session begun","group":"orders"}',
        "franz_session",
        group="orders",
        at="2024-03-01T10:00:00.123Z",
    ),
    # KafkaJS.
    Line(
        '{"level":"WARN","timestamp":"2026-03-01T14:05:01.123Z","logger":"kafkajs","message":"[Runner] The '
        'group is rebalancing, re-joining","groupId":"orders"}',
        "kafkajs_rebalancing",
        group="orders",
        at="2026-03-01T14:05:01.123Z",
    ),
    Line(
        '{"level":"ERROR","logger":"kafkajs","message":"[Consumer] Crash: KafkaJSNumberOfRetriesExceeded: '
        'The coordinator is not aware of this member","groupId":"orders","retryCount":5}',
        "kafkajs_crash",
        group="orders",
    ),
    # pykafka.
    Line(
        "pykafka.balancedconsumer: Unable to acquire partition <pykafka.partition.Partition at 0x7f1 (id=3)>. Retrying",
        "pykafka_acquire",
    ),
    Line(
        "pykafka.balancedconsumer: Failed to acquire partition <pykafka.partition.Partition at 0x7f1 (id=3)> "
        "after 4 retries.",
        "pykafka_acquire_failed",
    ),
    # Coordinators.
    Line(
        "[2026-03-01 14:05:01,123] INFO [GroupCoordinator 1]: Member consumer-orders-1-0d1e in group orders "
        "has failed, removing it from the group (kafka.coordinator.group.GroupCoordinator)",
        "broker_member_failed",
        group="orders",
        client="consumer-orders-1-0d1e",
        at="2026-03-01 14:05:01,123",
    ),
    Line(
        "[2026-03-01 14:05:01,123] INFO [GroupCoordinator 1]: Preparing to rebalance group orders in state "
        "PreparingRebalance with old generation 41 (__consumer_offsets-23) (reason: removing member "
        "consumer-orders-1-0d1e on heartbeat expiration) (kafka.coordinator.group.GroupCoordinator)",
        "broker_preparing",
        group="orders",
        client="consumer-orders-1-0d1e",
        at="2026-03-01 14:05:01,123",
    ),
    Line(
        "[2026-03-01 14:05:01,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=23] "
        "[GroupId orders] Member 0d1e fenced from the group because the member session expired. "
        "(org.apache.kafka.coordinator.group.GroupMetadataManager)",
        "broker_session_expired",
        group="orders",
        client="0d1e",
        at="2026-03-01 14:05:01,123",
    ),
    Line(
        "[2026-03-01 14:05:01,123] INFO [Group orders] Dynamic Member c-1 has left group through explicit "
        "`LeaveGroup` request; client reason: consumer poll timeout has expired.",
        "broker_left_new",
        group="orders",
        client="c-1",
        at="2026-03-01 14:05:01,123",
    ),
    Line(
        "[2026-03-01 14:05:01,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=23] [GroupId orders] "
        "Dynamic member c-1 has left group through explicit `LeaveGroup` request; "
        "client reason: the consumer is being closed",
        "broker_left_dynamic",
        group="orders",
        client="c-1",
        at="2026-03-01 14:05:01,123",
    ),
    Line(
        "[2026-03-01 14:05:01,123] INFO [GroupCoordinator 1]: Group orders with generation 42 is now empty "
        "(__consumer_offsets-23)",
        "broker_empty",
        group="orders",
        at="2026-03-01 14:05:01,123",
    ),
)
