"""Evaluation of single expressions of a plan, with given events and the variables and the clock of a runtime.

It changes nothing. Values that only a running statement has (aggregates, subqueries, positions in a window) are
unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.deploy.compiler import expression_scope
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.runtime import Runtime
from cepbook.errors import Refusal, exception_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.references import expressions_in


class UnknownValue:
    """The value of an expression that cannot be evaluated; `reason` says why."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason: Final = reason

    def __repr__(self) -> str:
        return f"not known: {self.reason}"


# What only the running statement knows
_INSIDE = {
    x.AggregateRef: "an aggregate",
    x.KeyRef: "a key of a group",
    x.SubqueryRef: "a subquery",
    x.SubqueryParameter: "a subquery",
    x.TableRead: "a table",
    x.Prev: "another row of the window",
    x.Prior: "an earlier row",
    x.InsertStream: "whether the row comes or goes",
    x.Grouping: "a grouping set",
    x.WindowValue: "the window",
    x.OutputCounter: "the output clause",
    x.MeasureAggregate: "the rows of a match",
}


def python_functions_called(e: x.BoundExpr) -> list[str]:
    """Return the names of the Python functions that an expression calls."""
    return [node.python_function for node in x.walk(e) if node.python_function]


def calls_user_code(runtime: Runtime) -> bool:
    """Return whether events call user code: functions in statements, windows from Python, or listeners."""
    windows = (item.kind == "window" for item in runtime.catalog.functions.values())
    if any(item.has_listeners for item in runtime.statements.values()) or any(windows):
        return True
    plans = tuple(runtime.plans)
    return bool(runtime.functions) and any(python_functions_called(item) for item in expressions_in(plans))


def evaluate(
    runtime: Runtime,
    e: x.BoundExpr,
    events: Mapping[int, Any],
    partition: ContextPartition | None = None,
    *,
    calls: bool = False,
) -> Any:
    """Return the value of `e` with `events`, or an `UnknownValue`. Python functions run only with `calls`."""
    reason = _obstacle(e, events, partition, calls)
    if reason is not None:
        return UnknownValue(reason)
    source = SourceWriter()
    try:
        scope = expression_scope(runtime.clock, runtime.config, runtime.functions, runtime.variables, source)
        props = {
            (prop.stream, prop.name): f"E{prop.stream}.get({source.const(prop.name, 'n')})"
            for prop in x.find(x.Prop, e)
        }
        scope = scope.at(props=props, events={number: f"E{number}" for number in events}, partition="P")
        with source.block(f"def asked({', '.join(f'E{number}' for number in events)}{', ' * bool(events)}P):"):
            source.line(f"return {lower.value(scope, e)}")
        return source.load()["asked"](*events.values(), partition)
    except Refusal as refusal:
        return UnknownValue(refusal.reason)
    except Exception as failure:  # noqa: BLE001 - that an expression fails is an answer, too
        return UnknownValue(f"it fails: {exception_text(failure)}")


def _obstacle(e: x.BoundExpr, events: Mapping[int, Any], partition: ContextPartition | None, calls: bool) -> str | None:
    for node in x.walk(e):
        inside = _INSIDE.get(type(node))
        if inside is not None:
            return f"it reads {inside}"
        if node.python_function and not calls:
            return f"it calls the Python function `{node.python_function}`"
        if node.read_stream is not None and events.get(node.read_stream) is None:
            return "it reads another event"
        if node.context_property and partition is None:
            return "it reads the context partition"
    return None
