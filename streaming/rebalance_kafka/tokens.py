"""Tokens for SASL/OAUTHBEARER, created or fetched for clients that get them from their caller.

A token source is a function from the value of `sasl.oauthbearer.config` to the token and its expiry in epoch seconds,
as confluent-kafka takes it as `oauth_cb`. It may add a principal and a mapping of SASL extensions. The Java client
creates and fetches its tokens itself.
"""

from __future__ import annotations

import json
import math
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

TokenSource = Callable[[str], tuple[Any, ...]]

_DEFAULT_LIFE_SECONDS = 3_600
_REQUEST_SECONDS = 10.0


class TokenError(OSError):
    """A token could not be obtained; the text names the source and the reason, and contains no secret."""


def unsecured_settings(config: str) -> dict[str, str]:
    """Return librdkafka's `name=value name=value` settings of an unsecured token as a mapping, with defaults."""
    given = dict(part.split("=", 1) for part in config.split() if "=" in part)
    defaults = {
        "principalClaimName": "sub",
        "scopeClaimName": "scope",
        "scope": "",
        "lifeSeconds": str(_DEFAULT_LIFE_SECONDS),
    }
    return {**defaults, **given}


def unsecured_token(config: str) -> tuple[Any, ...]:
    """Return an unsigned token as librdkafka would create it, for test brokers.

    librdkafka itself creates one only while its caller polls, which an admin client that sends single requests never
    does.
    """
    settings = unsecured_settings(config)
    now = time.time()
    expires = now + float(settings["lifeSeconds"])
    claims: dict[str, Any] = {settings["principalClaimName"]: settings.get("principal", ""), "iat": now, "exp": expires}
    if settings["scope"]:
        claims[settings["scopeClaimName"]] = settings["scope"].split(",")
    token = f"{_part({'alg': 'none'})}.{_part(claims)}."
    extensions = {k.removeprefix("extension_"): v for k, v in settings.items() if k.startswith("extension_")}
    return token, expires, settings.get("principal", ""), extensions


def _part(claims: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Fetches tokens with OAuth's client-credentials grant (RFC 6749, 4.4). `ca_file`: null for the system's CAs."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None

    def __call__(self, _config: str) -> tuple[Any, ...]:
        """Return a new token. Raises TokenError if the endpoint does not return one."""
        asked_at = time.time()
        answer = self._ask()
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise TokenError(f"{self.url} answered without an access_token: check kafka.sasl.oauthbearer.*")
        return token, asked_at + self._life_seconds(answer), self.client_id, dict(self.extensions)

    def _life_seconds(self, answer: Mapping[str, Any]) -> float:
        """Return how long a token is valid, an hour if the endpoint does not say. Raises TokenError if it is no number.

        Some endpoints send the number as text.
        """
        life = answer.get("expires_in", _DEFAULT_LIFE_SECONDS)
        try:
            seconds = float(life)
        except (TypeError, ValueError, OverflowError):
            seconds = 0.0
        if not 0 < seconds < math.inf:
            raise TokenError(
                f"{self.url} answered with expires_in {str(life)[:40]!r}, which is no number of seconds above 0: "
                "check kafka.sasl.oauthbearer.*"
            )
        return seconds

    def _ask(self) -> dict[str, Any]:
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        # Both parts are form-encoded before they are joined (RFC 6749, 2.3.1).
        credentials = f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}"
        request = urllib.request.Request(  # noqa: S310  the address is the user's own setting, checked at the start
            self.url,
            data=urlencode(form).encode(),
            headers={"Authorization": f"Basic {b64encode(credentials.encode()).decode()}"},
        )
        tls = ssl.create_default_context(cafile=self.ca_file) if self.url.startswith("https:") else None
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS, context=tls) as response:  # noqa: S310
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            error.close()
            raise TokenError(
                f"{self.url} refused a token (HTTP {error.code}): check kafka.sasl.oauthbearer.*"
            ) from None
        except (OSError, ValueError) as error:
            raise TokenError(f"{self.url} gave no token ({error}): check kafka.sasl.oauthbearer.*") from None
        return answer if isinstance(answer, dict) else {}
