"""The choice of the Java installation, with scripts that answer as Java does."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rebalance_deploy.errors import UserError
from rebalance_deploy.jdk import find_java

pytestmark = pytest.mark.processes

InstallJava = Callable[..., Path]


@pytest.fixture
def install_java(tmp_path: Path) -> InstallJava:
    """Make a Java home below tmp_path whose `java` prints the given text."""

    def install(name: str, says: str, exit_code: int = 0) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        java = home / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {exit_code}\n")
        java.chmod(0o755)
        return home

    return install


@pytest.mark.parametrize(
    ("says", "version", "text"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17, "17.0.15"),
        ('openjdk version "25" 2025-09-16', 25, "25"),
        ('java version "21.0.2" 2024-01-16 LTS', 21, "21.0.2"),
        ('openjdk version "26-ea" 2026-03-17', 26, "26-ea"),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1" 2021-10-19', 17, "17.0.1"),
    ],
)
def test_version_is_read(install_java: InstallJava, tmp_path: Path, says: str, version: int, text: str) -> None:
    """Every format in which Java reports its version is understood."""
    home = install_java("jdk", says)
    java = find_java(environ={"JAVA_HOME": str(home)}, installed=tmp_path / "none")
    assert (java.version, java.version_text, java.home) == (version, text, home)


def test_java_home_goes_before_path_and_path_before_installed(install_java: InstallJava, tmp_path: Path) -> None:
    """The user's choice takes precedence over the system's."""
    at_home = install_java("home", 'version "17.0.1"')
    on_path = install_java("path", 'version "18.0.1"')
    installed = install_java("jvm/jdk-19", 'version "19.0.1"')
    jvm = installed.parent
    path = str(on_path / "bin")
    assert find_java(environ={"JAVA_HOME": str(at_home), "PATH": path}, installed=jvm).version == 17
    assert find_java(environ={"PATH": path}, installed=jvm).version == 18
    assert find_java(environ={"PATH": ""}, installed=jvm).version == 19


def test_too_old_java_home_is_passed_over(install_java: InstallJava, tmp_path: Path) -> None:
    """A JAVA_HOME with an old Java does not prevent the use of a newer one."""
    old = install_java("old", 'version "1.8.0_392"')
    new = install_java("jvm/jdk-21", 'version "21"')
    assert find_java(environ={"JAVA_HOME": str(old), "PATH": ""}, installed=new.parent).version == 21


def test_only_too_old_java_is_named(install_java: InstallJava, tmp_path: Path) -> None:
    """With only an old Java the error has its version, its path, and the command that installs a new one."""
    old = install_java("old", 'openjdk version "1.8.0_392"')
    with pytest.raises(UserError) as raised:
        find_java(environ={"JAVA_HOME": str(old), "PATH": ""}, installed=tmp_path / "none")
    assert f"{old}/bin/java (1.8.0_392)" in str(raised.value)
    assert "sudo apt-get install openjdk-17-jdk-headless" in str(raised.value)


def test_no_java_at_all(tmp_path: Path) -> None:
    """Without Java the error has the command that installs one; an invalid JAVA_HOME does not crash."""
    with pytest.raises(UserError, match=r"found none .* sudo apt-get install openjdk-17-jdk-headless"):
        find_java(environ={"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}, installed=tmp_path)


def test_a_java_that_does_not_run_is_no_java(install_java: InstallJava, tmp_path: Path) -> None:
    """A broken installation is skipped."""
    broken = install_java("broken", 'version "17.0.1"', exit_code=1)
    with pytest.raises(UserError, match="found none"):
        find_java(environ={"JAVA_HOME": str(broken), "PATH": ""}, installed=tmp_path / "none")
