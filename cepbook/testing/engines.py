"""The engines that cases run on.

`ENGINES` maps the name in a ``refuses:`` line to a function that opens a fresh one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from cepbook.dialects.registry import DIALECTS
from cepbook.engine.delivery.delta import Delta
from cepbook.engine.deploy.fire_and_forget import replace_rows, run_query
from cepbook.engine.runtime import Config, RunningStatement, Runtime
from cepbook.errors import Refusal, UsageError
from cepbook.lang.java.numbers import java_text
from cepbook.lang.syntax.source_text import EPL, SourceText
from cepbook.lang.types import INT, STRING
from cepbook.testing.engine import OnDelivery, OnFailure, OpenEngine
from cepbook.testing.values import PropertyTypes, Row, java_row


class RowsEngine:
    """The row engine: an adapter of `cepbook.engine.runtime.Runtime`."""

    def __init__(self, start: int, options: Mapping[str, Any]) -> None:
        options = {"tables" if key == "table" else key: value for key, value in options.items()}
        of_dialects = {key for row in DIALECTS.values() for key in row.settings}
        self._settings = {key: value for key, value in options.items() if key in of_dialects}
        self.runtime = Runtime(_config({k: v for k, v in options.items() if k not in of_dialects}), start=start)
        self._statements: dict[str, RunningStatement] = {}
        self.runtime.register_function("computeHash", compute_hash, returns=INT)
        self.runtime.register_function("concatStr", concat_str, returns=STRING)

    def properties(self, event_type: str) -> PropertyTypes | None:
        declared = self.runtime.catalog.event_types.get(event_type)
        return None if declared is None else declared.properties

    def deploy(self, epl: str, deployment_id: str) -> Sequence[str]:
        settings = {key: self._settings[key] for key in DIALECTS[EPL].settings if key in self._settings}
        text = SourceText(epl, EPL, settings) if settings else epl
        statements = self.runtime.deploy(text, deployment_id=deployment_id).statements
        self._statements.update((statement.name, statement) for statement in statements)
        return [statement.name for statement in statements]

    def deploy_query(self, dialect: str, name: str, text: str) -> None:
        if dialect not in DIALECTS:
            raise Refusal("not-supported-yet", f"the dialect {dialect} is not supported yet")
        known = DIALECTS[dialect].settings
        unknown = next((key for key in self._settings if key not in known), None)
        if unknown is not None:
            raise UsageError(f"{dialect} has no setting '{unknown}'")
        text = SourceText(text, dialect, {"name": name, **self._settings})
        statements = self.runtime.deploy(text, deployment_id=name).statements
        self._statements.update((statement.name, statement) for statement in statements)

    def undeploy(self, deployment_id: str) -> None:
        self.runtime.undeploy(deployment_id)

    def listen(self, statement: str, on_delivery: OnDelivery) -> None:
        types = self._statements[statement].output_type.properties

        def deliver(delta: Delta) -> None:
            rows = (self._java_rows(rows or (), types) for rows in (delta.insert, delta.remove))
            on_delivery(statement, *rows)

        self._statements[statement].add_listener(deliver)

    def _java_rows(self, rows: Iterable[Row], types: PropertyTypes) -> list[Row]:
        return [java_row(row, types, self.properties) for row in rows]

    def on_failure(self, on_failure: OnFailure) -> None:
        self.runtime.add_error_listener(on_failure)

    def send(self, event_type: str, event: dict[str, Any]) -> None:
        self.runtime.send(event_type, event)

    def send_together(self, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self.runtime.send_together(events)

    def advance(self, time: int, *, stepping: bool) -> None:
        self.runtime.advance(time, stepping=stepping)

    def iterate(self, statement: str) -> Iterable[Row]:
        rows = self.runtime.iterate(statement)
        running = self.runtime.statements.get(statement)
        return rows if running is None else self._java_rows(rows, running.output_type.properties)

    def query(self, epl: str) -> Iterable[Row]:
        answer = run_query(self.runtime, epl)
        return self._java_rows(answer.rows, answer.plan.output_type.properties)

    def partitions(self, context: str) -> Iterable[Row]:
        rows = [
            {name: value for name, value in partition.items() if name != "statements"}
            for partition in self.runtime.partitions(context)
        ]
        return self._java_rows(rows, self.runtime.catalog.contexts[context].properties)

    def get_variable(self, name: str) -> Any:
        return self.runtime.get_variable(name)

    def set_variable(self, name: str, value: Any) -> None:
        self.runtime.set_variable(name, value)

    def replace_table(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        replace_rows(self.runtime, name, rows)


# Functions that cases may call without declaring them. Both work on the text that Java gives a value, so that cases can
# be compared with an implementation on the JVM.
def compute_hash(value: Any) -> int:
    """Return Java's ``String.hashCode`` of the value's text, ``& 0x7fffffff``."""
    code = 0
    encoded = java_text(value).encode("utf-16-be")
    for at in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[at : at + 2], "big")) & 0xFFFFFFFF
    return code & 0x7FFFFFFF


def concat_str(left: Any, right: Any) -> str:
    """Return the concatenated texts of both values."""
    return java_text(left) + java_text(right)


def _config(options: Mapping[str, Any]) -> Config:
    known = {field.name for field in fields(Config)}
    chosen: dict[str, Any] = {}
    for key, value in options.items():
        name = _CONFIG_NAMES.get(key) or re.sub(r"[A-Z]", lambda capital: f"_{capital.group().lower()}", key)
        if name not in known:
            raise Refusal("not-supported-yet", f"the configuration key '{key}' is not supported yet")
        chosen[name] = _selector(value) if name == "default_stream_selector" else value
    return Config(**chosen)


_CONFIG_NAMES = {"divisionByZeroReturnsNull": "division_by_zero_null"}
_SELECTORS = {"ISTREAM_ONLY": "istream", "RSTREAM_ONLY": "rstream", "RSTREAM_ISTREAM_BOTH": "irstream"}


def _selector(value: Any) -> str:
    selector = _SELECTORS.get(value, value)
    if selector not in _SELECTORS.values():
        raise UsageError(f"'{value}' is no stream selector; there are {', '.join(_SELECTORS)}")
    return str(selector)


ENGINES: Mapping[str, OpenEngine] = {"rows": RowsEngine}
