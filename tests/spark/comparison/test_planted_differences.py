"""Planted differences are found and told of in the first lines; equal data is called equal. Needs no Spark."""

from __future__ import annotations

import time as wall
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cepbook import Workbench
from cepbook.display import format_time
from cepbook.spark import compare

HOUR = 3_600_000
EVENTS = 2_000
Table = dict[str, list[Any]]


def bench(capacity: int | None = 300) -> Workbench:
    """Two rows of each millisecond and an old row for each new one, of which the feed keeps a few."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "at": np.arange(EVENTS) // 2 + 1,
            "s": rng.choice(["A", "B", "C"], EVENTS),
            "n": np.arange(EVENTS),
            "x": rng.normal(100, 10, EVENTS),
        }
    )
    cep = Workbench(feed_capacity=capacity)
    cep.define("T", frame, time="at")
    cep.run("@name('q') select irstream at, s, n, x, sum(x) / (n - n) as y, 2 * n as m from T#length(50)")
    cep.replay({"T": frame}).run()
    return cep


@pytest.fixture(scope="module")
def cep() -> Workbench:
    return bench()


def rows(cep: Workbench) -> Table:
    """All rows that were delivered, as another program would have them."""
    feed = cep.feed("q")
    found: Table = {"time": [], "kind": []}
    for part in feed.everything():
        found["time"] += part.times
        found["kind"] += ["insert" if insert else "remove" for insert in part.inserts]
        for name in part.names or ():
            found.setdefault(name, []).extend(part.column(name))
    return found


def the(cep: Workbench, change: Callable[[Table], object], **options: Any) -> str:
    table = rows(cep)
    change(table)
    return str(compare(cep, {"q": pa.table(table)}, **options))


def at(table: Table, n: int) -> int:
    """The insert row of event `n`."""
    wanted = ("insert", n)
    return next(i for i, found in enumerate(zip(table["kind"], table["n"], strict=True)) if found == wanted)


def put(name: str, n: int, value: Any) -> Callable[[Table], object]:
    def change(table: Table) -> None:
        table[name][at(table, n)] = value

    return change


def drop(n: int) -> Callable[[Table], object]:
    def change(table: Table) -> None:
        i = at(table, n)
        for values in table.values():
            del values[i]

    return change


def twice(n: int) -> Callable[[Table], object]:
    def change(table: Table) -> None:
        i = at(table, n)
        for values in table.values():
            values.insert(i, values[i])

    return change


def swap(columns: str, n: int) -> Callable[[Table], object]:
    """The values of two rows of one time."""

    def change(table: Table) -> None:
        i, k = at(table, n), at(table, n + 1)
        assert table["time"][i] == table["time"][k]
        for name in columns.split():
            table[name][i], table[name][k] = table[name][k], table[name][i]

    return change


def exchanged(table: Table) -> None:
    """Two keys, all over: what was A's is B's."""
    other = {"A": "B", "B": "A"}
    table["s"] = [other.get(s, s) for s in table["s"]]


def shift(ms: int, *columns: str) -> Callable[[Table], object]:
    def change(table: Table) -> None:
        for name in ("time", *columns):
            table[name] = [t + ms for t in table[name]]

    return change


def test_equal_data_is_equal_whatever_the_feed_keeps(cep: Workbench) -> None:
    dropped = cep.feed("q").dropped
    assert dropped > EVENTS // 2
    found = the(cep, lambda table: None)
    assert found.splitlines()[0] == f"equal: 1 statement, {2 * EVENTS - 50:,} rows"
    compare(cep, bench(None)).assert_same()


@pytest.mark.parametrize("n", [10, EVENTS - 10])  # far beyond what the feed keeps, and in it
@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (lambda n: put("x", n, 500.0), ["different: 1 of 1 statement (q)", "x: ", "500.0 there", "n={n}"]),
        (lambda n: put("s", n, "Z"), ["'Z' there", "n={n}"]),
        (lambda n: put("n", n, 2**60 + 1), ["n: {n} here, 1152921504606846977 there"]),
        (drop, ["1 only here", "only here: at={t}, s='", "n={n}"]),
        (twice, ["1 only there", "only there: at={t}, s='", "n={n}"]),
        (lambda n: put("y", n, None), ["y: {y} here, None there", "n={n}"]),
        (lambda n: swap("n", n), ["2 with different values", "n: {n} here, {k} there"]),
    ],
)
def test_a_planted_difference_is_told_with_time_key_and_values(
    cep: Workbench, change: Callable[[int], Callable[[Table], object]], n: int, lines: list[str]
) -> None:
    y = rows(cep)["y"][at(rows(cep), n)]
    known = {"n": n, "k": n + 1, "t": n // 2 + 1, "y": y}
    for options in ({}, {"key": "n"}):
        found = the(cep, change(n), **options)
        told = "\n".join(found.splitlines()[:4])
        if options and "n: " in lines[-1]:
            continue  # the key itself was changed
        for line in [*lines, f"  00:00:00.{n // 2 + 1:03} insert "]:
            assert line.format(**known) in told, found


@pytest.mark.parametrize(("n", "k"), [(11, 15), (10, 11), (10, EVENTS - 9)])  # of two times, of one, far apart
def test_swapped_keys(cep: Workbench, n: int, k: int) -> None:
    before = rows(cep)
    keys = [before["s"][at(before, i)] for i in (n, k)]
    assert keys[0] != keys[1]

    def change(table: Table) -> None:
        for i, key in ((n, keys[1]), (k, keys[0])):
            put("s", i, key)(table)

    lines = the(cep, change).splitlines()
    assert lines[1].endswith("2 with different values (s: 2)")
    for line, i, here, there in ((lines[2], n, *keys), (lines[3], k, *reversed(keys))):
        told = f"00:00:00.{i // 2 + 1:03} insert  s: '{here}' here, '{there}' there  (at={i // 2 + 1}, n={i}, x="
        assert told in line
    lines = the(cep, change, key=("s", "n")).splitlines()
    assert lines[1].endswith("2 only here, 2 only there")
    assert f"s='{keys[0]}'  n={n}  only here: at={n // 2 + 1}, x=" in lines[2]


def test_keys_that_are_exchanged_everywhere(cep: Workbench) -> None:
    many = sum(s in "AB" for s in rows(cep)["s"])
    lines = the(cep, exchanged).splitlines()
    assert lines[1].endswith(f"{many:,} with different values (s: {many:,})")
    assert "00:00:00.001 insert  s: 'A' here, 'B' there  (at=1, n=1, x=" in lines[2]


@pytest.mark.histories
def test_much_data_whose_ties_come_in_another_order() -> None:
    """300,000 rows of 10,000 times, with floats that are a little off: only what was planted is told."""
    many = 300_000
    rng = np.random.default_rng(3)
    columns = {"time": np.arange(many) // 30, "s": rng.choice(["A", "B", "C"], many), "n": np.arange(many)}
    here = pd.DataFrame(columns | {"x": rng.normal(100, 10, many), "kind": "insert"})
    there = here.assign(x=here["x"] * (1 + 1e-13)).iloc[np.lexsort((rng.random(many), here["time"]))]

    def compared(there: pd.DataFrame) -> Any:
        return compare(*({"q": pa.Table.from_pandas(each, preserve_index=False)} for each in (here, there)))

    found = compared(there)
    assert found.verdict == "equal" and f"{many:,} equal" in str(found)
    at = int(np.flatnonzero(there["n"] == 150_001)[0])
    there.iloc[at, there.columns.get_loc("x")] = 500.0
    lines = str(compared(there.drop(index=200_001))).splitlines()
    assert lines[0] == "different: 1 of 1 statement (q)"
    assert lines[1].endswith("1 only here, 1 with different values (x: 1)")
    assert lines[3].startswith("       00:00:05.000 insert  x: ") and "500.0 there  (s='" in lines[3]
    assert lines[4].startswith("       00:00:06.666 insert  only here: s='") and ", n=200001, x=" in lines[4]


def test_ties_in_another_order(cep: Workbench) -> None:
    change = swap("at s n x y m", 10)
    found = the(cep, change)
    assert found.startswith("equal: ") and "2 in another order within their time" in found
    assert "00:00:00.006 insert  in another order: at=6, s='" in found.splitlines()[2]
    strict = the(cep, change, order=True)
    assert strict.startswith("different: ") and "2 with different values ((order): 2)" in strict


def test_whole_numbers_in_place_of_floats(cep: Workbench) -> None:
    def rounded(table: Table) -> None:
        table["x"] = [int(v) for v in table["x"]]

    def whole(table: Table) -> None:
        table["m"] = [float(v) for v in table["m"]]

    assert "x: floats here, whole numbers there" in "\n".join(the(cep, rounded).splitlines()[:3])
    lines = the(cep, whole).splitlines()
    assert "m: whole numbers here, floats there" in lines[2] and len(lines) == 4
    assert "00:00:00.001 insert  m: 0 here, 0.0 there  (at=1, s='" in lines[3]
    found = compare(cep, {"q": pa.table(rows(cep) | {"m": [float(v) for v in rows(cep)["m"]]})}, key="n")
    assert "00:00:00.001 insert  n=0  m: 0 here, 0.0 there" in str(found)
    ((_, _, what, column, here, there),) = found.differences("q").values.tolist()
    assert (what, column, here, there) == ("values of another kind", "m", 0, 0.0)


@pytest.mark.parametrize(
    ("ms", "word"),
    [
        (HOUR, "1 hour (3,600,000 ms)"),
        (-5 * HOUR, "5 hours (18,000,000 ms)"),
        (19_800_000, "5.5 hours (19,800,000 ms)"),  # India
        (1, "1 ms"),
    ],
)
def test_a_constant_shift_is_recognised(cep: Workbench, ms: int, word: str) -> None:
    said = f"times there are {word} {'later' if ms > 0 else 'earlier'} than here"
    found = the(cep, shift(ms))
    assert found.startswith("different: ") and said in found.splitlines()[2], found
    assert f"(first 00:00:00.001 here, {format_time(ms + 1)} there)" in found.splitlines()[2]
    found = the(cep, shift(ms, "at"))
    assert f"{said}, as is the column at; compared" in found.splitlines()[2], found

    def both(table: Table) -> None:
        put("x", 10, 500.0)(table)
        shift(ms)(table)

    found = the(cep, both)
    assert "1 with different values (x: 1)" in found.splitlines()[1] and "500.0 there" in found.splitlines()[3]


def test_the_tolerance_is_relative_and_told(cep: Workbench) -> None:
    def nearly(table: Table) -> None:
        table["x"] = [v * (1 + 1e-12) for v in table["x"]]

    found = the(cep, nearly)
    assert found.startswith("equal: ")
    assert "values equal only within the relative tolerance of 1e-09: at most 1e-12 apart" in found
    assert the(cep, nearly, tolerance=0).startswith("different: ")
    small = {"time": [1, 1], "kind": ["insert"] * 2, "v": [1e-12, 5.0]}
    other = small | {"v": [2e-12, 5.0]}
    tables = {"q": pa.table(small)}, {"q": pa.table(other)}
    assert compare(*tables).verdict == "different"
    assert compare(*tables, absolute=1e-9).verdict == "equal"


def test_whole_numbers_are_not_compared_as_floats() -> None:
    big = 2**53
    a = {"time": [1, 2], "kind": ["insert"] * 2, "v": [big, None], "w": [1.5, None]}
    found = str(compare({"q": pa.table(a)}, {"q": pa.table(a | {"v": [big + 1, None]})}))
    assert "v: 9007199254740992 here, 9007199254740993 there" in found


@pytest.mark.parametrize("key", ["", "s"])
def test_a_block_of_equal_times_takes_time_that_grows_with_its_rows(key: str) -> None:
    """All differ, all in another order, at one time: pairs are found without comparing each with each."""
    many = 10_000
    rng = np.random.default_rng(1)
    a = pd.DataFrame({"time": 1, "kind": "insert", "s": np.arange(many).astype(str), "v": rng.random(many)})
    b = a.assign(v=a["v"] + 1).sample(frac=1, random_state=2)
    close = a.assign(v=a["v"] * (1 + 1e-13)).sample(frac=1, random_state=2)
    started = wall.process_time()
    found = compare({"q": a}, {"q": b}, key=key or ())
    assert found.statements["q"].different == many
    close_found = compare({"q": a[["time", "kind", "v"]]}, {"q": close[["time", "kind", "v"]]})
    assert close_found.verdict == "equal", close_found
    assert wall.process_time() - started < 10  # seconds; each with each would take hours


def test_a_log_that_is_full_makes_the_comparison_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cepbook.session.core.engine_handle.SPILL_LIMIT", 1_000)
    cep = bench()
    found = compare(cep, bench(None))
    assert found.verdict == "incomplete" and str(found).startswith("incomplete: 1 of 1 statement (q), ")
    assert "the interactive side has lost its oldest rows" in str(found)
