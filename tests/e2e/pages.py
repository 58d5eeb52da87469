"""Pages of a running monitor; a slow answer counts as no answer yet."""

from __future__ import annotations

from http import HTTPStatus

from rebalance_deploy.counts import fetch
from waiting import wait_for

#: A busy machine takes a while for a large page.
_ANSWER_SECONDS, _SERVED_SECONDS = 30.0, 180.0


def page(url: str) -> str:
    """Return the text of a page, waiting until it is served."""
    _, text = wait_for(lambda: _served(url), lambda: f"{url}, which answers {fetch(url)}", _SERVED_SECONDS)
    return text


def _served(url: str) -> tuple[int, str] | None:
    answer = fetch(url, timeout_seconds=_ANSWER_SECONDS)
    return answer if answer[0] == HTTPStatus.OK else None
