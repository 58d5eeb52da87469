"""Downloads the pinned jars that no Python package contains: Spark's Kafka connector and Kafka's broker.

Takes the name of a set and returns the paths of its jars in the user's cache. `jars.lock` lists the jars of each set
with their checksums, so nothing is resolved on a user's machine: the Ivy that PySpark ships only downloads, and a jar
enters the cache only if its checksum is right. Every call verifies every checksum again (0.1 s for a broker), so the
cache needs no record of its own that could go stale.

`python -m rebalance_deploy.jars lock` resolves the roots below again and rewrites the lock.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from types import MappingProxyType
from xml.sax.saxutils import quoteattr

from rebalance_deploy.errors import UserError
from rebalance_deploy.jdk import find_java
from rebalance_deploy.logs import say_line
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.progress import shown, step_of_bytes

CACHE_VARIABLE = "REBALANCE_MONITOR_CACHE"
IVY_SETTINGS_VARIABLE = "REBALANCE_MONITOR_IVY_SETTINGS"
LOCK = Path(__file__).with_name("jars.lock")

_NO_CLASSIFIER = "-"
_RETRIEVED = "[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
#: Suffix that Ivy adds to the name of a file while it is being downloaded.
_PART = ".part"
_NO_NETWORK = re.compile(
    r"UnknownHost|ConnectException|NoRouteToHost|SocketTimeout|SocketException|SSLException|SSLHandshake"
    r"|Connection (refused|timed out|reset)|Host .* not found|Network is unreachable"
)


@dataclass(frozen=True)
class Root:
    """A module of a set, including all of its dependencies if `transitive`."""

    organisation: str
    module: str
    revision: str
    transitive: bool = True


# Brokers ship without a binding for their logging facade; without one they run but write no log.
ROOTS = {
    "connector": (
        Root("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", transitive=False),
        # The newest available revision; the connector of 4.2.0 works with it.
        Root("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", transitive=False),
        Root("org.apache.kafka", "kafka-clients", "3.9.2", transitive=False),
        Root("org.apache.commons", "commons-pool2", "2.13.1", transitive=False),
    ),
    "broker-4.3.1": (
        Root("org.apache.kafka", "kafka_2.13", "4.3.1"),
        Root("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4", transitive=False),
    ),
    "broker-3.9.2": (
        Root("org.apache.kafka", "kafka_2.13", "3.9.2"),
        Root("org.slf4j", "slf4j-reload4j", "1.7.36", transitive=False),
        Root("ch.qos.reload4j", "reload4j", "1.2.26", transitive=False),
    ),
}
_TITLES = {
    "connector": "Spark's Kafka connector",
    "broker-4.3.1": "Kafka 4.3.1",
    "broker-3.9.2": "Kafka 3.9.2",
}


@dataclass(frozen=True)
class LockedJar:
    """One line of the lock: a jar of a set, its size and its SHA-256 sum in hex; `classifier` is empty if none."""

    set_name: str
    organisation: str
    module: str
    revision: str
    classifier: str
    size_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The name in the cache; `jars lock` ensures that no two jars share one."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.module}-{self.revision}{classifier}.jar"


def resolve(set_name: str, *, lock_path: Path = LOCK) -> tuple[Path, ...]:
    """Return the jars of `set_name`, in the lock's order, after fetching those missing from the cache.

    Needs Java and the network only if a jar is missing or damaged. If several processes call this at once, one
    fetches and the others wait. Raises UserError for an unknown set, no Java, no network, a wrong checksum or a cache
    that cannot be written.
    """
    jars = [jar for jar in read_lock(lock_path) if jar.set_name == set_name]
    if not jars:
        raise UserError(f"there is no set of jars named {set_name}: choose one of {', '.join(ROOTS)}")
    directory = cache_directory() / "jars"
    if _missing(jars, directory):
        try:
            with only_one(directory, "fetching jars"):
                # Another process may have fetched them while holding the lock.
                if missing := _missing(jars, directory):
                    _fetch(set_name, missing, directory)
        except OSError as error:
            raise UserError(
                f"the cache {directory} cannot be used ({error.strerror or error}): make room there or set"
                f" {CACHE_VARIABLE} to a directory you own"
            ) from error
    return tuple(directory / jar.file_name for jar in jars)


def classpath(*set_names: str, lock_path: Path = LOCK) -> str:
    """Return the jars of all given sets as one value for `java -cp`."""
    return os.pathsep.join(str(path) for name in set_names for path in resolve(name, lock_path=lock_path))


def cache_directory() -> Path:
    """Return the cache directory: REBALANCE_MONITOR_CACHE, else rebalance-monitor in XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rebalance-monitor"


def keep(file: Path, place: Path) -> None:
    """Copy a file into the cache atomically. Errors are ignored: the file is then created again the next time."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(f"{place.name}.{os.getpid()}")
        shutil.copyfile(file, partial)
        partial.replace(place)


def read_lock(path: Path = LOCK) -> list[LockedJar]:
    """Return the jars of the lock, in its order."""
    return [_parse_line(line) for line in path.read_text().splitlines() if line and not line.startswith("#")]


def _parse_line(line: str) -> LockedJar:
    set_name, organisation, module, revision, classifier, size, sha256 = line.split()
    return LockedJar(
        set_name=set_name,
        organisation=organisation,
        module=module,
        revision=revision,
        classifier="" if classifier == _NO_CLASSIFIER else classifier,
        size_bytes=int(size),
        sha256=sha256,
    )


def render_lock(
    jars: Iterable[LockedJar], what: str = "the monitor fetches", module: str = "rebalance_deploy.jars"
) -> str:
    """Return the text of a lock; `what` says in its header which jars these are, `module` writes the lock."""
    head = (
        f"# Every jar {what}. Rewritten by: python -m {module} lock\n"
        "# set organisation module revision classifier size_bytes sha256\n"
    )
    lines = (" ".join(str(field) or _NO_CLASSIFIER for field in astuple(jar)) for jar in jars)
    return head + "\n".join(lines) + "\n"


def render_ivy_xml(set_name: str, modules: Sequence[Root | LockedJar]) -> str:
    """Return the ivy.xml that requests exactly `modules`; the dependencies of a locked jar are never included."""
    dependencies = "\n".join(_render_dependency(module) for module in modules)
    return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="rebalance-monitor" module={quoteattr(set_name)}/>
<configurations><conf name="default"/></configurations>
<dependencies>
{dependencies}
</dependencies>
</ivy-module>
"""


def _render_dependency(module: Root | LockedJar) -> str:
    transitive = str(isinstance(module, Root) and module.transitive).lower()
    attributes = (
        f"org={quoteattr(module.organisation)} name={quoteattr(module.module)} rev={quoteattr(module.revision)}"
        f' conf="default-&gt;default" transitive="{transitive}"'
    )
    if isinstance(module, Root) or not module.classifier:
        return f"<dependency {attributes}/>"
    artifact = f'name={quoteattr(module.module)} type="jar" ext="jar" m:classifier={quoteattr(module.classifier)}'
    return f"<dependency {attributes}><artifact {artifact}/></dependency>"


def render_ivy_settings(*, use_poms: bool) -> str:
    """Return Ivy's settings, with its default repository.

    Without POMs Ivy requests only the jars, a twentieth of the requests; only resolving the roots needs POMs. Ivy's
    own checksums are disabled because those of the lock are stronger.
    """
    return f"""<ivysettings>
<settings defaultResolver="public"/>
<timeout-constraints>
<timeout-constraint name="short" connectionTimeout="10000" readTimeout="30000"/>
</timeout-constraints>
<resolvers><ibiblio name="public" m2compatible="true" usepoms="{str(use_poms).lower()}" checksums=""
 timeoutConstraint="short"/></resolvers>
</ivysettings>
"""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 sum of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(jars: Iterable[LockedJar], directory: Path) -> list[LockedJar]:
    """Return the jars that are absent or damaged. The size is checked first, because that is cheap."""

    def is_good(jar: LockedJar) -> bool:
        path = directory / jar.file_name
        return path.is_file() and path.stat().st_size == jar.size_bytes and sha256_of(path) == jar.sha256

    return [jar for jar in jars if not is_good(jar)]


@contextlib.contextmanager
def only_one(directory: Path, doing: str) -> Iterator[None]:
    """Hold the lock of a directory of the cache; the kernel releases it when this process ends, even by a crash.

    `doing` is the activity named in the message to processes that wait.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say_line(f"another process is {doing}, waiting for it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(set_name: str, jars: Sequence[LockedJar], directory: Path) -> None:
    """Download `jars`, check all of them, then move them into `directory`.

    Ivy's own cache is kept after a failed or interrupted download, so that the next attempt continues from there; it
    is deleted once its jars are installed. The caller must hold the lock of the cache.
    """
    total_bytes = sum(jar.size_bytes for jar in jars)
    say_line(f"fetching {len(jars)} jars for {_TITLES.get(set_name, set_name)} ({total_bytes / 1e6:.0f} MB) ...")
    downloads, work = directory / ".ivy", directory / ".work"
    # Left by a process that was killed; we hold the lock, so no other process uses it.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        with shown(lambda: step_of_bytes("fetching", _arrived_bytes(jars, downloads), total_bytes)):
            retrieved = _run_ivy(render_ivy_xml(set_name, jars), work, downloads, use_poms=False)
        arrived = {path.name: path for path in retrieved}
        for jar in jars:
            _check(jar, arrived.get(jar.file_name), downloads)
        for jar in jars:
            arrived[jar.file_name].replace(directory / jar.file_name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(downloads, ignore_errors=True)


def _arrived_bytes(jars: Iterable[LockedJar], downloads: Path) -> int:
    """Return the number of bytes of `jars` in Ivy's cache, including partly downloaded jars."""
    wanted = {name for jar in jars for name in (jar.file_name, f"{jar.file_name}{_PART}")}
    arrived = 0
    for path in downloads.rglob("*.jar*"):
        # Ivy may rename or delete files meanwhile.
        with contextlib.suppress(FileNotFoundError):
            arrived += path.stat().st_size if path.name in wanted else 0
    return arrived


def _check(jar: LockedJar, path: Path | None, downloads: Path) -> None:
    if path is None:
        raise UserError(f"{jar.file_name} did not arrive: run the command again, what has arrived is kept")
    got = sha256_of(path)
    if got == jar.sha256:
        return
    # Otherwise Ivy would return its copy of the wrong file again.
    for copy in downloads.rglob(jar.file_name):
        copy.unlink()
    raise UserError(
        f"{jar.file_name} has the wrong SHA-256 sum, expected {jar.sha256}, got {got}: nothing was installed; "
        "run the command again, and if it stays so, your network or mirror changes the file"
    )


def _run_ivy(ivy_xml: str, work: Path, downloads: Path, *, use_poms: bool) -> list[Path]:
    """Fetch what `ivy_xml` requests with Ivy; return the files, laid out below `work` as defined by `_RETRIEVED`."""
    (work / "ivy.xml").write_text(ivy_xml)
    settings = Path(os.environ.get(IVY_SETTINGS_VARIABLE) or work / "ivysettings.xml")
    if not settings.exists():
        settings.write_text(render_ivy_settings(use_poms=use_poms))
    command: list[str | Path] = [
        find_java().executable,
        *("-cp", _find_ivy(), "org.apache.ivy.Main"),
        *("-settings", settings, "-ivy", work / "ivy.xml", "-cache", downloads),
        *("-retrieve", f"{work}/retrieved/{_RETRIEVED}"),
    ]
    log = work / "ivy.log"
    with ChildProcess(command, log_path=log) as ivy:
        exit_code = ivy.wait()
    if exit_code != 0:
        raise UserError(_explain_failure(log, downloads))
    return sorted((work / "retrieved").rglob("*.jar"))


def _explain_failure(log: Path, downloads: Path) -> str:
    """Return one sentence about the failure in Ivy's log; keep the log next to the downloads."""
    text = log.read_text(errors="replace")
    kept = downloads.with_name("ivy.log")
    shutil.copyfile(log, kept)
    if _NO_NETWORK.search(text):
        return (
            "the jars cannot be fetched without network: connect, or set your proxy in JAVA_TOOL_OPTIONS or a mirror in"
            f" {IVY_SETTINGS_VARIABLE}, and run the command again; what has arrived is kept (log: {kept})"
        )
    reasons = [line.strip() for line in text.splitlines() if "not found" in line or "FAILED" in line]
    reason = reasons[0].strip(":| ") if reasons else "Ivy failed"
    return f"the jars could not be fetched, {reason}: run the command again, or read {kept}"


def _find_ivy() -> Path:
    """Return the path of PySpark's Ivy without importing PySpark, which takes a second."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise UserError("PySpark is needed to fetch jars: pip install 'rebalance-monitor[stream]'")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise UserError(f"PySpark in {Path(spec.origin).parent} has no jars/ivy-*.jar: install it again")
    return found[-1]


def lock(roots: Mapping[str, Sequence[Root]] = MappingProxyType(ROOTS)) -> list[LockedJar]:
    """Resolve all roots and return the jars; raises UserError if two different jars have the same file name."""
    jars = [jar for set_name, several in roots.items() for jar in _resolve_roots(set_name, several)]
    sums: dict[str, str] = {}
    for jar in jars:
        if sums.setdefault(jar.file_name, jar.sha256) != jar.sha256:
            raise UserError(f"two different jars are named {jar.file_name}: the cache cannot hold both")
    return jars


def _resolve_roots(set_name: str, roots: Sequence[Root]) -> list[LockedJar]:
    with tempfile.TemporaryDirectory() as work:
        downloads = Path(work, "ivy")
        fetched = _run_ivy(render_ivy_xml(set_name, roots), Path(work), downloads, use_poms=True)
        return sorted((_describe(set_name, path) for path in fetched), key=lambda jar: jar.file_name)


def _describe(set_name: str, path: Path) -> LockedJar:
    """Return the entry of the lock for a file retrieved to organisation/module/revision/name."""
    organisation, module, revision = path.parts[-4:-1]
    classifier = path.stem.removeprefix(f"{module}-{revision}").removeprefix("-")
    return LockedJar(set_name, organisation, module, revision, classifier, path.stat().st_size, sha256_of(path))


if __name__ == "__main__":
    if sys.argv[1:] == ["lock"]:
        LOCK.write_text(render_lock(lock()))
    else:
        sys.exit("usage: python -m rebalance_deploy.jars lock")
