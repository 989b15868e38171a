"""An engine for scenarios that is saved and loaded on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.testing.engine import OnDelivery, OnFailure
from cepbook.testing.engines import RowsEngine
from tests.engine.invariants import invariant_violations


def again(runtime: Runtime) -> Runtime:
    """The runtime, saved and loaded by a fresh one with the same functions."""
    return Runtime.restored(runtime.snapshot(), runtime.functions)


def each_partition_again(runtime: Runtime) -> int:
    """Save each context partition of a runtime and put it back from the file; how many. Nothing is to be seen of it."""
    count = 0
    for name in runtime.contexts:
        for found in runtime.partitions(name):
            try:
                data = runtime.snapshot(partition=(name, found["id"]))
            except UsageError as refusal:
                assert "cannot be saved individually" in str(refusal)
                break
            before = _seen(runtime, name)
            assert runtime.restore_partition(data) == found["id"]
            assert _seen(runtime, name) == before
            assert invariant_violations(runtime) == []
            count += 1
    return count


def _seen(runtime: Runtime, context: str) -> str:
    return repr((runtime.partitions(context), runtime.next_due, [runtime.state(name) for name in runtime.statements]))


class SavingEngine(RowsEngine):
    """The row engine; after each step that `cuts` accepts (their numbers from 0) it goes on from what was saved."""

    def __init__(self, start: int, options: Mapping[str, Any], cuts: Callable[[int], bool]) -> None:
        super().__init__(start, options)
        self.cuts = cuts
        self.steps = self.saved = 0
        self._listening: list[tuple[str, OnDelivery]] = []
        self._failing: list[OnFailure] = []

    def listen(self, statement: str, on_delivery: OnDelivery) -> None:
        super().listen(statement, on_delivery)
        self._listening.append((statement, on_delivery))

    def on_failure(self, on_failure: OnFailure) -> None:
        super().on_failure(on_failure)
        self._failing.append(on_failure)

    def send(self, event_type: str, event: dict[str, Any]) -> None:
        self._cut()
        super().send(event_type, event)

    def advance(self, time: int, *, stepping: bool) -> None:
        self._cut()
        super().advance(time, stepping=stepping)

    def iterate(self, statement: str) -> Any:
        self._cut()
        return super().iterate(statement)

    def partitions(self, context: str) -> Any:
        self._cut()
        return super().partitions(context)

    def set_variable(self, name: str, value: Any) -> None:
        self._cut()
        super().set_variable(name, value)

    def get_variable(self, name: str) -> Any:
        self._cut()
        return super().get_variable(name)

    def undeploy(self, deployment_id: str) -> None:
        self._cut()
        super().undeploy(deployment_id)
        self._listening = [each for each in self._listening if each[0] in self.runtime.statements]

    def _cut(self) -> None:
        """Save and load before the next step, if this is the place."""
        self.steps += 1
        if not self.cuts(self.steps - 1):
            return
        self.saved += 1
        self.runtime = again(self.runtime)
        self._statements = dict(self.runtime.statements)
        for on_failure in self._failing:
            super().on_failure(on_failure)
        for statement, on_delivery in self._listening:
            if statement in self._statements:
                super().listen(statement, on_delivery)


class PartingEngine(SavingEngine):
    """The same; there each context partition is saved and put back."""

    def _cut(self) -> None:
        self.steps += 1
        if self.cuts(self.steps - 1):
            self.saved += each_partition_again(self.runtime)
