"""A tiny engine for tests of the runner: statements echo what is sent to them, and a few words make trouble.

``@name('x') from Tick`` delivers every Tick; ``twice`` delivers it in two deliveries, ``empty`` forces a delivery
without rows, ``boom`` breaks the engine, ``fails`` is a statement that fails at run time.
Modules with ``unsupported`` are refused, modules with ``wrong`` do not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cepbook.errors import BindError, Diagnostic, Refusal, Span, StatementError, UsageError
from cepbook.lang.types import BIGDECIMAL, DOUBLE, INT, STRING, array_of, event_of
from cepbook.testing.engine import OnDelivery, OnFailure
from cepbook.testing.values import PropertyTypes, Row

TYPES: dict[str, PropertyTypes] = {
    "Tick": {"symbol": STRING, "price": DOUBLE},
    "Order": {"id": STRING, "total": BIGDECIMAL, "first": event_of("Tick"), "ticks": array_of(event_of("Tick"))},
    "Count": {"n": INT},
}


class FakeEngine:
    def __init__(self, start: int, options: Mapping[str, Any]) -> None:
        if "unheardOf" in options:
            raise Refusal("not-supported-yet", "unheardOf is not supported yet")
        self.now = start
        self.options = options
        self.kinds: dict[str, str] = {}
        self.deployments: dict[str, list[str]] = {}
        self.listeners: dict[str, OnDelivery] = {}
        self.rows: list[Row] = []
        self.variables: dict[str, Any] = {}
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.failed: OnFailure

    def properties(self, event_type: str) -> PropertyTypes | None:
        return TYPES.get(event_type)

    def deploy(self, epl: str, deployment_id: str) -> Sequence[str]:
        for word, code in (("unsupported", "not-supported-yet"), ("wrong", "unknown-word")):
            if word in epl:
                at = epl.index(word)
                raise BindError((Diagnostic(code, f"{word} is {code}", Span(at, at + len(word))),), epl)
        if "nameless" in epl:
            raise UsageError("there is no such thing")
        self.variables.update(re.findall(r"variable \w+ (\w+) = (\w+)", epl))
        names = dict(re.findall(r"@name\('(\w+)'\)\s*(\w+)", epl))
        self.kinds.update(names)
        self.deployments[deployment_id] = list(names)
        if "announce" in epl:
            self._deliver("out", [{"n": 1}], [])
        return list(names)

    def deploy_query(self, dialect: str, name: str, text: str) -> None:
        raise Refusal("not-supported-yet", f"no {dialect} yet")

    def undeploy(self, deployment_id: str) -> None:
        if deployment_id not in self.deployments:
            raise UsageError(f"there is no deployment '{deployment_id}'")
        for name in self.deployments.pop(deployment_id):
            del self.kinds[name]

    def listen(self, statement: str, on_delivery: OnDelivery) -> None:
        self.listeners[statement] = on_delivery

    def on_failure(self, on_failure: OnFailure) -> None:
        self.failed = on_failure

    def send(self, event_type: str, event: dict[str, Any]) -> None:
        self.sent.append((event_type, event))
        self.rows.append(event)
        for name, kind in self.kinds.items():
            match kind:
                case "boom":
                    raise ZeroDivisionError("boom")
                case "fails":
                    self.failed(StatementError(name, "division by zero", None, ZeroDivisionError()))
                case "twice":
                    self._deliver(name, [event], [])
                    self._deliver(name, [], [event])
                case "backwards":
                    self._deliver(name, list(reversed(self.rows)), [])
                case "empty":
                    self._deliver(name, [], [])
                case _:
                    self._deliver(name, [event], [])

    def send_together(self, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
        for event_type, event in events:
            self.send(event_type, event)

    def advance(self, time: int, *, stepping: bool) -> None:
        for moment in range(self.now + 1000, time + 1, 1000) if stepping else [time]:
            self.now = moment
            for name in self.kinds:
                self._deliver(name, [{"now": moment}], [])

    def iterate(self, statement: str) -> Iterable[Row]:
        return self.rows

    def query(self, epl: str) -> Iterable[Row]:
        self.deploy(epl, "query")
        return self.rows[-1:]

    def partitions(self, context: str) -> Iterable[Row]:
        return [{"id": 0, "name": context}]

    def get_variable(self, name: str) -> Any:
        return self.variables[name]

    def set_variable(self, name: str, value: Any) -> None:
        self.variables[name] = value

    def replace_table(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        self.rows = [{name: row} for row in rows]

    def _deliver(self, name: str, insert: list[Row], remove: list[Row]) -> None:
        if name in self.listeners:
            self.listeners[name](name, insert, remove)
