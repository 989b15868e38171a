"""Contexts: how one statement gets a separate state for every key, hash, category or period.

A context divides events into *partitions*. Each statement of the context has a state of its own in each partition.
There are two kinds at run time::

    FlatKeyedContext   partition by key                 partitions in a dict by key
    TreeContext        hash, category, lifecycle,       a tree with one level per nested context;
                       keys with conditions, nested     its leaves are the partitions

While an event is dispatched, a list of *context slots* goes with it, one slot per context concerned. A context takes
part in the dispatch like a statement, at its own position in the order. There it ends and allocates partitions and puts
the result for the event (a partition or an `EventRouting`) into its slot. The handlers that it makes for its statements
read the slot. Nothing that belongs to one event is stored anywhere else, so dispatch is reentrant.

A context is active while it has statements. It loses its partitions, without output, when the last one is undeployed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from cepbook.engine.contexts.assigner import PartitionAssigner
from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.members import ContextMembers, ContextSubscriptions
from cepbook.engine.contexts.partition import ContextPartition, Counted, PartitionCounts
from cepbook.engine.contexts.partition_listeners import NoticeKind, PartitionListeners, PartitionNotice
from cepbook.engine.contexts.selectors import ById, PartitionIdentity, Selector
from cepbook.engine.services import EngineServices
from cepbook.engine.state import State
from cepbook.engine.subscriptions.filter_index import IndexCondition, StatementOrder, Subscription
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan.nodes import CreateContextStatement, CreateContextTreeStatement


class Context(PartitionAssigner):
    """A running context. Subclasses keep `partitions` in order of their ids, which count from 0 while it is active."""

    PASSING: tuple[str, ...] = ("event_counters",)

    partitions: dict[Any, ContextPartition]
    replay_obstacle: str | None  # completes "context `C` …": the reason that a replay must go event by event
    single_period: bool = False  # one partition at most; each begin and end is due to one event or one time

    def __init__(
        self,
        plan: CreateContextStatement | CreateContextTreeStatement,
        order: StatementOrder,
        host: EngineServices,
        listeners: PartitionListeners,
    ) -> None:
        self.plan = plan
        self.name = plan.context.name
        self.order = order
        self.event_counters: list[PartitionCounts] = []
        self.next_id = 0
        self._host = host
        self._listeners = listeners
        self._members = ContextMembers(host.clock)

    @property
    def statements(self) -> Sequence[ContextMember | None]:
        """The statements of the context by slot; None where one was removed."""
        return self._members.statements

    @property
    def watched(self) -> bool:
        return self._listeners.has_own_listeners(self.name)

    @property
    def assigner(self) -> PartitionAssigner | None:
        """The context as assigner of replayed events; None if there is a `replay_obstacle`."""
        return self if self.replay_obstacle is None else None

    @property
    def due(self) -> int:
        """The next time at which a condition may begin or end a partition; `NEVER` without one."""
        return NEVER

    def concerns(self, type_name: str) -> bool:
        """Return whether events of a type may begin or end a partition by a condition."""
        return False

    def turning_conditions(self, type_name: str) -> list[tuple[IndexCondition, ...]] | None:
        """Return the conditions of which an event of a type must meet one to end the live partition of a context with a
        single period, or to begin one if none lives. Without conditions no event of the type can; None: any may.
        """
        return None

    @abstractmethod
    def join(self, statement: ContextMember) -> int:
        """Add a statement with a state in every live partition and return its slot. The first activates the context."""

    def leave(self, statement: ContextMember) -> None:
        """Remove a statement. The last one deactivates the context, which drops its partitions without output."""
        self._removed(self._members.remove(statement, self.partitions.values()))
        if self._members:
            return
        for partition in self.partitions.values():
            partition.ended = True
            self.notify("deallocated", partition)
        self._deactivate()
        self._members.statements.clear()
        self.partitions.clear()
        self.next_id = 0
        self.notify("deactivated", None)

    def _removed(self, slot: int) -> None:
        """Forget a statement that was removed."""

    def _deactivate(self) -> None:
        """Drop the state beside the partitions."""

    def rewired(self) -> None:
        """Drop what was derived from event types, statements and listeners, which have changed."""

    @abstractmethod
    def delivers_repeatedly(self, type_names: Iterable[str], at_end: bool) -> bool:
        """Return whether a statement may deliver several times at one instant.

        That is so if an event of one of these types may reach several partitions. It is also so if the statement
        delivers with time or at the end of a partition (`at_end`), and partitions end.
        """

    @abstractmethod
    def subscribers(self, type_name: str, known: ContextSubscriptions) -> list[Subscription]:
        """Return the handlers of the context and its statements for events of a type; none if it is not concerned.

        All are called as ``handler(event, slots)``. `known` gets the subscriptions that it does not have.
        """

    def row_type(self, type_name: str) -> str:
        """Return the event type whose keys divide events of a type: rows of a named window of this context belong to
        the partitions of the events that the window was declared for.
        """
        store = self._host.stores.get(type_name)
        own = None if store is None or store.type.context != self.name else store.type.partitioned_as
        return own or type_name

    @abstractmethod
    def partitions_of_event(self, type_name: str, event: Any) -> Sequence[ContextPartition]:
        """Return the live partitions that an event belongs to, by id. No partition is allocated."""

    @abstractmethod
    def end_partition(self, id_: int) -> bool:
        """End a partition as a condition would. Return False if there is none with this id."""

    def enclosing_state(self, partition: ContextPartition) -> tuple[Sequence[State], Mapping[str, Counted]]:
        """Return the context's own state of a partition, and by name the tree nodes that the state refers to.

        The state goes to `admit` of another runtime, with the nodes replaced by its `placeholder_nodes`.
        """
        return [], {}

    def placeholder_nodes(self) -> Mapping[str, Counted]:
        """Return fresh nodes under the names of `enclosing_state`."""
        return {}

    @abstractmethod
    def admit(self, partition: ContextPartition, enclosing: Sequence[Any], nodes: Mapping[str, Any]) -> None:
        """Put in a saved partition in place of its counterpart, under its own id if that is free.

        `enclosing` is its `enclosing_state`. The states of the partition and `enclosing` refer to `nodes`, which are
        `placeholder_nodes` of this context.
        """

    @abstractmethod
    def identity(self, partition: ContextPartition) -> PartitionIdentity:
        """Return the identity of a live partition, which selectors test."""

    @abstractmethod
    def described(self, partition: ContextPartition) -> dict[str, Any]:
        """Return id, built-in properties and name of a partition."""

    def identities(self) -> Iterator[PartitionIdentity]:
        """Return the identities of the live partitions, by id."""
        return map(self.identity, self.partitions.values())

    def describe(self) -> list[dict[str, Any]]:
        """Return the live partitions with their built-in properties, by id."""
        return [self.described(partition) for partition in self.partitions.values()]

    def failed(self, failure: Exception) -> None:
        self._listeners.report_failure(self.name, failure)

    def notify(self, kind: NoticeKind, partition: ContextPartition | None, time: int | None = None) -> None:
        """Notify partition listeners; `time` defaults to the present engine time."""
        if self._listeners.has_listeners(self.name):
            id_, properties = (None, {}) if partition is None else (partition.id, self.described(partition))
            now = self._host.clock.now if time is None else time
            self._listeners.notify(PartitionNotice(kind, self.name, id_, properties, now))


def select_partitions(selector: Selector, context: Context) -> Set[int]:
    """Return the ids of the partitions that `selector` chooses. Given ids are returned as they are.

    Errors: UsageError if the selector does not fit the kind of context.
    """
    if isinstance(selector, ById):
        return selector.ids
    selector.check(context.plan.levels)
    return {partition.id for partition in context.identities() if selector.chooses(partition)}
