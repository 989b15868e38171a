"""The file of rejected items: one JSON object per item, whatever the item is, in the file at once."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cepbook.errors import UsageError
from cepbook.session.io.output.sinks import SinkError
from cepbook.session.io.rejected_events import RejectedFile


class _Unreadable:
    def __repr__(self) -> str:
        raise ValueError("no text")

    __str__ = __repr__


@dataclass
class _Tick:
    v: int = 1


def _circular() -> dict[str, Any]:
    item: dict[str, Any] = {}
    item["own"] = item
    return item


def _deep() -> list[Any]:
    item: list[Any] = []
    for _ in range(100_000):
        item = [item]
    return item


ITEMS = [
    ({"ts": 1, "v": 2.5, "text": "Zürich"}, {"ts": 1, "v": 2.5, "text": "Zürich"}),
    ({"ts": datetime(2024, 1, 1), 3: float("nan")}, {"ts": "2024-01-01T00:00:00", "3": "nan"}),
    (_Tick(7), {"v": 7}),
    ("{torn", "{torn"),
    ("two\nlines\u2028", "two\nlines\u2028"),
    (b"\xff12", "\\xff12"),
    ("\ud800", "\\ud800"),
    ({"k\ud800": 1}, '{"k\\ud800": 1}'),
    (None, None),
    ({1, }, "{1}"),
    (_circular(), "{'own': {...}}"),
    (_deep(), None),
    (_Unreadable(), "an object without a readable repr"),
    ({"v": _Unreadable()}, None),
    ({"v": 10**5000}, None),
]  # fmt: skip


@pytest.mark.parametrize(("item", "written"), ITEMS)
def test_every_item_is_one_line_of_json(tmp_path: Path, item: object, written: object) -> None:
    path = tmp_path / "rejected.jsonl"
    rejected = RejectedFile(path)
    rejected.write("Tick", "no number\n  hint: a number", item, 1_704_067_200_000)
    (line,) = path.read_text("utf-8").split("\n")[:-1]  # in the file before it is closed
    entry = json.loads(line)
    assert list(entry) == ["time", "source", "reason", "item"]
    assert (entry["time"], entry["source"]) == ("2024-01-01T00:00:00+00:00", "Tick")
    assert entry["reason"] == "no number\n  hint: a number"
    assert written is None or entry["item"] == written
    rejected.close()


def test_items_are_added_and_a_torn_line_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "rejected.jsonl"
    for text in ("a", "b"):
        rejected = RejectedFile(path)
        rejected.write("Tick", "bad", text, 0)
        rejected.close()
        rejected.close()
        with path.open("a") as file:
            file.write('{"time": "20')
    RejectedFile(path).close()
    assert [json.loads(line)["item"] for line in path.read_text().splitlines()] == ["a", "b"]


def test_a_killed_process_loses_no_item(tmp_path: Path) -> None:
    path = tmp_path / "rejected.jsonl"
    code = (
        "import os, signal\nfrom cepbook.session.io.rejected_events import RejectedFile\n"
        f"file = RejectedFile({str(path)!r})\n"
        "for number in range(1000): file.write('Tick', 'late', {'n': number}, number)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert [json.loads(line)["item"]["n"] for line in path.read_text().splitlines()] == list(range(1000))


def test_a_full_disk_is_told_and_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rejected = RejectedFile(tmp_path / "rejected.jsonl")
    rejected._writer._file.close()  # type: ignore[attr-defined]
    rejected._writer._file = open("/dev/full", "w")  # type: ignore[attr-defined]  # noqa: SIM115
    for _ in range(3):
        rejected.write("Tick", "late", {}, 0)
    assert capsys.readouterr().err.count("cannot be written") == 1
    with pytest.raises(SinkError, match="3 rejected events lost"):
        rejected.close()
    assert rejected.count == 0


def test_the_file_is_checked_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="JSON lines"):
        RejectedFile(tmp_path / "rejected.csv")
    with pytest.raises(UsageError, match="cannot be written"):
        RejectedFile(tmp_path / "nowhere" / "rejected.jsonl")
