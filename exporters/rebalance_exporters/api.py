"""The JSON API: receives requests about groups, answers with the stream's own objects as the contract writes them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rebalance_exporters.view import GroupKey, Picture, View
from rebalance_streaming.groups import events

_NOT_FOUND = 404
_AMBIGUOUS = 409


def json_response(body: object, status_code: int = 200) -> Response:
    """Answer with an object of the contract, or anything made of them."""
    return Response(events.encode(body), status_code, media_type="application/json")


def error_response(status_code: int, text: str, did_you_mean: Iterable[str] = ()) -> Response:
    """Answer with what is wrong and the names that look like the one asked for."""
    return json_response({"error": text, "did_you_mean": list(did_you_mean)}, status_code)


def make_routes(view: View) -> list[Route]:
    """Return the routes of the API; its answers come from one picture each."""

    def list_groups(request: Request) -> Response:
        cluster = request.query_params.get("cluster")
        groups = view.picture().groups
        chosen = [groups[key] for key in sorted(groups) if cluster in {None, key[0]}]
        return json_response({"groups": chosen})

    def show_group(request: Request) -> Response:
        picture = view.picture()
        found = _find_group(request, picture)
        return found if isinstance(found, Response) else json_response(picture.groups[found])

    def list_rebalances(request: Request) -> Response:
        found = _find_group(request, view.picture())
        if isinstance(found, Response):
            return found
        # The rows are JSON already: they go out as they came in, fields unknown to this version included.
        body = b'{"rebalances":[%s]}' % b",".join(kept.text for kept in view.rebalances(found))
        return Response(body, media_type="application/json")

    def list_findings(request: Request) -> Response:
        wanted = {name: request.query_params.get(name) for name in ("cluster", "group", "rule", "severity", "state")}
        found = [
            finding
            for of in view.picture().findings.values()
            for finding in of.findings
            if all(value in {None, getattr(finding, name)} for name, value in wanted.items())
        ]
        found.sort(key=lambda each: (each.started_at_ms, each.finding_id), reverse=True)
        return json_response({"findings": found})

    return [
        Route("/api/v1/findings", list_findings),
        Route("/api/v1/groups", list_groups),
        # Group names may contain slashes, hence paths; the longer route first, or the shorter one would take it.
        Route("/api/v1/groups/{group:path}/rebalances", list_rebalances),
        Route("/api/v1/groups/{group:path}", show_group),
    ]


def _find_group(request: Request, picture: Picture) -> GroupKey | Response:
    """Return the one group meant, or the answer that says why there is none."""
    name, cluster = request.path_params["group"], request.query_params.get("cluster")
    found = [key for key in picture.groups if key[1] == name and cluster in {None, key[0]}]
    if len(found) == 1:
        return found[0]
    if found:
        clusters = sorted(key[0] for key in found)
        text = f"group {name!r} exists in {len(clusters)} clusters: add ?cluster= with one of {', '.join(clusters)}"
        return error_response(_AMBIGUOUS, text, clusters)
    where = "" if cluster is None else f" in cluster {cluster!r}"
    names = {key[1] for key in picture.groups if cluster in {None, key[0]}}
    return error_response(_NOT_FOUND, f"no group {name!r}{where}", difflib.get_close_matches(name, names))
