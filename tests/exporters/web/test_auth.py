import base64

import bcrypt
import pytest

from exporters.serving import hash_password
from rebalance_exporters.web.auth import PasswordCheck, read_credentials


def basic(text: str) -> str:
    """An Authorization header."""
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        (basic("alice:secret"), ("alice", "secret")),
        (basic("alice:with:colons"), ("alice", "with:colons")),
        (basic("älice:pässwörd"), ("älice", "pässwörd")),
        (basic("alice:").replace("Basic", "basic"), ("alice", "")),
        (basic("alice"), None),
        ("Basic not base64", None),
        ("Basic gICA", None),
        ("Bearer abc", None),
        ("", None),
        (None, None),
    ],
)
def test_credentials_are_read_or_refused(header: str | None, shown: tuple[str, str] | None) -> None:
    """Any header is a name and a password or nothing; there are no exceptions."""
    assert read_credentials(header) == shown


def test_only_the_right_password_of_the_right_user_is_right() -> None:
    """Names and passwords belong together; prefixes, other users' passwords and empty ones are wrong."""
    check = PasswordCheck({"alice": hash_password("secret"), "bob": hash_password("hidden")})
    assert check.is_right("alice", "secret")
    assert check.is_right("bob", "hidden")
    wrong = [("alice", "hidden"), ("alice", ""), ("alice", "secre"), ("", "secret"), ("carol", "secret"), ("a\0", "\0")]
    assert not any(check.is_right(*shown) for shown in wrong)


def test_long_passwords_are_no_error() -> None:
    """bcrypt uses 72 bytes; a longer password is compared by those, as in Go."""
    check = PasswordCheck({"alice": hash_password("x" * 72)})
    assert check.is_right("alice", "x" * 100)
    assert not check.is_right("alice", "y" * 100)


def test_bcrypt_is_paid_once_per_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape with a verified password costs a digest; a wrong one costs bcrypt every time."""
    check = PasswordCheck({"alice": hash_password("secret")})
    assert not check.is_remembered("alice", "secret")
    assert check.is_right("alice", "secret")
    assert not check.is_right("alice", "wrong")
    monkeypatch.delattr(bcrypt, "checkpw")
    assert check.is_remembered("alice", "secret")
    assert not check.is_remembered("alice", "wrong")
    assert not check.is_remembered("alicese", "cret")


def test_unknown_users_cost_as_much_as_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The response time does not show which names exist: bcrypt runs once, with the highest configured cost."""
    costs = []

    def note_cost(_: bytes, hashed: bytes) -> bool:
        costs.append(hashed.split(b"$")[2])
        return False

    dear = bcrypt.hashpw(b"secret", bcrypt.gensalt(5)).decode()
    check = PasswordCheck({"alice": dear})
    monkeypatch.setattr(bcrypt, "checkpw", note_cost)
    assert not check.is_right("alice", "secret")
    assert not check.is_right("nobody", "secret")
    assert costs == [b"05", b"05"]


def test_the_memory_of_right_passwords_is_bounded() -> None:
    """Many users do not make it grow without limit."""
    users = {f"user-{number}": hash_password("secret") for number in range(120)}
    check = PasswordCheck(users)
    assert all(check.is_right(name, "secret") for name in users)
    assert sum(check.is_remembered(name, "secret") for name in users) == 100
