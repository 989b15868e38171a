"""The printed stages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest

from cepbook.dialects.stages import show_stage
from cepbook.engine.runtime import Runtime
from cepbook.errors import BindError, CepbookError, UsageError
from cepbook.lang.explain.statements import show_statement
from cepbook.lang.plan import nodes
from cepbook.lang.plan.traversal import transform, walk
from tests.lang.binding import CATALOG

ROOT = Path(__file__).resolve().parents[3]

EPL = (
    "@name('out') context PerSymbol insert into Sums select irstream symbol, volume, sum(price) as s"
    " from Tick(price > 1 + 1)#time_batch(1 min, 'FORCE_UPDATE') where volume in [1:5) and true"
    " group by symbol having sum(price) > 5"
)


def test_ast() -> None:
    shown = show_stage("ast", EPL, CATALOG)
    assert shown.startswith("Module")
    assert "Window name=time_batch" in shown


def test_plan() -> None:
    assert show_stage("plan", EPL, CATALOG).splitlines() == [
        "select statement `out` (aggregated_grouped, irstream)",
        "  in context PerSymbol",
        "  project",
        "    symbol: string = symbol",
        "    volume: int = volume",
        "    s: double = sum(price)",
        "    having sum(price) > 5",
        "      aggregate by symbol",
        "        sum(price): double",
        "        where (volume in [1:5)) and true",
        "          window time_batch(1 min, FORCE_UPDATE)",
        "            from Tick",
        "              filter price > (1 + 1)",
        "  gives Sums(symbol string, volume int, s double) inserted by istream, created here",
        "",
        "requires context PerSymbol, event type Tick",
        "",
        "provides event type Sums",
    ]


def test_rewritten() -> None:
    shown = show_stage("rewritten", EPL, CATALOG)
    assert "where volume in [1:5)\n" in shown
    assert "filter price > 2\n" in shown


@pytest.mark.parametrize(
    ("clause", "lines"),
    [
        ("every 3 events", ["output every 3 events"]),
        ("after 1 min first every 5 sec", ["output after 1 min first every 5 sec"]),
        ("after 2 events", ["output after 2 events"]),
        (
            "all at (*/15, 8:17, last, [1, 3:5], *)",
            ["output all at (*/15, 8:17, last, [1, 3:5], *, 0)"],
        ),
        (
            "snapshot at (0, 9, *, *, 5 last, 30, 'GMT+5')",
            ["output snapshot at (0, 9, *, *, 5 last, 30, 'GMT+5')"],
        ),
        ("at (0, 9, *, *, *, 30, null, */100)", ["output at (0, 9, *, *, *, 30, null, */100)"]),
        ("at (0, 9, 10 weekday, *, *)", ["output at (0, 9, 10 weekday, *, *, 0)"]),
        (
            "last when count_insert > V then set V = count_insert",
            ["output last when count_insert > V", "  then V = count_insert"],
        ),
        (
            "every 2 events and when terminated then set V = 0",
            ["output every 2 events", "  when terminated", "    then V = 0"],
        ),
        ("when terminated and count_insert > 1", ["output", "  when terminated and count_insert > 1"]),
    ],
)
def test_output_clauses(clause: str, lines: list[str]) -> None:
    epl = f"create variable int V = 1; context PerSymbol select symbol from Tick output {clause}"
    shown = show_stage("plan", epl, CATALOG).splitlines()
    at = shown.index(f"  {lines[0]}")
    assert shown[at : at + len(lines)] == [f"  {line}" for line in lines]
    assert shown[at + len(lines)].startswith("  gives ")


def test_create_statements() -> None:
    shown = show_stage(
        "plan", "create schema A(x int) inherits Inn; create context C partition by x from A(x > 1)", CATALOG
    )
    assert "A(p int, q string, x int)\n  inherits Inn" in shown
    assert "create context `C` (keyed)\n  partition by x: int from A filter x > 1" in shown


@pytest.mark.parametrize(
    "text",
    [
        "price * 2",
        "'x' || symbol",
        "not (volume > 1)",
        "volume in (1, 2)",
        "symbol like 'a%' escape '!'",
        "case when volume > 1 then 1 else 2 end",
        "Math.max(price, 1.0)",
        "symbol.substring(0, 1)",
        "cast(price, int)",
        "{1, 2}",
        "new {a = price}",
        "info['k']",
        "flags[0]",
        "symbol is not null",
        "typeof(price)",
        "computeHash(symbol)",
        "current_timestamp",
    ],
)
def test_expressions_print_as_they_are_written(text: str) -> None:
    assert f"v: {_type(text)} = {text}" in show_stage("plan", f"select {text} as v from Tick", CATALOG)


def _type(text: str) -> str:
    shown = show_stage("plan", f"select {text} as v from Tick", CATALOG)
    return next(line for line in shown.splitlines() if line.startswith("    v: ")).split(": ")[1].split(" = ")[0]


def test_stages_of_the_engines() -> None:
    printers = {"python": lambda module: f"{len(module.statements)} functions"}
    assert show_stage("python", EPL, CATALOG, printers=printers) == "1 functions"
    with pytest.raises(UsageError, match="no engine"):
        show_stage("coverage", EPL, CATALOG, printers=printers)


def test_unknown_stage() -> None:
    with pytest.raises(UsageError, match="did you mean `plan`"):
        show_stage("plam", EPL, CATALOG)


def test_errors_pass_through() -> None:
    with pytest.raises(BindError):
        show_stage("plan", "select nosuch from Tick", CATALOG)


# Facts that follow from names, types or methods that are shown
FOLLOWING = {
    ("AggregateCall", "reference"), ("ContainedSelection", "scalar"), ("Insert", "inside"), ("Insert", "table"),
    ("MergeActionPlan", "output_type"), ("PropertyAssignment", "primitive"), ("SourceNode", "store"),
    ("VariableAssignment", "primitive"),
}  # fmt: skip


def corpus_plans() -> Iterator[nodes.StatementPlan]:
    for file in sorted((ROOT / "tests" / "corpus").rglob("*.md")):
        for fence in re.findall(r"```epl\n(.*?)```", file.read_text(encoding="utf-8"), flags=re.DOTALL):
            with suppress(CepbookError):
                yield from Runtime().compile(fence).statements


def shows(plan: nodes.StatementPlan, node: nodes.PlanNode, name: str, default: object) -> bool:
    """Whether the text of `plan` is another one if the field `name` of `node` is left out."""

    def change(other: nodes.PlanNode) -> nodes.PlanNode:
        return replace(other, **{name: default}) if other == node else other

    try:
        return show_statement(transform(plan, change)) != show_statement(plan)
    except (IndexError, ValueError):  # the printer reads the field, which no plan leaves out in this place
        return True


@pytest.mark.histories  # it compiles the corpus
def test_a_plan_shows_all_that_a_statement_says() -> None:
    """Each field of a node that may be left out is shown in some statement of the corpus."""
    seen, shown = set(), set()
    for plan in corpus_plans():
        for node in walk(plan):
            for field in fields(node) if isinstance(node, nodes.PlanNode) and node is not plan else ():
                key, value = (type(node).__name__, field.name), getattr(node, field.name)
                left_out = field.default is MISSING or field.name == "span" or value == field.default
                if not left_out and key not in shown:
                    seen.add(key)
                    shown |= {key} if shows(plan, node, field.name, field.default) else set()
    assert ("Projection", "order_by") in shown
    assert seen - shown == FOLLOWING
