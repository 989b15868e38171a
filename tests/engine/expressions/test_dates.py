"""Date-time methods in statements: sent is replayed, values are those of Python, what fails leaves a sound state."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.errors import StatementError

SCHEMA = "create schema E(id string, st long, en long, d date) starttimestamp st endtimestamp en;"
ZONE = "Europe/Berlin"
STATEMENTS = {
    "columns": "select st.plus(1 month) as a, st.format('yyyy-MM-dd HH:mm') as b, e.plus(1 day).before(d) as c"
    " from E as e",
    "filter": "select * from E(st.getHourOfDay() between 2 and 3)",
    "groups": "select irstream st.roundFloor('hour') as h, count(*) as c from E#length(5)"
    " group by st.roundFloor('hour')",
    "dates": "select d.set('day', 1) as a, d.getDayOfWeek() as b, max(d.toMillisec()) as c"
    " from E#keepall as e where d.after(e)",
    "self join": "select a.id as a, b.id as b from E#length(9) as a, E#length(9) as b where a.overlaps(b)",
    "pattern": "select a.id as a, b.id as b from pattern [every a=E -> b=E(st.after(a.st, 10 min))]",
    "casts": "select cast(st.format('dd/MM/yyyy'), date, dateformat: 'dd/MM/yyyy') as a, cast(id, string) as b from E",
}


def events(seed: int, count: int = 80) -> list[tuple[int, dict[str, Any]]]:
    """Some around the hours in which clocks change, some nulls."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        start = chance.choice((1711846800000, 1729990800000, 1704067200000)) + chance.randrange(-(10**7), 10**7)
        moment = datetime(2024, 3, 31, tzinfo=UTC) + timedelta(minutes=chance.randrange(-900, 900))
        event: dict[str, Any] = {"id": f"e{number}", "st": start, "en": start + chance.randrange(10**6), "d": moment}
        for name in ("st", "en", "d"):
            if chance.random() < 0.1:
                event[name] = None
        found.append((number * 10, event))
    return found


def listening(epl: str) -> tuple[Runtime, list[Any]]:
    runtime = Runtime(config=Config(time_zone=ZONE))
    runtime.deploy(f"{SCHEMA} @name('out') {epl}")
    deltas: list[Any] = []
    runtime.statement("out").add_listener(lambda delta: deltas.append((delta.time, delta.insert, delta.remove)))
    return runtime, deltas


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("seed", range(2))
def test_sent_is_replayed(name: str, seed: int) -> None:
    (one, sent), (other, replayed) = listening(STATEMENTS[name]), listening(STATEMENTS[name])
    given = events(seed)
    for time, event in given:
        one.send("E", event, at=time)
    columns = {key: [event[key] for _, event in given] for key in ("id", "st", "en", "d")}
    other.batch(["E"]).run([ColumnBatch("E", [time for time, _ in given], columns)])
    assert sent == replayed
    assert sent


def test_values_are_those_of_python_in_the_zone() -> None:
    runtime, found = listening(
        "select st.getHourOfDay() as h, st.format('yyyy-MM-dd HH:mm Z') as f, d.plus(1 day) as d from E"
    )
    for _, event in events(3):
        runtime.send("E", event)
        ((row,),) = (found[-1][1],)
        if event["st"] is not None:
            local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=event["st"])).astimezone(ZoneInfo(ZONE))
            assert (row["h"], row["f"]) == (local.hour, local.strftime("%Y-%m-%d %H:%M %z"))
        if event["d"] is not None:
            ahead = event["d"].astimezone(ZoneInfo(ZONE)) + timedelta(days=1)
            assert row["d"].astimezone(ZoneInfo(ZONE)).replace(tzinfo=None) - ahead.replace(tzinfo=None) in (
                timedelta(0),
                timedelta(hours=1),  # a time that clocks pass over
            )


def test_what_is_no_date_is_told_and_totals_go_on() -> None:
    runtime = Runtime()
    runtime.deploy(
        "create schema T(s string);"
        "@name('out') select sum(cast(s, long, dateformat: 'yyyy')) as total, count(*) as c from T#keepall"
    )
    rows: list[Any] = []
    runtime.statement("out").add_listener(lambda delta: rows.extend(delta.insert))
    runtime.send("T", {"s": "1971"})
    with pytest.raises(StatementError, match="'x' is no date of the form 'yyyy'"):
        runtime.send("T", {"s": "x"})
    runtime.send("T", {"s": "1971"})
    year = 365 * 86_400_000
    assert [row["total"] for row in rows] == [year, 2 * year]
