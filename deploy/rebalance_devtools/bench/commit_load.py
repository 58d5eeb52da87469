"""Sends OffsetCommit requests to the coordinator at a steady rate, as clients do, in a separate process.

Takes the load as one JSON argument; writes the commits and their times as one JSON document. Every request commits all
partitions of a group; its offsets increase by one with each commit (or every `repeats` commits), so the group's lag
shows which commits a reader has seen.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rebalance_deploy.errors import UserError
from rebalance_deploy.processes import ChildProcess
from rebalance_devtools.bench.cluster_log import GENERATION, MEMBER, SMALLEST_LAG, Shape, Truth
from rebalance_devtools.bench.fill import sized

_OFFSET_COMMIT, _VERSION = 8, 2
#: Several, because a broker processes the requests of a connection one by one, and each commit takes some ms. Fewer are
#: used by fewer groups.
_CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class Load:
    """The load: commits of the groups of a log in turn, at a rate in partitions per second, for some seconds."""

    bootstrap: str
    shape: Shape
    commits_per_second: float
    seconds: float
    #: How often a group commits each offset, so that a long load does not catch up with the topics.
    repeats: int = 1

    @property
    def requests(self) -> int:
        """Number of requests, at least 1."""
        return max(1, int(self.commits_per_second * self.seconds / self.shape.partitions))

    def validate(self) -> list[str]:
        """Return every problem, each as one sentence; empty when all is well."""
        if self.requests > (SMALLEST_LAG - 1) * self.shape.groups * self.repeats:
            return ["--live-rate is too high for so few groups: they would catch up with their topics"]
        return []


@dataclass(frozen=True, slots=True)
class Commit:
    """A group's lag after this commit, and when it was sent, in seconds of the system's monotonic clock."""

    group: str
    lag: int
    at: float


def start(load: Load, output: str) -> ChildProcess:
    """Start the load in a separate process, which writes its commits to the file `output` and ends."""
    return ChildProcess([sys.executable, "-m", __name__, json.dumps(asdict(load)), output])


def read(output: str) -> list[Commit]:
    """Return the commits of a load that has ended. Raises UserError if a commit was refused."""
    with open(output) as file:  # noqa: PTH123
        found = json.load(file)
    if found["errors"]:
        raise UserError(f"the broker refused commits: {found['errors'][0]}")
    return [Commit(*each) for each in found["commits"]]


def run(load: Load) -> dict[str, list[object]]:
    """Make the commits; return them and the errors. Late requests are followed by others without a pause."""
    truth, began = Truth(load.shape), time.monotonic()
    commits: list[object] = []
    errors: list[object] = []

    def work(connection: int) -> None:
        try:
            with _connect(load.bootstrap) as link:
                for number in range(load.requests):
                    # A group's commits keep their order only within a connection.
                    if number % load.shape.groups % _CONNECTIONS != connection:
                        continue
                    due = began + number * load.shape.partitions / load.commits_per_second
                    time.sleep(max(0.0, due - time.monotonic()))
                    commits.append(_commit(link, truth, number, load.repeats))
        except (OSError, UserError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work, args=(connection,)) for connection in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"commits": commits, "errors": errors}


def _connect(bootstrap: str) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    link = socket.create_connection((host, int(port)), timeout=30)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _commit(link: socket.socket, truth: Truth, number: int, repeats: int) -> tuple[str, int, float]:
    turn, index = divmod(number, truth.shape.groups)
    group, step = f"group-{index:05d}", turn // repeats
    round_number = truth.shape.rounds + step
    offsets = [truth.offset(group, partition, round_number) for partition in range(truth.shape.partitions)]
    at = time.monotonic()
    link.sendall(_request(number, group, truth.topics[group], offsets))
    if failed := {code for code in _answer(link) if code}:
        raise UserError(f"error codes {sorted(failed)} for {group}")
    return group, truth.group_lags[group] - (step + 1) * truth.shape.partitions, at


def _request(number: int, group: str, topic: str, offsets: Sequence[int]) -> bytes:
    head = struct.pack(">hhi", _OFFSET_COMMIT, _VERSION, number) + sized("bench")
    body = sized(group) + struct.pack(">i", GENERATION) + sized(MEMBER) + struct.pack(">q", -1)
    body += struct.pack(">i", 1) + sized(topic) + struct.pack(">i", len(offsets))
    body += b"".join(struct.pack(">iqh", partition, offset, -1) for partition, offset in enumerate(offsets))
    return struct.pack(">i", len(head) + len(body)) + head + body


def _answer(link: socket.socket) -> Iterator[int]:
    """Yield the error code of each partition of a response about one topic."""
    (size,) = struct.unpack(">i", _read(link, 4))
    answer = _read(link, size)
    (name_size,) = struct.unpack_from(">h", answer, 8)
    (count,) = struct.unpack_from(">i", answer, 10 + name_size)
    for _, code in struct.iter_unpack(">ih", answer[14 + name_size : 14 + name_size + 6 * count]):
        yield code


def _read(link: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = link.recv(size - len(parts))
        if not part:
            raise OSError("the broker closed the connection")
        parts += part
    return bytes(parts)


def _main(argument: str, output: str) -> None:
    settings = json.loads(argument)
    load = Load(**{**settings, "shape": Shape(**settings["shape"])})
    with open(output, "w") as file:  # noqa: PTH123
        json.dump(run(load), file)


if __name__ == "__main__":
    _main(*sys.argv[1:])
