"""Entry to the languages that statements can be written in: EPL and the dialects of other engines.

The functions load the grammars with the first text. Spark's workers receive plans and load no grammar, so importing
this package must stay cheap. The dialects themselves are rows of `cepbook.dialects.registry`.
"""

from __future__ import annotations

from collections.abc import Collection

from cepbook.lang.bind.scope import Options
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.nodes import ModulePlan
from cepbook.lang.syntax import ast


def parse_epl(text: str) -> ast.Module:
    """Return the syntax tree of an EPL text. Raises ParseError."""
    from cepbook.lang.syntax.reader import parser

    return parser.parse_epl(text)


def translate(text: str, catalog: Catalog, names: Collection[str], options: Options) -> ModulePlan:
    """Return the plan of a text in its dialect. Raises ParseError, BindError or UsageError."""
    from cepbook.dialects import registry

    return registry.translate(text, catalog, names, options)


def declared_names(text: str, catalog: Catalog | None = None) -> frozenset[str]:
    """Return the names that a text gives to statements, event types and other objects. Raises ParseError, which knows
    the columns of the event types in `catalog`.
    """
    from cepbook.dialects import registry

    return registry.declared_names(text, catalog)
