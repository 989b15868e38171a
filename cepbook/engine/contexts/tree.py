"""All contexts but plain keyed ones: a tree of levels (one, without nesting); its leaves are the context partitions.

Rules recorded from the reference: partition ids count from 0 in the order of allocation over the whole tree and are not
reused while the context is active; what allocates a partition is shown to all statements at the context's own
place in the order; what ends one is not shown to them; statements of an ending partition end in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cepbook.engine.clock import NEVER
from cepbook.engine.contexts.forms import TreeForm
from cepbook.engine.contexts.levels import Level, levels, visible
from cepbook.engine.contexts.node import Branch, Node
from cepbook.engine.contexts.notices import Kind, Notice, Notices
from cepbook.engine.contexts.partition import Partition
from cepbook.engine.contexts.selectors import Identity, Step
from cepbook.engine.contexts.tables import Tables
from cepbook.engine.contexts.watch import Watch
from cepbook.engine.patterns.matcher import Matcher, PatternProgram
from cepbook.engine.ports import Host, Member
from cepbook.engine.timers import Entry, Timers
from cepbook.errors import StatementError
from cepbook.lang.plan import CreateContextTreeStatement

Order = tuple[int, int]
# of a timer: depth of the level, what begins before what ends, serial
Path = tuple[int, int, int]


class Tree:
    """The live partitions of one context.

    While an event is dispatched, `took` holds the statements that have seen it in partitions that it allocated.
    """

    def __init__(
        self, plan: CreateContextTreeStatement, form: TreeForm, order: Order, host: Host, notices: Notices
    ) -> None:
        self.plan = plan
        self.name = plan.context.name
        self.order = order
        self.timed = Timers(order, self.fire, self.failed, leads=True)
        self.statements: list[Member | None] = []
        self.partitions: dict[int, Partition] = {}  # by id, in order of allocation
        self.took: list[Member] = []
        self.round = 0  # how many times events were looked at
        self._host = host
        self._notices = notices
        self._levels = levels(form, self)
        self._root: Branch | None = None
        self._waiting: dict[Path, tuple[Watch, Node]] = {}  # who has a timer
        self._serial = 0
        self._next_id = 0
        self._fresh: set[int] = set()  # allocated by the present event
        self._targets: Sequence[Partition] | None = None  # of the present event
        self._tables = Tables()
        self._joining = False
        self._warned = False
        self._takers: dict[str, list[tuple[Member, Callable[[Any, Any], object]]]] = {}

    # -------------------------------------------------------------- statements
    @property
    def active(self) -> bool:
        """Whether a statement uses the context."""
        return self._root is not None

    def join(self, statement: Member) -> int:
        """Add a statement; it gets a state in every live partition. Returns its slot. The first one activates."""
        slot = len(self.statements)
        states = [statement.new_state(partition) for partition in self.partitions.values()]
        for partition, state in zip(self.partitions.values(), states, strict=True):
            partition.states.append(state)
        self.statements.append(statement)
        self._takers.clear()
        self._tables.join(slot, statement, self.partitions.values())
        if self._root is None:
            self._tell("activated", None)
            self.timed.attach(self._host.clock)
            self._root = self._levels.branch(None)
            self._joining = True
            self._guarded(self._root.open)
            self._joining = False
        return slot

    def part(self, statement: Member) -> None:
        """Remove a statement; without statements the context forgets its partitions, without any output."""
        slot = self.statements.index(statement)
        self.statements[slot] = None
        self._takers.clear()
        self._tables.part(slot)
        for partition in self.partitions.values():
            partition.states[slot] = None
        if any(self.statements):
            return
        assert self._root is not None
        for partition in self.partitions.values():
            partition.ended = True
            self._tell("deallocated", partition)
        self._root.drop()
        self._root = None
        self.timed.detach()
        self.statements.clear()
        self.partitions.clear()
        self._waiting.clear()
        self._next_id = 0
        self._tell("deactivated", None)

    def rewired(self) -> None:
        """Event types or statements changed."""
        self._takers.clear()
        level: Level | None = self._levels
        while level is not None:
            level.rewired()
            level = level.inner

    def _takers_of(self, type_name: str) -> list[tuple[Member, Callable[[Any, Any], object]]]:
        """The statements that read events of a type, in order of priority and deployment."""
        found = self._takers.get(type_name)
        if found is None:
            statements = sorted((s for s in self.statements if s is not None), key=lambda s: s.order)
            takers = ((s, s.taker(type_name)) for s in statements)
            found = self._takers[type_name] = [(s, take) for s, take in takers if take is not None]
        return found

    # -------------------------------------------------------------- events
    def handles(self, type_name: str) -> bool:
        """Whether events of `type_name` may allocate or end partitions."""
        return self._levels.concerns(type_name)

    def on_event(self, type_name: str, event: Any) -> None:
        """What the context does with an event, at its own place in the order: end partitions, allocate others.

        Statements are shown the event in the partitions that it allocates, here and now.
        """
        self._targets = None
        self.round += 1
        if self._fresh:
            self._fresh = set()
        if self.took:
            self.took = []
        if self._root is not None and self._levels.concerns(type_name):
            try:
                self._root.on_event(type_name, event)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.failed(failure)

    def targets(self, type_name: str, event: Any, order: Order, slot: int) -> Sequence[Partition]:
        """The partitions, by id, in which the statement at `slot`, of place `order`, is to see the event.

        Those that its filter excludes by a key may be left out.
        """
        if not self._levels.selects(type_name):
            correlated = self._tables.find(slot, event)
            if correlated is not None:
                seen = self._fresh if order > self.order else ()
                return [p for p in correlated if p.id not in seen] if seen else correlated
        if order < self.order:
            self.round += 1
            return self._routed(type_name, event)
        if self._targets is None:
            found = self._routed(type_name, event)
            fresh = self._fresh
            self._targets = [p for p in found if p.id not in fresh] if fresh else found
        return self._targets

    def _routed(self, type_name: str, event: Any) -> Sequence[Partition]:
        if self._root is None:
            return ()
        if not self._levels.selects(type_name):
            return list(self.partitions.values())
        found: list[Partition] = []
        try:
            self._root.leaves(type_name, event, found)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)
        if self._levels.inner is not None and len(found) > 1:
            found.sort(key=lambda p: p.id)
        return found

    def present(self, partition: Partition, type_name: str, event: Any) -> None:
        """Show an event to all statements in a fresh partition."""
        for statement, take in self._takers_of(type_name):
            if statement.guarded(take, event, partition):
                self.took.append(statement)

    # -------------------------------------------------------------- partitions
    def open(self, node: Node) -> None:
        """Allocate the context partition of a leaf."""
        properties = node.properties
        if node.branch.level.nested:
            properties = {each.name: each.properties for each in _path(node)}
            node.properties["id"] = self._next_id
        partition = Partition(self._next_id, self.name, properties, node)
        partition.states = [None if s is None else s.new_state(partition) for s in self.statements]
        node.partition = partition
        self.partitions[partition.id] = partition
        self._tables.open(partition)
        self._next_id += 1
        self._fresh.add(partition.id)
        self._tell("allocated", partition)
        if not self._joining:
            for statement in self.statements:
                if statement is not None:
                    statement.opened(partition)

    def close(self, node: Node) -> None:
        """The context partition of a leaf ends: its statements, last deployed first."""
        partition = node.partition
        assert partition is not None
        partition.ended = True
        self._targets = None
        del self.partitions[partition.id]
        self._tables.close(partition)
        for statement in reversed(self.statements):
            if statement is not None:
                statement.end(partition, self.now)
        self._tell("deallocated", partition)

    def end_partition(self, id_: int) -> bool:
        """End a partition by hand, as a condition would. Whether there is one with this id."""
        partition = self.partitions.get(id_)
        if partition is not None:
            self._guarded(lambda: partition.place.branch.dismiss(partition.place))
        return partition is not None

    def describe(self) -> list[dict[str, Any]]:
        """The live partitions with their built-in properties, by id."""
        return [_described(partition) for partition in self.partitions.values()]

    def identities(self) -> Iterator[Identity]:
        """The live partitions, as selectors see them, by id."""
        return map(_identity, self.partitions.values())

    def _tell(self, kind: Kind, partition: Partition | None) -> None:
        if self._notices.wanted(self.name):
            id_, properties = (None, {}) if partition is None else (partition.id, _described(partition))
            self._notices.tell(Notice(kind, self.name, id_, properties, self.now))

    # -------------------------------------------------------------- time
    @property
    def now(self) -> int:
        """Engine time."""
        return self._host.clock.now

    def arm(self, watch: Watch, owner: Node, due: int) -> None:
        """Look at a condition again when it is `due`."""
        if owner.due < NEVER:
            self.disarm(owner)
        if due < NEVER:
            owner.due = due
            self._serial += 1
            owner.timer = watch.branch.level.depth, watch.rank, self._serial
            self._waiting[owner.timer] = watch, owner
            self.timed.arm(owner.timer, due)

    def disarm(self, owner: Node) -> None:
        """Forget the timer of `owner`."""
        owner.due = NEVER
        self._waiting.pop(owner.timer, None)
        self.timed.arm(owner.timer, NEVER)

    def fire(self, now: int, entries: list[Entry]) -> None:
        """Timers of conditions are due: each once, by time, then outer levels before inner ones."""
        self._fresh = set()
        for _, path in entries:
            if path in self._waiting:
                watch, owner = self._waiting.pop(path)
                owner.due = NEVER
                self._guarded(lambda watch=watch, owner=owner: watch.branch.fired(watch, owner))  # type: ignore[misc]

    # -------------------------------------------------------------- for the levels
    def is_a(self, type_name: str, supertype: str) -> bool:
        """Whether events of a type are events of another."""
        return self._host.catalog.is_a(type_name, supertype)

    def types_of(self, type_name: str) -> tuple[str, ...]:
        """The types of an event of a type: its own first, then the supertypes."""
        found = self._host.catalog.event_types.get(type_name)
        return (type_name, *(() if found is None else found.supertypes))

    def matcher(self, program: PatternProgram, owner: Node) -> Matcher:
        """What looks for the pattern of a condition on behalf of `owner`."""
        limit = self._host.config.pattern_limit
        return Matcher(program, self, partition=owner, limit=limit)

    def crowded(self) -> None:
        """Tell, once, that the pattern of a condition has as many partial matches as there may be."""
        if not self._warned:
            self._warned = True
            limit = self._host.config.pattern_limit
            fact = f"a pattern of context `{self.name}` has {limit:,} open partial matches, further ones are dropped"
            hint = "hint: end them (where timer:within, and not), or raise Config.pattern_limit"
            self._host.report(StatementError(self.name, f"{fact}\n  {hint}", None, OverflowError(fact)))

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)

    def failed(self, failure: Exception) -> None:
        """Report a run-time failure."""
        self._notices.failed(self.name, failure)


def _path(leaf: Node) -> list[Node]:
    """The nodes from the outermost level to `leaf`."""
    found: list[Node] = []
    node: Node | None = leaf
    while node is not None:
        found.append(node)
        node = node.branch.parent
    return found[::-1]


def _described(partition: Partition) -> dict[str, Any]:
    leaf: Node = partition.place
    if leaf.branch.level.nested:
        properties: dict[str, Any] = {node.name: visible(node) for node in _path(leaf)}
    else:
        properties = visible(leaf)
    return {"id": partition.id, **properties, "name": partition.name}


def _identity(partition: Partition) -> Identity:
    steps = (Step(n.name, n.branch.level.kind, n.branch.identity(n), visible(n)) for n in _path(partition.place))
    return Identity(partition.id, _described(partition), tuple(steps))
