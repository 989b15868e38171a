"""The journal: what is recorded, recovered and refused. `kill_chain` kills processes at random moments."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from cepbook import Workbench
from cepbook.errors import CepbookError, JournalError, SnapshotError, UsageError
from cepbook.magics.epl.journal_commands import journals_to_recover
from cepbook.session.io.frame_source import FRAME_CHUNK
from cepbook.session.io.live.live_sources import Located, Source
from cepbook.session.io.output.sinks import SinkError
from cepbook.session.journal import journal
from cepbook.session.journal.recovery import read_log
from cepbook.session.replay import replay as replay_module
from cepbook.session.replay.live_ingestion import Live
from tests.random_cases import several
from tests.session.journal.kill_chain import CAPACITY, Workload, check, digest, run_with_kills, steps
from tests.session.replay.test_lateness import bench, delivered, history, reference
from tests.waiting import until

BASE = """
create schema Tick(symbol string, price double);
@name('sums') select symbol, sum(price) as total from Tick#length(5) group by symbol
"""


def begun(path: Path) -> Workbench:
    cep = Workbench()
    cep.journal(path)
    cep.run(BASE)
    return cep


def recovered(path: Path, **options: bool) -> Workbench:
    cep = Workbench()
    cep.recover(path, **options)
    return cep


@pytest.mark.histories
@pytest.mark.parametrize("seed", range(101, 101 + several(1)))
def test_a_killed_process_goes_on_as_if_nothing_had_happened(tmp_path: Path, seed: int) -> None:
    assert run_with_kills(tmp_path, seed, random.Random(seed), 2) > 0
    _, differences = check(tmp_path, seed)
    assert differences == []


def test_every_kind_of_step_is_recovered(tmp_path: Path) -> None:
    assert {kind for kind, _ in steps(1)} >= {"send", "replay", "live", "run", "set", "insert", "fail"}
    cep = Workbench(feed_capacity=CAPACITY)
    cep.journal(tmp_path / "journal", limit=300_000)
    Workload(cep, 1, tmp_path).go_on(40)
    expected = digest(cep)
    cep.journaling.close()
    again = Workbench(feed_capacity=CAPACITY)
    again.recover(tmp_path / "journal", sinks=False)
    assert digest(again) == expected


def test_a_log_that_is_cut_anywhere_gives_the_workbench_of_its_last_whole_frame(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    log = next((tmp_path / "j").glob("log-*"))
    ends = [log.stat().st_size]
    states = [digest(cep)]
    for number in range(5):
        cep.send("Tick", symbol="A", price=float(number))
        cep.journaling.flush()
        ends.append(log.stat().st_size)
        states.append(digest(cep))
    cep.journaling.close()
    cuts = range(ends[0], ends[-1] + 1, 37)
    for size in sorted({*cuts, *ends}):
        copy = tmp_path / f"copy{size}"
        shutil.copytree(tmp_path / "j", copy)
        os.truncate(next(copy.glob("log-*")), size)
        twin = recovered(copy)
        assert digest(twin) == states[max(at for at, end in enumerate(ends) if end <= size)]
        twin.journaling.close()


def test_damage_before_the_end_is_refused_and_can_be_cut(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    before = digest(cep)
    log = next((tmp_path / "j").glob("log-*"))
    at = log.stat().st_size
    for number in range(3):
        cep.send("Tick", symbol="A", price=float(number))
        cep.journaling.flush()
    cep.journaling.close()
    data = bytearray(log.read_bytes())
    data[at + 20] ^= 1
    log.write_bytes(data)
    fresh = Workbench()
    with pytest.raises(JournalError, match=f"damaged at byte {at:,}; .* bytes follow"):
        fresh.recover(tmp_path / "j")
    assert fresh.runtime.statements == {} and fresh.journaling is None
    fresh.recover(tmp_path / "j", cut=True)
    assert digest(fresh) == before


def test_each_byte_of_a_log_counts(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    log = next((tmp_path / "j").glob("log-*"))
    at = log.stat().st_size
    for number in range(40):
        cep.send("Tick", symbol="A", price=float(number))
    cep.journaling.flush()
    end = log.stat().st_size
    cep.send("Tick", symbol="A", price=1.0)
    cep.journaling.close()
    data = log.read_bytes()
    assert end - at > 500
    for place in range(at, end):
        log.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        with pytest.raises(JournalError, match=f"damaged at byte {at:,}"):
            read_log(str(log), cut=False)


@pytest.mark.parametrize("window", ["length(5)", "time(1 sec)"])
def test_batches_of_a_frame_are_written_together_and_none_waits_behind_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    monkeypatch.setattr(journal, "FLUSH_INTERVAL", 60.0)
    monkeypatch.setattr(replay_module, "LONG_SLICE", 60.0)
    cep = Workbench()
    cep.journal(tmp_path / "j")
    cep.run(f"""
        create schema T(symbol string, price double, volume long, flag boolean);
        @name('some') select * from T(volume < -145);
        @name('sums') select symbol, sum(volume) as v, count(price) as n from T#{window} group by symbol
    """)
    count = 48_000
    frame = pd.DataFrame({
        "ts": [number // 3 + 10 * (number > 600) for number in range(count)],
        "symbol": ["A", None, "B", "C"] * (count // 4),
        "price": [float("nan"), 1.5] * (count // 2),
        "volume": [number % 300 - 150 for number in range(count)],
        "flag": [number % 3 == 0 for number in range(count)],
    })  # fmt: skip
    for start in (0, 100_000):
        replay = cep.replay(frame.assign(ts=frame["ts"] + start), "T", time="ts")
        if not start:
            replay.step(10)
            assert cep.journaling.waiting == 0
        replay.run()
        assert cep.journaling.waiting == 0
    with pytest.raises(CepbookError):
        cep.replay(frame.assign(ts=frame["ts"] + 90_000), "T", time="ts").run()  # before the clock
    expected = digest(cep)
    cep.journaling.close()
    frames, behind = read_log(str(next((tmp_path / "j").glob("log-*"))), cut=False)
    sizes = [batch["count"] for header, _ in frames if header["is"] == "batches" for batch in header["parts"]]
    assert sum(sizes) == 2 * count and behind == 0
    assert window.startswith("time") or max(sizes) > FRAME_CHUNK  # the clock stops at times that are due
    assert digest(recovered(tmp_path / "j")) == expected


def test_a_full_disk_stops_the_next_stimulus_and_nothing_is_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cep = begun(tmp_path / "j")
    cep.send("Tick", symbol="A", price=1.0)
    before = digest(cep)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        for act in (
            lambda: cep.run("@name('x') select * from Tick"),
            lambda: cep.send("Tick", symbol="A", price=2.0),
            lambda: cep.advance(by="1 sec"),
            lambda: cep.replay(pd.DataFrame({"t": [1], "symbol": ["A"], "price": [1.0]}), "Tick", time="t").run(),
            lambda: cep.drop("sums"),
            lambda: cep.reset(),
        ):
            with pytest.raises(JournalError, match="No space left"):
                act()
            assert digest(cep) == before
    cep.send("Tick", symbol="A", price=2.0)
    expected = digest(cep)
    cep.journaling.close()
    assert digest(recovered(tmp_path / "j")) == expected


def test_values_that_no_file_can_hold_are_refused_before_the_event(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    cep.define("Loose", {"x": "object"})
    cep.run("@name('any') select x from Loose")
    with pytest.raises(JournalError, match=r"cannot hold a value of type builtins\.object"):
        cep.send("Loose", x=object())
    cep.send("Loose", x={"a": ["\ud800", 2**70, float("inf")]})
    cep.send("Tick", symbol="\ud800", price=1.0)
    for _ in range(40):
        cep.send("Tick", symbol="half \udfff", price=float("-inf"))
    expected = digest(cep)
    cep.journaling.close()
    assert digest(recovered(tmp_path / "j")) == expected


def test_missing_functions_are_named_also_those_of_the_log(tmp_path: Path) -> None:
    cep = Workbench()
    cep.register_function("one", lambda x: x)
    cep.journal(tmp_path / "j")
    cep.register_function("two", lambda x: x)
    cep.journaling.close()
    with pytest.raises(SnapshotError, match="`one`, `two`"):
        Workbench().recover(tmp_path / "j")


def test_a_statement_and_a_listener_that_fail_lead_to_the_same_state(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    cep.run("@name('bad') select cast(symbol, int) as n, count(*) as c from Tick")

    def listener(_: object) -> None:
        raise ValueError

    cep.on("sums", listener)
    for symbol in ("1", "x", "2"):
        try:
            cep.send("Tick", symbol=symbol, price=1.0)
        except CepbookError:
            pass
    with pytest.raises(CepbookError):
        cep.run("select nothing from Nowhere")
    expected = digest(cep)
    cep.journaling.close()
    assert digest(recovered(tmp_path / "j")) == expected


def test_what_a_listener_sends_is_recovered(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    cep.run("create schema Echo(total double); @name('echo') select sum(total) as t from Echo#length(3)")
    cep.on("sums", lambda delta: cep.send("Echo", total=delta.insert[0]["total"]))
    for number in range(5):
        cep.send("Tick", symbol="A", price=float(number))
    frame = pd.DataFrame({"t": range(1, 30), "symbol": "B", "price": 1.0})
    cep.replay(frame, "Tick", time="t").run()
    expected = digest(cep)
    cep.journaling.close()
    assert digest(recovered(tmp_path / "j")) == expected


def test_reset_rewind_load_and_the_rest_are_recovered(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    cep.send("Tick", symbol="A", price=1.0)
    cep.save(tmp_path / "saved")
    cep.rewind()
    cep.send_together(("Tick", {"symbol": "B"}), ("Tick", {"symbol": "C"}))
    cep.reset()
    cep.run(BASE + ";create window W#keepall as (k string, n int); create context C partition by symbol from Tick;"
            "@name('c') context C select symbol, count(*) as n from Tick")  # fmt: skip
    cep.send("Tick", symbol="D")
    cep.end_partition("C", 0)
    cep.replace_rows("W", pd.DataFrame({"k": ["a", "b"], "n": [1, 2]}))
    assert digest(cep)["now"] == 0
    expected = digest(cep)
    cep.journaling.flush()
    shutil.copytree(tmp_path / "j", tmp_path / "copy")
    assert digest(recovered(tmp_path / "copy")) == expected
    cep.load(tmp_path / "saved")
    expected = digest(cep)
    cep.journaling.close()
    assert digest(recovered(tmp_path / "j")) == expected


def test_sinks_go_on_and_files_with_other_rows_are_refused(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    sink = cep.sink("sums", tmp_path / "out.csv")
    cep.send("Tick", symbol="A", price=1.0)
    sink.flush()
    cep.send("Tick", symbol="A", price=2.0)
    cep.journaling.close()
    sink.close()
    written = (tmp_path / "out.csv").read_text()
    (tmp_path / "out.csv").write_text(written.replace("1.0", "7.0"))
    fresh = Workbench()
    with pytest.raises(SinkError, match="has other rows than were delivered"):
        fresh.recover(tmp_path / "j")
    assert fresh.runtime.statements == {}
    (tmp_path / "out.csv").write_text(written[:-3])
    fresh.recover(tmp_path / "j")
    again = fresh.sink("sums", tmp_path / "out.csv")
    fresh.send("Tick", symbol="A", price=3.0)
    again.close()
    totals = [line.split(",")[-1] for line in (tmp_path / "out.csv").read_text().split()]
    assert totals == ["total", "1.0", "3.0", "6.0"]


def test_a_journal_belongs_to_one_process_and_is_not_replaced_by_accident(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    with pytest.raises(UsageError, match="written by another process or workbench"):
        Workbench().recover(tmp_path / "j")
    with pytest.raises(UsageError, match="the journal of this workbench"):
        cep.recover(tmp_path / "j")
    cep.journaling.close()
    with pytest.raises(UsageError, match="holds a journal already"):
        Workbench().journal(tmp_path / "j")
    with pytest.raises(UsageError, match="holds no journal"):
        Workbench().recover(tmp_path / "none")
    other = Workbench()
    other.journal(tmp_path / "j", replace=True).close()
    assert recovered(tmp_path / "j").runtime.statements == {}


def test_the_size_is_bounded(tmp_path: Path) -> None:
    cep = Workbench()
    cep.journal(tmp_path / "j", limit=50_000)
    cep.run(BASE)
    largest = 0
    for number in range(20_000):
        cep.send("Tick", symbol="A", price=float(number))
        if number % 500 == 0:
            largest = max(largest, sum(file.stat().st_size for file in (tmp_path / "j").iterdir()))
    cep.journaling.close()
    assert largest < 50_000 + 20_000 + 500_000  # the log, one group, and the snapshots with the feeds
    assert len(list((tmp_path / "j").iterdir())) == 3


def test_events_wait_for_a_moment_only(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    cep.send("Tick", symbol="A", price=1.0)
    asyncio.run(until(lambda: cep.journaling.waiting == 0))


def test_the_extension_names_the_journal_of_its_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    begun(tmp_path / "j").journaling.close()
    open_one = begun(tmp_path / "used")
    monkeypatch.setenv("JPY_SESSION_NAME", "b.ipynb")
    begun(tmp_path / "other").journaling.close()
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "cepbook")
    assert "`%epl recover j`" in capsys.readouterr().out
    assert journals_to_recover() == ["j"]
    assert "recovered from" in repr(shell.run_line_magic("epl", "recover j"))
    assert "open" in repr(shell.run_line_magic("epl", "journal"))
    assert "closed" in repr(shell.run_line_magic("epl", "journal --close"))
    open_one.journaling.close()


def contents_of(path: Path) -> list[tuple[object, ...]]:
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
    else:
        frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_json(path, lines=True)
    return [(row["symbol"], float(row["total"])) for row in frame.to_dict("records")]


@pytest.mark.parametrize("file", ["out.csv", "out.jsonl", "out.parquet"])
@pytest.mark.parametrize("dropped", ["", "in the log", "before the snapshot"])
def test_each_kind_of_sink_goes_on_also_that_of_a_dropped_statement(tmp_path: Path, file: str, dropped: str) -> None:
    cep = begun(tmp_path / "j")
    sink = cep.sink("sums", tmp_path / file)
    for price in (1.0, 2.0):
        cep.send("Tick", symbol="A", price=price)
    sink.flush()
    cep.send("Tick", symbol="A", price=3.0)  # in the log, and not in the file
    if dropped:
        cep.drop("sums")
        if dropped == "before the snapshot":
            cep.journaling.checkpoint()
    cep.journaling.flush()
    for path in list(tmp_path.iterdir()):  # as a killed process leaves them
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / f"left_{path.name}")
    cep.journaling.close()
    sink.close()
    for path in list(tmp_path.glob("left_*")):
        target = tmp_path / path.name.removeprefix("left_")
        (shutil.rmtree if target.is_dir() else lambda there: there.unlink(missing_ok=True))(target)
        path.rename(target)
    fresh = Workbench()
    answer = fresh.recover(tmp_path / "j")
    assert [sink.name for sink in answer.sinks] == ["sums"]
    if dropped:
        fresh.run(BASE.split(";")[1])
    fresh.send("Tick", symbol="B", price=5.0)
    answer.sinks[0].close()
    assert contents_of(tmp_path / file) == [("A", 1.0), ("A", 3.0), ("A", 6.0), ("B", 5.0)]


def test_live_sources_go_on_behind_the_last_event_that_was_recorded(tmp_path: Path) -> None:
    async def items(offsets: Mapping[str, int]) -> AsyncIterator[Located]:
        for number in range(offsets.get("", 0), 6):
            yield Located({"symbol": "A", "price": float(number)} if number != 5 else {"price": "x"}, number + 1)

    async def run(cep: Workbench) -> None:
        await cep.live({"Tick": Source("numbers", items)})

    cep = begun(tmp_path / "j")
    asyncio.run(run(cep))
    expected = digest(cep)
    cep.journaling.close()
    again = recovered(tmp_path / "j")
    assert digest(again) == expected
    assert again._engine.offsets == {("Tick", "numbers", ""): 6}
    asyncio.run(run(again))
    assert digest(again)["feeds"] == expected["feeds"]


def test_late_events_are_recovered_with_their_type(tmp_path: Path) -> None:
    cep = begun(tmp_path / "j")
    rows = [{"t": t, "symbol": "A", "price": 1.0} for t in (5_000, 9_000, 1_000)]
    cep.run("@name('late') select type, lateness from LateEvent")
    cep.replay(iter(rows), "Tick", time="t", late="drop").run()
    expected = digest(cep)
    assert expected["feeds"]["late"][0] == 1
    cep.journaling.close()
    assert digest(recovered(tmp_path / "j")) == expected


async def never(_seconds: float) -> None:
    await asyncio.Event().wait()


def disordered(cep: Workbench, rows: list[dict[str, int]], after: Callable[[int], object] | None = None) -> Live:
    """Start a source of the rows that goes on at its place, within a lateness. ``after(n)`` is called behind row n."""

    async def items(offsets: Mapping[str, int]) -> AsyncIterator[Located]:
        for number in range(offsets.get("", 0), len(rows)):
            yield Located(rows[number], number + 1)
            if number % 3:
                await asyncio.sleep(0.001)
            if after is not None:
                after(number)

    return cep.live({"E": Source("rows", items)}, time="ts", lateness="2 sec", sleep=never)


@pytest.mark.parametrize("limit", [256 << 20, 3_000], ids=["log", "snapshots"])
def test_events_that_wait_for_earlier_ones_are_recovered(tmp_path: Path, limit: int) -> None:
    """A copy of the journal at any moment is what a killed process leaves. The next one is killed, too."""
    rows, copies = history(3), list[Path]()
    expected = reference(rows, 2000)

    async def killed(cep: Workbench, name: str) -> None:
        def after(number: int) -> None:
            if number % 5 == 4:
                copies.append(tmp_path / f"{name} {number}")
                shutil.copytree(tmp_path / name, copies[-1])

        await disordered(cep, rows, after)
        cep.journaling.close()

    async def end(cep: Workbench) -> None:
        await disordered(cep, rows)

    cep = bench()
    cep.journal(tmp_path / "first", limit=limit)
    asyncio.run(killed(cep, "first"))
    assert delivered(cep) == expected
    middle = copies[len(copies) // 2]
    shutil.copytree(middle, tmp_path / "second")
    asyncio.run(killed(recovered(tmp_path / "second"), "second"))
    waiting = 0
    for copy in copies:
        cep = recovered(copy)
        waiting += bool(cep._engine.waiting)
        asyncio.run(end(cep))
        assert delivered(cep) == expected, copy.name
        cep.journaling.close()
    assert waiting >= len(copies) // 2 >= 5


def test_a_waiting_event_that_no_journal_can_hold_costs_no_other(tmp_path: Path) -> None:
    cep = Workbench()
    cep.journal(tmp_path / "j")
    cep.run("create schema Loose(ts long, x object) starttimestamp ts; @name('out') select x from Loose")
    rows = [{"ts": 1_000 * n, "x": object() if n == 3 else n} for n in range(1, 8)]

    async def scenario() -> Live:
        return await cep.live({"Loose": rows}, time="ts", lateness="2 sec", sleep=never)

    live = asyncio.run(scenario())
    assert cep.changes("out")["x"].tolist() == [1, 2, 4, 5, 6, 7]
    assert live.malformed["Loose"] == 1 and "a journal cannot hold" in live.rejected[0][1].reason


def test_waiting_events_of_a_type_that_changes_are_recovered_as_they_are_then(tmp_path: Path) -> None:
    cep, more = Workbench(), asyncio.Event()
    cep.journal(tmp_path / "j")
    cep.run("create schema E(ts long, v int) starttimestamp ts", cell="a")

    async def source() -> AsyncIterator[object]:
        for second in (1, 3, 2):
            yield {"ts": 1_000 * second, "v": second}
        await more.wait()
        yield {"ts": 4_000, "v": 4, "w": "new"}
        await asyncio.Event().wait()

    async def scenario() -> None:
        live = cep.live({"E": source()}, time="ts", lateness="5 sec", sleep=never)
        await until(lambda: live.buffered["E"] == 3)
        cep.run("create schema E(ts long, v int, w string) starttimestamp ts", cell="a")
        more.set()
        await until(lambda: live.buffered["E"] == 4)
        shutil.copytree(tmp_path / "j", tmp_path / "killed")

    asyncio.run(scenario())
    again = recovered(tmp_path / "killed")
    events = [(event["v"], event["w"]) for _, _, event, _ in again._engine.waiting]
    assert events == [(1, None), (2, None), (3, None), (4, "new")]
    again.run("@name('out') select v, w from E")
    asyncio.run(finished(again))
    assert again.changes("out")["v"].tolist() == [1, 2, 3, 4]


async def finished(cep: Workbench) -> None:
    await cep.live({"E": []}, time="ts")
