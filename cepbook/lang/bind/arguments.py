"""What the binders of function and aggregate calls share."""

from __future__ import annotations

from collections.abc import Callable

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.scope import Scope, error_expression
from cepbook.lang.plan import expressions as x
from cepbook.lang.syntax import ast

ExpressionBinder = Callable[[ast.Expr, Scope], x.BoundExpr]


def bind_whole_event(scope: Scope, name: str | None, span: Span) -> x.BoundExpr:
    """The whole event of the stream called `name`, of the only stream for None."""
    for position, stream in enumerate(scope.streams):
        if name is None or stream.is_called(name):
            if stream.event_type is None:
                return error_expression(span)
            return x.EventOf(t.event_of(stream.event_type.name), position, span=span)
    scope.problems.fail("unknown-property", f"no stream `{name}`", span)


def parameter_count_text(least: int, most: int | None) -> str:
    """``2 parameters``, ``1 to 2 parameters``, ``at least 1 parameter``."""
    if most is None:
        return f"at least {least} parameter{'' if least == 1 else 's'}"
    if least == most:
        return f"{least} parameter{'' if least == 1 else 's'}"
    return f"{least} to {most} parameters"
