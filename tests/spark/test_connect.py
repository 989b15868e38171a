"""The bridge as a client of a Spark Connect server, which pyspark starts from its own jar."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cepbook.errors import UsageError
from cepbook.spark.java_home import find_java

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
PATHS = {  # and whether no engine is needed
    "native": ["native", False],
    "by_key": ["by key", True],
    "engine": ["by key", False],
    "batches": ["native", True],
    "by_slice": ["by time slice", False],
    "ordered": ["ordered", False],
}


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    own = {"PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    return {**kept, **own, "CEPBOOK_PROGRESS": "on", **more}


@contextmanager
def server(given: dict[str, str], told: Path) -> Iterator[str]:
    """A server of its own on a free port (pyspark's own has 15002, which another may have); its address."""
    words = [sys.executable, "-m", "tests.spark.connect_server"]
    with told.open("w") as errors:  # a pipe that nobody reads would stop it
        running = subprocess.Popen(
            words, cwd=ROOT, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    with running:
        assert running.stdin is not None and running.stdout is not None
        try:
            port = running.stdout.readline().strip()
            assert port.isdigit(), told.read_text()[-4000:]
            yield f"sc://127.0.0.1:{port}"
            running.stdin.close()
            running.wait(60)
        finally:
            running.kill()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a program says that has no other Spark than a server."""
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("grpcio is not installed: pip install 'cepbook[connect]'")
    try:
        given = environment()
    except UsageError as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("connect")
    program = [sys.executable, "-m", "tests.spark.over_connect", str(folder)]
    with server(given, folder / "server") as address:
        given["SPARK_REMOTE"] = address
        done = subprocess.run(program, cwd=ROOT, env=given, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.histories
def test_a_server_runs_what_a_local_session_runs(found: dict[str, Any]) -> None:
    assert found["session"] == "pyspark.sql.connect.session"
    for source in ("pandas", "frame", "files"):
        verdict, paths, errors = found[source]
        assert (verdict.splitlines()[0], paths, errors) == ("equal: 6 statements, 1,154 rows", PATHS, 0), source
    assert found["kept"] == 200


@pytest.mark.histories
def test_a_server_runs_streams_and_jobs(found: dict[str, Any]) -> None:
    streams = found["stream"]
    assert streams["batch"] == streams["saved"] == streams["whole"] and len(streams["whole"]) == 100
    assert found["job"] == [0, 0]


@pytest.mark.histories
def test_a_server_runs_table_functions(found: dict[str, Any]) -> None:
    rows, said = found["function"]
    prices = {symbol: [i for i in range(200) if "AB"[i % 2] == symbol] for symbol in "AB"}
    expected = [
        [100 * i, "insert", s, float(sum(v[max(0, n - 2) : n + 1]))] for s, v in prices.items() for n, i in enumerate(v)
    ]
    assert rows == sorted(expected)
    assert said == "cep_run: the table has no column `price`, which Tick has; it has at, symbol"


@pytest.mark.histories
def test_ctrl_c_cancels_what_a_server_runs(found: dict[str, Any]) -> None:
    said, took, progress, after = found["stopped"]
    assert (said, after) == ("stopped", 5)
    assert took < 30  # the whole would take 200 s
    assert re.fullmatch(r"Spark \[[#.]{30}\] \d of \d tasks, \d running, \d+ s", progress)


def test_what_connecting_needs_is_told(tmp_path: Path) -> None:
    program = tmp_path / "program.py"  # without a file pyspark takes what runs for its own tests
    program.write_text(
        "import sys; sys.modules['grpc'] = None; from cepbook.spark import local_session; local_session()"
    )
    given = environment(SPARK_REMOTE="local[2]")
    done = subprocess.run([sys.executable, program], env=given, capture_output=True, text=True, timeout=60)
    assert "Spark Connect (local[2]) needs packages that are not installed" in done.stderr
    assert "hint: `pip install 'cepbook[connect]'`" in done.stderr
