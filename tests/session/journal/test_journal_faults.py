"""Faults around the journal: forks, a full disk, Ctrl-C, hostile names, logs of another installation, and damage."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import BindError, JournalError, SnapshotError, UsageError
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.journal import journal as journal_module
from cepbook.session.journal.journal_files import is_in_use
from cepbook.session.journal.log_file import LogReader, LogWriter
from tests.session.journal.kill_chain import digest
from tests.session.journal.test_journal import BASE, begun, recovered


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def ctrl_c(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def wait(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def closed(cep: Workbench) -> dict[str, Any]:
    """The digest of a workbench whose journal is closed."""
    state = digest(cep)
    cep.journaling.close()
    return state


# ---------------------------------------------------------------- forks
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("waiting", [False, True])
def test_a_forked_process_writes_nothing_into_the_journal_of_its_parent(tmp_path: Path, waiting: bool) -> None:
    cep = begun(tmp_path / "j")
    cep.run("create variable int most = 1")
    cep.journaling.flush()
    if waiting:
        cep.send("Tick", symbol="A", price=1.0)
    child = os.fork()
    if child == 0:
        failure = 1
        try:
            cep.set("most", 5)
            cep.send("Tick", symbol="B", price=1.0)
            cep.replay(pd.DataFrame({"t": [1], "symbol": ["A"], "price": [1.0]}), "Tick", time="t").run()
            failure = cep.journaling is not None
        finally:
            os._exit(failure)
    assert os.waitpid(child, 0)[1] == 0
    cep.send("Tick", symbol="C", price=1.0)
    state = closed(cep)
    assert digest(recovered(tmp_path / "j")) == state


# ---------------------------------------------------------------- size, and snapshots that fail
def test_the_limit_holds_for_events_that_come_slowly(tmp_path: Path) -> None:
    cep = Workbench()
    cep.journal(tmp_path / "j", limit=2_000)
    cep.run(BASE)
    sizes = []
    for number in range(120):
        cep.send("Tick", symbol="A", price=float(number))
        cep.journaling.flush()  # as its thread does
        sizes.append(os.path.getsize(next((tmp_path / "j").glob("log-*"))))
    assert max(sizes) < 2_400
    for second in range(1, 60):
        cep.advance(second * 1000)
        cep.journaling.flush()
        sizes.append(os.path.getsize(next((tmp_path / "j").glob("log-*"))))
    assert max(sizes) < 2_400
    state = closed(cep)
    assert digest(recovered(tmp_path / "j")) == state


def test_a_snapshot_in_a_replay_asks_sinks_without_the_lock_that_they_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cep = begun(tmp_path / "j")
    for name, value in (("MIN_LOG_SIZE", 0), ("SNAPSHOT_INTERVAL", 0.0), ("SNAPSHOT_SHARE", 0)):
        monkeypatch.setattr(journal_module, name, value)
    cep.run("@name('all') select * from Tick")
    owned = []
    marks = EngineHandle.sink_marks

    def asked(handle: EngineHandle) -> Any:
        assert cep.journaling is not None
        owned.append(cep.journaling._lock._is_owned())
        return marks(handle)

    monkeypatch.setattr(EngineHandle, "sink_marks", asked)
    frame = pd.DataFrame({"at": range(0, 60_000, 1000), "symbol": "A", "price": 1.0})
    with cep.sink("all", tmp_path / "all.csv"):
        for _ in range(3):
            cep.journaling._snapshot_size = 0
            cep.replay({"Tick": frame}, time="at").run()
            frame = frame.assign(at=frame["at"] + 60_000)
    closed(cep)
    assert owned and not any(owned)


def test_a_snapshot_that_is_merely_due_stops_no_stimulus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cep = begun(tmp_path / "j")
    for name, value in (("MIN_LOG_SIZE", 0), ("SNAPSHOT_INTERVAL", 0.0), ("SNAPSHOT_SHARE", 0)):
        monkeypatch.setattr(journal_module, name, value)
    cep.journaling._snapshot_size = 0
    tried = []

    def fails(self: object, *_: object, **__: object) -> None:
        tried.append(self)
        raise JournalError("no room for a snapshot")

    with monkeypatch.context() as patch:
        patch.setattr(journal_module.JournalFiles, "begin", fails)
        for number in range(5):
            cep.run(f"create variable int v{number} = 1")
    assert tried
    state = closed(cep)
    assert digest(recovered(tmp_path / "j")) == state


def test_a_loaded_workbench_is_not_recorded_before_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Workbench()
    other.run(BASE)
    other.save(tmp_path / "other.cep")
    cep = Workbench()
    cep.journal(tmp_path / "j")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(JournalError, match=r"a snapshot for .* cannot be written"):
            cep.load(tmp_path / "other.cep")
        with pytest.raises(JournalError, match=r"a snapshot for .* cannot be written"):
            cep.send("Tick", symbol="A", price=1.0)
    cep.send("Tick", symbol="A", price=2.0)
    state = closed(cep)
    assert digest(recovered(tmp_path / "j")) == state


# ---------------------------------------------------------------- a full disk
def test_a_dictionary_that_could_not_be_written_has_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cep = begun(tmp_path / "j")
    prices = pd.Series([1.0, 2.0], dtype=object)  # no array: a batch of arrays waits for the next
    frames = [
        pd.DataFrame({"t": [1, 2], "symbol": pd.Categorical(list(symbols)), "price": prices})
        for symbols in ("AB", "CD")
    ]
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(JournalError):
            cep.replay(frames[0], "Tick", time="t").run()
    cep.replay(frames[1], "Tick", time="t").run()
    state = closed(cep)
    assert digest(recovered(tmp_path / "j")) == state


def test_a_journal_that_is_closed_on_a_full_disk_names_the_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cep = begun(tmp_path / "j")
    before = digest(cep)
    journal = cep.journaling
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with journal._lock:  # the thread writes nothing meanwhile
            for number in range(3):
                cep.send("Tick", symbol="A", price=float(number))
            with pytest.raises(JournalError, match=r"closed without its last 3 stimuli.*No space left"):
                journal.close()
    assert cep.journaling is None
    assert digest(recovered(tmp_path / "j")) == before


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), MemoryError()])
def test_waiting_events_are_written_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(journal_module, "RETRY_INTERVAL", 0.05, raising=False)
    cep = begun(tmp_path / "j")

    def fails(*_: object) -> int:
        raise error

    owner, name = (os, "writev") if error.args else (LogWriter, "write")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fails)
        cep.send("Tick", symbol="A", price=1.0)
        wait(lambda: cep.journaling.failure is not None)
        assert cep.journaling.waiting == 1
    wait(lambda: cep.journaling.waiting == 0)
    assert cep.journaling.failure is None


def test_a_sink_that_fails_at_the_end_keeps_no_journal_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = begun(tmp_path / "one"), begun(tmp_path / "two")
    first.sink("sums", tmp_path / "sums.csv")
    write = LogWriter.write

    def fails(self: LogWriter, *arguments: Any) -> None:
        if "one" in self.path:
            raise JournalError("no room")
        write(self, *arguments)

    monkeypatch.setattr(LogWriter, "write", fails)
    second.send("Tick", symbol="A", price=1.0)
    journal_module._close_all()
    assert second.journaling is None and first.journaling is None
    assert "no room" in capsys.readouterr().err


# ---------------------------------------------------------------- Ctrl-C
def test_ctrl_c_between_two_stimuli_leaves_a_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cep = begun(tmp_path / "j")
    journal = cep.journaling
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(KeyboardInterrupt), journal.stimulus():
            raise KeyboardInterrupt
    assert journal.uncertain
    journal.doubt()
    assert journal.uncertain
    number = cep.journaling._files.number
    cep.send("Tick", symbol="A", price=1.0)
    assert not journal.uncertain and cep.journaling._files.number > number


def test_ctrl_c_in_the_snapshot_before_a_stimulus_leads_to_one_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cep = begun(tmp_path / "j")
    journal = cep.journaling
    journal.uncertain = True
    journal._set_failure(JournalError("the last snapshot failed"))
    snapshots, subject = [], journal._subject

    def snapshot() -> bytes:
        snapshots.append(journal.depth)
        if len(snapshots) == 1:
            cep._engine.halt(True)  # as the handler in the main thread does for a replay in another
        return subject.snapshot()

    monkeypatch.setattr(
        journal,
        "_subject",
        journal_module.Subject(subject.lock, snapshot, subject.sink_marks, subject.is_sound, subject.ended),
    )
    cep.send("Tick", symbol="A", price=1.0)
    assert snapshots == [1, 0]
    cep._engine.halt(False)


@pytest.mark.parametrize("failure", [SystemExit, KeyboardInterrupt])
def test_a_call_that_is_cut_short_is_followed_by_a_snapshot(tmp_path: Path, failure: type[BaseException]) -> None:
    cep = begun(tmp_path / "j")

    def leave(_: object) -> None:
        raise failure

    cep.on("sums", leave)
    number = cep.journaling._files.number
    with pytest.raises(failure):
        cep.send("Tick", symbol="A", price=1.0)
    assert cep.journaling._files.number > number or cep.runtime.turn.broken


def test_a_change_that_is_half_done_gets_no_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cep = begun(tmp_path / "j")
    cep.send("Tick", symbol="A", price=1.0)
    number = cep.journaling._files.number

    def twice(engine: EngineHandle) -> None:
        engine.halt(True)
        raise KeyboardInterrupt  # the second Ctrl-C

    with monkeypatch.context() as patch:
        patch.setattr(EngineHandle, "follow_deployments", twice)
        with pytest.raises(KeyboardInterrupt):
            cep.rewind()
    assert cep.runtime.turn.broken and cep.journaling._files.number == number
    cep.journaling.close()
    again = recovered(tmp_path / "j")
    assert set(again.runtime.statements) == {"sums"} and len(again.changes("sums")) == 0


# ---------------------------------------------------------------- names and values
NAMES = ["#", "", "0", "1", "null", "None", "type", "count", "at"]


@pytest.mark.parametrize("name", NAMES)
def test_a_property_of_any_name_is_recovered(tmp_path: Path, name: str) -> None:
    cep = Workbench()
    cep.journal(tmp_path / "j")
    other = "plain"
    for kind in ("A", "B"):
        cep.define(kind, {name: "int", other: "long"})
        cep.run(f"@name('all{kind}') select * from {kind}")
    for number in range(40):
        cep.send("AB"[number % 3 == 0], {name: 100 - number, other: number})
    cep.journaling.flush()
    sent = {kind: cep.changes(f"all{kind}") for kind in "AB"}
    copy = shutil.copytree(tmp_path / "j", tmp_path / "sent")
    twin = recovered(copy)
    for kind, rows in sent.items():
        assert twin.changes(f"all{kind}").equals(rows)
    frames = {
        kind: pd.DataFrame({name: range(5), other: range(5), "when": [1000 * n + (kind == "B") for n in range(5)]})
        for kind in ("A", "B")
    }
    cep.replay(frames["A"], "A", time="when").run()
    cep.rewind()
    cep.replay(frames, time="when").run()
    state = closed(cep)
    again = recovered(tmp_path / "j")
    assert digest(again) == state
    assert again.changes("allA")[name].tolist() == cep.changes("allA")[name].tolist()


def test_the_log_of_another_version_is_refused(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    cep.send("Tick", symbol="A", price=1.0)
    closed(cep)
    (log,) = (tmp_path / "j").glob("log-*")
    log.write_bytes(log.read_bytes().replace(b"cepbook journal 2", b"cepbook journal 1", 1))
    again = Workbench()
    with pytest.raises(JournalError, match="is no log of a cepbook journal, or one of another version"):
        again.recover(tmp_path / "j")
    assert not again.runtime.statements


@pytest.mark.parametrize("dtype", [">i4", ">i8", ">f8", "<f4", "f2", "u1", "u8", "?", "g"])
def test_a_frame_of_any_numbers_is_recorded(tmp_path: Path, dtype: str) -> None:
    cep = Workbench()
    cep.journal(tmp_path / "j")
    of = {"f": "double", "g": "double", "?": "boolean"}.get(dtype.lstrip("<>")[0], "long")
    cep.run(f"create schema E(x {of}, t long); @name('out') select x from E")
    frame = pd.DataFrame({"x": np.array([1, 0, 1]).astype(dtype), "t": [1, 2, 3]})
    cep.replay(frame, "E", time="t").run()
    state = closed(cep)
    assert digest(recovered(tmp_path / "j")) == state


# ---------------------------------------------------------------- recovery
def rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the headers of a log."""
    log = next(path.glob("log-*"))
    frames = [(header, [bytes(block) for block in blocks]) for header, blocks in LogReader(str(log))]
    writer = LogWriter(str(log), sync=False)
    for header, blocks in frames:
        change(header)
        writer.write({name: value for name, value in header.items() if name not in ("blocks", "sums")}, blocks)
    writer.close()


def test_an_action_that_fails_only_when_it_is_repeated_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cep = begun(tmp_path / "j")
    with pytest.raises(BindError):
        cep.run("select nothing from Nowhere")
    cep.run("create variable int later = 1")
    cep.send("Tick", symbol="A", price=1.0)
    state = closed(cep)
    run = Workbench.run

    def poorer(self: Workbench, epl: Any, **options: Any) -> Any:
        if "Tick" in str(getattr(epl, "text", epl)):
            raise UsageError("there is no such plug-in")
        return run(self, epl, **options)

    fresh = Workbench()
    with monkeypatch.context() as patch:
        patch.setattr(Workbench, "run", poorer)
        with pytest.raises(SnapshotError, match=r"`run` fails now.*there is no such plug-in"):
            fresh.recover(tmp_path / "j")
    assert fresh.journaling is None
    fresh.recover(tmp_path / "j")
    assert digest(fresh) == state


@pytest.mark.parametrize("failure", [AttributeError, TypeError, RuntimeError, RecursionError])
def test_an_action_that_failed_in_any_way_fails_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    cep = begun(tmp_path / "j")
    run = Workbench.run

    def faulty(self: Workbench, epl: Any, **options: Any) -> Any:
        if "faulty" in str(getattr(epl, "text", epl)):
            with self._engine.action("run", epl="faulty", dialect="epl", settings={}, cell=None):
                raise failure("a defect of the compiler")
        return run(self, epl, **options)

    monkeypatch.setattr(Workbench, "run", faulty)
    with pytest.raises(failure):
        cep.run("faulty")
    cep.send("Tick", symbol="A", price=1.0)
    state = closed(cep)
    assert digest(recovered(tmp_path / "j")) == state


def test_a_frame_of_unknown_kind_is_refused(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    cep.journaling.close()
    rewritten(tmp_path / "j", lambda header: header.get("do") == "run" and header.update({"is": "novelty"}))
    with pytest.raises(SnapshotError, match="novelty"):
        recovered(tmp_path / "j")


def test_a_log_that_is_gone_is_named(tmp_path: Path) -> None:
    begun(tmp_path / "j").journaling.close()
    next((tmp_path / "j").glob("log-*")).unlink()
    with pytest.raises(JournalError, match=r"log-\d+' is missing"):
        recovered(tmp_path / "j")


# ---------------------------------------------------------------- the file
def test_a_system_without_fdatasync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fdatasync", raising=False)
    cep = Workbench()
    cep.journal(tmp_path / "j", sync=True)
    cep.run(BASE)
    state = closed(cep)
    assert digest(recovered(tmp_path / "j")) == state


def test_a_torn_frame_that_cannot_be_removed_is_removed_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "log")
    log = LogWriter(path, sync=False)
    log.write({"is": "first"})
    writev, size = os.writev, log.size

    def half(file: int, parts: list[Any]) -> int:
        writev(file, [bytes(parts[0])[:9]])
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", half)
        patch.setattr(os, "ftruncate", full)
        with pytest.raises(JournalError):
            log.write({"is": "second"})
        patch.setattr(os, "writev", writev)
        with pytest.raises(JournalError):  # nothing is written behind the torn frame
            log.write({"is": "third"})
        assert os.path.getsize(path) == size + 9
    log.write({"is": "fourth"})
    log.close()
    assert [header["is"] for header, _ in LogReader(path)] == ["first", "fourth"]


def test_a_log_that_cannot_be_begun_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, closed_again = [], []
    open_file, close_file = os.open, os.close
    monkeypatch.setattr(os, "open", lambda *a, **k: opened.append(open_file(*a, **k)) or opened[-1])
    monkeypatch.setattr(os, "close", lambda file: closed_again.append(file) or close_file(file))
    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(JournalError, match="No space left"):
        LogWriter(str(tmp_path / "log"), sync=False)
    assert opened == closed_again and list(tmp_path.iterdir()) == []


def test_damage_in_the_last_frame_is_damage(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    cep.journaling.close()
    log = next((tmp_path / "j").glob("log-*"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    with pytest.raises(JournalError, match="damaged at byte"):
        recovered(tmp_path / "j")
    recovered(tmp_path / "j", cut=True)


def test_a_sink_that_had_failed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cep = begun(tmp_path / "j")
    sink = cep.sink("sums", tmp_path / "sums.csv")

    def broken(_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sink._writer, "write", broken)
    cep.send("Tick", symbol="A", price=1.0)
    cep.journaling.checkpoint()
    cep.journaling.close()
    again = Workbench()
    result = again.recover(tmp_path / "j")
    assert result.sinks == () and "1 row of `sums` lost" in result.lost[0]
    assert result.lost[0] in repr(result)


def test_a_journal_that_is_collected_lets_go_without_a_warning(tmp_path: Path) -> None:
    begun(tmp_path / "j").send("Tick", symbol="A", price=1.0)
    gc.collect()
    assert not is_in_use(str(tmp_path / "j"))
    again = recovered(tmp_path / "j")
    assert len(again.changes("sums")) == 1


# ---------------------------------------------------------------- other threads
def test_a_checkpoint_while_another_thread_sends(tmp_path: Path) -> None:
    """Snapshots and flushes at any moment of a sending thread: the recovered workbench is the same."""
    cep = begun(tmp_path / "j")
    failures, go_on = list[BaseException](), threading.Event()
    go_on.set()

    def send() -> None:
        try:
            number = 0
            while go_on.is_set():
                number += 1
                cep.send("Tick", symbol="AB"[number % 2], price=float(number))
        except BaseException as error:  # noqa: BLE001  looked at below
            failures.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    for _ in range(25):
        cep.journaling.checkpoint()
        cep.journaling.flush()
        time.sleep(0.002)
    cep.journaling.close()
    go_on.clear()
    thread.join()
    assert not failures
    again = recovered(tmp_path / "j")
    rows, others = cep.changes("sums"), again.changes("sums")
    assert len(others) >= 25
    pd.testing.assert_frame_equal(rows[: len(others)], others)  # the thread went on after the journal was closed


def test_a_checkpoint_in_a_listener_follows_the_stimulus(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    cep.on("sums", lambda delta: cep.journaling.checkpoint())
    number = cep.journaling._files.number
    for price in (1.0, 2.0, 3.0):
        cep.send("Tick", symbol="A", price=price)
    assert not cep.errors
    assert cep.journaling._files.number == number + 3
    state = closed(cep)
    assert digest(recovered(tmp_path / "j")) == state
    closed_journal = begun(tmp_path / "other").journaling
    closed_journal.close()
    with pytest.raises(JournalError, match="the journal was closed"):
        closed_journal.checkpoint()
