"""Lookup of names, and the names that a Python function may have in EPL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from cepbook.dialects import parse_epl
from cepbook.engine.statements.variables import RuntimeVariable, Variables
from cepbook.errors import ParseError, UsageError, hint_line
from cepbook.lang.bind.expressions.call import BUILT_IN_FUNCTIONS
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.syntax import ast

_Kept = TypeVar("_Kept")

MAX_LISTED_NAMES = 10  # names that a message lists
_MADE_UP = re.compile(r"stmt_\d+")


def lookup_name(what: str, name: str, among: Mapping[str, _Kept], catalog: Catalog | None = None) -> _Kept:
    """Return the object with this name. Errors: UsageError with the nearest names, or what the name is instead."""
    match = among.get(name)
    if match is None:
        other = None if catalog is None else _other(name, catalog)
        if other is not None:
            raise UsageError(f"there is no {what} `{name}`: it is {other}{known_names_hint(what, list(among))}")
        raise UsageError(f"there is no {what} `{name}`{hint_line(name, among) or known_names_hint(what, list(among))}")
    return match


def find_variable(name: str, variables: Variables) -> RuntimeVariable:
    """Return the variable `name`, which has one value. Errors: UsageError with the nearest known name."""
    variable = lookup_name("variable", name, variables)
    if variable.partitioned:
        hint = "\n  hint: iterate the statement that created it to read them"
        raise UsageError(f"variable `{name}` has one value per partition of its context{hint}")
    return variable


def _other(name: str, catalog: Catalog) -> str | None:
    if name in catalog.event_types:
        return "an event type"
    if name in catalog.contexts:
        return "a context"
    return "a variable" if name in catalog.variables else None


def known_names_hint(what: str, names: Sequence[str]) -> str:
    """Return the hint that lists known names, generated names last."""
    if not names:
        return ""
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    written_first = sorted(names, key=lambda name: _MADE_UP.fullmatch(name) is not None)
    listed = ", ".join(f"`{name}`" for name in written_first[:MAX_LISTED_NAMES])
    return f"\n  hint: {'the ' + what + ' is' if len(names) == 1 else 'there are'} {listed}{more}"


def check_function_name(name: str) -> None:
    """Errors: UsageError if EPL could not call a Python function `name`, or would lose a function of its own."""
    reason = None
    if not re.fullmatch(r"[^\W\d]\w*", name):
        reason = "a name begins with a letter and has letters, digits and underscores only"
    elif name.lower() in BUILT_IN_FUNCTIONS:
        reason = "EPL has a function of this name"
    elif not _is_callable(name):
        reason = "it is a reserved word of EPL"
    if reason is not None:
        raise UsageError(f"a function cannot be called `{name}`: {reason}")


@lru_cache(maxsize=1024)
def _is_callable(name: str) -> bool:
    try:
        (statement,) = parse_epl(f"select {name}(1) from A").statements
    except ParseError:
        return False
    match statement:
        case ast.Select(items=(ast.SelectItem(expr=ast.Chain(steps=(ast.NameStep(name=parsed_name),))),)):
            return parsed_name == name
    return False
