"""Services that a runtime offers to its statements and contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cepbook.engine.config import Config
from cepbook.engine.delivery.outlet import DeliveryServices
from cepbook.engine.relations.store import PendingChanges, Store
from cepbook.engine.time.activations import ActivationScheduler
from cepbook.engine.time.clock import Clock
from cepbook.errors import StatementError
from cepbook.lang.plan.catalog import Catalog


@dataclass(slots=True)
class EngineServices:
    """Clock, configuration, queues and catalog of one runtime.

    Statements and contexts hold this object instead of the runtime, so they depend on nothing above them. The catalog
    is replaced when a deployment comes or goes, so read it from here and do not keep it.
    """

    config: Config
    clock: Clock
    deliveries: DeliveryServices
    """The queue of `insert into`, and the holding of rows until the end of an event."""

    changes: PendingChanges
    """Changes of stores that wait for the end of an event."""

    activations: ActivationScheduler
    report: Callable[[StatementError], None]
    """Report a run-time failure."""

    catalog: Catalog = field(default_factory=Catalog)
    """Names that modules may refer to."""

    stores: dict[str, Store] = field(default_factory=dict)
    """The running named windows and tables, by name."""

    restoring: bool = False
    """True while modules are deployed whose state comes from a snapshot: nothing begins, and nothing is evaluated."""
