"""Plans that a template builds are those that the binder returns, places included."""

from __future__ import annotations

import copy
import pickle
import random
import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from cepbook.engine.physical.lowering import lower_statement
from cepbook.engine.physical.lowering_templates import lower_to_shape
from cepbook.engine.physical.shape import shape_of
from cepbook.errors import CompileError, Refusal
from cepbook.lang.bind import bind, module_binder
from cepbook.lang.plan.catalog import Catalog, EventType, FunctionType
from cepbook.lang.plan.definitions import add_definitions
from cepbook.lang.plan.nodes import SelectStatement
from cepbook.lang.rewrite import rewrite
from cepbook.lang.syntax.reader.parser import parse_epl
from cepbook.lang.types import DOUBLE, INT, LONG, STRING
from tests.lang.syntax.test_parse_corpus import FILES, epl_texts
from tests.random_cases import part

DECLARATIONS = """create schema E(ts long, k int, v double, s string);
create variable double least = 3; create constant variable int step = 7;
create context Keyed partition by k from E; create context Open start E(v = 1) as o end E(v = 2)"""
OWN_NAME = "select count(*) as n from E having current_evaluation_context().getStatementName()"
EVENT_TYPE = EventType("E", {"ts": LONG, "k": INT, "v": DOUBLE, "s": STRING})


def plan_of(text: str, catalog: Catalog) -> Any:
    """The plan of the only statement of a text, or the text of the error."""
    try:
        return rewrite(bind(parse_epl(text), catalog, text)).statements[0]
    except CompileError as error:
        return str(error)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Bind without templates."""

    def bound(text: str, catalog: Catalog) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(module_binder._TEMPLATES, "plan", lambda *form: None)
            return plan_of(text, catalog)

    return bound


@pytest.mark.parametrize(
    "text",
    [
        "@name('rule{0}') select k, v from E(k = {0})",
        "select k from E(k = -{0}) where v > {0}.5",
        "@name('rule{0}') @Tag('{0}') select * from E(s in ('a{0}', 'b', 'c{0}'))",
        "@Hint('x') select k from E(v between {0} and 1{0})",
        "select a.v as a, b.v as b from pattern [every a=E(k = {0}, v < 1) -> b=E(k = a.k, v > {0}5)]",
        "select k, sum(v) as total from E(k = {0})#length(10) group by k having sum(v) > {0}",
        "select k + {0} as k, 'x{0}' as name from E#time(10 sec) order by v limit 5",
        "select a.k as k from E(k > {0})#lastevent as a, E(v > {0}.5)#lastevent as b where a.k = b.k",
        "select k from E(v > {0}.5) output last every 5 events",
        "select k, least + {0} as n from E(k = {0}, v > least)",
        "select k, step * k as n from E(k = {0}, v > step)",
        "context Keyed select k, context.key1 as key from E(v > {0})",
        "context Open select s, context.o.v as v from E(k = {0}, s = context.o.s) output all when terminated",
    ],
)
def test_plans_of_one_template(text: str, alone: Any) -> None:
    catalog = Catalog()
    for statement in bind(parse_epl(DECLARATIONS), catalog, DECLARATIONS).statements:
        add_definitions(statement, catalog)
    numbers = (3, 4, 52, 61, 700)
    plans = [plan_of(f"{' ' * number}{text.format(number)}", catalog) for number in numbers]
    assert plans[-1].template is not None
    assert plans[-1].template is plans[-2].template
    for number, plan in zip(numbers, plans, strict=True):
        assert repr(plan) == repr(alone(f"{' ' * number}{text.format(number)}", catalog))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("select k from E(v between 1 and 2)", "select k from E(k between 2 and 1)"),
        ("select k from E(k = 1 or v = 1)", "select k from E(k = 1 or v = 2)"),
        ("select k from E(1 = 1)", "select k from E(1 = 2)"),
        ("select k from E#length(1)", "select k from E#length(0)"),  # an error
        ("select k from E(k = 1)", "select k from E(k = 12345678901)"),  # an error: a long
        ("select k, 5 * 5 from E", "select k, 6 * 5 from E"),  # the name of the column
        ("select k, k + 5 from E", "select k, k + 6 from E"),
        ("select cast('1', int) as n from E", "select cast('x', int) as n from E"),
        ("select cast(s, 'int') as n from E", "select cast(s, 'long') as n from E"),
        ("select s regexp 'a' as n from E", "select s regexp '[' as n from E"),
        ("select k from E limit 1", "select k from E limit 1L"),
        ("select k from E output every 1 seconds", "select k from E output every 0 seconds"),
        (f"@name('x') {OWN_NAME} = 'x'", f"@name('x') {OWN_NAME} = 'y'"),
    ],
)
def test_what_the_binder_reads_is_part_of_the_template(first: str, second: str, alone: Any) -> None:
    catalog = Catalog({"E": EVENT_TYPE})
    for number, text in enumerate((first, first, first, second, first, second, second)):
        own = " " * number + text  # no text is parsed before
        assert repr(plan_of(own, catalog)) == repr(alone(own, catalog)), text


def test_a_template_is_of_one_catalog(alone: Any) -> None:
    text = "select twice(k) as n, q from E(k = {})"
    twice = {"twice": FunctionType(INT), "thrice": FunctionType(INT)}
    other = EventType("E", {"k": LONG, "q": INT})
    catalogs = [
        Catalog({"E": of}, functions=functions) for of in (EVENT_TYPE, other) for functions in (twice, {}, twice)
    ]
    for round_ in range(4):
        for number, catalog in enumerate(catalogs):
            own = text.format(10 * round_ + number)
            assert repr(plan_of(own, catalog)) == repr(alone(own, catalog))


def test_nodes_of_a_template_are_those_of_the_constructors(alone: Any) -> None:
    catalog = Catalog({"E": EVENT_TYPE})
    *_, plan = [plan_of(f"select k from E(k = {number})", catalog) for number in range(4)]
    own = alone("select k from E(k = 3)", catalog)
    assert plan.template is not None
    nodes = [plan, plan.root, plan.span, plan.source.filter, plan.output_type]
    others = [own, own.root, own.span, own.source.filter, own.output_type]
    for node, other in zip(nodes, others, strict=True):
        assert type(node) is type(other)
        assert node == other
        assert repr(pickle.loads(pickle.dumps(node))) == repr(other)
        with pytest.raises(FrozenInstanceError):
            setattr(node, fields(node)[0].name, None)


def test_a_changed_or_copied_plan_has_no_template() -> None:
    catalog = Catalog({"E": EVENT_TYPE})
    for number in range(4):
        plan = plan_of(f"select k from E(k = {number})", catalog)
    assert plan.template is not None
    for other in (
        copy.replace(plan) if hasattr(copy, "replace") else copy.deepcopy(plan),
        pickle.loads(pickle.dumps(plan)),
    ):
        assert other == plan
        assert other.template is None


@pytest.mark.histories
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_statements_of_the_corpus_with_other_values(file: Path, alone: Any) -> None:
    rng = random.Random(file.name)
    for text in part(epl_texts(file.read_text(encoding="utf-8"))):
        try:
            statements = bind(parse_epl(text), Catalog(), text).statements
        except CompileError:
            continue
        catalog = Catalog()
        for statement in statements:
            add_definitions(statement, catalog)
        for statement in statements:
            if isinstance(statement, SelectStatement) and not statement.inserts:
                for _ in range(2):
                    plan_of(statement.epl, catalog)
                for variant in variants(statement.epl, rng):
                    plan = plan_of(variant, catalog)
                    assert repr(plan) == repr(alone(variant, catalog)), variant
                    if isinstance(plan, SelectStatement) and not plan.subqueries:
                        check_lowered(plan)


def check_lowered(plan: SelectStatement) -> None:
    """A plan of a template is lowered as it would be alone."""
    try:
        alone = lower_statement(plan)
    except Refusal:
        return
    steps, shape = lower_to_shape(plan)
    own = shape_of(alone)
    assert repr(steps) == repr(alone), plan.epl
    assert (shape is None) == (own is None)
    if shape is not None and own is not None:
        assert shape.key == own.key, plan.epl
        assert repr([*shape.constants, *shape.spans]) == repr([*own.constants, *own.spans]), plan.epl


def variants(text: str, rng: random.Random) -> list[str]:
    """A statement with other numbers, strings and blanks, and the statement itself."""

    def varied() -> str:
        digits = re.sub(r"\b\d+\b", lambda match: str(rng.choice([0, 1, 2, 7, 300, match[0]])), text)
        quoted = re.sub(r"'([^'\n]*)'", lambda match: f"'{rng.choice([match[1], 'x', 'int', ''])}'", digits)
        return quoted.replace(" ", " " * rng.randrange(1, 3))

    return [*(varied() for _ in range(2)), text]
