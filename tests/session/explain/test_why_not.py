"""Answers to the question why are true: of events within events, of what the clock did, of types, of rows held back."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook import Workbench
from cepbook.session.explain.explanations import StatementOutcome
from tests.session.explain.test_row_provenance import short

BASKETS = """create schema Item(sku string, n int);
create schema Basket(id string, ok boolean, items Item[]);
create context PerId partition by id from Basket;
"""


def course(epl: str, *baskets: list[tuple[str, int]]) -> StatementOutcome:
    cep = Workbench()
    cep.run(BASKETS + epl)
    for items in baskets:
        cep.send("Basket", id="a", ok=True, items=[{"sku": sku, "n": n} for sku, n in items])
    (outcome,) = cep.why("q", -1).courses
    return outcome


@pytest.mark.parametrize(
    ("epl", "outcome", "stages"),
    [
        ("select sku from Basket[items where n > 5]", "fell out", [("within", False, "n > 5", (("n", 2),))]),
        (
            "select sku from Basket[items] where n > 5",
            "fell out",
            [("within", True, "[items]", ()), ("where", False, "n > 5", (("n", 2),))],
        ),
        (
            "select sku from Basket(ok)[items] where n > 1",
            "delivered",
            [
                ("filter", True, "ok", (("ok", True),)),
                ("within", True, "[items]", ()),
                ("where", True, "n > 1", (("n", 2),)),
            ],
        ),
        (
            "select sum(n) as s from Basket[items]#length_batch(5)",
            "kept",
            [("within", True, "[items]", ()), ("window", False, "#length_batch(5)", ())],
        ),
        (
            "context PerId select sum(n) as s from Basket[select id, sku, n from items]#length(5) having sum(n) > 10",
            "kept",
            [
                ("context", True, "PerId (keyed)", (("key1", "a"),)),
                ("within", True, "[select id, sku, n from items]", ()),
                ("window", True, "#length(5)", ()),
                ("having", False, "sum(n) > 10", (("sum(n)", 3),)),
            ],
        ),
    ],
)  # fmt: skip
def test_events_within_the_event_are_what_is_judged(epl: str, outcome: str, stages: list[Any]) -> None:
    explained = course(f"@name('q') {epl}", [("x", 1), ("y", 2)])
    assert explained.outcome == outcome
    assert [(s.name, s.passed, s.text, s.values) for s in explained.stages] == stages


def test_how_many_events_within_pass() -> None:
    explained = course("@name('q') select sku from Basket[items] where n > 1 and sku = 'x'", [("x", 1), ("y", 2)])
    assert [stage.note for stage in explained.stages] == [
        "2 within it",
        "true of 1 of 2 events within it",
        "true of 0 of 1 events within it",
    ]
    assert course("@name('q') select sku from Basket[items]", []).stages[0].note == "no event is within it"


LEAP = "the clock, which came to 00:00:01.500 in one leap: this was due at 00:00:01.000"


def test_what_the_clock_delivers_before_an_event_of_a_replay_is_not_of_the_event() -> None:
    cep = Workbench()
    cep.run("""create schema T(at long, p int);
        @name('batch') select p from T#time_batch(1 sec); @name('paced') select p from T output every 1 sec""")
    cep.replay([{"at": at, "p": at} for at in (0, 300, 1500)], type="T", time="at", leap=True).run()
    assert [list(cep.changes(name)["p"]) for name in ("batch", "paced")] == [[0, 300], [0, 300]]
    judged = cep.why(None, -1)
    assert [(c.outcome, c.rows) for c in judged.courses] == [("kept", ()), ("kept", ())]
    fired = cep.why("batch")
    assert (fired.cause, fired.stimulus) == (LEAP, None)


def test_the_type_of_an_event_in_a_filter() -> None:
    cep = Workbench()
    cep.run("""create schema Animal(name string); create schema Dog() inherits Animal;
        @name('filter') select name from Animal(typeof(a) = 'Dog') as a;
        @name('where') select name from Animal#length(2) as a where typeof(a) = 'Dog'""")
    for type_name, outcomes in (("Dog", ["delivered", "delivered"]), ("Animal", ["fell out", "kept"])):
        cep.send(type_name, name="x")
        courses = cep.why(None, -1).courses
        assert [c.outcome for c in courses] == outcomes
        assert all(stage.passed is (type_name == "Dog") for c in courses for stage in c.stages[-1:])
        assert all(c.stages[-1].values == (("typeof(a)", type_name),) for c in courses if c.stages)


LOADS = """create schema Load(host string, pct int);
create context PerHost partition by host from Load;
"""


@pytest.mark.parametrize(
    "epl",
    [
        "context PerHost select irstream host, sum(pct) as t from Load#length(2) having sum(pct) > 10"
        " output last every 3 events",
        "select irstream host, sum(pct) as t from Load group by host output all every 3 events",
    ],
)
def test_a_row_of_another_partition_or_group_is_not_explained_by_all_events(epl: str) -> None:
    cep = Workbench()
    cep.run(f"{LOADS} @name('q') {epl}")
    for host, pct in (("a", 6), ("b", 20), ("a", 6), ("b", 1), ("a", 1), ("b", 1)):
        cep.send("Load", host=host, pct=pct)
    rows = cep.changes("q")
    for number in range(len(rows)):
        fired = cep.why("q", row=number)
        assert fired.provenance is not None and sum(p.event["pct"] for p in fired.provenance) == (fired.row["t"] or 0)


def test_the_event_that_ends_a_partition_may_count() -> None:
    cep = Workbench()
    cep.run("""create schema Go(); create schema Halt(x int);
        @priority(0) create context C start Go end Halt;
        @priority(1) @name('plain') context C select sum(x) as s from Halt output when terminated;
        @priority(1) @name('kept') context C select sum(x) as s from Halt#keepall output when terminated""")
    cep.send("Go")
    cep.send("Halt", x=3)
    for name in ("plain", "kept"):
        fired = cep.why(name)
        assert (fired.row, short(fired.provenance)) == ({"s": 3}, [("Halt", 3, 0)])


def test_a_row_that_was_held_back_within_one_instant_says_so() -> None:
    cep = Workbench()
    cep.run(f"{LOADS} @name('q') select host, sum(pct) as t from Load group by host output last every 3 events")
    for host, pct in (("a", 6), ("b", 20), ("a", 6)):
        cep.send("Load", host=host, pct=pct)
    notes = {fired.row["host"]: fired.notes for fired in (cep.why("q", row=0), cep.why("q", row=1))}
    note = "it was made by an earlier event of the same time, and the output clause held it back until then"
    assert notes == {"a": (), "b": (note,)}


def test_who_assigns_a_part_of_a_variable_needs_who_assigned_it() -> None:
    cep = Workbench()
    cep.run("""create schema Quote(px double); create schema Cut(x double);
        create variable Quote top; on Quote as q set top = q;
        @name('q') on Cut as c set top.px = c.x""")
    cep.send("Quote", px=7.0)
    cep.send("Cut", x=1.0)
    fired = cep.why("q")
    assert (fired.basis, fired.row, short(fired.provenance)) == ("run again", {"top": {"px": 1.0}}, [("c", 1.0, 0)])


@pytest.mark.parametrize(
    ("epl", "limits"),
    [
        ("select x from E limit 0", "limit 0"),
        ("select e.x as x from E#lastevent as e, F#keepall as f order by e.x limit 0", "limit 0"),
        ("select x from E#keepall having x > 2 order by x limit 5 offset most", "limit 5 offset most"),
        ("select x, sum(x) as s from E#keepall group by x limit most offset 3", "limit most offset 3"),
    ],
)
def test_a_limit_that_leaves_out_the_row_is_named(epl: str, limits: str) -> None:
    cep = Workbench()
    cep.run(f"create variable int most = 1; create schema E(x int); create schema F(x int); @name('q') {epl}")
    cep.send("F", x=1)
    cep.send("E", x=3)
    (outcome,) = cep.why("q", -1).courses
    *_, last = outcome.stages
    assert (last.name, last.text, last.note) == ("limit", limits, "its row is left out; 1 row made")
    assert outcome.outcome != "delivered"
