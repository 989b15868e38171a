"""``%epl variables`` and ``%epl set``: the variables of EPL."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cepbook.editor.offers import Offer
from cepbook.errors import UsageError
from cepbook.magics.shell.host import NotebookHost, Subcommand, refuse_arguments
from cepbook.magics.shell.output import table, text
from cepbook.testing.notation import NotationError, parse_value
from cepbook.widgets.base.static_picture import StaticPicture


def list_variables(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """List the variables and constants with their types and present values."""
    refuse_arguments("variables", arguments)
    rows = [
        (str(name), "constant" if constant else "variable", str(of), _literal(value))
        for name, of, value, constant in host.workbench.variables().itertuples(index=False, name=None)
    ]
    return table("" if rows else "no variables", ("name", "kind", "type", "value"), rows)


def set_variable(host: NotebookHost, arguments: list[str]) -> StaticPicture:
    """Assign ``NAME = value``: a number, text in quotes, true, false, null or an array, as in ``%%events``."""
    name, _, literal = (word.strip() for word in "".join(arguments).partition("="))
    if not name or not literal:
        raise UsageError("%epl set takes a variable and its value, as in `%epl set threshold = 5`")
    host.workbench.get(name)  # raises for an unknown name before the value is read
    try:
        value = parse_value(literal)
    except NotationError as error:
        hint = f"\n  hint: {error.hint}" if error.hint is not None else ""
        raise UsageError(f"%epl set {name}: {error.message}{hint}") from None
    host.workbench.set(name, value)
    return text(f"{name} = {_literal(host.workbench.get(name))}")


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _complete(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    if not arguments:
        yield from ((f"{name} = ", "variable") for name in host.workbench.runtime.catalog.variables)


VARIABLES = Subcommand("variables", list_variables, {"%epl variables": "Variables of EPL and their values."})
SET = Subcommand(
    "set", set_variable, {"%epl set VARIABLE = VALUE": "Give a variable of EPL another value."}, _complete, raw=True
)
