"""Keyed contexts at run time: who allocates a context partition, and which one an event belongs to.

Rules recorded from the reference: every event of a listed stream allocates, whatever the statements' own filters;
the context's filter hides events from its statements; null is a key like any other; partition ids count
from 0 and are not reused while the context is active; a context is active while a statement uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cepbook.engine.clock import Clock
from cepbook.engine.contexts.notices import Kind, Notice, Notices
from cepbook.engine.contexts.partition import Partition
from cepbook.engine.contexts.selectors import Identity, Step
from cepbook.engine.ports import Member
from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.frozen import is_hashable, key_code
from cepbook.engine.rows.source import Source
from cepbook.lang import expr as x
from cepbook.lang.plan import CreateContextStatement, KeyedContextSpec, KeyedStream
from cepbook.lang.types import Type

Locate = Callable[[Any], Any]
Locators = Mapping[str, Locate]  # by listed event type
OUTSIDE = type("Outside", (), {"__repr__": lambda self: "OUTSIDE", "__slots__": ()})()


class KeyedContext:
    """The live partitions of one keyed context.

    While an event is dispatched, `current` is its partition (None: it is in none) and `fresh` tells that the event made
    the partition; then all statements have seen it already, at the context's own place in the order, and `took` holds
    those whose filter it passed.
    """

    def __init__(
        self, plan: CreateContextStatement, locators: Locators, order: tuple[int, int], clock: Clock, notices: Notices
    ) -> None:
        self.plan = plan
        self._clock = clock
        self._notices = notices
        self.name = plan.context.name
        self.order = order
        self.streams: dict[str, KeyedStream] = {s.event_type: s for s in plan.spec.streams}
        self._locate = locators
        self.partitions: dict[Any, Partition] = {}
        self.statements: list[Member | None] = []
        self.current: Partition | None = None
        self.fresh = False
        self.took: list[Member] = []
        self._next_id = 0

    # -------------------------------------------------------------- statements
    def join(self, statement: Member) -> int:
        """Add a statement; it gets a state in every live partition. Returns its slot."""
        if not self.statements:
            self._tell("activated", None)
        self.statements.append(statement)
        for partition in self.partitions.values():
            partition.states.append(statement.new_state(partition))
        return len(self.statements) - 1

    def part(self, statement: Member) -> None:
        """Remove a statement; without statements the context forgets its partitions."""
        slot = self.statements.index(statement)
        self.statements[slot] = None
        for partition in self.partitions.values():
            partition.states[slot] = None
        if not any(self.statements):
            for partition in self.partitions.values():
                partition.ended = True
                self._tell("deallocated", partition)
            self.statements.clear()
            self.partitions.clear()
            self._next_id = 0
            self._tell("deactivated", None)

    # -------------------------------------------------------------- administration
    def end_partition(self, id_: int) -> bool:
        """End a partition by hand. Whether there is one with this id; the next event of its key allocates another."""
        partition = next((p for p in self.partitions.values() if p.id == id_), None)
        if partition is None:
            return False
        partition.ended = True
        if self.current is partition:  # a listener ends it, and further statements were to see the event
            self.current = None
        del self.partitions[partition.place]
        for statement in reversed(self.statements):
            if statement is not None:
                statement.end(partition, self._clock.now)
        self._tell("deallocated", partition)
        return True

    def identities(self) -> Iterator[Identity]:
        """The live partitions, as selectors see them, by id."""
        for partition in self._live():
            step = Step(self.name, "keyed", tuple(partition.properties.values()), partition.properties)
            yield Identity(partition.id, _described(partition), (step,))

    @property
    def watched(self) -> bool:
        """Whether somebody listens to this context and no other."""
        return self._notices.watched(self.name)

    def _tell(self, kind: Kind, partition: Partition | None, time: int | None = None) -> None:
        if self._notices.wanted(self.name):
            id_, properties = (None, {}) if partition is None else (partition.id, _described(partition))
            self._notices.tell(Notice(kind, self.name, id_, properties, self._clock.now if time is None else time))

    # -------------------------------------------------------------- events
    def allocate(self, key: Any, keys: Sequence[Any], time: int | None = None) -> Partition:
        """A new partition for `key`, with fresh states of all statements. `time` None: the present."""
        properties = {f"key{i}": value for i, value in enumerate(keys, 1)}
        partition = Partition(self._next_id, self.name, properties, key)
        self._next_id += 1
        partition.states = [None if s is None else s.new_state(partition) for s in self.statements]
        self.partitions[key] = partition  # when a state could not begin (a variable has no such size) there is none
        self._tell("allocated", partition, time)
        for statement in self.statements:
            if statement is not None:
                statement.opened(partition)
        return partition

    def handler(
        self, listed: str, takers: Sequence[tuple[Member, Callable[[Any, Any], object]]]
    ) -> Callable[[Any], None]:
        """What the context does with an event of listed type `listed`: find or make the partition.

        `takers` are the context's statements that read the event, in order.
        """
        locate, partitions = self._locate[listed], self.partitions

        def on_event(event: Any) -> None:
            self.fresh = False
            try:
                key, keys = locate(event)
                partition = partitions.get(key)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self._notices.failed(self.name, failure)
                key = OUTSIDE
            if key is OUTSIDE:
                self.current = None
                return
            if partition is None:
                self.current = None
                partition = self.allocate(key, keys)
                self.current, self.fresh = partition, True
                self.took = [statement for statement, take in takers if statement.guarded(take, event, partition)]
            else:
                self.current = partition

        return on_event

    def find(self, listed: str, event: Any) -> Partition | None:
        """The partition of an event of listed type `listed`, if there is one."""
        try:
            key, _ = self._locate[listed](event)
            return self.partitions.get(key)  # none is outside
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self._notices.failed(self.name, failure)
            return None

    def assign(self, listed: str, columns: Mapping[str, list[Any]], times: Sequence[int]) -> list[Partition | None]:
        """The partition of each row of a replay, new ones allocated in row order at `times`."""
        stream, partitions = self.streams[listed], self.partitions
        names = [e.name for e in stream.keys if isinstance(e, x.Prop) and _is_exact(e.type)]
        if stream.filter is None and len(names) == 1 == len(stream.keys):
            found: list[Partition | None] = []
            for value, time in zip(columns[names[0]], times, strict=True):
                partition = partitions.get(value)
                found.append(self.allocate(value, (value,), time) if partition is None else partition)
            return found
        return [
            self._assign_row(listed, {name: values[i] for name, values in columns.items()}, time)
            for i, time in enumerate(times)
        ]

    def _assign_row(self, listed: str, event: dict[str, Any], time: int | None = None) -> Partition | None:
        try:
            key, keys = self._locate[listed](event)
            partition = self.partitions.get(key)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self._notices.failed(self.name, failure)
            return None
        if key is OUTSIDE:
            return None
        return self.allocate(key, keys, time) if partition is None else partition

    def locator(self, listed: str) -> Callable[[Any], Partition | None]:
        """The partition of one event (allocated if new), None outside the context."""
        return lambda event: self._assign_row(listed, event)

    def columns(self, listed: str) -> list[str]:
        """The properties that `assign` needs."""
        stream = self.streams[listed]
        return lower.properties(stream.filter, *stream.keys)

    def describe(self) -> list[dict[str, Any]]:
        """The live partitions with their built-in properties, by id."""
        return [_described(partition) for partition in self._live()]

    def _live(self) -> list[Partition]:
        return sorted(self.partitions.values(), key=lambda p: p.id)


def _described(partition: Partition) -> dict[str, Any]:
    return {"id": partition.id, **partition.properties, "name": partition.name}


def keys_code(source: Source, code: str, types: Sequence[Type]) -> str:
    """Code of the key that stands for the tuple of values `code`; for a single value that of the value itself."""
    parts = [f"{code}[{i}]" for i in range(len(types))]
    keys = [key_code(source, part, type_) for part, type_ in zip(parts, types, strict=True)]
    if len(keys) == 1:
        return keys[0]
    return code if keys == parts else f"({', '.join(keys)})"


def _is_exact(type_: Type) -> bool:
    """Whether values of the type are keys as they are, and each equals itself: not NaN."""
    return is_hashable(type_) and type_.name not in ("double", "float")


def compile_locators(spec: KeyedContextSpec, scope_in: lower.ScopeIn) -> Locators:
    """For each stream, ``locate(e) -> (partition key, key values)``; OUTSIDE for events that its filter hides.

    Errors: Refusal for an expression that the row engine cannot run.
    """
    return {stream.event_type: _locator(stream, scope_in) for stream in spec.streams}


def _locator(stream: KeyedStream, scope_in: lower.ScopeIn) -> Locate:
    source = Source()
    names = lower.properties(stream.filter, *stream.keys)
    scope = scope_in(source).at(props={name: f"p{i}" for i, name in enumerate(names)}, event="e")
    source.bind("OUTSIDE", OUTSIDE)
    with source.block("def locate(e):"):
        for i, name in enumerate(names):
            source.line(f"p{i} = e.get({source.const(name, 'n')})")
        if stream.filter is not None:
            with source.block(f"if not ({lower.truth(scope, stream.filter)}):"):
                source.line("return OUTSIDE, None")
        source.line(f"keys = ({''.join(lower.value(scope, e) + ', ' for e in stream.keys)})")
        source.line(f"return {keys_code(source, 'keys', [e.type for e in stream.keys])}, keys")
    locate: Locate = source.load()["locate"]
    return locate
