"""The description of the exporter's API as an OpenAPI 3.1 document, generated from the types of its responses.

python -m rebalance_contract.openapi docs/openapi.json
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rebalance_contract import api, api_messages, api_reports
from rebalance_contract.groups import GroupSnapshot
from rebalance_contract.schemas import write_json
from rebalance_contract.sets import AnySeverity, FindingState
from rebalance_contract.silences import AlertSilence

JSON, EVENT_STREAM = "application/json", "text/event-stream"

_DESCRIPTION = """\
What the exporter of rebalance-monitor knows about Kafka consumer groups. Times are epoch milliseconds (`*_ms`); null
means that something cannot be known, never zero. A reader ignores fields that it does not know: new ones are added
without
a new version. Names in paths are percent-encoded, and a slash in a name is written as %2F."""

_WHOLE_NUMBER = Annotated[int, msgspec.Meta(ge=0)]
_LIMIT = Annotated[int, msgspec.Meta(ge=1)]
_SILENCES = Annotated[int, msgspec.Meta(ge=1, le=api.MOST_SILENCES)]
_SHORT = Annotated[int, msgspec.Meta(ge=1, le=api.LONGEST_REPORT)]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a path or a query; `kind` is its type."""

    name: str
    description: str
    kind: Any = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Parameters and responses of one method of one path.

    `answer` is the type of the response, null if it is not a row of the contract; `status` is its status code. `also`
    has further status codes with that response, `refusals` those with a `Refusal`, each with a description. `body` is
    the type of the request's body, null without one. Path parameters are in braces in `path`.
    """

    name: str
    path: str
    summary: str
    answer: Any
    parameters: tuple[Parameter, ...] = ()
    also: Mapping[int, str] = field(default_factory=dict)
    refusals: Mapping[int, str] = field(default_factory=dict)
    media_type: str = JSON
    method: str = "get"
    body: Any = None
    status: int = 200


_CLUSTER = Parameter("cluster", "Only of this cluster.")
_GROUP = Parameter("group", "The group's id.")
_OF_GROUP = (_GROUP, Parameter("cluster", "The group's cluster; needed where several have a group of that id."))
_NO_GROUP = {404: "There is no such group.", 409: "Several clusters have a group of that id: say which."}
_NO_USERS = {403: "The exporter has no users, so that nobody is known."}
_BUSY = {503: "Too many answers are being made: Retry-After says in how many seconds to ask again."}
_NOT_WRITTEN = {503: "Kafka did not take it: the answer says why."}
_ONE_GROUP = f"{api.GROUPS_PATH}/{{group}}"

OPERATIONS = (
    Operation(
        name="overview",
        path=api.OVERVIEW_PATH,
        summary="All groups now, one short row each",
        answer=api.Overview,
        parameters=(_CLUSTER,),
        refusals=_BUSY,
    ),
    Operation(
        name="groups",
        path=api.GROUPS_PATH,
        summary="All groups in full: members, totals, panes of windows",
        answer=api.GroupsAnswer,
        parameters=(
            _CLUSTER,
            Parameter("limit", "At most so many.", _LIMIT),
            Parameter("after", "Those that come after: `next` of the answer before."),
        ),
        refusals={400: "A number is none, or a limit is 0.", **_BUSY},
    ),
    Operation(
        name="group",
        path=_ONE_GROUP,
        summary="One group in full",
        answer=GroupSnapshot,
        parameters=_OF_GROUP,
        refusals={**_NO_GROUP, **_BUSY},
    ),
    Operation(
        name="rebalances",
        path=f"{_ONE_GROUP}/{api.REBALANCES}",
        summary="The rebalances of a group that are kept, newest first",
        answer=api.RebalancesAnswer,
        parameters=(
            *_OF_GROUP,
            Parameter("limit", "At most so many.", _LIMIT),
            Parameter("since_ms", "Those that go on, or ended at this time or later.", _WHOLE_NUMBER),
            Parameter("until_ms", "Those that began before this time.", _WHOLE_NUMBER),
        ),
        refusals={400: "A number is none, or a limit is 0.", **_NO_GROUP, **_BUSY},
    ),
    Operation(
        name="rebalance",
        path=f"{_ONE_GROUP}/{api.REBALANCES}/{{rebalance_id}}",
        summary="One rebalance and what was found about it",
        answer=api.RebalanceAnswer,
        parameters=(*_OF_GROUP, Parameter("rebalance_id", "The rebalance's id.")),
        refusals={**_NO_GROUP, 404: "There is no such group, or no such rebalance is kept.", **_BUSY},
    ),
    Operation(
        name="advice",
        path=f"{_ONE_GROUP}/{api.ADVICE}",
        summary="Which settings would have avoided a group's rebalances, how many, and what they cost",
        answer=api_reports.AdviceAnswer,
        parameters=(
            *_OF_GROUP,
            Parameter("since_ms", "Rebalances that began since then; a day ago where it is not given.", _WHOLE_NUMBER),
        ),
        refusals={400: "A number is none.", **_NO_GROUP, **_BUSY},
    ),
    Operation(
        name="findings",
        path=api.FINDINGS_PATH,
        summary="What was found, firing or resolved lately; those that began last come first",
        answer=api.FindingsAnswer,
        parameters=(
            _CLUSTER,
            Parameter("group", "Only of this group; empty: only what is about a whole cluster."),
            Parameter("rule", "Only of this diagnosis."),
            Parameter("severity", "Only of this severity.", AnySeverity),
            Parameter("state", "Only those in this state.", FindingState),
        ),
        refusals=_BUSY,
    ),
    Operation(
        name="report",
        path=api.REPORT_PATH,
        summary="What rebalances cost in a period, why, what changed since the period before, and what to set",
        answer=api_reports.PeriodReport,
        parameters=(
            _CLUSTER,
            Parameter("since_ms", "When the period began; a week before its end where it is not given.", _WHOLE_NUMBER),
            Parameter("until_ms", "When it ended; now where it is not given.", _WHOLE_NUMBER),
            Parameter("limit", "At most so many groups, causes and settings each; 20 where it is not given.", _SHORT),
        ),
        refusals={400: "A number is none, or out of its range, or the period ends before it begins.", **_BUSY},
    ),
    Operation(
        name="stream",
        path=api.STREAM_PATH,
        summary="What changes, as it changes: server-sent events, whose data `x-events` describes by name",
        answer=None,
        parameters=(_CLUSTER, Parameter("group", "Only of this group.")),
        refusals={503: "As many follow as may: try again later."},
        media_type=EVENT_STREAM,
    ),
    Operation(
        name="messages",
        path=api.MESSAGES_PATH,
        summary="What a message of a client or a coordinator means, and which diagnoses it may stand for",
        answer=api_messages.MessagesAnswer,
        parameters=(Parameter("text", "A line of a log, or a piece of one; at most 4,096 characters."),),
        refusals={400: "The text is missing or too long.", **_BUSY},
    ),
    Operation(
        name="silences",
        path=api.SILENCES_PATH,
        summary="Silences in force or to come, and those that ended lately",
        answer=api.SilencesAnswer,
        parameters=(_CLUSTER, Parameter("limit", "At most so many; 500 where it is not given.", _SILENCES)),
        refusals={400: "A number is none, or out of its range."},
    ),
    Operation(
        name="silence",
        path=api.SILENCES_PATH,
        method="post",
        summary="Hold the alerts of groups back for a time, or announce a deploy of them; only for users who log in",
        answer=api.MadeSilence,
        body=api.SilenceRequest,
        status=201,
        refusals={
            400: "What is asked for cannot be: the answer says why.",
            **_NO_USERS,
            408: "The body did not come in time.",
            409: "Too many silences are in force.",
            413: "The body is too long.",
            415: "The body is not said to be JSON.",
            **_NOT_WRITTEN,
        },
    ),
    Operation(
        name="expire",
        path=f"{api.SILENCES_PATH}/{{silence_id}}",
        method="delete",
        summary="End a silence now; only for users who log in",
        answer=AlertSilence,
        parameters=(Parameter("silence_id", "The silence's id."), _CLUSTER),
        refusals={**_NO_USERS, 404: "There is no such silence.", **_NOT_WRITTEN},
    ),
    Operation(name="openapi", path=api.OPENAPI_PATH, summary="This document", answer=None),
    Operation(
        name="ready",
        path=api.READY_PATH,
        summary="Whether what is served can be trusted; plain text unless JSON is asked for",
        answer=api.Readiness,
        also={503: "Not yet, or no more: the answer says why."},
    ),
)


def describe() -> dict[str, Any]:
    """Return the document."""
    answers = [each.answer for each in OPERATIONS if each.answer is not None]
    kinds = [parameter.kind for each in OPERATIONS for parameter in each.parameters]
    bodies = [each.body for each in OPERATIONS if each.body is not None]
    types = list(dict.fromkeys([*answers, *kinds, *bodies, *api.EVENTS.values(), api.Refusal]))
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(types, schemas, strict=True))
    return {
        "openapi": "3.1.0",
        "info": {"title": "rebalance-monitor", "version": api.ROOT.rpartition("/v")[2], "description": _DESCRIPTION},
        # Passwords are required if the web config has users.
        "security": [{}, {"basic": []}],
        "paths": _paths(schema_of),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def _paths(schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method] = _operation(each, schema_of)
    return paths


def render() -> str:
    """Return the document as indented JSON."""
    return write_json(describe())


def _operation(of: Operation, schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    answer = {of.media_type: {"schema": _answer_schema(of, schema_of)}}
    refusal = {JSON: {"schema": schema_of[api.Refusal]}}
    refusals = {401: "A password is needed, or is wrong.", **of.refusals}
    described: dict[str, Any] = {
        "operationId": of.name,
        "summary": of.summary,
        "parameters": [_parameter(each, of, schema_of) for each in of.parameters],
        "responses": {
            str(of.status): {"description": "The answer.", "content": answer},
            **{str(status): {"description": text, "content": answer} for status, text in of.also.items()},
            **{str(status): {"description": refusals[status], "content": refusal} for status in sorted(refusals)},
        },
    }
    if of.body is not None:
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": schema_of[of.body]}}}
    if of.media_type == EVENT_STREAM:
        described["x-events"] = {name: schema_of[row] for name, row in api.EVENTS.items()}
    return described


def _answer_schema(of: Operation, schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    if of.answer is not None:
        return schema_of[of.answer]
    return {"type": "string" if of.media_type == EVENT_STREAM else "object"}


def _parameter(of: Parameter, operation: Operation, schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    in_path = f"{{{of.name}}}" in operation.path
    return {
        "name": of.name,
        "in": "path" if in_path else "query",
        "required": in_path,
        "description": of.description,
        "schema": schema_of[of.kind],
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render())
