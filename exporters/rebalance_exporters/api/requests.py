"""Parsing of requests to the API: the group in the path, and the numbers in the query.

Invalid input raises RequestError, which says what is wrong and which names may have been meant.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Collection, Iterable
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request

from rebalance_contract.api import ADVICE, GROUPS_PATH, LONGEST_REPORT, REBALANCES
from rebalance_exporters.api.period import Period
from rebalance_exporters.state.kept import GroupKey
from rebalance_exporters.web.responses import RequestError

#: Default length of the period of a group's advice (a day) and of a report (a week).
DAY_MS = 86_400_000
_WEEK_MS = 7 * DAY_MS
_REPORT_LIMIT = 20
#: Maximum number of names to compare letter by letter, which takes 0.1 ms each.
_COMPARED_NAMES = 100
#: Longer names are not compared: they are hardly typing errors, and the time grows with the square of the length.
_LONGEST_COMPARED = 255


class _Name(Convertor[str]):
    """The rest of a path, including line breaks, which Starlette's own path convertor does not match."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("name", _Name())


class Target(NamedTuple):
    """What a path below /api/v1/groups names: a group, a resource `below` it, or one of its rebalances."""

    group: str
    below: str | None = None
    rebalance_id: str | None = None


def read_target(request: Request) -> Target:
    """Return the target of the path. Slashes in names may be plain or %2F; with %2F no name is ambiguous."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    path = raw.partition(b"?")[0].decode("ascii", "replace")
    parts = [unquote(part) for part in path.removeprefix(f"{GROUPS_PATH}/").split("/")]
    if len(parts) > 1 and parts[-1] in (REBALANCES, ADVICE):
        return Target("/".join(parts[:-1]), parts[-1])
    if len(parts) > 2 and parts[-2] == REBALANCES:
        return Target("/".join(parts[:-2]), REBALANCES, parts[-1])
    return Target("/".join(parts))


def read_number(request: Request, name: str, least: int = 0) -> int | None:
    """Return a number of the query string, or null if it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(2**63))
    if not is_number or int(text) < least:
        raise RequestError(HTTPStatus.BAD_REQUEST, f"{name} is {text!r}: it must be a whole number, {least} or more")
    return int(text)


def read_limit(request: Request, most: int | None = None) -> int | None:
    """Return the maximum number of rows asked for, at least 1, or null if it is not given.

    `most` is the largest number allowed; null: any.
    """
    limit = read_number(request, "limit", least=1)
    if most is not None and limit is not None and limit > most:
        raise RequestError(HTTPStatus.BAD_REQUEST, f"limit is {limit}: at most {most} are returned")
    return limit


def read_advised_since_ms(request: Request, now_ms: int) -> int:
    """Return the start of the period that advice is asked for; a day ago if it is not given."""
    since_ms = read_number(request, "since_ms")
    return max(0, now_ms - DAY_MS) if since_ms is None else since_ms


def read_period(request: Request, now_ms: int) -> Period:
    """Return the period that a report is asked for; the last week if it is not given."""
    until_ms = read_number(request, "until_ms")
    until_ms = now_ms if until_ms is None else until_ms
    since_ms = read_number(request, "since_ms")
    since_ms = max(0, until_ms - _WEEK_MS) if since_ms is None else since_ms
    if since_ms >= until_ms:
        raise RequestError(HTTPStatus.BAD_REQUEST, f"since_ms is {since_ms}: it must be less than until_ms, {until_ms}")
    limit = read_limit(request, LONGEST_REPORT)
    return Period(since_ms, until_ms, request.query_params.get("cluster"), _REPORT_LIMIT if limit is None else limit)


def find_group(name: str, request: Request, groups: Collection[GroupKey]) -> GroupKey:
    """Return the one of some groups with a name. Raises RequestError if there is none, or one in several clusters."""
    cluster = request.query_params.get("cluster")
    found = [key for key in groups if key[1] == name and cluster in {None, key[0]}]
    if len(found) == 1:
        return found[0]
    if found:
        clusters = sorted(key[0] for key in found)
        text = f"group {name!r} exists in {len(clusters)} clusters: add ?cluster= with one of {', '.join(clusters)}"
        raise RequestError(HTTPStatus.CONFLICT, text, clusters)
    where = "" if cluster is None else f" in cluster {cluster!r}"
    names = sorted({key[1] for key in groups if cluster in {None, key[0]}})
    raise RequestError(HTTPStatus.NOT_FOUND, f"no group {name!r}{where}", names_like(name, names))


def names_like(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three names that are similar to `name`, the most similar first.

    Only those that share the most pairs of letters with it are compared letter by letter; a wrong letter anywhere
    changes two pairs.
    """
    if len(name) > _LONGEST_COMPARED:
        return []
    pairs = {name[i : i + 2] for i in range(len(name) - 1)}

    def likeness(each: str) -> float:
        return sum(map(each.__contains__, pairs)) / (len(name) + len(each))

    short = (each for each in names if 0 < len(each) <= _LONGEST_COMPARED)
    return difflib.get_close_matches(name, heapq.nlargest(_COMPARED_NAMES, short, key=likeness))
