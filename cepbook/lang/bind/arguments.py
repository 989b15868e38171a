"""What the binders of function and aggregate calls share."""

from __future__ import annotations

from collections.abc import Callable

from cepbook.errors import Span
from cepbook.lang import ast
from cepbook.lang import expr as x
from cepbook.lang import types as t
from cepbook.lang.bind.names import Scope, error_at

Binder = Callable[[ast.Expr, Scope], x.Expr]


def whole_event(scope: Scope, name: str | None, span: Span) -> x.Expr:
    """The whole event of the stream called `name`, of the only stream for None."""
    for position, stream in enumerate(scope.streams):
        if name is None or stream.answers_to(name):
            if stream.event_type is None:
                return error_at(span)
            return x.EventOf(t.event_of(stream.event_type.name), position, span=span)
    scope.problems.fail("unknown-property", f"no stream `{name}`", span)


def how_many(least: int, most: int | None) -> str:
    """``2 parameters``, ``1 to 2 parameters``, ``at least 1 parameter``."""
    if most is None:
        return f"at least {least} parameter{'' if least == 1 else 's'}"
    if least == most:
        return f"{least} parameter{'' if least == 1 else 's'}"
    return f"{least} to {most} parameters"
