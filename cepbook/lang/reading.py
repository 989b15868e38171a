"""What reads text, loaded with the first text: Spark's workers are given plans, and load no grammar."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cepbook.errors import Span
    from cepbook.lang.bind import Options
    from cepbook.lang.plan.catalog import Catalog
    from cepbook.lang.plan.nodes import ModulePlan
    from cepbook.lang.syntax import ast


def parse_epl(text: str) -> ast.Module:
    """The statements of an EPL text. Errors: ParseError."""
    from cepbook.lang.syntax.reader import parser

    return parser.parse_epl(text)


def translate(text: str, catalog: Catalog, names: Collection[str], options: Options) -> ModulePlan:
    """The plan of a text in its dialect. Errors: ParseError, BindError, UsageError."""
    from cepbook.dialects import registry

    return registry.translate(text, catalog, names, options)


def declared_names(text: str) -> frozenset[str]:
    """The names that a text gives to statements, event types and the like. Errors: ParseError."""
    from cepbook.dialects import registry

    return registry.declared_names(text)


def parameter_uses(module: ast.Module) -> list[tuple[ast.Parameter, str]]:
    """The parameters of a module, with their keys."""
    from cepbook.lang.bind import substitution

    return substitution.parameter_uses(module)


def literals_for(
    found: Sequence[tuple[ast.Parameter, str]], values: Mapping[str, Any] | None, text: str
) -> dict[Span, ast.Expr]:
    """The literals for parameters (`uses`), by where these stand. Errors: BindError."""
    from cepbook.lang.bind import substitution

    return substitution.literals_for(found, values, text)
