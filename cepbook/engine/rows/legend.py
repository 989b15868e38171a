"""What the names in generated code stand for, and what an item of a window is: for readers of the code."""

from __future__ import annotations

from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.fragments.event_layout import EventLayout
from cepbook.lang.explain.expressions import show_expr

_KINDS = {"n": "count", "nulls": "count of nulls", "s": "sum"}


def storage_notes(code: CodegenContext, arrivals: str) -> tuple[str, ...]:
    """What is kept of an event, and `arrivals`: how these are written."""
    if not code.steps.stages[0].windows:
        return ()
    return (arrivals,) if code.steps.aggregate_only else (f"keeps of each event: {_item(code.first)}", arrivals)


def _item(items: EventLayout) -> str:
    names = {"o": "number", "t": "time of arrival", "e": "event"}
    properties = {str(position): name for name, position in items.positions.items()}
    shown = []
    for part in items.parts:
        kind = {"w": "compared value", "r": "prior value"}.get(part[0], "") if len(part) > 1 else ""
        shown.append(names.get(part) or properties.get(part) or kind or part)
    return shown[0] if items.bare else f"({', '.join(shown)})" if shown else "()"


def locals_legend(code: CodegenContext) -> dict[str, str]:
    """What the locals of generated code stand for: ``p0`` of the arriving event, ``q0`` of a kept one, ``a0`` cells."""
    found = {f"p{position}": name for name, position in code.first.positions.items()}
    found |= {f"q{position}": f"{name} of an item" for name, position in code.items.positions.items()}
    for cells in (code.aggregates, *(group.cells for group in code.local)):
        for argument in cells.arguments:
            what = ", ".join(map(show_expr, argument.exprs)) or "events"
            only = "" if argument.filter is None else f" where {show_expr(argument.filter)}"
            for kind, name in argument.cells.items():
                found[name] = f"{_KINDS.get(kind, kind)} of {what}{only}"
    return found
