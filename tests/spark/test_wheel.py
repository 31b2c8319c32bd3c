"""What ``make build`` makes works where the checkout is not: fixture, command line, and a Spark query.

The wheel is built from the sdist, so the sdist is whole too, and installed into an empty environment. What it
depends on comes from this environment; Kohort itself cannot.
"""

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

import kohort

ROOT = Path(__file__).parents[2]
PROBE = "import kohort, pyspark_kohort; print(kohort.__version__, kohort.__file__)"
TEST = """
import kohort

def test_a_record_comes_back(kohort_broker):
    with kohort.Producer(bootstrap_servers=kohort_broker.bootstrap) as producer:
        assert producer.send("orders", b"1 book").result().offset == 0
"""
QUERY = """
import kohort.spark
from kohort.testing import Broker

if __name__ == "__main__":
    spark = kohort.spark.session()
    with Broker() as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"1 book").result()
        orders = spark.read.format("kohort").option("kafka.bootstrap.servers", broker.bootstrap)
        rows = orders.option("subscribe", "orders").load().selectExpr("cast(value as string)").collect()
    spark.stop()
    print([row.value for row in rows])
"""


class Installed:
    """An environment with the wheel in it, and an empty directory to run in."""

    def __init__(self, home: Path) -> None:
        self.bin = home / "env" / "bin"
        self.cwd = home / "elsewhere"
        self.cwd.mkdir()

    def run(self, program: str, *arguments: str) -> str:
        # Anything that could lead to the checkout, or to the pytest that runs this, stays behind.
        outside = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYTEST_", "PYSPARK_", "COV", "VIRTUAL_ENV"))
        }
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.cwd,
            env=outside,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(home)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(home.glob("*.tar.gz"))) as sdist:
        sdist.extractall(home, filter="data")
    unpacked = home / f"kohort-{kohort.__version__}"
    subprocess.run([*build, "-t", "wheel"], cwd=unpacked, check=True, capture_output=True)
    venv.create(home / "env", symlinks=True)
    (packages,) = (home / "env" / "lib").glob("*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(home / "env" / "bin" / "python")]
    wheel = str(next(home.glob("*.whl")))
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", wheel], check=True)
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(dependencies))  # no .pth files of theirs are read
    return Installed(home)


@pytest.mark.slow
def test_the_wheel_has_the_command_line_and_the_fixtures(installed: Installed) -> None:
    version, place = installed.run("python", "-c", PROBE).split()
    assert version == kohort.__version__
    assert installed.bin.parent in Path(place).parents
    assert installed.run("kohort", "--version") == f"kohort {version}\n"
    assert "list" in installed.run("kohort", "groups", "--help")
    (installed.cwd / "test_it.py").write_text(TEST)
    assert "1 passed" in installed.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_wheel_answers_a_spark_query(installed: Installed) -> None:
    (installed.cwd / "query.py").write_text(QUERY)
    assert installed.run("python", "query.py").splitlines()[-1] == "['1 book']"
