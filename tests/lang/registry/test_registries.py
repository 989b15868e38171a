"""Every row of the registries: documented, with an example that parses and binds."""

from __future__ import annotations

from decimal import Decimal

import pytest

from cepbook.errors import BindError
from cepbook.lang.bind import bind
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.registry.aggregates import AGGREGATES, AggregateRow
from cepbook.lang.registry.functions import FUNCTIONS, FunctionRow
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA, WINDOWS, WindowRow
from cepbook.lang.syntax.reader.parser import parse_epl
from tests.lang.binding import applied

EMPTY = Catalog()
EXAMPLES = applied(EMPTY, bind(parse_epl(EXAMPLE_SCHEMA), EMPTY, EXAMPLE_SCHEMA))


def codes(epl: str) -> set[str]:
    """The codes of the diagnostics of `epl`; none when it binds."""
    try:
        bind(parse_epl(epl), EXAMPLES, epl)
    except BindError as error:
        return {d.code for d in error.diagnostics}
    return set()


@pytest.mark.parametrize("row", WINDOWS.values(), ids=WINDOWS)
def test_window(row: WindowRow) -> None:
    assert row.doc and f"#{row.name}" in row.example
    assert codes(row.example) == set()
    spelled = row.example.replace(f"#{row.name}", f".{row.namespace}:{row.name}", 1)
    assert codes(spelled) == set()


@pytest.mark.parametrize("row", AGGREGATES.values(), ids=AGGREGATES)
def test_aggregate(row: AggregateRow) -> None:
    assert row.doc and f"{row.name}(" in row.example.lower()
    statement = row.example if row.column else f"select {row.example} as value from Tick#keepall"
    assert codes(statement) == set()


@pytest.mark.parametrize("row", FUNCTIONS.values(), ids=FUNCTIONS)
def test_function(row: FunctionRow) -> None:
    assert row.doc
    assert codes(f"select {row.example} as value from Tick#keepall") == set()


TEMPLATES = [row for row in FUNCTIONS.values() if isinstance(row.py, str) and row.nulls != "skipped"]


@pytest.mark.parametrize("row", TEMPLATES, ids=lambda row: row.name)
def test_function_template_is_python(row: FunctionRow) -> None:
    assert isinstance(row.py, str)
    compile(row.py.format(*(f"a{i}" for i in range(len(row.parameters)))), row.name, "eval")


@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        ("Math.round", (2.5,), 3),
        ("Math.round", (-2.5,), -2),
        ("Math.round", (float("nan"),), 0),
        ("Math.round", (float("inf"),), 9223372036854775807),
        ("Math.round", (Decimal("2.5"),), 3),
        ("Math.floor", (-1.5,), -2.0),
        ("Math.ceil", (float("inf"),), float("inf")),
        ("Math.log", (0.0,), float("-inf")),
        ("Math.exp", (1000.0,), float("inf")),
        ("Math.pow", (0.0, -1.0), float("inf")),
        ("Math.pow", (-0.0, -3.0), float("-inf")),
        ("Math.pow", (-2.0, 1025.0), float("-inf")),
        ("Math.pow", (-2.0, 1026.0), float("inf")),
        ("Math.cbrt", (64.0,), 4.0),
        ("Math.sinh", (-1000.0,), float("-inf")),
        ("Math.signum", (-3.0,), -1.0),
        ("Math.rint", (2.5,), 2.0),
        ("max", (1, 5, 3), 5),
        ("typeof", (None, "Integer"), None),
        ("typeof", (1, "Long"), "Long"),
        ("typeof", ("x", None), "String"),
        ("typeof", (True, None), "Boolean"),
        ("exists", ({"a": None}, "a"), True),
        ("exists", (None, "a"), False),
        ("quantified any", ("=", 1, 1, 2), True),
        ("quantified any", (">", 1, 1, None), False),
        ("quantified any", ("=", 1, []), None),
        ("quantified all", (">", 3, [1, 2]), True),
        ("quantified all", (">", 3, 1, None), None),
        ("quantified all", ("=", None, 1), None),
        ("string.substring", ("abc", 1), "bc"),
        ("string.trim", ("\x00 a\u00a0\t\n",), "a\u00a0"),
        ("string.charAt", ("abc", 0), "a"),
        ("single precision", (1.1,), 1.100000023841858),
        ("single precision", (1e300,), float("inf")),
    ],
)
def test_function_values(name: str, args: tuple[object, ...], result: object) -> None:
    fn = FUNCTIONS[name].py
    assert callable(fn)
    assert fn(*args) == result


@pytest.mark.parametrize(("name", "arg"), [("Math.ceil", -0.5), ("Math.rint", -0.4), ("Math.floor", -0.0)])
def test_a_rounded_zero_keeps_its_sign(name: str, arg: float) -> None:
    fn = FUNCTIONS[name].py
    assert callable(fn)
    assert str(fn(arg)) == "-0.0"


def test_nan_where_java_gives_nan() -> None:
    for name, arg in (("Math.sqrt", -1.0), ("Math.log", -1.0), ("Math.asin", 2.0)):
        fn = FUNCTIONS[name].py
        assert callable(fn)
        assert str(fn(arg)) == "nan"
