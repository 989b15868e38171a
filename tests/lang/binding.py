"""What the binder's tests share: a catalog to bind against and short forms."""

from __future__ import annotations

from cepbook.lang.bind import Options, bind
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog, FunctionType
from cepbook.lang.plan.definitions import add_definitions
from cepbook.lang.syntax.reader.parser import parse_epl
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


def applied(catalog: Catalog, module: nodes.ModulePlan) -> Catalog:
    """`catalog` with everything that `module` declares, as the runtime keeps it."""
    catalog = catalog.copy()
    for statement in module.statements:
        add_definitions(statement, catalog)
    return catalog


def catalog() -> Catalog:
    """A fresh catalog with `SCHEMAS` and the function ``computeHash``."""
    empty = Catalog(functions={"computeHash": FunctionType(INT)})
    return applied(empty, bind(parse_epl(SCHEMAS), empty, SCHEMAS))


CATALOG = catalog()


def bound(epl: str, options: Options | None = None) -> nodes.ModulePlan:
    """The plan of `epl` against `CATALOG`."""
    return bind(parse_epl(epl), CATALOG, epl, (), options or Options())


def select(epl: str, options: Options | None = None) -> nodes.SelectStatement:
    """The last statement of `epl`, which must be a select."""
    statement = bound(epl, options).statements[-1]
    assert isinstance(statement, nodes.SelectStatement)
    return statement


def aggregation(statement: nodes.SelectStatement) -> nodes.Aggregation:
    """Its aggregation."""
    node: nodes.RowNode = statement.root.input
    if isinstance(node, nodes.Having):
        node = node.input
    assert isinstance(node, nodes.Aggregation)
    return node


def windows(statement: nodes.SelectStatement) -> tuple[nodes.WindowSpec, ...]:
    """Its data windows."""
    node: nodes.RowNode = statement.root
    while not isinstance(node, (nodes.Windowed, nodes.SourceNode)):
        node = node.input
    return node.windows if isinstance(node, nodes.Windowed) else ()


def source(statement: nodes.SelectStatement) -> nodes.SourceNode:
    """Its event source."""
    node: nodes.RowNode = statement.root
    while not isinstance(node, nodes.SourceNode):
        node = node.input
    return node
