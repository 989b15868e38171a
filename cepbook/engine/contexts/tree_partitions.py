"""The partitions of a tree context, and the services that its branches and conditions use.

This class is the lower half of a tree context. It knows partitions, timers, statements and event types, but neither
nodes nor levels. Branches and condition watches refer to it, and `TreeContext` completes it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.correlation_index import CorrelationIndex
from cepbook.engine.contexts.event_routing import EventRouting
from cepbook.engine.contexts.members import Readers, deliver_to_members
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.contexts.partition_listeners import PartitionListeners
from cepbook.engine.patterns.state_node import PatternOwner
from cepbook.engine.services import EngineServices
from cepbook.engine.subscriptions.filter_index import StatementOrder
from cepbook.engine.time.clock import NEVER
from cepbook.engine.time.timers import DueEntry, OwnerTimers
from cepbook.errors import StatementError
from cepbook.lang.plan.nodes import CreateContextTreeStatement

TimerPath = tuple[int, int, int]  # depth of the level, 0 for conditions that begin and 1 for those that end, serial


class TreePartitions(Context, PatternOwner):
    """Live partitions by id, timers of conditions, and delivery of events to the statements in a partition."""

    def __init__(
        self,
        plan: CreateContextTreeStatement,
        order: StatementOrder,
        host: EngineServices,
        listeners: PartitionListeners,
    ) -> None:
        super().__init__(plan, order, host, listeners)
        self.timed = OwnerTimers(order, self.fire, self.failed, leads=True)
        self.partitions: dict[int, ContextPartition] = {}
        self.pattern_limit = host.config.pattern_limit
        self._waiting: dict[TimerPath, tuple[Any, Any]] = {}  # by armed timer: the condition watch and its owner
        self._serial = 0
        self._correlations = CorrelationIndex()
        self._joining = False
        self._warned = False
        self._readers: dict[str, Readers] = {}  # by event type

    def readers_of(self, type_name: str) -> Readers:
        """Return the statements that read events of a type, by priority and deployment order."""
        readers = self._readers.get(type_name)
        if readers is None:
            readers = self._readers[type_name] = self._members.readers(type_name, {})
        return readers

    def deliver(self, partition: ContextPartition, routing: EventRouting) -> None:
        """Deliver an event to all statements in a new partition."""
        if routing.defers:
            routing.deferred.append((partition, routing))
        else:
            self._deliver(partition, routing, self.readers_of(routing.type_name))

    def deliver_behind(self, partition: ContextPartition, routing: EventRouting) -> None:
        """Deliver an event to the statements behind the context. Those ahead of it have received the event already."""
        behind = [reader for reader in self.readers_of(routing.type_name) if reader[0].order > self.order]
        self._deliver(partition, routing, behind)

    def _deliver(self, partition: ContextPartition, routing: EventRouting, readers: Readers) -> None:
        routing.taken_by += deliver_to_members(readers, routing.event, partition)

    def create_states(self, partition: ContextPartition) -> None:
        self._members.create_states(partition)

    def open(self, partition: ContextPartition) -> None:
        """Add a partition that has its states, and notify statements and listeners."""
        self.partitions[partition.id] = partition
        self._correlations.add(partition)
        self.next_id += 1
        self.notify("allocated", partition)
        if not self._joining:
            self._members.opened(partition)

    def close(self, partition: ContextPartition) -> None:
        """End a partition: in its statements, the last deployed first, then for the listeners."""
        partition.ended = True
        del self.partitions[partition.id]
        self._correlations.remove(partition)
        self._members.end(partition)
        self.notify("deallocated", partition)
        partition.owner = None  # breaks the cycle with the node, so that both are freed without the garbage collector

    @property
    def now(self) -> int:
        return self._host.clock.now

    def arm(self, depth: int, rank: int, waiting: tuple[Any, Any], due: int) -> TimerPath:
        """Arm a timer for a condition watch and its owner, and return its path.

        Timers fire by due time. At one time, outer levels come first, and conditions that begin nodes before others.
        """
        self._serial += 1
        path = depth, rank, self._serial
        self._waiting[path] = waiting
        self.timed.arm(path, due)
        return path

    def arm_again(self, path: TimerPath, waiting: tuple[Any, Any], saved: TimerPath) -> TimerPath:
        """Give a timer the path that it had when it was saved, if that is free; return the path."""
        if saved in self._waiting:
            return path
        self.disarm(path)
        self._serial = max(self._serial, saved[-1])
        self._waiting[saved] = waiting
        return saved

    def disarm(self, path: TimerPath) -> None:
        self._waiting.pop(path, None)
        self.timed.arm(path, NEVER)

    @abstractmethod
    def fire(self, now: int, entries: list[DueEntry]) -> None:
        """Handle timers that are due."""

    def is_a(self, type_name: str, supertype: str) -> bool:
        return self._host.catalog.is_a(type_name, supertype)

    def types_of(self, type_name: str) -> tuple[str, ...]:
        """Return a type, then its supertypes."""
        event_type = self._host.catalog.event_types.get(type_name)
        return (type_name, *(() if event_type is None else event_type.supertypes))

    def partials_limit_reached(self) -> None:
        """Report, once, that the pattern of a condition has reached the limit of partial matches."""
        if not self._warned:
            self._warned = True
            limit = f"{self.pattern_limit:,}"
            fact = f"a pattern of context `{self.name}` has {limit} open partial matches, further ones are dropped"
            hint = "hint: end them (where timer:within, and not), or raise Config.pattern_limit"
            self._host.report(StatementError(self.name, f"{fact}\n  {hint}", None, OverflowError(fact)))

    def guarded(self, act: Callable[[], object]) -> None:
        """Call `act` and report its failure."""
        try:
            act()
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)

    def failed(self, failure: Exception) -> None:
        """Report a run-time failure, as one of the statement that raised it, and arm the timers that it prevented."""
        self._members.settle()
        self.timed.settle()
        statement = self._members.failing_member(failure)
        if statement is None:
            super().failed(failure)
        else:
            self._host.report(statement.error(failure))
