"""What the parts of the engine need of each other, where asking for the whole would make a circle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from cepbook.engine.activations.scheduler import ActivationScheduler
from cepbook.engine.config import Config
from cepbook.engine.delivery.delta import Row
from cepbook.engine.relations.store import PendingChanges, Store
from cepbook.engine.time.clock import Clock
from cepbook.errors import StatementError
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.expressions import BoundExpr


class EngineServices(Protocol):
    """What a statement needs of the runtime that runs it."""

    clock: Clock
    config: Config
    holds: bool
    changes: PendingChanges  # what moved in stores and waits for the readers
    activations: ActivationScheduler
    stores: dict[str, Store]  # the named windows and tables

    @property
    def catalog(self) -> Catalog:
        """What is known now."""

    def enqueue_rows(self, type_name: str, rows: list[Row], partition: Any = None) -> None:
        """Rows of ``insert into``, for when all statements have seen the present event.

        `partition`: the context partition that made them; a table of its context is that of this partition.
        """

    def report(self, error: StatementError) -> None:
        """A failure at run time."""

    def rewired(self) -> None:
        """Listeners changed."""

    def held(self, statement: DeliveryHolder) -> None:
        """`statement` keeps rows until the round is over."""


class DeliveryHolder(Protocol):
    """What keeps rows until all statements have seen an event."""

    def release(self) -> None:
        """Deliver them."""

    def failed(self, failure: Exception) -> None:
        """A listener failed."""


class EventReader(NamedTuple):
    """How a statement takes events of a type in a state, ``take(event, state)``: true if it took the event.

    `checked` tests the whole filter, `matched` relies on `condition`, which the filter index may use, having been
    tested. With `drops` (``@Drop``) an event that it takes is kept from statements of its priority and lower ones.
    `type` is the one that the statement reads, `late`: one event may reach it on several ways.
    """

    checked: Callable[[Any, Any], object]
    matched: Callable[[Any, Any], object]
    condition: BoundExpr | None
    drops: bool
    type: str
    late: bool


class ContextMember(Protocol):
    """What a context needs of the statements that run in it."""

    name: str
    order: tuple[int, int]

    @property
    def correlation(self) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] | None:
        """Equalities of its filter between an event and a partition, as keys: (of the event, of the partition)."""

    def new_state(self, partition: Any) -> Any:
        """A fresh state for a partition."""

    def opened(self, partition: Any) -> None:
        """A partition was allocated while the context was active, and has all its states."""

    @property
    def external_state(self) -> str | None:
        """What of another place agrees with its states in all partitions; None: each may go its own way."""

    def armed_timers(self, partition: Any) -> list[tuple[int, int]]:
        """The timers of its state in a partition."""

    def partition_restored(self, partition: Any, armed_timers: Iterable[tuple[int, int]]) -> None:
        """A partition came from elsewhere with its state, which had these timers."""

    def reading(self, type_name: str) -> EventReader | None:
        """How the statement takes events of a type; None if it does not read the type."""

    def end(self, partition: Any, now: int) -> None:
        """A partition ends: deliver what is due at its end, and forget the state."""

    def caused(self, failure: Exception) -> bool:
        """Whether the failure came out of the statement's generated code."""

    def error(self, failure: Exception) -> StatementError:
        """The failure as the user is shown it."""

    def settle(self) -> None:
        """The context failed, maybe while timers of the statement were armed: make them right."""

    def forget(self, partition: Any) -> None:
        """Forget the state of a partition, without any output."""

    def guarded(self, take: Callable[[Any, Any], object], event: Any, partitions: Iterable[Any]) -> bool:
        """Hand an event to the statement's states in partitions; failures are reported. Whether one took the event."""
