"""Fetch peers by their coordinates, once; build our small programs for them, once per content.

``python -m tools.peers.fetch`` fetches and builds everything, for a machine that will go offline.
"""

import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tools.peers import jvm
from tools.peers.cache import (
    GO_SOURCES,
    JAVA_SOURCES,
    JS_SOURCES,
    LOAD_SOURCES,
    FetchError,
    digest,
    digest_files,
    keep,
    run,
)
from tools.peers.pins import ARTIFACTS, PACKAGES, TOOLCHAINS, WITHOUT_DEPENDENCIES, Peer

POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kohort</groupId><artifactId>{name}</artifactId><version>1</version>
{content}
</project>
"""
DEPENDENCY = (
    "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
)
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"

# Programs that drive the broker's own tools need kafka-tools; the others must compile with any kafka-clients.
JAVA_PROGRAMS = {
    Peer.KAFKA: ("tools/*.java",),
    Peer.JAVA_39: ("client/*.java",),
    Peer.JAVA_4: ("client/*.java",),
}


def pom_for(peer: Peer) -> str:
    """A throw-away project that depends on what a peer needs and nothing else.

    Peers whose list is complete come without what they depend on themselves.
    """
    more = ALONE if peer in WITHOUT_DEPENDENCIES else ""
    needed = "\n".join(DEPENDENCY.format(*artifact, more) for artifact in ARTIFACTS[peer])
    return POM.format(name=peer.value, content=f"  <dependencies>\n{needed}\n  </dependencies>")


def jars(peer: Peer) -> Path:
    """The folder with a Java peer's jars. The first call fetches all, since Maven takes long to start."""

    def build(home: Path) -> None:
        for each in ARTIFACTS:
            (home / each.value).mkdir()
            (home / each.value / "pom.xml").write_text(pom_for(each))
        modules = "".join(f"<module>{each.value}</module>" for each in ARTIFACTS)
        whole = f"  <packaging>pom</packaging>\n  <modules>{modules}</modules>"
        (home / "pom.xml").write_text(POM.format(name="peers", content=whole))
        run(["mvn", "-q", "-B", "-T", "4", "dependency:copy-dependencies", "-DoutputDirectory=lib"], cwd=home)

    return keep("jars", digest(map(pom_for, ARTIFACTS)), build) / peer.value / "lib"


def java_programs(peer: Peer) -> Path:
    """The folder with our Java programs for this peer: ``programs.jar``, and for clients ``classes.jsa``."""
    lib = jars(peer)
    patterns = JAVA_PROGRAMS[peer]
    sources = sorted(str(path) for pattern in patterns for path in JAVA_SOURCES.glob(pattern))

    def build(home: Path) -> None:
        classes = home / "classes"
        run(["javac", "-nowarn", "-cp", f"{lib}/*", "-d", str(classes), *sources])
        run(["jar", "--create", "--file", str(home / "programs.jar"), "-C", str(classes), "."])

    key = digest([digest_files(JAVA_SOURCES, patterns), str(lib)])
    return keep(f"{peer.value}-programs", key, build)


def class_path(peer: Peer) -> str:
    """What goes behind ``-cp`` to run one of our programs, or one of the peer's own, on the peer's jars.

    All jars by name and in order: an archive of loaded classes is valid for one class path only.
    """
    programs = java_programs(peer) / "programs.jar"
    return ":".join(str(jar) for jar in [programs, *sorted(jars(peer).glob("*.jar"))])


def class_archive(peer: Peer) -> Path:
    """Classes of a client, loaded and laid out once: a JVM that maps them starts in half the time."""

    def build(home: Path) -> None:
        archive = home / "classes.jsa"
        warm = ["-cp", class_path(peer), "Peer", "127.0.0.1:1", "warm"]
        run(["java", *jvm.FLAGS, f"-XX:ArchiveClassesAtExit={archive}", *warm])

    return keep(f"{peer.value}-archive", digest([class_path(peer)]), build) / "classes.jsa"


def python_packages(peer: Peer) -> Path:
    """The folder to name in PYTHONPATH."""
    packages = PACKAGES[peer]

    def build(home: Path) -> None:
        quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        run([sys.executable, "-m", "pip", "install", *quiet, "--target", str(home / "lib"), *packages])

    return keep(peer.value, digest([sys.version, *packages]), build) / "lib"


def node_modules() -> Path:
    """The folder to name in NODE_PATH."""
    manifest = JS_SOURCES / "package.json"

    def build(home: Path) -> None:
        shutil.copy(manifest, home / "package.json")
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        run(["npm", "install", *quiet], cwd=home)

    return keep("npm", digest([manifest.read_bytes()]), build) / "node_modules"


def go_programs(*, optimized: bool = False) -> Path:
    """The folder with our Go programs: ``franz``, ``sarama`` and ``kfake``; ``optimized`` to be measured."""

    def build(home: Path) -> None:
        how = ["-ldflags=-s -w"] if optimized else ["-ldflags=-s -w", "-gcflags=all=-N -l"]  # a third less
        run(["go", "build", *how, "-o", f"{home}/", "./..."], cwd=GO_SOURCES)

    kind = "go-programs" if optimized else "go-quickly-built"
    return keep(kind, digest_files(GO_SOURCES, ("go.*", "*/*.go")), build)


def load_generator() -> Path:
    """The program of ``benchmarks/load``; it needs no packages."""

    def build(home: Path) -> None:
        run(["go", "build", "-o", f"{home}/", "."], cwd=LOAD_SOURCES)

    return keep("load-generator", digest_files(LOAD_SOURCES, ("go.*", "*.go")), build) / "load"


def ensure(peer: Peer) -> None:
    """Have everything of this peer on disk; raises FetchError."""
    if peer is Peer.KAFKAJS:
        node_modules()
    elif peer is Peer.GO:
        go_programs()
    elif peer is Peer.KAFKA:
        from tools.peers.kafka_broker import prepared  # which builds on this module

        prepared()
    elif peer is Peer.DELTA_RS:
        python_packages(peer)
    elif peer is Peer.SPARK_CONNECTOR:
        jars(peer)
    else:
        class_archive(peer)


@cache
def available(peer: Peer) -> str | None:
    """None when the peer can be run, else the reason why it cannot be had on this machine.

    A package source that answers with an error is no such reason: that raises FetchError.
    """
    missing = [tool for tool in TOOLCHAINS[peer] if shutil.which(tool) is None]
    if missing:
        return f"{peer.value}: not installed here: {', '.join(missing)}"
    try:
        ensure(peer)
    except FetchError as error:
        if not error.unreachable:
            raise
        return f"{peer.value}: its packages cannot be reached: {str(error).splitlines()[-1][:200]}"
    return None


def main() -> int:
    """Fetch every peer, all at the same time, saying when each was there; 1 if one is missing."""
    started = time.monotonic()

    def fetched(peer: Peer) -> bool:
        try:
            reason = available(peer)
        except FetchError as error:
            reason = f"{peer.value}: {error}"
        print(f"{peer.value}: {reason or 'ready'} ({time.monotonic() - started:.1f} s)", flush=True)
        return reason is None

    with ThreadPoolExecutor() as workers:
        return 0 if all(list(workers.map(fetched, Peer))) else 1


if __name__ == "__main__":
    sys.exit(main())
