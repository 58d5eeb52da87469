"""Responses of the API: an object of the contract as JSON, or what is wrong with a request."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

import rebalance_contract as contract
from rebalance_contract.api import Refusal


def json_response(body: object, status_code: int = 200) -> Response:
    """Return a response with an object of the contract, or anything made of them, as JSON."""
    return raw_json(contract.encode(body), status_code)


def raw_json(text: bytes, status_code: int = 200) -> Response:
    """Return a response with text that is already JSON."""
    return Response(text, status_code, {"cache-control": "no-store"}, media_type="application/json")


def error_response(status_code: int, text: str, did_you_mean: Iterable[str] = ()) -> Response:
    """Return a response with what is wrong and the names similar to the one asked for."""
    return json_response(Refusal(text, tuple(did_you_mean)), status_code)


class RequestError(Exception):
    """A request that cannot be answered: the status, a sentence, and names that may have been meant.

    `retry_after_seconds` is after how long the same request may succeed; null if not known.
    """

    def __init__(
        self,
        status_code: int,
        text: str,
        did_you_mean: Iterable[str] = (),
        *,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(text)
        self.status_code = status_code
        self.text = text
        self.did_you_mean = tuple(did_you_mean)
        self.retry_after_seconds = retry_after_seconds

    def answer(self) -> Response:
        """Return the error as a response of the API."""
        answer = error_response(self.status_code, self.text, self.did_you_mean)
        if self.retry_after_seconds is not None:
            answer.headers["retry-after"] = str(self.retry_after_seconds)
        return answer
