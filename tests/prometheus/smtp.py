"""An SMTP server on loopback that records the mail it receives."""

from __future__ import annotations

import base64
import email
import email.policy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from socketserver import StreamRequestHandler, ThreadingTCPServer

_GREETED = {"EHLO", "HELO"}


@dataclass(slots=True)
class MailBox:
    """The mail so far, oldest first, and the passwords used."""

    port: int
    messages: list[EmailMessage] = field(default_factory=list)
    passwords: list[str] = field(default_factory=list)


@contextmanager
def mail_server() -> Iterator[MailBox]:
    """Receive e-mail on loopback until the block ends, from clients that log in with AUTH PLAIN."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            while line := self.rfile.readline().decode().strip():
                verb, _, rest = line.partition(" ")
                if verb.upper() in _GREETED:
                    self._say("250-here")
                    self._say("250 AUTH PLAIN")
                elif verb.upper() == "AUTH":
                    box.passwords.append(base64.b64decode(rest.partition(" ")[2]).split(b"\0")[2].decode())
                    self._say("235 welcome")
                elif verb.upper() == "DATA":
                    self._say("354 go on")
                    box.messages.append(self._read_message())
                    self._say("250 kept")
                elif verb.upper() == "QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 ok")

        def _read_message(self) -> EmailMessage:
            lines = iter(self.rfile.readline, b".\r\n")
            return email.message_from_bytes(
                b"".join(line.removeprefix(b".") for line in lines), policy=email.policy.default
            )

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        box = MailBox(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
