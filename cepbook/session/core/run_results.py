"""What the workbench answers: small values with a short, deterministic text and an HTML table for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cepbook.display import DisplayTable, captioned_html
from cepbook.engine.runtime import Deployment, RunningStatement


def columns_text(properties: Mapping[str, object]) -> str:
    """``name type, name type`` of an event type's properties."""
    return ", ".join(f"{name} {of}" for name, of in properties.items())


def statement_kind(statement: RunningStatement) -> str:
    """What a statement is, for people; of one that creates a store that, with the store's name if it differs."""
    store = statement.owned
    if store is None:
        return statement.kind
    kind = "named window" if store.type.kind == "window" else "table"
    return kind if store.name == statement.name else f"{kind} {store.name}"


@dataclass(frozen=True, slots=True)
class RunResult:
    """What `Workbench.run` deployed. `messages` tell what else changed (dependants deployed anew, names
    gone), and what failed with the first partitions or rows.
    """

    deployment: Deployment
    statements: tuple[RunningStatement, ...]
    replaced: bool
    messages: tuple[str, ...] = ()

    @property
    def _running(self) -> list[RunningStatement]:
        """The statements that are listed by their own names."""
        return [s for s in self.statements if s.kind != "create variable"]

    def __repr__(self) -> str:
        verb = "replaced" if self.replaced else "deployed"
        found = self.deployment
        made = (*found.event_types, *found.contexts, *found.variables, *(s.name for s in self._running))
        names = ", ".join(dict.fromkeys(made)) or "nothing"
        return "\n".join((f"{verb} {names}", *self.messages))

    def _repr_html_(self) -> str:
        made = self.deployment
        stores = {s.owned.name for s in self._running if s.owned is not None}
        rows = [(name, "event type", "") for name in made.event_types if name not in stores]
        rows += [(name, "context", "") for name in made.contexts]
        rows += [(name, "variable", "") for name in made.variables]
        rows += [(s.name, statement_kind(s), columns_text(s.output_type.properties)) for s in self._running]
        verb = "replaced" if self.replaced else "deployed"
        return captioned_html(verb, DisplayTable(("name", "kind", "columns"), (False,) * 3, tuple(rows)), self.messages)
