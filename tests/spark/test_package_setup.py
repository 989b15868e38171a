"""Spark's packages that are still being installed, are complete, could not be installed, or lost their installer."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cepbook.errors import UsageError
from cepbook.spark import package_setup, spark_session


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the state, in an environment without pyspark."""
    monkeypatch.setitem(sys.modules, "pyspark", None)  # an import of it fails
    monkeypatch.delitem(sys.modules, "pyspark")
    path = tmp_path / "cepbook-spark.json"
    monkeypatch.setattr(package_setup, "STATE_FILE", path)
    monkeypatch.setattr(package_setup, "POLL_INTERVAL", 0.01)
    return path


def write(path: Path, **state: Any) -> None:
    path.write_text(json.dumps(state))


def test_a_cell_waits_with_progress_until_the_packages_are_complete(state: Path) -> None:
    lines: list[str | None] = []

    def display(line: str | None) -> None:
        lines.append(line)
        if len(lines) == 2:
            write(state, step="Building pyspark", failed=False)
        elif len(lines) == 4:
            state.unlink()

    write(state, step="Downloading pyspark", failed=False)
    assert package_setup.wait_for_packages(display) is None
    shown = [line.split(": ")[1].split(",")[0] for line in lines if line is not None]
    assert shown == ["Downloading pyspark"] * 2 + ["Building pyspark"] * 2
    assert lines[-1] is None


@pytest.mark.parametrize(
    ("text", "age", "problem"),
    [
        ('{"step": "pip could not install the packages", "failed": true}', 0, "could not be installed: pip could not"),
        ('{"step": "Building pyspark", "failed": true}', 9_999, "could not be installed: Building pyspark"),
        ('{"step": "Building pyspark", "failed": false}', 60, "the installation was interrupted"),
        ("", 0, "is not readable"),
        ("[]", 0, "is not readable"),
        ('{"step": "Building"}', 0, "is not readable"),
    ],
)
def test_a_failed_installation_says_what_failed(state: Path, text: str, age: float, problem: str) -> None:
    state.write_text(text)
    os.utime(state, (time.time() - age,) * 2)
    failure = package_setup.wait_for_packages(lambda line: None)
    assert failure is not None and problem in failure
    assert "run `make lab` again" in failure and "cepbook-spark.log" in failure


def test_ctrl_c_ends_the_wait(state: Path) -> None:
    def display(line: str | None) -> None:
        if line is not None:
            raise KeyboardInterrupt

    write(state, step="Building pyspark", failed=False)
    with pytest.raises(KeyboardInterrupt):
        package_setup.wait_for_packages(display)
    assert state.exists()


def test_without_an_installation_nothing_waits(state: Path) -> None:
    assert package_setup.wait_for_packages(lambda line: pytest.fail("nothing to display")) is None


def test_a_notebook_on_spark_says_what_failed(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(spark_session, "wait_for_packages", lambda display: "Spark's packages could not be installed")
    with pytest.raises(UsageError, match="packages could not be installed"):
        spark_session.require_pyspark()
