"""How jars are fetched into the cache, with a script instead of Java that acts as Ivy, and once with the real one."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from rebalance_deploy import jars
from rebalance_deploy.errors import UserError
from rebalance_deploy.jars import LockedJar, Root
from waiting import wait_for

NAMES = ("alpha", "beta", "gamma")
SET = "letters"

# Serves <repository>/NAME-REVISION.jar through a cache of its own, as Ivy does, and records each run and download.
FAKE_JAVA = """#!{python}
import re, shutil, signal, sys
from pathlib import Path
from xml.etree import ElementTree
if "-version" in sys.argv:
    print('openjdk version "17.0.1"')
    sys.exit()
base = Path({base!r})
value = lambda name: sys.argv[sys.argv.index(name) + 1]
note = lambda line: (base / "notes").open("a").write(line + "\\n")
note("run")
if (base / "offline").exists():
    sys.exit("Host example not found. url=...")
for dependency in ElementTree.parse(value("-ivy")).iter("dependency"):
    name, revision = dependency.get("name"), dependency.get("rev")
    cached = Path(value("-cache"), f"{{name}}-{{revision}}.jar")
    if not cached.exists():
        if (base / f"stall-{{name}}").exists():
            note(f"stalled at {{name}}")
            signal.alarm(300)
            signal.pause()
        source = base / "repository" / cached.name
        if not source.exists():
            sys.exit(f"\\t\\t:: {{name}}#{{revision}}: not found")
        cached.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, cached)
        note(f"download {{name}}")
    parts = dict(organisation=dependency.get("org"), module=name, revision=revision, artifact=name, ext="jar")
    pattern = re.sub(r"\\(.*?\\)", "", value("-retrieve"))
    target = Path(re.sub(r"\\[(\\w+)\\]", lambda match: parts[match[1]], pattern))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(cached, target)
"""


class JarRepository:
    """A repository of three jars, a lock that pins them, a cache, and the records of the fake Ivy."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.cache = base / "cache" / "jars"
        self.lock = base / "jars.lock"
        (base / "repository").mkdir()
        for name in NAMES:
            self.served(name).write_bytes(name.encode() * 100)
        self.pinned = [self.pin(name) for name in NAMES]
        self.lock.write_text(jars.render_lock(self.pinned))
        java = base / "jdk" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(FAKE_JAVA.format(python=sys.executable, base=str(base)))
        java.chmod(0o755)

    def served(self, name: str) -> Path:
        return self.base / "repository" / f"{name}-1.0.jar"

    def pin(self, name: str) -> LockedJar:
        content = self.served(name).read_bytes()
        return LockedJar(SET, "org.example", name, "1.0", "", len(content), sha256(content).hexdigest())

    def resolve(self) -> tuple[Path, ...]:
        return jars.resolve(SET, lock_path=self.lock)

    @property
    def environment(self) -> dict[str, str]:
        return {"JAVA_HOME": str(self.base / "jdk"), jars.CACHE_VARIABLE: str(self.base / "cache")}

    @property
    def notes(self) -> list[str]:
        path = self.base / "notes"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def installed(self) -> list[str]:
        return sorted(path.name for path in self.cache.glob("*.jar"))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JarRepository:
    """A repository whose fake Java and cache are used by this process."""
    repository = JarRepository(tmp_path)
    for name, value in repository.environment.items():
        monkeypatch.setenv(name, value)
    return repository


# --- the lock ---


def test_lock_survives_writing_and_reading(tmp_path: Path) -> None:
    """A lock is read as it was written, with and without a classifier."""
    plain = LockedJar("set", "org.example", "alpha", "1.0", "", 12, "ab" * 32)
    written = [plain, replace(plain, classifier="linux-x86_64")]
    path = tmp_path / "jars.lock"
    path.write_text(jars.render_lock(written))
    assert jars.read_lock(path) == written
    assert [jar.file_name for jar in written] == ["alpha-1.0.jar", "alpha-1.0-linux-x86_64.jar"]


def test_committed_lock_pins_every_root() -> None:
    """Each root of each set is in the committed lock; this detects a forgotten `jars lock`."""
    pinned = {(jar.set_name, jar.organisation, jar.module, jar.revision) for jar in jars.read_lock()}
    roots = {
        (name, root.organisation, root.module, root.revision) for name, all_ in jars.ROOTS.items() for root in all_
    }
    assert roots <= pinned
    assert {jar.set_name for jar in jars.read_lock()} == set(jars.ROOTS)


def test_committed_lock_has_one_content_per_file_name() -> None:
    """All sets share one directory, so one file name has one content; every checksum is a complete SHA-256."""
    sums: dict[str, str] = {}
    for jar in jars.read_lock():
        assert len(bytes.fromhex(jar.sha256)) == 32
        assert sums.setdefault(jar.file_name, jar.sha256) == jar.sha256


# --- arguments of Ivy ---


def test_locked_jars_never_bring_dependencies() -> None:
    """Ivy is called with the locked jars and nothing else; a classifier names a separate artifact."""
    plain = LockedJar("set", "org.example", "alpha", "1.0", "", 12, "ab" * 32)
    xml = ET.fromstring(jars.render_ivy_xml("set", [plain, replace(plain, module="beta", classifier="linux")]))
    alpha, beta = xml.iter("dependency")
    assert alpha.attrib == {
        "org": "org.example", "name": "alpha", "rev": "1.0", "conf": "default->default", "transitive": "false"
    }  # fmt: skip
    assert beta.get("transitive") == "false"
    (artifact,) = beta
    assert artifact.get("{http://ant.apache.org/ivy/maven}classifier") == "linux"


def test_roots_bring_theirs() -> None:
    """Only the roots of a fresh lock are resolved with their dependencies, and only if requested."""
    roots = [Root("org.example", "alpha", "1.0"), Root("org.example", "beta", "1.0", transitive=False)]
    xml = ET.fromstring(jars.render_ivy_xml("set", roots))
    assert [dependency.get("transitive") for dependency in xml.iter("dependency")] == ["true", "false"]


@pytest.mark.parametrize("use_poms", [True, False])
def test_settings_name_no_host(use_poms: bool) -> None:
    """The repository is Ivy's default or the user's own setting; our settings name none."""
    settings = jars.render_ivy_settings(use_poms=use_poms)
    assert ET.fromstring(settings).tag == "ivysettings"
    assert "://" not in settings


# --- resolving ---


@pytest.mark.processes
def test_first_run_installs_and_second_is_offline(
    repository: JarRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first run fetches all and prints one line; the second starts no Ivy and prints nothing."""
    paths = repository.resolve()
    assert [path.name for path in paths] == ["alpha-1.0.jar", "beta-1.0.jar", "gamma-1.0.jar"]
    assert all(path.parent == repository.cache for path in paths)
    assert capsys.readouterr().err == "fetching 3 jars for letters (0 MB) ...\n"
    assert repository.resolve() == paths
    assert repository.notes.count("run") == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.processes
def test_nothing_but_jars_stays_in_the_cache(repository: JarRepository) -> None:
    """After success the downloads and the working directory are gone."""
    repository.resolve()
    assert sorted(path.name for path in repository.cache.iterdir()) == [".lock", *repository.installed]


@pytest.mark.processes
def test_only_what_is_missing_or_damaged_is_fetched(repository: JarRepository) -> None:
    """A missing jar and one with corrupt content of the same length are fetched again; the good one is kept."""
    alpha, beta, gamma = repository.resolve()
    alpha.unlink()
    beta.write_bytes(bytes(beta.stat().st_size))
    before = gamma.stat().st_mtime_ns
    (repository.base / "notes").unlink()
    repository.resolve()
    assert repository.notes == ["run", "download alpha", "download beta"]
    assert beta.read_bytes() == repository.served("beta").read_bytes()
    assert gamma.stat().st_mtime_ns == before


@pytest.mark.processes
def test_wrong_sum_installs_nothing(repository: JarRepository) -> None:
    """A jar whose content differs from the lock's is reported with both checksums, and no jar is installed."""
    repository.served("beta").write_bytes(b"something else")
    with pytest.raises(UserError) as raised:
        repository.resolve()
    got = sha256(b"something else").hexdigest()
    for part in ("beta-1.0.jar", f"expected {repository.pinned[1].sha256}", f"got {got}", "nothing was installed"):
        assert part in str(raised.value)
    assert repository.installed == []


@pytest.mark.processes
def test_wrong_sum_is_not_kept(repository: JarRepository) -> None:
    """Once the repository serves the right content, the next run fetches only the wrong ones again."""
    right = repository.served("beta").read_bytes()
    repository.served("beta").write_bytes(b"something else")
    with pytest.raises(UserError):
        repository.resolve()
    repository.served("beta").write_bytes(right)
    repository.resolve()
    downloads = ["download alpha", "download beta", "download gamma"]
    assert repository.notes == ["run", *downloads, "run", "download beta"]


@pytest.mark.processes
def test_no_network_is_one_clear_sentence(repository: JarRepository) -> None:
    """The error says that there is no network, what to set behind a proxy, and where the log is."""
    (repository.base / "offline").touch()
    with pytest.raises(UserError, match=r"without network: connect, .* JAVA_TOOL_OPTIONS .* run the command again"):
        repository.resolve()
    assert "Host example not found" in (repository.cache / "ivy.log").read_text()


@pytest.mark.processes
def test_a_jar_that_is_not_served_is_named(repository: JarRepository) -> None:
    """A jar that the repository does not have is named; jars that had arrived are kept for the next run."""
    content = repository.served("gamma").read_bytes()
    repository.served("gamma").unlink()
    with pytest.raises(UserError, match=r"gamma#1.0: not found"):
        repository.resolve()
    repository.served("gamma").write_bytes(content)
    repository.resolve()
    assert repository.notes[-2:] == ["run", "download gamma"]


def test_what_has_arrived_counts_whole_jars_and_parts(repository: JarRepository, tmp_path: Path) -> None:
    """Requested jars in Ivy's cache count, including partial ones; those of an earlier run and other files do not."""
    cached = tmp_path / "ivy" / "org.example"
    cached.mkdir(parents=True)
    for name, size in (("alpha-1.0.jar", 500), ("beta-1.0.jar.part", 30), ("other-1.0.jar", 7), ("alpha-1.0.jar.x", 9)):
        (cached / name).write_bytes(bytes(size))
    assert jars._arrived_bytes(repository.pinned, tmp_path / "ivy") == 530
    assert jars._arrived_bytes(repository.pinned, tmp_path / "none yet") == 0


def test_unknown_set_names_the_known_ones() -> None:
    """The error for an unknown set lists the known ones."""
    with pytest.raises(UserError, match=r"no set of jars named broker: choose one of connector, broker-4.3.1"):
        jars.resolve("broker")


def test_cache_that_cannot_be_written(repository: JarRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a read-only cache names the variable that moves it."""
    monkeypatch.setenv(jars.CACHE_VARIABLE, str(repository.lock))
    with pytest.raises(UserError, match=r"cannot be used \(Not a directory\): .* set REBALANCE_MONITOR_CACHE"):
        repository.resolve()


def start_resolve(repository: JarRepository) -> "subprocess.Popen[str]":
    """Start a resolution in a process of its own."""
    code = (
        "import sys; from pathlib import Path; from rebalance_deploy import jars; "
        "jars.resolve(sys.argv[1], lock_path=Path(sys.argv[2]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, SET, repository.lock],
        env={**os.environ, **repository.environment},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.processes
def test_interrupted_run_is_continued(repository: JarRepository) -> None:
    """After a kill during a download the next run fetches only the missing jars."""
    stall = repository.base / "stall-gamma"
    stall.touch()
    with start_resolve(repository) as killed:
        wait_for(lambda: "stalled at gamma" in repository.notes, "two of three jars have arrived")
        killed.kill()
    stall.unlink()
    repository.resolve()
    assert repository.notes == ["run", "download alpha", "download beta", "stalled at gamma", "run", "download gamma"]
    assert len(repository.installed) == 3


@pytest.mark.processes
def test_of_two_at_once_one_fetches(repository: JarRepository) -> None:
    """Two processes that need the same jars run Ivy once in total, and both succeed."""
    with start_resolve(repository) as first, start_resolve(repository) as second:
        messages = first.communicate(timeout=600)[1] + second.communicate(timeout=600)[1]
    assert (first.returncode, second.returncode) == (0, 0), messages
    assert repository.notes.count("run") == 1


@pytest.mark.processes
def test_threads_wait_for_each_other(repository: JarRepository) -> None:
    """The same holds for two threads of one process."""
    threads = [threading.Thread(target=repository.resolve) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert repository.notes.count("run") == 1
    assert len(repository.installed) == 3


def test_cache_directory_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The monitor's own variable takes precedence over XDG's, XDG's over the home directory."""
    monkeypatch.setenv(jars.CACHE_VARIABLE, "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert jars.cache_directory() == Path("/own")
    monkeypatch.delenv(jars.CACHE_VARIABLE)
    assert jars.cache_directory() == Path("/xdg/rebalance-monitor")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert jars.cache_directory() == Path("/home/somebody/.cache/rebalance-monitor")


@pytest.mark.broker
def test_real_ivy_with_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real Ivy installs plain and classified jars from the mirror in the user's settings."""
    served = {"alpha": b"plain", "alpha-linux": b"classified"}
    home = tmp_path / "mirror" / "org.example" / "alpha" / "1.0"
    home.mkdir(parents=True)
    (home / "alpha-1.0.jar").write_bytes(served["alpha"])
    (home / "alpha-1.0-linux.jar").write_bytes(served["alpha-linux"])
    settings = tmp_path / "mirror.xml"
    pattern = f"{tmp_path}/mirror/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers><filesystem name="mirror">'
        f'<artifact pattern="{pattern}"/></filesystem></resolvers></ivysettings>'
    )
    lock = tmp_path / "jars.lock"
    lock.write_text(
        jars.render_lock(
            LockedJar(name, "org.example", "alpha", "1.0", classifier, len(content), sha256(content).hexdigest())
            for name, classifier, content in (("plain", "", b"plain"), ("classified", "linux", b"classified"))
        )
    )
    monkeypatch.setenv(jars.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(jars.IVY_SETTINGS_VARIABLE, str(settings))
    for name, content in (("plain", b"plain"), ("classified", b"classified")):
        (path,) = jars.resolve(name, lock_path=lock)
        assert path.read_bytes() == content
