"""What a context is to the runtime and to its statements, whatever kind it is.

While an event is dispatched it has a list of *rounds*, one place for each context that its type concerns. A context
takes its own place among the statements: there it ends partitions and allocates others, and puts what the event is to
it at its place of the list. The handlers of its statements, which it makes as well, find it there. Nothing that belongs
to one event is kept anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from cepbook.engine.contexts.assigner import PartitionAssigner
from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.event_counts import PartitionCounts
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.contexts.selectors import PartitionIdentity
from cepbook.engine.contexts.tree_nodes import DetachedNode, PartitionNode
from cepbook.engine.subscriptions.filter_index import StatementOrder, Subscription
from cepbook.lang.plan.nodes import CreateContextStatement, CreateContextTreeStatement


class Context(Protocol):
    """A running context; it is active while a statement uses it."""

    name: str
    order: StatementOrder

    @property
    def plan(self) -> CreateContextStatement | CreateContextTreeStatement:
        """What it was made from."""

    @property
    def statements(self) -> Sequence[ContextMember | None]:
        """Its statements by slot; None where one has gone."""

    @property
    def partitions(self) -> Mapping[Any, ContextPartition]:
        """The live partitions, in order of their ids."""

    @property
    def assigner(self) -> PartitionAssigner | None:
        """What deals slices of replays out to its partitions; None where there is an `objection`."""

    @property
    def objection(self) -> str | None:
        """Why events of replays have to come one by one, for people: what is to be said of the context."""

    @property
    def watched(self) -> bool:
        """Whether a partition listener listens to this context and no other."""

    @property
    def event_counters(self) -> list[PartitionCounts]:
        """Who counts its events; a change of the list is followed by `rewired` of the runtime."""

    def join(self, statement: ContextMember) -> int:
        """Add a statement; it gets a state in every live partition. Returns its slot. The first one activates."""

    def part(self, statement: ContextMember) -> None:
        """Remove a statement; without statements the context forgets its partitions, without any output."""

    def rewired(self) -> None:
        """Event types, statements or listeners changed."""

    def several(self, type_names: Iterable[str], at_end: bool) -> bool:
        """Whether a statement may deliver several times at once: for partitions that an event of one of these types is
        for, or, as it delivers with time or at the end of a partition too (`at_end`), while partitions end.
        """

    def subscribers(self, type_name: str, place: int) -> list[Subscription]:
        """Who is to see events of a type: the context itself, its statements; nobody if the type does not concern it.

        All are called as ``handler(event, rounds)``; `place` is the context's own in `rounds`.
        """

    def owning(self, type_name: str, event: Any) -> Sequence[ContextPartition]:
        """The live partitions that an event of a type belongs to, by id; nothing is allocated."""

    def end_partition(self, id_: int) -> bool:
        """End a partition by hand, as a condition would. Whether there is one with this id."""

    def around(self, partition: ContextPartition) -> tuple[list[DetachedNode], dict[str, PartitionNode]]:
        """What of the context belongs to a partition, for `admit` of another runtime, and the nodes that it may refer
        to, by name.
        """

    def placeholder_nodes(self) -> dict[str, PartitionNode]:
        """What takes the places of these nodes."""

    def admit(
        self, partition: ContextPartition, around: Sequence[DetachedNode], nodes: Mapping[str, PartitionNode]
    ) -> None:
        """Put in a partition that has its states, in place of the one that is alike, under its own id if that is free.
        `nodes` are `placeholder_nodes`, to which its states and `around` refer.
        """

    def describe(self) -> list[dict[str, Any]]:
        """The live partitions with their built-in properties, by id."""

    def identities(self) -> Iterator[PartitionIdentity]:
        """The live partitions, as selectors see them, by id."""

    def identity(self, partition: ContextPartition) -> PartitionIdentity:
        """A live partition, as selectors see it."""
