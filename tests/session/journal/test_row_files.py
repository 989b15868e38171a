"""Rows that feeds have dropped are in the journal: in spill files, of which a snapshot knows the name and length."""

from __future__ import annotations

import errno
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from cepbook import Workbench, feed_segments
from cepbook.errors import JournalError, MissingRowsWarning
from cepbook.feed_segments import INSERT, Segment, SpillFile, SpillMedium
from cepbook.session.journal.row_files import RowFiles

CAPACITY = 50
EPL = """
create schema T(a int, k string);
@name('s') select a, k from T;
@name('last') select irstream a, k from T#length(3);
"""


def begun(path: Path | None = None) -> Workbench:
    cep = Workbench(feed_capacity=CAPACITY)
    if path is not None:
        cep.journal(path)
    cep.run(EPL)
    return cep


def recovered(path: Path, **options: bool) -> Workbench:
    cep = Workbench(feed_capacity=CAPACITY)
    cep.recover(path, **options)
    return cep


def send(cep: Workbench, first: int, last: int) -> None:
    for number in range(first, last):
        cep.send("T", a=number, k=str(number % 7))


def rows(cep: Workbench) -> list[pd.DataFrame]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [cep.changes("s"), cep.changes("last")]


def same(one: Workbench, two: Workbench) -> bool:
    return all(a.equals(b) for a, b in zip(rows(one), rows(two), strict=True))


def spilled(path: Path) -> list[Path]:
    return sorted(path.glob("rows-*"))


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("before", [0, 2_000])
@pytest.mark.parametrize("checkpoints", [(), (1_500,), (100, 1_500, 2_999)])
def test_all_rows_come_back_wherever_the_snapshot_was(tmp_path: Path, before: int, checkpoints: tuple[int]) -> None:
    cep, other = Workbench(feed_capacity=CAPACITY), begun()
    cep.run(EPL)
    send(cep, 0, before)
    cep.journal(tmp_path / "j")
    for number in range(3_000):
        send(cep, number, number + 1)
        if number in checkpoints:
            cep.journaling.checkpoint()
    cep.journaling.close()
    send(other, 0, before)
    send(other, 0, 3_000)
    again = recovered(tmp_path / "j")
    assert same(again, other)
    for workbench in (again, other):
        send(workbench, 3_000, 3_500)
    again.journaling.close()
    assert same(recovered(tmp_path / "j"), other)


def test_a_recovery_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    send(cep, 0, 1_000)
    cep.journaling.checkpoint()
    send(cep, 1_000, 1_500)
    cep.journaling.close()
    before = {path: path.read_bytes() for path in sorted((tmp_path / "j").iterdir()) if path.name != "lock"}
    code = (
        "import os, sys; from cepbook import Workbench\n"
        "from cepbook.session.journal import journal\n"
        "journal.Journal.begin_log = lambda self: os.kill(os.getpid(), 9)\n"
        f"Workbench(feed_capacity={CAPACITY}).recover(sys.argv[1])"
    )
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "j")], check=False).returncode == -9
        assert {path: path.read_bytes() for path in before} == before
    assert len(spilled(tmp_path / "j")) == 6  # two, and those that the killed recoveries began
    assert same(recovered(tmp_path / "j"), cep)
    assert len(spilled(tmp_path / "j")) == 2


def test_a_workbench_that_has_closed_its_journal_and_one_that_goes_on_from_it(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    send(cep, 0, 1_000)
    cep.journaling.close()
    again = recovered(tmp_path / "j")
    send(cep, 1_000, 2_000)
    send(again, 1_000, 1_300)
    assert same(recovered_copy(again, tmp_path), again)
    send(again, 1_300, 2_000)
    assert same(cep, again)


def recovered_copy(cep: Workbench, folder: Path) -> Workbench:
    """What a kill now would leave, recovered."""
    cep.journaling.flush()
    copy = folder / "copy"
    shutil.copytree(cep.journaling.path, copy, dirs_exist_ok=False)
    workbench = recovered(copy)
    workbench.journaling.close()
    shutil.rmtree(copy)
    return workbench


def test_a_file_is_removed_when_no_snapshot_refers_to_it(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    send(cep, 0, 500)
    first = spilled(tmp_path / "j")
    assert len(first) == 2
    reader = cep.feed("s")
    cep.drop("s")
    cep.run("@name('s') select a from T", cell="again")
    send(cep, 500, 1_000)
    assert set(first) < set(spilled(tmp_path / "j"))  # the snapshot refers to none of them; the next one decides
    cep.journaling.checkpoint()
    assert len(spilled(tmp_path / "j")) == 2
    assert len(set(first) & set(spilled(tmp_path / "j"))) == 1
    assert len(reader.whole().times) == 500  # a view that shows the former feed
    assert cep.journaling.size == sum(path.stat().st_size for path in (tmp_path / "j").iterdir())
    cep.journaling.close()
    assert recovered(tmp_path / "j").changes("s").equals(cep.changes("s"))


def full(*_: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullFile:
    """A file of a full disk."""

    def __init__(self, file: IO[bytes], at_once: int) -> None:
        self.file, self.at_once = file, at_once

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, data: bytes) -> int:
        if not self.at_once:
            full()
        return self.file.write(data[: self.at_once])


@pytest.mark.parametrize("journaled", [False, True])
@pytest.mark.parametrize("at_once", [None, 0, 10])
def test_rows_wait_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journaled: bool, at_once: int | None
) -> None:
    cep, other = begun(tmp_path / "j" if journaled else None), begun()
    medium = RowFiles if journaled else SpillMedium
    create = medium.create
    with monkeypatch.context() as patch:
        if at_once is None:
            patch.setattr(medium, "create", full)
        else:
            patch.setattr(medium, "create", lambda self: FullFile(create(self), at_once))
        send(cep, 0, 600)
        assert [len(frame) for frame in rows(cep)] == [600, 1_197]
        if journaled:
            number = cep.journaling.size
            with pytest.raises(JournalError, match=r"feeds cannot be written .*(No space left|the disk is full)"):
                cep.journaling.checkpoint()
            assert number <= cep.journaling.size
            cep.journaling.flush()
            shutil.copytree(tmp_path / "j", tmp_path / "killed")
    if journaled:
        assert same(recovered(tmp_path / "killed"), cep)
    if at_once is not None:
        for name in ("s", "last"):
            log = cep.feed(name).spill_file
            log._file = log._file.file  # the disk has room again
    send(cep, 600, 1_500)
    send(other, 0, 1_500)
    assert same(cep, other)
    if journaled:
        cep.journaling.checkpoint()
        assert same(recovered_copy(cep, tmp_path), other)


def test_rows_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_segments, "WAITING_ROWS", 200)
    monkeypatch.setattr(SpillMedium, "create", full)
    cep = begun()
    send(cep, 0, 150)
    assert cep.feed("s").lost == 0
    send(cep, 150, 600)
    with pytest.warns(MissingRowsWarning, match="550 of 600 delivered rows are missing"):
        assert len(cep.changes("s")) == 50


def test_rows_that_were_lost_before_a_snapshot_are_missing_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cepbook.session.core.engine_handle.SPILL_LIMIT", 0)
    cep = begun(tmp_path / "j")
    send(cep, 0, 300)
    cep.journaling.checkpoint()
    monkeypatch.undo()
    send(cep, 300, 400)
    cep.journaling.close()
    again = Workbench(feed_capacity=CAPACITY)
    result = again.recover(tmp_path / "j")
    assert "250 of `s`" in result.missing and f"missing: {result.missing}" in repr(result)
    with pytest.warns(MissingRowsWarning, match="the oldest 250 of 400 delivered rows are missing"):
        assert len(again.changes("s")) == 150


@pytest.mark.parametrize("place", ["_written", "_own_file", "_write_waiting", "stored"])
def test_ctrl_c_while_rows_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    cep, other = begun(tmp_path / "j"), begun()
    written = getattr(SpillFile, place)
    due = [False]  # a second Ctrl-C for the same event would stop it at once

    def interrupted(self: SpillFile, *arguments: Any) -> Any:
        if due[0]:
            due[0] = False
            os.kill(os.getpid(), signal.SIGINT)
        return written(self, *arguments)

    monkeypatch.setattr(SpillFile, place, interrupted)
    interrupts = 0
    for number in range(1_000):
        due[0] = number % 3 == 0 or place == "_own_file"
        try:
            send(cep, number, number + 1)
            if number % 100 == 50:
                cep.journaling.checkpoint()
        except KeyboardInterrupt:
            interrupts += 1
    monkeypatch.undo()
    assert interrupts > 2
    send(other, 0, 1_000)
    assert same(cep, other)
    assert same(recovered_copy(cep, tmp_path), other)


@pytest.mark.parametrize("damage", ["missing", "short", "bit", "head", "other"])
def test_a_damaged_file_is_refused_or_left_out(tmp_path: Path, damage: str) -> None:
    cep = begun(tmp_path / "j")
    send(cep, 0, 600)
    cep.journaling.close()
    again = recovered(tmp_path / "j")
    again.journaling.close()
    path = spilled(tmp_path / "j")[0]
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "short":
        path.write_bytes(data[:-1])
    elif damage == "other":
        path.write_bytes(spilled(tmp_path / "j")[0].read_bytes())
    elif damage != "missing":
        data[len(data) // 2 if damage == "bit" else 1] ^= 64
        path.write_bytes(data)
    with pytest.raises(JournalError, match=r"rows-\d+' cannot be read: .*\n  hint: recover\(…, cut=True\)"):
        recovered(tmp_path / "j")
    result = Workbench(feed_capacity=CAPACITY).recover(tmp_path / "j", cut=True)
    assert re.search("550 of `s`|1,147 of `last`", result.missing)


class Evil:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, ("called",)


@pytest.mark.parametrize("forgery", ["call", "attribute", "columns", "width", "marks", "no segment"])
def test_a_forged_file_calls_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgery: str) -> None:
    monkeypatch.chdir(tmp_path)
    cep = begun(tmp_path / "j")
    send(cep, 0, 100)
    cep.journaling.checkpoint()
    log = cep.feed("s").spill_file
    count = log.rows
    marks: Any = bytes([INSERT]) * count
    times, values = [0] * count, [[1] * count, ["x"] * count]
    forged: Any = (marks, times, values)
    if forgery == "call":
        values[1][3] = Evil()  # type: ignore[call-overload]
    elif forgery == "attribute":
        values[1][3] = Decimal.from_float  # type: ignore[call-overload]
    elif forgery == "columns":
        values[1].pop()
    elif forgery == "width":
        values.pop()
    elif forgery == "marks":
        forged = ("x" * count, times, values)
    else:
        forged = {"a": 1}
    dumps = pickle.dumps
    monkeypatch.setattr(feed_segments.pickle, "dumps", lambda *_: dumps(forged, pickle.HIGHEST_PROTOCOL))
    name, _ = log.stored() or ("", 0)
    forging = SpillFile(1 << 20, SpillMedium())
    forging.take(Segment(bytes([INSERT]) * count, [0] * count, [[1] * count, ["x"] * count]))
    monkeypatch.setattr(feed_segments.pickle, "dumps", dumps)
    assert forging._file is not None
    data = os.pread(forging._file.fileno(), 1 << 20, 0)
    Path(name).write_bytes(data)
    monkeypatch.setattr(log, "_totals", [(0, 0, 0), (len(data), count, count)])
    cep.journaling.checkpoint()
    cep.journaling.close()
    again = recovered(tmp_path / "j")
    with pytest.warns(MissingRowsWarning, match=f"the oldest {count} of 100 "):
        assert len(again.changes("s")) == 100 - count
    assert not (tmp_path / "called").exists()


def test_rows_of_every_kind_come_back(tmp_path: Path) -> None:
    cep = Workbench(feed_capacity=5)
    cep.journal(tmp_path / "j")
    cep.run("create schema E(v object); @name('q') select * from E; @name('t') select typeof(e) as t, e from E as e")
    values: list[Any] = [
        None, 1 << 90, float("nan"), float("-inf"), "\ud800", b"x", Decimal("1.50"), date(2024, 1, 2), timedelta(1),
        datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 7, 2, tzinfo=ZoneInfo("Europe/Berlin")), [1, {"a": [2]}], {1},
    ]  # fmt: skip
    for value in values * 3:
        cep.send("E", v=value)
    cep.journaling.checkpoint()
    cep.journaling.close()
    again = Workbench(feed_capacity=5)
    again.recover(tmp_path / "j")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("q", "t"):
            assert repr(again.feed(name).whole()) == repr(cep.feed(name).whole())


def test_threads_read_rows_while_snapshots_are_written(tmp_path: Path) -> None:
    cep, other = begun(tmp_path / "j"), begun()
    ended, wrong = threading.Event(), []

    def read() -> None:
        while not ended.wait(0.001):
            rows = cep.feed("s").whole()
            if rows.lost or rows.column("a") != list(range(len(rows.times))):
                wrong.append(rows)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(0, 400, 20):
        send(cep, number, number + 20)
        cep.journaling.checkpoint()
    ended.set()
    reader.join()
    send(other, 0, 400)
    assert not wrong and same(cep, other)
    assert same(recovered_copy(cep, tmp_path), other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_writes_no_rows_into_the_journal_of_its_parent(tmp_path: Path) -> None:
    cep, other = begun(tmp_path / "j"), begun()
    send(cep, 0, 500)
    child = os.fork()
    if child == 0:
        failure = 1
        try:
            send(cep, 500, 1_000)
            failure = len(cep.changes("s")) != 1_000
        finally:
            os._exit(failure)
    assert os.waitpid(child, 0)[1] == 0
    send(cep, 500, 900)
    send(other, 0, 900)
    assert len(spilled(tmp_path / "j")) == 2
    assert same(cep, other) and same(recovered_copy(cep, tmp_path), other)
