"""Comparing runs that are given as frames or as a workbench's feeds; needs no Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from cepbook import Workbench
from cepbook.engine.config import Config
from cepbook.errors import UsageError
from cepbook.feeds import Feed
from cepbook.lang.plan.catalog import Catalog, EventType
from cepbook.lang.types import DOUBLE, STRING
from cepbook.spark import compare
from cepbook.spark.comparison.comparison_report import side_of
from cepbook.spark.comparison.row_matching import MatchRules, same_value

NAN = float("nan")


def frame(*rows: tuple[Any, ...], columns: str = "s x") -> pd.DataFrame:
    """Rows are (time, kind, values…)."""
    names = columns.split()
    return pd.DataFrame(
        {
            "time": [r[0] for r in rows],
            "kind": [r[1] for r in rows],
            **{n: pd.Series([r[2 + i] for r in rows], dtype=object) for i, n in enumerate(names)},
        }
    )


BASE = frame((1, "insert", "a", 1.0), (1, "insert", "b", 2.0), (2, "remove", "a", 1.0), (3, "insert", "c", None))


def counts(comparison: Any) -> tuple[int, int, int, int]:
    v = comparison.statements["q"]
    return v.equal, v.different, v.only_here, v.only_there


def test_equal_rows() -> None:
    found = compare({"q": BASE}, {"q": BASE.copy()})
    assert found.verdict == "equal"
    assert counts(found) == (4, 0, 0, 0)
    assert str(found).splitlines() == ["equal: 1 statement, 4 rows", "  q  4 equal"]


def test_no_rows_at_all() -> None:
    assert compare({"q": BASE[:0]}, {"q": BASE[:0]}).verdict == "equal"


def test_a_row_on_one_side_only() -> None:
    found = compare({"q": BASE}, {"q": BASE[1:]})
    assert (found.verdict, counts(found)) == ("different", (3, 0, 1, 0))
    assert found.differences("q")[["time", "kind", "difference"]].values.tolist() == [[1, "insert", "only here"]]
    assert counts(compare({"q": BASE[1:]}, {"q": BASE})) == (3, 0, 0, 1)


def test_another_time_or_kind_is_another_row() -> None:
    assert counts(compare({"q": BASE[:1]}, {"q": BASE[:1].assign(time=2)})) == (0, 0, 1, 1)
    assert counts(compare({"q": BASE[:1]}, {"q": BASE[:1].assign(kind="remove")})) == (0, 0, 1, 1)


def test_different_values_are_paired_and_counted_by_column() -> None:
    other = frame((1, "insert", "a", 1.0), (1, "insert", "b", 2.5), (2, "remove", "z", 1.0), (3, "insert", "c", None))
    found = compare({"q": BASE}, {"q": other})
    assert counts(found) == (2, 2, 0, 0)
    assert found.statements["q"].by_column == {"x": 1, "s": 1}
    assert found.differences("q").values.tolist() == [
        [1, "insert", "different values", "x", 2.0, 2.5],
        [2, "remove", "different values", "s", "a", "z"],
    ]
    assert "00:00:00.001 insert  x: 2.0 here, 2.5 there  (s='b')" in str(found)


def test_duplicates_count_one_by_one() -> None:
    twice = frame((1, "insert", "a", 1.0), (1, "insert", "a", 1.0))
    assert counts(compare({"q": twice}, {"q": twice[:1]})) == (1, 0, 1, 0)


def test_order_within_one_time_counts_only_when_asked() -> None:
    other = BASE.iloc[[1, 0, 2, 3]]
    found = compare({"q": BASE}, {"q": other})
    assert (found.verdict, counts(found), found.statements["q"].reordered) == ("equal", (4, 0, 0, 0), 2)
    strict = compare({"q": BASE}, {"q": other}, order=True)
    assert (strict.verdict, counts(strict)[:2]) == ("different", (2, 2))


def test_order_of_times_does_not_depend_on_the_frame() -> None:
    assert compare({"q": BASE}, {"q": BASE[::-1]}).verdict == "equal"


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (0.1 + 0.2, 0.3, True),
        (1e12, 1e12 + 1, True),
        (1e12, 1.0001e12, False),
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (NAN, None, False),
        (None, None, True),
        (None, 0, False),
        (float("inf"), float("inf"), True),
        (float("inf"), 1e308, False),
        ("a", "a", True),
        ("1", 1, False),
        ([1.0, None], [1.0 + 1e-12, None], True),
        ([1.0], [1.0, 2.0], False),
        ({"a": 1, "b": None}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
    ],
)
def test_values(a: object, b: object, same: bool) -> None:
    assert same_value(a, b, MatchRules()) is same
    assert same_value(b, a, MatchRules()) is same
    feeds = []
    for value in (a, b):
        feeds.append(Feed())
        feeds[-1].push(1, [{"x": value}], None)
        feeds[-1].push(2, [{"x": 0.5}], None)
    found = compare(bench(feeds[0]), bench(feeds[1]), statements=["q"])
    assert found.statements["q"].same is same


def test_lists_and_nested_values_in_any_order() -> None:
    rows = [(1, "insert", [1, 2], {"a": 0.1}), (1, "insert", [3, 4], {"a": 0.2}), (2, "insert", [5, 6], None)]
    here, there = frame(*rows), frame(rows[1], rows[0], rows[2])
    assert counts(compare({"q": here}, {"q": there})) == (3, 0, 0, 0)
    assert counts(compare({"q": here}, {"q": there[1:]})) == (2, 0, 1, 0)


def test_a_boolean_is_no_number_beside_texts() -> None:
    assert not same_value(True, 1, MatchRules())
    here, there = (frame((1, "insert", "a", first), (2, "insert", "a", "text")) for first in (True, 1))
    assert counts(compare({"q": here}, {"q": there})) == (1, 1, 0, 0)


@pytest.mark.parametrize(("tolerance", "values"), [(0.6, (2.3, 2.4)), (1.5, (9.0, 10.0))])
def test_a_large_tolerance_is_of_the_larger_value(tolerance: float, values: tuple[float, float]) -> None:
    """The partner of 1.0 was searched among the values that differ by less than twice the tolerance of 1.0."""
    here = frame(*[(1, "insert", "a", 1.0)] * 2)
    there = frame(*[(1, "insert", "c", 3.0)] * 2, *((1, "insert", "a", value) for value in values))
    assert all(same_value(1.0, value, MatchRules(tolerance)) for value in values)
    assert counts(compare({"q": here}, {"q": there}, tolerance=tolerance)) == (2, 0, 0, 2)


def test_times_are_not_shifted_where_that_costs_equal_rows() -> None:
    here = [(0, "remove", 1), (1, "insert", None), (1, "remove", 1), (1, "remove", None), (2, "remove", 1)]
    there = [(0, "remove", None), (0, "remove", 1), (1, "remove", None), (1, "insert", None), (1, "remove", 1)]
    last = (2, "remove", None)
    comparison = compare({"q": frame(*here, last, columns="x")}, {"q": frame(*there, last, columns="x")})
    assert counts(comparison) == (5, 0, 1, 1)
    assert "times there are" not in str(comparison)


def test_many_rows_of_one_time_in_another_order() -> None:
    rows = [(i // 50, "insert", str(i % 7), i * 0.1) for i in range(1000)]
    other = [(t, k, s, x * (1 + 1e-13)) for t, k, s, x in sorted(rows, key=lambda r: (r[0], -r[3]))]
    found = compare({"q": frame(*rows)}, {"q": frame(*other)})
    assert counts(found) == (1000, 0, 0, 0) and found.statements["q"].reordered == 1000
    other[500] = (10, "insert", "changed", other[500][3])
    assert counts(compare({"q": frame(*rows)}, {"q": frame(*other)})) == (999, 1, 0, 0)


def test_frames_cannot_tell_null_from_nan() -> None:
    assert same_value(NAN, None, MatchRules(nan_is_null=True))
    assert compare({"q": frame((1, "insert", "a", NAN))}, {"q": frame((1, "insert", "a", None))}).verdict == "equal"


def test_whole_numbers_that_a_frame_with_gaps_has_as_floats_are_told_as_whole() -> None:
    here = frame(*((t, "insert", "a", v) for t, v in enumerate((44455, None, 7, 8))), columns="s n")
    there = here.assign(n=[44456.0, NAN, 7.0, 8.0])
    there.loc[2, "time"] = 9
    for comparison, one, other in (
        (compare({"q": here.astype({"n": "Int64"})}, {"q": there}), "44455", "44456"),
        (compare({"q": there}, {"q": here.astype({"n": "Int64"})}), "44456", "44455"),
    ):
        told = str(comparison)
        assert f"00:00:00.000 insert  n: {one} here, {other} there  (s='a')" in told
        assert told.count("s='a', n=7") == 2 and ".0 " not in told and "floats" not in told
        found = comparison.differences("q")
        assert (str(found["here"][0]), str(found["there"][0])) == (one, other)
    fraction = compare({"q": here.astype({"n": "Int64"})}, {"q": there.assign(n=[44455.5, NAN, 7.0, 8.0])})
    assert "n: 44455 here, 44455.5 there" in str(fraction) and "only there: s='a', n=7" in str(fraction)
    floats = compare({"q": here.astype({"n": "Int64"}).dropna()}, {"q": there.dropna()})
    assert "n: whole numbers here, floats there" in str(floats) and "44456.0 there" in str(floats)


def test_columns_on_one_side_only_make_a_difference() -> None:
    found = compare({"q": BASE}, {"q": BASE.drop(columns="x")})
    assert found.verdict == "different"
    assert "columns only here: x" in str(found)


def test_times_are_told_as_dates_where_there_are_such() -> None:
    far = 284_012_611_200_000  # in the year 10970
    for time, shown in ((1, "00:00:00.001"), (1_357_038_000_005, "2013-01-01 11:00:00.005"), (far, f"{far} ms")):
        found = compare({"q": frame((time, "insert", "a", 1.0))}, {"q": frame(columns="s x")})
        assert f"{shown} insert  only here" in str(found)


def test_times_of_a_clock_that_counts_microseconds() -> None:
    moments = pd.to_datetime([f"2013-01-01 10:00:00.00000{i}" for i in range(1, 9)])
    cep = Workbench(config=Config(microseconds=True))
    cep.define("T", pd.DataFrame({"at": moments, "n": range(8)}), time="at")
    cep.run("@name('q') select n from T")
    cep.replay({"T": pd.DataFrame({"at": moments, "n": range(8)})}).run()
    rows = cep.changes("q")
    assert "\n       2013-01-01 10:00:00.000001 insert  only here: n=0" in str(cep.compare({"q": rows[1:]}))
    assert cep.compare({"q": rows.assign(time=moments)}).verdict == "equal"
    for later, shown in ((3_600_000_000, "1 hour (3,600,000,000 µs)"), (7, "7 µs")):
        others = rows.assign(time=rows["time"] + pd.Timedelta(later, "us"))
        assert f"times there are {shown} later" in str(cep.compare({"q": others}))
    with pytest.raises(UsageError, match="one side counts milliseconds, that of the other microseconds"):
        compare(cep, bench(Feed()), statements=["q"])


def test_the_frame_suits_the_chart() -> None:
    found = compare({"q": BASE}, {"q": BASE[1:]}).frame
    assert list(found.columns) == ["statement", "equal", "different values", "only here", "only there", "not compared"]
    assert found.values.tolist() == [["q", 3, 0, 1, 0, 0]]


def test_html_names_the_verdict_and_escapes() -> None:
    text = compare({"a<b": BASE}, {"a<b": BASE[1:]})._repr_html_()
    assert "✗ different" in text and "a&lt;b" in text and "a<b" not in text


def test_what_is_unequal_is_told_without_a_traceback() -> None:
    found = compare({"q": BASE}, {"q": BASE[1:]})
    with pytest.raises(AssertionError) as told:
        found.assert_same()
    assert told.value._render_traceback_() == str(found).splitlines()  # type: ignore[attr-defined]


def test_unknown_statements() -> None:
    with pytest.raises(UsageError, match="the interactive side has no statement r; it has q"):
        compare({"q": BASE}, {"q": BASE, "r": BASE})
    assert compare({"q": BASE}, {"q": BASE, "r": BASE}, statements=["q"]).verdict == "equal"
    for nothing in ({}, {"statements": []}):
        with pytest.raises(UsageError, match="nothing to compare"):
            compare({"q": BASE}, {"q": BASE} if nothing else {}, **nothing)
    with pytest.raises(UsageError, match="cannot compare int"):
        compare(1, {"q": BASE})
    with pytest.raises(UsageError, match="no column kind"):
        compare({"q": BASE.drop(columns="kind")}, {"q": BASE})


def bench(feed: Feed, failures: int = 0) -> Any:
    """As much of a workbench as `compare` looks at."""
    output_type = EventType("q", {"s": STRING, "x": DOUBLE})
    statements = {"q": SimpleNamespace(output_type=output_type)}
    runtime = SimpleNamespace(statements=statements, plans=[], catalog=Catalog(), config=Config())
    numbers = {"failed": {"q": failures}, "by_hand": {}, "clock_by_hand": None}
    return SimpleNamespace(feed=lambda name: feed, runtime=runtime, **numbers)


def fill(feed: Feed, events: int) -> pd.DataFrame:
    rows = []
    for i in range(events):
        feed.push(i // 2, [{"s": "a", "x": float(i)}], [{"s": "b", "x": NAN}] if i % 3 == 0 else None)
        rows.append((i // 2, "insert", "a", float(i)))
        if i % 3 == 0:
            rows.append((i // 2, "remove", "b", NAN))
    return frame(*rows)


def test_a_workbench_is_read_from_its_feeds() -> None:
    feed = Feed()
    expected = fill(feed, 100)
    assert compare(bench(feed), {"q": expected}).verdict == "equal"
    found = compare(bench(feed), {"q": expected.assign(x=[-1.0, *expected["x"][1:]])})
    assert found.statements["q"].by_column == {"x": 1}


def test_what_a_full_feed_dropped_is_counted_and_said() -> None:
    feed = Feed(50)
    expected = fill(feed, 100)
    found = compare(bench(feed), {"q": expected})
    (note,) = found.statements["q"].notes
    left = len(expected) - found.statements["q"].equal
    assert found.verdict == "incomplete" and not found.statements["q"].same and 50 < left < len(expected)
    assert str(found).startswith(f"incomplete: 1 of 1 statement (q), {left} rows not compared, ")
    assert "? incomplete" in found._repr_html_()
    with pytest.raises(AssertionError, match="rows not compared"):
        found.assert_same()
    assert note.startswith("the interactive side has lost its oldest rows, so rows up to ")
    assert note.endswith(f"were counted only ({left} on both sides)")
    everything = Feed(None)
    fill(everything, 100)
    compare(bench(everything), {"q": expected}).assert_same()
    short = compare(bench(feed), {"q": expected[5:]})
    assert short.verdict == "different"
    assert f"({left} here and {left - 5} there)" in str(short)


def test_a_statement_that_failed_is_not_called_equal() -> None:
    """Also when it failed on both sides, where each lost the same row."""
    feed = Feed()
    expected = fill(feed, 10)
    found = compare(bench(feed, failures=1), {"q": expected})
    assert found.verdict == "incomplete" and found.statements["q"].failures == (1, 0)
    assert str(found).startswith("incomplete: 1 of 1 statement (q), 1 failure of statements, 14 rows equal")
    assert "failed 1 time here, 0 times there: rows may be missing" in str(found)
    assert compare(bench(feed, failures=1), {"q": expected[1:]}).verdict == "different"


def test_what_only_one_side_has_is_named() -> None:
    found = compare({"q": BASE, "new": BASE}, {"q": BASE})
    assert found.verdict == "equal" and str(found).splitlines()[-1] == "  not compared: new (only here)"
    assert "not compared: new (only here)" in found._repr_html_()
    assert "not compared" not in str(compare({"q": BASE, "new": BASE}, {"q": BASE}, statements=["q"]))


def test_events_that_were_sent_by_hand_are_told_where_there_are_differences() -> None:
    """They are in no frame, mostly; those that the compared statements do not read are not told of."""
    ticks = pd.DataFrame({"at": [0, 1000], "n": [1, 2]})
    cep = Workbench()
    cep.define("T", ticks, time="at")
    cep.run("create schema Other(n long); @name('q') select n from T; @name('others') select n from Other")
    cep.replay({"T": ticks}).run()
    both = {"q": cep.changes("q")}
    assert "by hand" not in str(compare(cep, both))
    cep.send("T", at=1000, n=3)
    cep.send("Other", n=4)
    found = compare(cep, both)
    told = "sent by hand here: 1 of T; their rows are only here unless the frames have these events, too"
    assert (found.verdict, found.by_hand) == ("different", {"T": 1})
    assert str(found).splitlines()[-1] == f"  {told}" and told in found._repr_html_()
    assert "by hand" not in str(compare(cep, {"q": cep.changes("q")})), "they are on both sides: nothing is to be told"
    cep.rewind()
    assert compare(cep, both).by_hand == {}


def test_a_clock_that_was_moved_by_hand_is_told_where_there_are_differences() -> None:
    ticks = pd.DataFrame({"at": [0, 1000], "n": [1, 2]})
    cep = Workbench()
    cep.define("T", ticks, time="at")
    cep.run("@name('q') select irstream n from T#time(10 sec)")
    cep.replay({"T": ticks}).run()
    both = {"q": cep.changes("q")}
    cep.advance(by="1 min")
    compared = compare(cep, both)
    assert (compared.verdict, compared.clock_by_hand) == ("different", 61_000)
    note = "the clock was moved by hand here, to 00:01:01.000: what was due until then is only here unless"
    assert note in str(compared) and note in compared._repr_html_()
    assert "by hand" not in str(compare(cep, {"q": cep.changes("q")}))
    cep.rewind()
    cep.replay({"T": ticks}).run()
    assert compare(cep, {"q": both["q"].iloc[1:]}).clock_by_hand is None


def test_a_clock_that_counts_microseconds_is_compared_with_times_of_frames() -> None:
    """Frames have no clock of their own, so their times are converted to that of the workbench."""
    cep = Workbench(config=Config(microseconds=True))
    cep.run("create schema T(n int); @name('q') select n from T")
    cep.advance(1_500_001)
    cep.send("T", n=1)
    rows = cep.changes("q")
    assert compare(cep, {"q": rows}).verdict == compare({"q": rows}, cep).verdict == "equal"
    moment = pd.Timestamp("1970-01-01 00:00:01.500001")
    assert compare(cep, {"q": rows.assign(time=moment)}).verdict == "equal"
    assert compare(cep, {"q": rows.assign(time=moment.floor("ms"))}).verdict == "different"


def failing(x: int) -> int:
    if x % 10 == 7:
        raise ValueError(x)
    return x


@pytest.mark.parametrize(
    ("epl", "who"),
    [
        ("@name('f') insert into S select failing(n) as n from T; @name('q') select n from S", "f"),
        ("@name('f') update istream T set n = failing(n); @name('q') select n from T", "f"),
        ("create variable long V; @name('f') on T set V = failing(n); @name('q') select V as v from T", "f"),
        ("create context C partition by n from T(failing(n) > 0); @name('q') context C select n from T", "C"),
    ],
)
def test_failures_of_what_feeds_a_statement_are_in_the_headline(epl: str, who: str) -> None:
    """Of statements that are not compared themselves, and of contexts; also on both sides, where each lost a row."""
    frame = pd.DataFrame({"at": range(20), "n": range(20)})

    def replayed() -> Workbench:
        cep = Workbench()
        cep.define("T", frame, time="at")
        cep.register_function("failing", failing, returns="long")
        cep.run(epl)
        cep.replay({"T": frame}, errors="keep").run()
        return cep

    cep = replayed()
    theirs = side_of(replayed()).rows("q", 1000)
    columns = {name: column.plain() for name, column in theirs.columns.items()}
    batch = {"q": pa.table({"time": theirs.time, "kind": ["insert"] * len(theirs.time), **columns})}
    for clear in (False, True):  # what is no longer listed has cost rows as well
        if clear:
            cep.clear_errors()
        found = compare(cep, batch, statements=["q"])
        assert found.verdict == "incomplete" and "2 failures of statements" in str(found).splitlines()[0]
        assert f"{who}, which feeds it, failed 2 times here, 0 times there: rows may be missing" in str(found)
    cep.run(epl.replace("failing(n)", "n"))  # deployed anew, as the rows that are compared
    assert compare(cep, {"q": batch["q"].slice(0, 0)}).verdict == "equal"
