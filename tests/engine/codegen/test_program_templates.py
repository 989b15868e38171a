"""Statements that differ in constants only share their generated code, and each has its own constants and places."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cepbook.engine.codegen import program_template, select
from cepbook.engine.codegen.program_template import ProgramTemplate, ProgramTemplates
from cepbook.engine.physical.lowering import lower_statement
from cepbook.engine.physical.lowering_templates import lower_to_shape
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.physical.shape import shape_of
from cepbook.engine.runtime import Runtime
from cepbook.engine.snapshot.runtime_parts import runtime_parts
from cepbook.errors import CompileError, StatementError, UsageError
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import SelectStatement
from cepbook.lang.plan.placeholder import ConstantRead, Placeholder
from cepbook.lang.plan.traversal import map_expressions, rebuild_expr
from tests.engine.codegen.test_fragments import told
from tests.engine.generated_statements import Statements
from tests.lang.syntax.test_parse_corpus import FILES, epl_texts
from tests.random_cases import part

SCHEMA = """create schema E(k int, v double, s string); create variable double least = 3;
create constant variable int step = 7;
create context Keyed partition by k from E; create context Open start E(v = -1) as s end E(v = -2);
create context Kinds group v < 2 as low, group v >= 2 as high from E; context Keyed create variable double own = 2"""
KINDS = {
    "equality": "select k, v from E(k = {0})",
    "texts": "select k from E(s = 'text {0}')",
    "range": "select k, v from E(v between {0} and {0}.5)",
    "a range of two whole numbers": "select k, v from E(k between {0} and {0}1)",
    "pattern": "select a.k as k, b.v as v from pattern [every a=E(k = {0}) -> b=E(k = a.k, v > {0}5)]",
    "window": "select k, sum(v) as total from E(k = {0})#length(10)",
    "having": "select k, count(*) as n from E#length(5) group by k having sum(v) > {0}",
    "output last": "select k, v from E(k = {0}) output last every 5 sec",
    "output of groups": "select k, count(*) as n from E(v > {0}) group by k output all every {0}7 seconds",
    "output first": "select k, v from E(k = {0}) group by k output first every {0} events",
    "output snapshot": "select k, v from E(k = {0})#length(3) output snapshot every {0} min",
    "output after": "select k, v from E(k = {0}) output after {0} events every 2 sec",
    "output when": "select k, v from E(k = {0}) output last when count_insert > {0}3",
    "columns": "select k + {0} as k, 'x{0}' as name from E(v > {0})",
    "a filter by a variable": "select k from E(k = {0}, v > least)",
    "a column of a variable": "select k + {0} as k, v / least as share, step as step from E(v > {0})",
    "a window of a variable": "select k, sum(v) as s from E(k = {0})#expr(current_count <= least + {0})",
    "an output of a variable": "select k from E(k = {0}) output last when least > {0}",
    "a pattern with a variable": "select a.k as k from pattern [every a=E(k = {0}) -> E(k = a.k, v > least + {0})]",
    "a keyed context": "context Keyed select k, sum(v) as s, context.key1 as key from E(v > {0})#length(5)",
    "a variable of a context": "context Keyed select v + own as w from E(v > own + {0})",
    "start and end": "context Open select k, context.s.v as first from E(k = {0})",
    "categories": "context Kinds select context.label as label, count(*) as n from E(v > {0}) group by k",
    "output at the end": "context Open select k, count(*) as n from E(k = {0}) output snapshot when terminated",
    "a pattern in a context": "context Open select a.k as k from pattern [every a=E(k = {0}) -> E(v > {0})]",
}


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProgramTemplates[Any]]:
    own: ProgramTemplates[Any] = ProgramTemplates()
    monkeypatch.setattr(select, "_TEMPLATES", own)
    yield own


def without_shape(plan: SelectStatement, subqueries: tuple[PhysicalPlan, ...] = ()) -> tuple[PhysicalPlan, None]:
    """Lower a plan whose code is generated for itself."""
    steps = lower_statement(plan)
    steps.subqueries = subqueries
    return steps, None


def deployed(*texts: str) -> tuple[Runtime, list[Any]]:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    return runtime, [runtime.deploy(text).statements[0].program for text in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_statements_of_one_shape_share_code_and_have_their_own_constants(
    kind: str, templates: ProgramTemplates[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [KINDS[kind].format(number) for number in (3, 4, 17, 3)]
    _, programs = deployed(*texts)
    codes = {program.functions.new_state.__code__ for program in programs[1:]}
    assert len(codes) == 1
    with monkeypatch.context() as patch:
        patch.setattr(select, "lower_to_shape", without_shape)
        _, alone = deployed(*texts)
    for shared, own in zip(programs, alone, strict=True):
        assert shared.text == own.text
        assert list(map(repr, shared.constants.items())) == list(map(repr, own.constants.items()))
        assert shared.spans == own.spans
        assert (shared.bound, shared.legend, shared.notes) == (own.bound, own.legend, own.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_plans_of_one_template_are_lowered_as_each_would_be(kind: str) -> None:
    runtime, _ = deployed(*[f"@name('s{number}') {KINDS[kind].format(number)}" for number in range(3, 8)])
    plan = runtime.compile(f"@name('other')  {KINDS[kind].format(77)}").statements[0]
    assert isinstance(plan, SelectStatement)
    assert plan.template is not None
    steps, shape = lower_to_shape(plan)
    alone = lower_statement(plan)
    own = shape_of(alone)
    assert repr(steps) == repr(alone)  # with all places
    assert shape is not None and own is not None
    assert (shape.key, [*shape.constants], [*shape.spans]) == (own.key, [*own.constants], [*own.spans])


def test_a_thousand_statements_generate_their_code_twice(
    templates: ProgramTemplates[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    write = select._Writer.write
    monkeypatch.setattr(select._Writer, "write", lambda writer: (written.append(writer), write(writer)))
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(";".join(KINDS["equality"].format(number) for number in range(1000)))
    assert len(written) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "select k from E(v between 1 and 2)",
            "select k from E(v between 2 and 1)",
        ),  # the generator asks which is less
        ("select k from E(k = 1 or v = 1)", "select k from E(k = 1 or v = 2)"),  # which are equal is part of the shape
        ("select k / 0 as k from E", "select k / 2 as k from E"),
        ("select k from E#length(1)", "select k from E#length(3)"),
        ("select k from E(v > 0.0)", "select k from E(v > -0.0)"),
        ("select k from E(v > 1)", "select k from E(v > 1L)"),
        ("select prev(1, k) as k from E#length(5)", "select prev(2, k) as k from E#length(5)"),
    ],
)
def test_what_the_generator_asks_for_is_part_of_the_shape(
    first: str, second: str, templates: ProgramTemplates[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (*_, one, other) = deployed(first, first, second, second, first, second)
    with monkeypatch.context() as patch:
        patch.setattr(select, "lower_to_shape", without_shape)
        _, (one_alone, other_alone) = deployed(first, second)
    assert (one.text, one.constants) == (one_alone.text, one_alone.constants)
    assert (other.text, repr(other.constants)) == (other_alone.text, repr(other_alone.constants))


def test_constants_that_are_equal_to_fixed_ones_are_part_of_the_shape(
    templates: ProgramTemplates[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10000 there is one constant in the code: the milliseconds, and what `k` is compared with."""
    texts = [f"select k + step as n from E(k = {number})#time(10 sec)" for number in (3, 4, 5, 10000, 7, 6)]
    _, programs = deployed(*texts)
    with monkeypatch.context() as patch:
        patch.setattr(select, "lower_to_shape", without_shape)
        _, alone = deployed(*texts)
    assert [program.text for program in programs] == [program.text for program in alone]
    assert len({program.text for program in programs}) == 3


def test_each_runtime_has_its_own_variables(templates: ProgramTemplates[Any]) -> None:
    """A filter reads a variable as it was before the event, also if its code was written for another runtime."""
    deployed(*[f"select k from E(k = {number}, v > least)" for number in (1, 2, 3)])
    runtime, (program,) = deployed("select k from E(k = 4, v > least)")
    assert runtime.variables["least"] in program.constants.values()
    runtime.deploy("@Priority(5) on E set least = v")
    rows: list[Any] = []
    runtime.deploy("@name('s') select k from E(k = 5, v > least)")
    runtime.statement("s").add_listener(lambda delta: rows.extend(delta.insert))
    for value in (4.0, 3.5, 3.6):
        runtime.send("E", {"k": 5, "v": value, "s": ""})
    assert len(rows) == 2  # 4.0 is above 3, and 3.6 is above 3.5


def test_a_variable_of_a_context_and_one_of_all_events_have_code_of_their_own(templates: ProgramTemplates[Any]) -> None:
    of_all, of_context = "create variable double x = 3", "context C create variable double x = 3"
    texts = []
    for variable in (of_all, of_all, of_context, of_context, of_all):
        runtime = Runtime()
        runtime.deploy(f"create schema E(k int, v double); create context C partition by k from E; {variable}")
        number = len(texts)
        texts.append(runtime.deploy(f"context C select x as x from E(v > {number})").statements[0].program.text)
    assert texts[0] == texts[1] == texts[4] != texts[2] == texts[3]


def test_a_failure_points_into_the_text_of_its_own_statement(templates: ProgramTemplates[Any]) -> None:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    failures: list[Any] = []
    runtime.add_error_listener(failures.append)
    for number in (1, 22, 333):
        runtime.deploy(f"@name('s{number}') select {' ' * number}Integer.parseInt(s) as n from E(k = {number})")
        runtime.statement(f"s{number}").add_listener(lambda delta: None)
    for number in (333, 1, 22):
        runtime.send("E", {"k": number, "s": "no number", "v": 0.0})
    assert [failure.statement for failure in failures] == ["s333", "s1", "s22"]
    for failure in failures:
        source = runtime.statement(failure.statement).source
        assert source[failure.span.start : failure.span.end] == "Integer.parseInt(s)"


@pytest.mark.parametrize(
    "use", ["value + 1", "1 + value", "value == 1", "1 < value", "str(value)", "f'{value}'", "-value"]
)
def test_reading_a_placeholder_is_noticed(use: str) -> None:
    value = Placeholder(4, 17, frozenset())
    with pytest.raises(ConstantRead) as read:
        eval(use, {"value": value})
    assert read.value.question == (None, 4, 4)
    assert isinstance(value, int)
    assert value == value


def test_a_snapshot_does_not_depend_on_what_was_deployed_before(templates: ProgramTemplates[Any]) -> None:
    """Its fingerprint is of texts and constants, which are those of a statement that is the first of its shape."""
    module = f"{SCHEMA}; @name('a') select prev(1, k) + 1 as k from E(k = 1)#length(3) order by k; " + ";".join(
        kind.format(1) for kind in KINDS.values()
    )
    first, later = Runtime(), Runtime()
    first.deploy(module)
    deployed(*[kind.format(number) for kind in KINDS.values() for number in (2, 3)])
    later.deploy(module)
    assert runtime_parts(first).fingerprint == runtime_parts(later).fingerprint


# ---------------------------------------------------------------- random modules
def changed(value: Any) -> Any:
    """Another value of the type of a constant."""
    if type(value) is int:
        return value + 1
    return value + 0.5 if type(value) is float else value + "x" if type(value) is str else value


class TemplatesOfOthers(ProgramTemplates[Any]):
    """Makes each template from a plan that has other constants than the first statement."""

    used = 0

    def find(self, key: Any, plan: Any, shape: Any, generate: Any) -> ProgramTemplate[Any] | None:
        def other(e: x.BoundExpr) -> x.BoundExpr:
            return x.Const(e.type, changed(e.value), span=e.span) if isinstance(e, x.Const) else e

        other_plan = map_expressions(plan, lambda e: rebuild_expr(e, other))
        other_shape = shape_of(lower_statement(other_plan))
        if other_shape is not None and other_shape.key == shape.key:
            for _ in range(2):
                super().find(key, other_plan, other_shape, generate)
        template = super().find(key, plan, shape, generate)
        self.used += template is not None and bool(template.numbers)
        return template


@pytest.mark.histories
@pytest.mark.parametrize("number", range(4))
def test_random_statements_with_code_of_their_own_and_of_others(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = part(range(number * 60, (number + 1) * 60))
    templates = TemplatesOfOthers()
    with monkeypatch.context() as patch:
        patch.setattr(select, "lower_to_shape", without_shape)
        alone = [told(seed) for seed in seeds]
    monkeypatch.setattr(select, "_TEMPLATES", templates)
    shared = [told(seed) for seed in seeds]
    assert templates.used > 3
    for seed, one, other in zip(seeds, alone, shared, strict=True):
        assert one == other, Statements(seed).module().epl


def programs_of(text: str) -> list[Any]:
    """The code of each statement of a text: text, constants, places; none if it needs other texts."""
    runtime = Runtime()
    try:
        statements = runtime.deploy(text).statements
    except (CompileError, StatementError, UsageError):
        return []
    programs = [statement.program for statement in statements]
    constants = [re.sub(r" at 0x\w+", "", repr(program.constants)) for program in programs]
    return [(p.text, known, p.spans, p.bound) for p, known in zip(programs, constants, strict=True)]


@pytest.mark.histories
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_statements_of_the_corpus_with_code_of_others(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = part(epl_texts(file.read_text(encoding="utf-8")))
    monkeypatch.setattr(select, "_TEMPLATES", TemplatesOfOthers())
    shared = [programs_of(text) for text in texts]
    monkeypatch.setattr(select, "lower_to_shape", without_shape)
    for text, programs in zip(texts, shared, strict=True):
        assert programs == programs_of(text), text


def test_a_constant_that_planning_computes_is_not_shared(
    templates: ProgramTemplates[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in the lowered plan, where no placeholder was: here because none is put anywhere."""
    monkeypatch.setattr(program_template, "with_placeholders", lambda plan, shape, answered: plan)
    runtime, _ = deployed()
    counts = list[int]()
    for least in range(1, 5):
        statement = runtime.deploy(f"select k from E(k >= {least})").statements[0]
        statement.add_listener(lambda delta, least=least: counts.append(least))
    runtime.send("E", {"k": 2})
    assert counts == [1, 2]


def test_a_method_of_an_object_is_shared_by_no_statements() -> None:
    assert not program_template._stateless({}.get)
    assert program_template._stateless(math.floor)
