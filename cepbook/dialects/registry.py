"""The dialects that cepbook reads. Each has a grammar, a translation to the common plan, and a row here."""

from __future__ import annotations

from collections.abc import Collection

from cepbook.dialects import apama, streamcruncher
from cepbook.dialects.dialect import Dialect
from cepbook.errors import ParseError, UsageError, hint_line, rejecting_deep_nesting
from cepbook.lang.bind import Options, bind
from cepbook.lang.bind.substitution import substitute
from cepbook.lang.explain.syntax_tree import show_ast
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.nodes import ModulePlan
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader import parser
from cepbook.lang.syntax.reader.keyword_columns import with_keyword_columns
from cepbook.lang.syntax.source_text import dialect_of, settings_of

__all__ = ["DIALECTS", "Dialect", "declared_names", "find_dialect", "translate"]

_CREATES = (ast.CreateSchema, ast.CreateContext, ast.CreateWindow, ast.CreateTable, ast.CreateVariable)


def _epl(text: str, catalog: Catalog, names: Collection[str], options: Options) -> ModulePlan:
    module = substitute(parser.parse_epl(text), settings_of(text).get("parameters"), text)
    return bind(module, catalog, text, names, options)


def _declared_in_epl(text: str) -> frozenset[str]:
    names: set[str] = set()
    for statement in parser.parse_epl(text).statements:
        for annotation in statement.annotations:
            if annotation.name.lower() == "name" and isinstance(annotation.value, str):
                names.add(annotation.value)
        if isinstance(statement, _CREATES):
            names.add(statement.name)
        elif isinstance(statement, ast.CreateExpression):
            names.add(statement.declaration.name)
    return frozenset(names)


_PARAMETERS = {"parameters": "values of the parameters, by name or number, see `lang.bind.substitution`"}
_ROWS = (
    Dialect(
        "epl",
        "EPL, the event processing language of Esper",
        _epl,
        _declared_in_epl,
        "epl",
        settings=_PARAMETERS,
        tree=lambda text: show_ast(parser.parse_epl(text)),
    ),
    apama.DIALECT,
    streamcruncher.DIALECT,
)

DIALECTS: dict[str, Dialect] = {row.name: row for row in _ROWS}


def find_dialect(name: str) -> Dialect:
    """Return the dialect called `name`. Raises UsageError with the nearest known name."""
    dialect = DIALECTS.get(name)
    if dialect is None:
        raise UsageError(f"there is no dialect `{name}`{hint_line(name, DIALECTS)} (known: {', '.join(DIALECTS)})")
    return dialect


@rejecting_deep_nesting()
def translate(text: str, catalog: Catalog, names: Collection[str] = (), options: Options = Options()) -> ModulePlan:
    """Return the plan of a text in its dialect. Raises ParseError, BindError, or UsageError for an unknown setting."""
    dialect = find_dialect(dialect_of(text))
    for name in settings_of(text):
        if name not in dialect.settings:
            known = f" (known: {', '.join(dialect.settings)})" if dialect.settings else ""
            raise UsageError(f"{dialect.name} has no setting `{name}`{hint_line(name, dialect.settings)}{known}")
    return dialect.translate(text, catalog, names, options)


@rejecting_deep_nesting()
def declared_names(text: str, catalog: Catalog | None = None) -> frozenset[str]:
    """Return the names that a text gives to statements, event types and other objects. Raises ParseError, which knows
    the columns of the event types in `catalog`.
    """
    dialect = find_dialect(dialect_of(text))
    try:
        return dialect.declares(text)
    except ParseError as error:
        if catalog is None or dialect.name != "epl":
            raise
        columns = frozenset(name for of in catalog.event_types.values() for name in of.properties)
        raise with_keyword_columns(error, text, columns) from None
