"""Descriptions of catalog names: the cell that created an object, its properties, and its users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cepbook.display import format_count
from cepbook.editor.cursor import NamesInScope
from cepbook.engine.runtime import Runtime
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.definitions import defined_name
from cepbook.lang.plan.references import event_types_read
from cepbook.lang.types import Type
from cepbook.magics.shell.host import NotebookHost
from cepbook.session.core.cell_deployments import declared_names
from cepbook.session.inspect.overview import field_text
from cepbook.session.inspect.store_table import STORE_KINDS, index_sizes, store_users

MAX_NAMES = 8  # names of one line
MAX_VALUE_LENGTH = 200  # characters of a value
_UNRUN = "created in this cell, which has not run"


@dataclass(frozen=True, slots=True)
class CatalogNames:
    """Explains names of the workbench behind `host`, with those that the cell is about to create (`scope`)."""

    host: NotebookHost
    scope: NamesInScope

    @property
    def _runtime(self) -> Runtime:
        return self.host.workbench.runtime

    def about(self, word: str) -> Iterator[str]:
        """A text for each thing that is called so."""
        runtime, catalog = self._runtime, self._runtime.catalog
        if word in runtime.stores:
            yield self._store(word)
        elif word in self.scope.event_types:
            yield self._event_type(self.scope.event_types[word])
        elif word in self.scope.aliases:
            yield f"{word}: " + self._event_type(self.scope.aliases[word])
        if word in self.scope.variables:
            yield self._variable(word)
        if word in catalog.contexts:
            yield self._context(word)
        if word in catalog.expressions:
            yield self._written(f"expression {word}", word)
        for index in catalog.indexes.values():
            if index.name == word:
                yield self._written(f"index {word} of {index.store}", word)
        if word in runtime.statements and word not in runtime.stores:
            yield self._statement(word)

    # ---- each kind

    def _event_type(self, of: EventType) -> str:
        catalog = self._runtime.catalog
        above = f" inherits {', '.join(of.supertypes)}" if of.supertypes else ""
        lines = [f"event type {of.name}{above}", *columns(of.shown)]
        if of.variant is not None:
            lines.append(f"  variant stream of {', '.join(of.variant) or 'any type'}")
        for what, name in (("event time", of.time_property), ("end of its time", of.end_time_property)):
            lines += [] if name is None else [f"  {what}: {name}"]
        if of.name not in catalog.event_types:
            return "\n".join([*lines, f"  {_UNRUN}"])
        below = [other.name for other in catalog.event_types.values() if of.name in other.supertypes]
        lines += _some("inherited by", below)
        lines += self._origin(of.name)
        statements = self._runtime.statements.values()
        lines += _some("filled by", [s.name for s in statements if of.name in s.steps.emit.targets])
        lines += _some("read by", [s.name for s in statements if self._reads(s.plan, of.name)])
        count = self.host.workbench.event_counts().get(of.name, 0)
        return "\n".join([*lines, f"  {format_count(count, 'event')} until now"])

    def _reads(self, plan: object, name: str) -> bool:
        return any(self._runtime.catalog.is_a(name, event_type) for event_type in event_types_read(plan))

    def _store(self, name: str) -> str:
        runtime = self._runtime
        store = runtime.stores[name]
        states = store.owner.states()
        lines = [f"{STORE_KINDS[store.type.kind]} {name}", *columns(runtime.catalog.event_types[name].properties)]
        if store.type.context is not None:
            lines.append(f"  in context {store.type.context}: {format_count(len(states), 'partition')}")
        lines += [f"  holds {format_count(sum(len(store.contents(state)) for _, state in states), 'row')}"]
        lines += [f"  index {index}" for index in index_sizes(runtime, store)]
        lines += self._origin(name)
        for what, names in store_users(runtime, store).items():
            lines += _some(f"{what} by", names)
        return "\n".join(lines)

    def _variable(self, name: str) -> str:
        declared = self._runtime.catalog.variables.get(name)
        if declared is None:
            return f"variable {name} {self.scope.variables[name]}\n  {_UNRUN}"
        lines = [f"{'constant' if declared.constant else 'variable'} {name} {declared.type}"]
        if declared.context is not None:
            lines.append(f"  one value in each partition of {declared.context}")
        else:
            value = field_text(self.host.workbench.get(name))
            lines.append(f"  now {value if len(value) <= MAX_VALUE_LENGTH else value[:MAX_VALUE_LENGTH] + '…'}")
        return "\n".join([*lines, *self._origin(name)])

    def _context(self, name: str) -> str:
        context, running = self._runtime.catalog.contexts[name], self._runtime.contexts.get(name)
        over = f", over {', '.join(context.event_types)}" if context.event_types else ""
        lines = [f"context {name}: {context.kind}{over}"]
        lines += [f"  context.{column.lstrip()}" for column in columns(context.properties)]
        live = 0 if running is None else len(running.partitions)
        lines += [f"  {format_count(live, 'live partition')}", *self._origin(name)]
        used = [s.name for s in self._runtime.statements.values() if s.steps.context == name]
        return "\n".join([*lines, *_some("used by", used)])

    def _statement(self, name: str) -> str:
        statement = self._runtime.statements[name]
        lines = columns(statement.output_type.properties)
        return "\n".join([f"statement {name}", statement.epl.strip(), *lines, *self._origin(name)])

    def _written(self, head: str, name: str) -> str:
        """The text that creates `name`, below `head`."""
        plans = [plan for plan in self._runtime.plans if defined_name(plan) == name]
        return "\n".join([head, *(plan.epl.strip() for plan in plans), *self._origin(name)])

    def _origin(self, name: str) -> list[str]:
        """The cell that created it, or the call from Python; empty where the cell is not known."""
        for deployment in self._runtime.deployments.values():
            if name in declared_names(deployment) or any(
                defined_name(plan) == name for plan in deployment.plan.statements
            ):
                cell = self.host.cell_label(deployment.id)
                return [] if cell is None else [f"  created in cell {cell}"]
        number = self.host.defining_cell.get(name)
        return ["  defined from Python" + ("" if number is None else f" in cell [{number}]")]


def columns(properties: Mapping[str, Type]) -> list[str]:
    """A line for each column, with its type."""
    width = max(map(len, properties), default=0)
    return [f"  {name.ljust(width)}  {of}" for name, of in properties.items()]


def _some(what: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return [f"  {what} {', '.join(names[:MAX_NAMES])}{more}"]
