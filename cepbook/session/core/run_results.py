"""`RunResult`: what `Workbench.run` deployed, as text and as an HTML table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cepbook.display import DisplayTable, captioned_html
from cepbook.engine.runtime import Deployment, RunningStatement


def columns_text(properties: Mapping[str, object]) -> str:
    """``name type, name type`` of an event type's properties."""
    return ", ".join(f"{name} {of}" for name, of in properties.items())


def statement_kind(statement: RunningStatement) -> str:
    """Return the kind of a statement for people. A statement that creates a store has the store's kind, with the
    store's name if it differs.
    """
    store = statement.owned
    if store is None:
        return statement.kind
    kind = "named window" if store.type.kind == "window" else "table"
    return kind if store.name == statement.name else f"{kind} {store.name}"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of `Workbench.run`.

    `messages` name statements that were redeployed or dropped along, and failures in the first partitions or rows.
    """

    deployment: Deployment
    statements: tuple[RunningStatement, ...]
    replaced: bool
    messages: tuple[str, ...] = ()

    @property
    def _running(self) -> list[RunningStatement]:
        return [s for s in self.statements if s.kind != "create variable"]

    def __repr__(self) -> str:
        verb = "replaced" if self.replaced else "deployed"
        deployment = self.deployment
        names = (*deployment.event_types, *deployment.contexts, *deployment.variables, *(s.name for s in self._running))
        text = ", ".join(dict.fromkeys(names)) or "nothing"
        return "\n".join((f"{verb} {text}", *self.messages))

    def _repr_html_(self) -> str:
        deployment = self.deployment
        stores = {s.owned.name for s in self._running if s.owned is not None}
        rows = [(name, "event type", "") for name in deployment.event_types if name not in stores]
        rows += [(name, "context", "") for name in deployment.contexts]
        rows += [(name, "variable", "") for name in deployment.variables]
        rows += [(s.name, statement_kind(s), columns_text(s.output_type.properties)) for s in self._running]
        verb = "replaced" if self.replaced else "deployed"
        return captioned_html(verb, DisplayTable(("name", "kind", "columns"), (False,) * 3, tuple(rows)), self.messages)
