"""Fetch peers by their coordinates, once; build our small programs for them, once per content.

``python -m tools.peers.fetch`` fetches and builds everything, for a machine that will go offline.
"""

import shutil
import sys
import time
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
from tools.peers.pins import ARTIFACTS, TOOLCHAINS, WITHOUT_DEPENDENCIES, Artifact, Peer

POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kohort</groupId><artifactId>peers</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
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


def pom_for(artifacts: tuple[Artifact, ...], *, alone: bool = False) -> str:
    """A throw-away project that depends on these artifacts and nothing else.

    ``alone``: without what they depend on themselves.
    """
    more = ALONE if alone else ""
    return POM.format(dependencies="\n".join(DEPENDENCY.format(*artifact, more) for artifact in artifacts))


def jars(peer: Peer) -> Path:
    """The folder with a Java peer's jars."""
    artifacts = ARTIFACTS[peer]

    def build(home: Path) -> None:
        (home / "pom.xml").write_text(pom_for(artifacts, alone=peer in WITHOUT_DEPENDENCIES))
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={home / 'lib'}"]
        run(copy, cwd=home)

    key = digest(part for artifact in artifacts for part in artifact)
    return keep(f"{peer.value}-jars", key, build) / "lib"


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


def node_modules() -> Path:
    """The folder to name in NODE_PATH."""
    manifest = JS_SOURCES / "package.json"

    def build(home: Path) -> None:
        shutil.copy(manifest, home / "package.json")
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        run(["npm", "install", *quiet], cwd=home)

    return keep("npm", digest([manifest.read_bytes()]), build) / "node_modules"


def go_programs() -> Path:
    """The folder with our Go programs: ``franz``, ``sarama`` and ``kfake``."""

    def build(home: Path) -> None:
        run(["go", "build", "-o", f"{home}/", "./..."], cwd=GO_SOURCES)

    return keep("go-programs", digest_files(GO_SOURCES, ("go.*", "*/*.go")), build)


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
        java_programs(peer)
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
    """Fetch every peer, saying how long each took; 1 if one is missing."""
    status = 0
    for peer in Peer:
        started = time.monotonic()
        reason = available(peer)
        print(f"{peer.value}: {reason or 'ready'} ({time.monotonic() - started:.1f} s)", flush=True)
        status |= reason is not None
    return status


if __name__ == "__main__":
    sys.exit(main())
