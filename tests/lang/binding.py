"""What the binder's tests share: a catalog to bind against and short forms."""

from __future__ import annotations

from cepbook.lang import plan
from cepbook.lang.bind import Options, bind
from cepbook.lang.catalog import Catalog, FunctionType
from cepbook.lang.created import enter
from cepbook.lang.dialects.epl import parse
from cepbook.lang.types import INT

SCHEMAS = """
create schema Tick(symbol string, price double, volume int, ts long, flags int[], info Map);
create schema Alert(symbol string, level long);
create schema Sub(extra int) inherits Tick;
create schema Inn(p int, q string);
create schema Types(id string, b boolean, bt byte, sh short, i int, l long, f float, d double, bi BigInteger,
  bd BigDecimal, c char, arr int[], m Map, n Inn, na Inn[]);
create context PerSymbol partition by symbol from Tick
"""


def applied(catalog: Catalog, module: plan.ModulePlan) -> Catalog:
    """`catalog` with everything that `module` declares, as the runtime keeps it."""
    catalog = catalog.copy()
    for statement in module.statements:
        enter(statement, catalog)
    return catalog


def catalog() -> Catalog:
    """A fresh catalog with `SCHEMAS` and the function ``computeHash``."""
    empty = Catalog(functions={"computeHash": FunctionType(INT)})
    return applied(empty, bind(parse(SCHEMAS), empty, SCHEMAS))


CATALOG = catalog()


def bound(epl: str, options: Options | None = None) -> plan.ModulePlan:
    """The plan of `epl` against `CATALOG`."""
    return bind(parse(epl), CATALOG, epl, (), options or Options())


def select(epl: str, options: Options | None = None) -> plan.SelectStatement:
    """The last statement of `epl`, which must be a select."""
    statement = bound(epl, options).statements[-1]
    assert isinstance(statement, plan.SelectStatement)
    return statement


def aggregation(statement: plan.SelectStatement) -> plan.Aggregation:
    """Its aggregation."""
    node: plan.RowNode = statement.root.input
    if isinstance(node, plan.Having):
        node = node.input
    assert isinstance(node, plan.Aggregation)
    return node


def windows(statement: plan.SelectStatement) -> tuple[plan.WindowSpec, ...]:
    """Its data windows."""
    node: plan.RowNode = statement.root
    while not isinstance(node, (plan.Windowed, plan.Source)):
        node = node.input
    return node.windows if isinstance(node, plan.Windowed) else ()


def source(statement: plan.SelectStatement) -> plan.Source:
    """Its event source."""
    node: plan.RowNode = statement.root
    while not isinstance(node, plan.Source):
        node = node.input
    return node
