"""How pinned old clients are installed into the cache: with the real pip, and wheels made here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from rebalance_deploy.errors import UserError
from rebalance_deploy.jars import CACHE_VARIABLE
from rebalance_devtools import clients
from rebalance_devtools.clients import client_environment, known_clients

_METADATA = "Metadata-Version: 2.1\nName: alpha\nVersion: {version}\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class ClientPackages:
    """A folder of wheels, a folder of requirement files, and a cache."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.wheels = base / "wheels"
        self.requirements = base / "requirements"
        self.cache = base / "cache"
        self.wheels.mkdir()
        self.requirements.mkdir()
        self.pin(self.make_wheel("1.0"))

    def make_wheel(self, version: str) -> Path:
        """Write the wheel of a package that reports its version."""
        path = self.wheels / f"alpha-{version}-py3-none-any.whl"
        info = f"alpha-{version}.dist-info"
        names = ("alpha.py", f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD")
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(names[0], f"version = {version!r}\n")
            file.writestr(names[1], _METADATA.format(version=version))
            file.writestr(names[2], _WHEEL)
            file.writestr(names[3], "".join(f"{name},,\n" for name in names))
        return path

    def pin(self, wheel: Path, digest: str | None = None) -> None:
        """Pin `alpha` to a wheel, with its checksum or a wrong one."""
        version = wheel.name.split("-")[1]
        found = digest or sha256(wheel.read_bytes()).hexdigest()
        text = f"--no-index\n--find-links {self.wheels}\nalpha=={version} --hash=sha256:{found}\n"
        (self.requirements / "alpha.txt").write_text(text)

    def install(self) -> Path:
        """Return the path of alpha's installation."""
        return client_environment("alpha", requirements=self.requirements)

    @property
    def left(self) -> list[str]:
        """Return the content of the cache."""
        return sorted(path.name for path in (self.cache / "clients").iterdir())


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientPackages:
    """Packages whose cache is in use."""
    made = ClientPackages(tmp_path)
    monkeypatch.setenv(CACHE_VARIABLE, str(made.cache))
    return made


def version_in(path: Path) -> str:
    """Return the version of alpha that a child process with this PYTHONPATH imports."""
    code = "import alpha; print(alpha.version)"
    env = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout


@pytest.mark.processes
def test_a_child_process_imports_what_was_pinned(packages: ClientPackages, capsys: pytest.CaptureFixture[str]) -> None:
    """The directory works as PYTHONPATH, and one line is printed while installing."""
    assert version_in(packages.install()) == "1.0\n"
    assert capsys.readouterr().err == "installing alpha ...\n"


@pytest.mark.processes
def test_the_second_call_needs_no_pip(packages: ClientPackages, capsys: pytest.CaptureFixture[str]) -> None:
    """Once installed, no index is queried."""
    first = packages.install()
    (packages.wheels / "alpha-1.0-py3-none-any.whl").unlink()
    capsys.readouterr()
    assert packages.install() == first
    assert capsys.readouterr().err == ""


@pytest.mark.processes
def test_nothing_but_the_client_stays(packages: ClientPackages) -> None:
    """The next installation removes the remains of a killed one."""
    (packages.cache / "clients" / ".work-killed").mkdir(parents=True)
    packages.install()
    assert packages.left == [".lock", "alpha", "alpha.log"]


@pytest.mark.processes
def test_other_pins_are_installed_anew(packages: ClientPackages) -> None:
    """A client with changed requirements is replaced as a whole."""
    packages.install()
    packages.pin(packages.make_wheel("2.0"))
    assert version_in(packages.install()) == "2.0\n"


@pytest.mark.processes
def test_a_wrong_sum_installs_nothing(packages: ClientPackages) -> None:
    """The error quotes pip's message about the checksum, and names the log."""
    packages.pin(packages.wheels / "alpha-1.0-py3-none-any.whl", digest="0" * 64)
    with pytest.raises(UserError, match=r"alpha could not be installed, pip says: .* \(log: .*alpha\.log\)"):
        packages.install()
    assert packages.left == [".lock", "alpha.log"]


@pytest.mark.processes
def test_a_failure_keeps_what_was_there(packages: ClientPackages) -> None:
    """If changed pins cannot be installed, the old installation stays complete."""
    before = packages.install()
    packages.pin(packages.wheels / "alpha-1.0-py3-none-any.whl", digest="0" * 64)
    with pytest.raises(UserError):
        packages.install()
    assert version_in(before) == "1.0\n"


def test_an_unknown_name_names_the_known_ones(packages: ClientPackages) -> None:
    """The error for a misspelt client lists the known ones."""
    with pytest.raises(UserError, match=r"no client named beta: choose one of alpha"):
        client_environment("beta", requirements=packages.requirements)


def test_a_cache_that_cannot_be_written(packages: ClientPackages, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a read-only cache names the variable that moves it."""
    monkeypatch.setenv(CACHE_VARIABLE, str(packages.requirements / "alpha.txt"))
    with pytest.raises(UserError, match=r"cannot be used \(Not a directory\): .* set REBALANCE_MONITOR_CACHE"):
        packages.install()


@pytest.mark.processes
def test_of_two_at_once_one_installs(packages: ClientPackages) -> None:
    """Two processes that need the same client run pip once in total, and both succeed."""
    code = (
        "import sys; from pathlib import Path; from rebalance_devtools.clients import client_environment; "
        "print(client_environment('alpha', requirements=Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(packages.requirements)]
    begin = partial(subprocess.Popen[str], command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with begin() as first, begin() as second:
        answers = [first.communicate(timeout=270), second.communicate(timeout=270)]
    assert (first.returncode, second.returncode) == (0, 0), answers
    assert answers[0][0] == answers[1][0] != ""
    assert "".join(errors for _, errors in answers).count("installing alpha") == 1


@pytest.mark.parametrize("name", known_clients())
def test_pins_are_whole(name: str) -> None:
    """Every requirement of every client has a version and at least one checksum, and names no host."""
    text = (clients.REQUIREMENTS / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\w.]+\s+(--hash=sha256:[0-9a-f]{64}\s*)+", line), line
    assert name in {line.split()[0].replace("==", "-") for line in lines}
