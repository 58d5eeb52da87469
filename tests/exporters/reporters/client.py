"""A consumer with a reporter, in a process of its own, that obeys commands on standard input, one per line.

    python client.py '{"library": "kafka-python", "bootstrap": …, "group": …, "topic": …, "settings": {…}, …}'

It consumes until it reads `stall SECONDS`, `close` or `exit`, and writes one JSON line per event; the event `late`
means that the machine stalled the whole process. It runs with any version of the client that is on its path.
"""

# It runs as a script, with the one library it is to show.
# ruff: noqa: PLC0415
from __future__ import annotations

import json
import logging
import sys
import threading
import time
from queue import Empty, Queue

SPEC = json.loads(sys.argv[1])
REPORTS = {"topic": SPEC["reports"], "interval_seconds": SPEC["interval_seconds"]}
LOOK_SECONDS = 0.05
CLOSE_SECONDS = 600.0
THREADS_END_SECONDS = 120.0
OUTBOX_CAPACITY = 10_000


def write_event(event, **more):
    """Write an event in a single write, because two threads do."""
    sys.stdout.write(json.dumps(dict(more, event=event, t_ms=int(time.time() * 1000))) + "\n")
    sys.stdout.flush()


def watch_machine():
    """Report how late this thread wakes; it has nothing else to do, so other threads may be as late."""
    while True:
        began = time.monotonic()
        time.sleep(LOOK_SECONDS)
        late_ms = int((time.monotonic() - began - LOOK_SECONDS) * 1000)
        if late_ms > 200:
            write_event("late", late_ms=late_ms)


def read_orders(orders):
    for line in sys.stdin:
        orders.put(line.split())


def thread_names():
    return sorted(each.name for each in threading.enumerate() if each.name.startswith("rebalance-monitor"))


def await_threads_end():
    """Wait until no thread of a reporter is left, with a limit."""
    deadline = time.monotonic() + THREADS_END_SECONDS
    while thread_names() and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def client_errors():
    """Return the exception class that the library raises for Kafka errors."""
    if SPEC["library"] == "confluent":
        from confluent_kafka import KafkaException

        return KafkaException
    from kafka.errors import KafkaError

    return KafkaError


def time_reporter():
    """Return a list that collects the seconds the reporter spends on closing, without those of the client itself.

    Closing is given much time, so that the last report is not abandoned on a busy machine.
    """
    from rebalance_exporters.reporters import reporter

    reporter.CLOSE_SECONDS = CLOSE_SECONDS
    spent = []

    def timed(method):
        def call(self):
            began = time.monotonic()
            method(self)
            spent.append(time.monotonic() - began)

        return call

    for name in ("announce_close", "await_end"):
        setattr(reporter.Reporter, name, timed(getattr(reporter.Reporter, name)))
    return spent


def enlarge_outbox():
    """Enlarge the outbox so that nothing is dropped, even if a busy machine takes long to restart the broker."""
    from rebalance_exporters.reporters.outbox import Outbox

    Outbox.__init__.__kwdefaults__.update(capacity=OUTBOX_CAPACITY, most_bytes=OUTBOX_CAPACITY << 20)


class TellingHandler(logging.Handler):
    def emit(self, record):
        if record.name.startswith("rebalance_exporters"):
            write_event("log", text=record.getMessage())


def make_kafka_python():
    import kafka

    from rebalance_exporters.reporters.kafka_python import metric_reporter, report

    settings = dict(SPEC["settings"], bootstrap_servers=SPEC["bootstrap"], group_id=SPEC["group"])
    if SPEC.get("plain"):
        plain = metric_reporter(group_id=SPEC["group"], bootstrap_servers=SPEC["bootstrap"], **REPORTS)
        return kafka.KafkaConsumer(SPEC["topic"], metric_reporters=[plain], **settings)
    consumer = kafka.KafkaConsumer(SPEC["topic"], **settings)
    if SPEC.get("bare"):
        return consumer
    consumer = report(consumer, **REPORTS)
    assert isinstance(consumer, kafka.KafkaConsumer)
    return consumer


def make_confluent():
    from confluent_kafka import Consumer

    from rebalance_exporters.reporters.confluent import report

    seen = []

    def stats_cb(text):
        if not seen:
            seen.append(text)
            write_event("stats_cb", name=json.loads(text)["name"])

    settings = {"bootstrap.servers": SPEC["bootstrap"], "group.id": SPEC["group"], "log_level": 0, "stats_cb": stats_cb}
    consumer = report(Consumer, dict(settings, error_cb=lambda _: None, **SPEC["settings"]), **REPORTS)
    assert isinstance(consumer, Consumer)
    consumer.subscribe([SPEC["topic"]])
    return consumer


def consume(consumer, errors):
    """Yield after every call of the client the number of its records, whatever the client raises in an outage."""
    while True:
        try:
            yield from poll(consumer)
        except errors as error:
            write_event("error", text=repr(error))


def poll(consumer):
    """Yield after every call of the client."""
    if SPEC["library"] == "confluent":
        while True:
            message = consumer.poll(0.1)
            yield int(message is not None and message.error() is None)
    if SPEC["loop"] == "poll":
        while True:
            yield sum(map(len, consumer.poll(timeout_ms=100).values()))
    while True:
        for _ in consumer:
            yield 1


def stall(seconds):
    """Do nothing for some time; a period in which the machine stalls the process counts as one short sleep at most."""
    for _ in range(round(seconds / LOOK_SECONDS)):
        time.sleep(LOOK_SECONDS)


def main():
    threading.Thread(target=watch_machine, daemon=True).start()
    logging.getLogger().addHandler(TellingHandler())
    spent = time_reporter()
    enlarge_outbox()
    orders = Queue()
    threading.Thread(target=read_orders, args=(orders,), daemon=True).start()
    consumer = make_confluent() if SPEC["library"] == "confluent" else make_kafka_python()
    write_event("started", threads=thread_names())
    for records in consume(consumer, client_errors()):
        if records:
            write_event("consumed", records=records)
        try:
            order = orders.get_nowait()
        except Empty:
            continue
        if order[0] == "stall":
            write_event("stalls")
            stall(float(order[1]))
            write_event("goes on")
        elif order[0] == "close":
            consumer.close()
            await_threads_end()
            write_event("closed", reporter_seconds=sum(spent), threads=thread_names())
            return
        elif order[0] == "exit":
            return


main()
