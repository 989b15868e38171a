"""What reads text, loaded with the first text: Spark's workers are given plans, and load no grammar."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cepbook.errors import Span
    from cepbook.lang import ast
    from cepbook.lang.bind import Options
    from cepbook.lang.catalog import Catalog
    from cepbook.lang.plan import ModulePlan


def parse(text: str) -> ast.Module:
    """The statements of an EPL text. Errors: ParseError."""
    from cepbook.lang.dialects import epl

    return epl.parse(text)


def translated(text: str, catalog: Catalog, names: Collection[str], options: Options) -> ModulePlan:
    """The plan of a text in its dialect. Errors: ParseError, BindError, UsageError."""
    from cepbook.lang import dialects

    return dialects.translated(text, catalog, names, options)


def declared(text: str) -> frozenset[str]:
    """The names that a text gives to statements, event types and the like. Errors: ParseError."""
    from cepbook.lang import dialects

    return dialects.declared(text)


def uses(module: ast.Module) -> list[tuple[ast.Parameter, str]]:
    """The parameters of a module, with their keys."""
    from cepbook.lang.dialects import parameters

    return parameters.uses(module)


def with_literals(
    found: Sequence[tuple[ast.Parameter, str]], values: Mapping[str, Any] | None, text: str
) -> dict[Span, ast.Expr]:
    """The literals for parameters (`uses`), by where these stand. Errors: BindError."""
    from cepbook.lang.dialects import parameters

    return parameters.with_literals(found, values, text)
