"""Time snapshots: a replay that keeps snapshots gives a second workbench as it was at an instant."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from cepbook.errors import SnapshotError, UsageError

EPL = """
create context Each partition by k from A;
@name('sums') select irstream k, sum(x) as total from A#time(3 sec) group by k;
@name('each') context Each select count(*) as n from A#length_batch(3);
@name('every') select count(*) as n from A output every 2 sec;
@name('pairs') select a.x as p, b.x as q from pattern [every a=A(x > 5) -> b=B(x = a.x)]
"""


def history(seed: int, count: int = 400) -> dict[str, pd.DataFrame]:
    draw = random.Random(seed)
    rows: dict[str, list[dict[str, Any]]] = {"A": [], "B": []}
    time = 0
    for _ in range(count):
        time += draw.choice((0, 0, 1, 300, 1000))
        rows[draw.choice("AAB")].append({"t": time, "k": draw.choice("ab"), "x": draw.randrange(10)})
    return {name: pd.DataFrame(events) for name, events in rows.items()}


def bench(frames: dict[str, pd.DataFrame]) -> Workbench:
    cep = Workbench()
    for name, frame in frames.items():
        cep.define(name, frame, time="t")
    cep.run(EPL)
    return cep


def seen(cep: Workbench) -> Any:
    names = list(cep.runtime.statements)
    states = [(cep.runtime.iterate(name), cep.runtime.state(name)) for name in names]
    return cep.clock, states, repr(cep.partitions("Each")), cep.runtime.next_due


def go_on(cep: Workbench) -> Any:
    """What is delivered later on."""
    deliveries: list[Any] = []
    for name in cep.runtime.statements:
        cep.on(name, lambda delta, name=name: deliveries.append((name, delta)))
    for i in range(20):
        cep.send("AB"[i % 2], k="ab"[i % 3 % 2], x=i % 10)
        cep.advance(by="400 msec")
    return repr(deliveries)


@pytest.mark.histories
@pytest.mark.parametrize("keep", [1, 37, "5 sec", "1 hour", True])
@pytest.mark.parametrize("leap", [False, True])
def test_as_it_was_at_any_instant(keep: int | str, leap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cepbook.session.history.replay_snapshots.APART", 0.01)
    frames = history(1, 250)
    cep = bench(frames)
    replay = cep.replay(frames, keep=keep, leap=leap)
    result = replay.run()
    assert result is not None
    before, end = seen(cep), cep.clock.ms
    draw = random.Random(2)
    for at in (0, *draw.sample(range(end), 2), int(frames["A"]["t"].iloc[50]), end):
        then, plain = replay.at(at), bench(frames)
        plain.replay(frames, until=at, leap=leap).run()
        assert seen(then) == seen(plain), at
        assert go_on(then) == go_on(plain), at
    assert seen(cep) == before


def test_while_it_is_paused_and_with_a_limit() -> None:
    frames = history(3)
    cep = bench(frames)
    replay = cep.replay(frames, keep=10, paused=True, limit=150)
    replay.step(95)
    at, plain = cep.clock.ms, bench(frames)
    plain.replay(frames, until=at - 1).run()
    assert seen(replay.at(at - 1)) == seen(plain)
    with pytest.raises(UsageError, match="the replay has been from"):
        replay.at(at + 1)
    replay.run()
    assert replay.at(cep.clock.ms).clock == cep.clock


def test_what_was_done_by_hand_stays_done() -> None:
    frames = history(6)
    cep = bench(frames)
    cep.run("create variable int level = 0; create window Kept#keepall as A; @name('high') select * from A(x > level)")
    replay = cep.replay(frames, keep=1, paused=True)
    replay.step(100)
    first = cep.clock.ms
    cep.set("level", 8)
    cep.query("insert into Kept select 'a' as k, 7L as x, 0L as t")
    replay.step(1)
    cep.send("A", k="b", x=3)
    now = replay.at(cep.clock.ms)  # while it is paused, before another snapshot
    assert seen(now) == seen(cep) and now.get("level") == 8
    replay.step(100)
    second = cep.clock.ms
    cep.drop("every")
    replay.run()
    assert replay.at(first - 1).get("level") == 0 and replay.at(first - 1).query("select * from Kept").empty
    for at in (first + 1, second - 1, cep.clock.ms):
        then = replay.at(at)
        assert then.get("level") == 8 and len(then.query("select * from Kept")) == 1, at
        assert ("every" in then.runtime.statements) == (at < second)
    assert seen(replay.at(cep.clock.ms)) == seen(cep)


def test_snapshots_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cepbook.session.history.replay_snapshots.MAX_SNAPSHOTS", 32)
    frames = history(4)
    cep = bench(frames)
    replay = cep.replay(frames, keep=1)
    replay.run()
    snapshots = replay._replay_snapshots
    assert snapshots is not None and len(snapshots._snapshots) <= 33 and snapshots._snapshots[0].taken == 0
    assert snapshots._snapshots[-1].taken > 350


def test_snapshots_are_small_together(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = history(4)
    monkeypatch.setattr("cepbook.session.history.replay_snapshots.MAX_SNAPSHOT_BYTES", 1)
    replay = bench(frames).replay(frames, keep=1)
    replay.run()
    assert replay._replay_snapshots is not None and len(replay._replay_snapshots._snapshots) <= 9


def test_snapshots_by_cost_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = history(4)
    spent = iter(range(10_000))
    monkeypatch.setattr("cepbook.session.history.replay_snapshots.wall.thread_time", lambda: next(spent))
    monkeypatch.setattr("cepbook.session.history.replay_snapshots.SHARE", 3)
    for name in ("FIRST", "MOST"):
        monkeypatch.setattr(f"cepbook.session.replay.batch_sizer.{name}", 1)
    replay = bench(frames).replay(frames, keep=True)
    replay.run()
    snapshots = replay._replay_snapshots._snapshots if replay._replay_snapshots is not None else []
    asked = [later.taken - earlier.taken for earlier, later in pairwise(snapshots)]
    assert len(snapshots) > 10 and set(asked[:-1]) == {3}, "one event a look, and each look asks the time once"


def test_a_snapshot_that_was_slow_once_leaves_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a collection of garbage falls into it: looks into the gap would replay all of its events."""
    frames = history(4)
    clock = [0.0]

    def spent() -> float:
        clock[0] += 1
        return clock[0]

    monkeypatch.setattr("cepbook.session.history.replay_snapshots.wall.thread_time", spent)
    monkeypatch.setattr("cepbook.session.history.replay_snapshots.SHARE", 3)
    for name in ("FIRST", "MOST"):
        monkeypatch.setattr(f"cepbook.session.replay.batch_sizer.{name}", 1)
    replay = bench(frames).replay(frames, keep=True)
    snapshots = replay._replay_snapshots
    assert snapshots is not None
    host = snapshots._host

    def once_slow() -> bytes:
        clock[0] += 10_000 if len(snapshots._snapshots) == 5 else 0
        return host.save()

    snapshots._host = replace(host, save=once_slow)
    replay.run()
    assert len(snapshots._snapshots) > 10
    assert max(later.taken - earlier.taken for earlier, later in pairwise(snapshots._snapshots)) == 3


def test_what_cannot_be() -> None:
    frames = history(5, 20)
    cep = bench(frames)
    with pytest.raises(UsageError, match="not every 0"):
        cep.replay(frames, keep=0)
    cep.replay(frames).run()
    plain = cep.replay(frames, late="drop")
    plain.run()
    with pytest.raises(UsageError, match="keeps no snapshots"):
        plain.at(0)
    once = Workbench()
    once.run("create schema E(t long, x int) starttimestamp t; @name('s') select x from E")
    replay = once.replay(iter([{"t": 1, "x": 1}]), type="E", keep=5)
    replay.run()
    with pytest.raises(UsageError, match="can be read only once"):
        replay.at(1)
    odd = Workbench()
    odd.run("create schema E(o object); @name('s') select o from E#keepall")
    odd.runtime.send("E", {"o": object()})
    with pytest.raises(SnapshotError):
        odd.replay([], type="E", time="o", keep=5)


def test_what_is_kept_where_nobody_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workbench, "keep", True)
    frames = history(6, 60)
    cep = bench(frames)
    first = cep.replay({"A": frames["A"]})
    first.run()
    assert first.span is not None and first.at(first.span[0]).runtime.now == first.span[0]
    off = cep.replay([], type="A", time="t", keep=False)
    assert off.span is None and "keeps no snapshots" in off.lacks
    off.run()
    cep.rewind()
    assert (first.span, first.lacks) == (None, "the workbench has begun anew since")
    with pytest.raises(UsageError, match="the workbench has begun anew"):
        first.at(0)


def test_what_cannot_be_kept_disturbs_no_replay_that_was_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workbench, "keep", True)
    odd = Workbench()
    odd.run("create schema E(t long, x int, o object); @name('s') select x, o from E#keepall")
    events = [{"t": i, "x": i} for i in range(10)]
    once = odd.replay(iter(events), type="E", time="t")
    once.run()
    assert once.span is None and "`E` can be read only once" in once.lacks
    odd.rewind()
    replay = odd.replay(events, type="E", time="t")
    replay.step(5)
    odd.runtime.send("E", {"t": 0, "x": 0, "o": object()})
    odd.advance(by="0 sec")  # by hand
    result = replay.run()
    assert result is not None and result.events == 10 and len(odd.changes("s")) == 11
    assert replay.span == (0, 4) and "object" in replay.lacks
    assert replay.at(3).iterate("s") == [{"x": i, "o": None} for i in range(4)]
    odd.rewind()
    odd.runtime.send("E", {"t": 0, "x": 0, "o": object()})
    last = odd.replay(events, type="E", time="t")
    last.run()
    assert last.span is None and "object" in last.lacks


def test_a_limit_of_events_cuts_the_past_as_well() -> None:
    cep = Workbench()
    cep.run("create schema E(t long, x int); @name('n') select count(*) as n from E")
    replay = cep.replay([{"t": 0, "x": i} for i in range(5)], type="E", time="t", limit=2, keep=True)
    replay.run()
    assert replay.at(0).iterate("n") == cep.iterate("n") == [{"n": 2}]
