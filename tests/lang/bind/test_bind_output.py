"""The output clause: what is bound, and what a user sees for wrong ones (``output_errors.md``; see ``--record``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.errors import BindError
from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from tests.lang import recorded
from tests.lang.binding import bound, select

FILE = Path(__file__).with_name("output_errors.md")


def output(clause: str, before: str = "", context: str = "") -> nodes.OutputClause:
    """The bound clause of a statement over ``Tick``."""
    found = select(f"{before}{context} select symbol from Tick output {clause}").output
    assert found is not None
    return found


@pytest.mark.parametrize(("epl", "error"), recorded.cases(FILE), ids=lambda text: text.splitlines()[0][:60])
def test_recorded_text(epl: str, error: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(BindError) as caught:
        bound(epl.rstrip())
    recorded.check(FILE, epl, error, caught.value, request)


def test_numbers_of_events() -> None:
    found = output("first every 5 events")
    assert (found.kind, found.which, found.rate) == ("events", "first", x.Const(t.INT, 5))


def test_a_variable_rate_is_read_at_run_time() -> None:
    before = "create variable int n = 3; create constant variable int c = 4;"
    assert output("every n events", before).rate == x.VariableRead(t.INT, "n")
    assert output("every c events", before).rate == x.Const(t.INT, 4)
    period = output("every n min 1 sec", before).rate
    assert isinstance(period, x.Period)
    assert any(isinstance(part, x.VariableRead) for part in x.walk(period))


def test_periods() -> None:
    found = output("after 1 min snapshot every 1 month 500 msec")
    assert found.after == x.Period(t.LONG, None, x.Const(t.LONG, 60_000))
    assert found.rate == x.Period(t.LONG, x.Const(t.INT, 1), x.Const(t.LONG, 500))


def test_only_after() -> None:
    found = output("after 3 events")
    assert (found.kind, found.which, found.after) == (None, None, x.Const(t.INT, 3))


def test_conditions_read_counters_variables_and_the_context() -> None:
    before = "create variable boolean go = true; create variable long total = 0;"
    found = output(
        "last when go and count_insert > 2 and context.key1 = 'a' then set go = false, total = count_insert_total",
        before,
        "context PerSymbol",
    )
    assert found.when is not None
    parts = x.walk(found.when)
    assert x.OutputCounter(t.INT, "count_insert") in parts
    assert x.VariableRead(t.BOOLEAN, "go") in parts
    assert x.ContextProp(t.STRING, "key1") in parts
    assert [a.variable for a in found.then_set] == ["go", "total"]
    assert x.OutputCounter(t.INT, "count_insert_total") in x.walk(found.then_set[1].value)


def test_what_happens_at_the_end_of_a_partition_stands_in_one_place() -> None:
    before = "create variable int n = 0;"
    alone = output("snapshot when terminated and count_insert > 1 then set n = 2", before, "context PerSymbol")
    behind = output(
        "snapshot when n > 0 and when terminated and count_insert > 1 then set n = 2", before, "context PerSymbol"
    )
    assert (alone.kind, behind.kind) == ("terminated", "when")
    assert alone.and_terminated and behind.and_terminated
    assert (alone.when, alone.then_set) == (None, ())
    assert alone.terminated_when == behind.terminated_when is not None
    assert alone.terminated_then == behind.terminated_then
    assert [a.variable for a in alone.terminated_then] == ["n"]


def test_crontabs() -> None:
    before = "create variable int m = 5;"
    found = output("at (*/15, 8:17, *, [1, 3:m], 5 last, *, 'GMT+5')", before).crontab
    assert found is not None
    assert [f.kind for f in found.fields] == ["step", "range", "star", "list", "nth_last", "star"]
    assert [p.kind for p in found.fields[3].parts] == ["value", "range"]
    assert found.fields[3].parts[1].operands == (x.Const(t.INT, 3), x.VariableRead(t.INT, "m"))
    assert found.zone == "GMT+5"


def test_without_seconds_a_crontab_means_full_minutes() -> None:
    found = output("at (*, *, lastweekday, *, *)").crontab
    assert found is not None
    assert found.fields[5] == nodes.CronField("value", (x.Const(t.INT, 0),))
    assert found.zone is None
