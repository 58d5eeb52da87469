"""Answers of token endpoints, without a server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rebalance_kafka.tokens import ClientCredentials, TokenError


class Endpoint(ClientCredentials):
    """An endpoint that answers with `extensions`."""

    def _ask(self) -> dict[str, Any]:
        return dict(self.extensions)


def expires_after(**answer: Any) -> float:
    """Return how many seconds after its request a token expires, as the client understands the answer."""
    token = Endpoint("http://idp/token", "client", "hunter2", extensions={"access_token": "x", **answer})
    asked_at = time.time()
    return round(float(token("")[1]) - asked_at)


def test_a_token_expires_when_its_endpoint_says():
    """In seconds, as a number or as text with one; after an hour if it does not say."""
    assert expires_after(expires_in=300) == 300
    assert expires_after(expires_in="3599") == 3599
    assert expires_after() == 3600


def test_an_expiry_that_is_no_time_is_a_token_error():
    """Callers handle this error alone; its text has no secret."""
    for value in (None, "soon", "", [], {}, float("nan"), float("inf"), 10**400, 0, -5):
        with pytest.raises(TokenError, match=r"^http://idp/token answered with expires_in .*, which is no") as error:
            expires_after(expires_in=value)
        assert "hunter2" not in str(error.value)
