"""An overview of the workbench: items of each kind with one figure, at a cost that does not depend on the state.

Items change with deployments and declarations, figures with every event.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, time
from typing import Any, Literal

import pandas as pd

from cepbook.display import format_count
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.lang.types import BOOLEAN, OBJECT, STRING, Type
from cepbook.session.core.run_results import statement_kind
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.event_validation import ISO_PARSERS, iso_example
from cepbook.session.io.output.result_frames import rows_frame

Section = Literal["statements", "types", "contexts", "stores", "variables", "errors"]
SECTIONS: tuple[Section, ...] = ("statements", "types", "contexts", "stores", "variables", "errors")


@dataclass(frozen=True, slots=True)
class OverviewItem:
    """An item by name, with its kind and its figure."""

    section: Section
    name: str
    kind: str
    figure: str


def overview_items(workbench: WorkbenchCore) -> Iterator[OverviewItem]:
    """Yield statements (rows delivered), event types (events), contexts (partitions), stores (rows), variables (values)
    and errors (number), in this order.
    """
    engine, runtime = workbench._engine, workbench.runtime
    owners = {store.owner.name for store in runtime.stores.values()}
    for name, statement in runtime.statements.items():
        if name not in owners and statement.plan.created_variable is None:
            feed = engine.feed(name)
            yield OverviewItem(
                "statements", name, statement_kind(statement), f"{feed.total_insert + feed.total_remove:,}"
            )
    counts = engine.event_counts()
    for name, event_type in runtime.catalog.event_types.items():
        if name not in runtime.stores:
            properties = format_count(len(event_type.shown), "property", "properties")
            yield OverviewItem("types", name, properties, f"{counts.get(name, 0):,}")
    for name, context in runtime.catalog.contexts.items():
        running = runtime.contexts.get(name)
        yield OverviewItem("contexts", name, context.kind, f"{0 if running is None else len(running.partitions):,}")
    for name, store in runtime.stores.items():
        rows = sum(summary["retained"] for summary in runtime.state(store.owner.name, partials=0))
        yield OverviewItem("stores", name, "named window" if store.type.kind == "window" else "table", f"{rows:,}")
    for name, variable in runtime.catalog.variables.items():
        kind = f"{'constant ' * variable.constant}{variable.type}"
        yield OverviewItem(
            "variables", name, kind, "" if variable.context is not None else field_text(runtime.get_variable(name))
        )
    for name, count in Counter(engine.failed).items():
        yield OverviewItem("errors", name, "", f"{count:,}")


def field_text(value: object) -> str:
    """Format a value for an input field: ``null``, ``true``, ``4.5``, a text as it is, ``[1, 2]``."""
    if isinstance(value, str):
        return value
    if isinstance(value, date | time):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def parse_field_value(text: str, of: Type) -> Any:
    """Parse an input field as a value of type `of`; ``null`` is null. Raises UsageError."""
    if text.strip() == "null":
        return None
    if of.of is None and of.name in ("string", "char"):
        return text
    read = json.loads if of.of is not None else ISO_PARSERS.get(of.name, json.loads)
    try:
        return read(text.strip())
    except (ValueError, RecursionError):
        raise UsageError(f"`{text}` is no value of type {of}{_hint(of)}") from None


def _hint(of: Type) -> str:
    if of.of is not None:
        return ': write an array, as in `["a", "b"]`' if of.of.name == "string" else ": write an array, as in `[1, 2]`"
    if of.name in ISO_PARSERS:
        return f": write it as in `{iso_example(of.name)}`"
    return {"boolean": ": write `true` or `false`"}.get(of.name, "")


def variables_frame(runtime: Runtime) -> pd.DataFrame:
    """Return all variables in order of declaration: name, type, value, constant."""
    variables = runtime.catalog.variables
    rows = []
    for variable in variables.values():
        value = runtime.get_variable(variable.name) if variable.context is None else None
        rows.append({"name": variable.name, "type": str(variable.type), "value": value, "constant": variable.constant})
    return rows_frame(rows, {"name": STRING, "type": STRING, "value": OBJECT, "constant": BOOLEAN})
