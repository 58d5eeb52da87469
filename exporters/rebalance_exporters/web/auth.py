"""Basic authentication of every path, with bcrypt hashes, as in exporter-toolkit.

bcrypt is slow on purpose, and a scrape sends the same password every few seconds, so a correct password is remembered,
as a keyed digest, until the users change. A wrong name takes as long as a wrong password, so the response time does not
show which names exist.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus

import anyio
import bcrypt
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from rebalance_exporters.web.responses import error_response

#: Number of bytes of a password that bcrypt reads.
_BCRYPT_BYTES = 72
_REMEMBERED = 100
_DEFAULT_COST = 10


class PasswordCheck:
    """Checks names and passwords against one set of users; thread-safe."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, None] = {}
        cost = max((int(hashed.split("$")[2]) for hashed in self._users.values()), default=_DEFAULT_COST)
        self._nobody = bcrypt.hashpw(secrets.token_hex(16).encode(), bcrypt.gensalt(cost)).decode()

    @property
    def is_needed(self) -> bool:
        """Whether there are any users."""
        return bool(self._users)

    def is_remembered(self, name: str, password: str) -> bool:
        """Return whether this password was right before; costs one digest."""
        return self._digest(name, password) in self._right

    def is_right(self, name: str, password: str) -> bool:
        """Return whether the password is the user's; takes as long as bcrypt does."""
        hashed = self._users.get(name, self._nobody)
        try:
            matches = bcrypt.checkpw(password.encode()[:_BCRYPT_BYTES], hashed.encode())
        except ValueError:  # a password that bcrypt cannot hash is nobody's
            matches = False
        right = matches and name in self._users
        if right:
            while len(self._right) >= _REMEMBERED:
                self._right.pop(next(iter(self._right)), None)
            self._right[self._digest(name, password)] = None
        return right

    def _digest(self, name: str, password: str) -> bytes:
        # The length of the name distinguishes "a" with "bc" from "ab" with "c".
        text = f"{len(name)}:{name}{password}".encode("utf-8", "surrogateescape")
        return hmac.digest(self._key, text, "sha256")


#: Key of the authenticated user's name in the scope of a request.
_USER = "rebalance_monitor.user"


def user_of(scope: Scope) -> str | None:
    """Return the name of the authenticated user; null if the request needed no password."""
    user: str | None = scope.get(_USER)
    return user


class BasicAuth:
    """Passes on requests with a valid name and password; responds to all others with 401."""

    def __init__(self, app: ASGIApp, read_check: Callable[[], PasswordCheck], free_paths: Collection[str] = ()) -> None:
        """`free_paths` are served without a password."""
        self._app = app
        self._read_check = read_check
        self._free_paths = frozenset(free_paths)
        # One at a time: a flood of wrong passwords takes one core, and remembered passwords do not wait.
        self._limiter: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        check = self._read_check()
        if scope["type"] != "http" or not check.is_needed or scope["path"] in self._free_paths:
            await self._app(scope, receive, send)
            return
        user = await self._user(check, Request(scope))
        if user is not None:
            await self._app({**scope, _USER: user}, receive, send)
            return
        answer = error_response(HTTPStatus.UNAUTHORIZED, "user name and password are needed, or these are wrong")
        answer.headers["www-authenticate"] = 'Basic realm="rebalance-monitor", charset="UTF-8"'
        await answer(scope, receive, send)

    async def _user(self, check: PasswordCheck, request: Request) -> str | None:
        """Return the name of the user whose password the request has; null if it has none, or a wrong one."""
        shown = read_credentials(request.headers.get("authorization"))
        if shown is None:
            return None
        if check.is_remembered(*shown):
            return shown[0]
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(1)
        return shown[0] if await run_sync(check.is_right, *shown, limiter=self._limiter) else None


def read_credentials(header: str | None) -> tuple[str, str] | None:
    """Return name and password of an Authorization header, or null if it has none."""
    kind, _, encoded = (header or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return (name, password) if colon else None
