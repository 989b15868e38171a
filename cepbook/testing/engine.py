"""The interface between the runner and an engine. The runner uses nothing else of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from cepbook.errors import StatementError
from cepbook.testing.values import PropertyTypes, Row

OnDelivery = Callable[[str, Sequence[Row], Sequence[Row]], None]
OnFailure = Callable[[StatementError], None]


class Engine(Protocol):
    """A fresh engine for one case. It raises `Refusal` for anything that it does not support.

    Mistakes of the scenario are `CepbookError`s; any other exception counts as a defect of the engine.
    """

    def properties(self, event_type: str) -> PropertyTypes | None:
        """Return the declared property types of an event type; None if there is no such type."""

    def deploy(self, epl: str, deployment_id: str) -> Sequence[str]:
        """Compile and deploy a module and return the names of its statements in order."""

    def deploy_query(self, dialect: str, name: str, text: str) -> None:
        """Deploy a query of another dialect as the statement `name`."""

    def undeploy(self, deployment_id: str) -> None: ...

    def listen(self, statement: str, on_delivery: OnDelivery) -> None:
        """Call ``on_delivery(statement, insert, remove)`` once for each atomic delivery, at its time."""

    def on_failure(self, on_failure: OnFailure) -> None:
        """Call `on_failure` for each expression that fails at run time while the stimulus succeeds."""

    def send(self, event_type: str, event: dict[str, Any]) -> None: ...

    def send_together(self, events: Sequence[tuple[str, dict[str, Any]]]) -> None: ...

    def advance(self, time: int, *, stepping: bool) -> None: ...

    def iterate(self, statement: str) -> Iterable[Row]: ...

    def query(self, epl: str) -> Iterable[Row]: ...

    def partitions(self, context: str) -> Iterable[Row]: ...

    def get_variable(self, name: str) -> Any: ...

    def set_variable(self, name: str, value: Any) -> None: ...

    def replace_table(self, name: str, rows: Sequence[Sequence[Any]]) -> None: ...


OpenEngine = Callable[[int, Mapping[str, Any]], Engine]
"""Opens a fresh engine from the initial clock (ms) and the settings of ``config`` fences, by their keys in the file."""
