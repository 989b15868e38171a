"""Patterns from EPL text, matched without statements."""

from __future__ import annotations

from functools import cache
from typing import Any

from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.patterns.matcher import Matcher, PatternProgram
from cepbook.engine.patterns.pattern_codegen import PatternCodegen
from cepbook.engine.runtime import Runtime
from cepbook.engine.time.clock import Clock
from cepbook.lang.plan.nodes import SelectStatement

SCHEMA = """create schema A(id string, x int); create schema B(id string, x int); create schema C(id string, x int);
            create schema Child() inherits A;"""
TYPES = ("A", "B", "C", "Child")


@cache
def compiled(text: str, annotations: str) -> PatternProgram:
    """The program of a pattern."""
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    plan = runtime.compile(f"select * from pattern {annotations} [{text}]").statements[0]
    assert isinstance(plan, SelectStatement) and plan.source.pattern is not None
    source = SourceWriter()
    code = PatternCodegen(plan.source.pattern, _scope(source), "pattern")
    return code.program(source.load())


class Run:
    """One matcher, and all that it reports. Events are dicts; matches are shown as text: ``a1 b2``."""

    def __init__(self, text: str, *, now: int = 0, limit: int = 1_000_000, annotations: str = "") -> None:
        program = compiled(text, annotations)
        self.failures: list[Exception] = []
        self.times_crowded = 0
        self.matcher = Matcher(program, self, limit=limit)
        self._routes = {name: program.route((name, "A") if name == "Child" else (name,)) for name in TYPES}
        self.at_once = [shown(match) for match in self.matcher.start(now)]
        self.now = now

    def failed(self, failure: Exception) -> None:
        self.failures.append(failure)

    def partials_limit_reached(self) -> None:
        self.times_crowded += 1

    def send(self, type_name: str, id_: str | None = None, x: int | None = None) -> list[str]:
        """The matches of one event."""
        event = {"id": id_, "x": x}
        return [shown(match) for match in self.matcher.on_event(self._routes[type_name], event, self.now)]

    def to(self, now: int) -> list[str]:
        """The matches of an advance."""
        self.now = now
        return [shown(match) for match in self.matcher.advance(now)]

    def waits(self) -> list[tuple[str, int, int | None, str]]:
        """The partial matches: what for, since, until, with which events."""
        found = self.matcher.partials()
        return [(p["waiting_for"], p["since"], p["until"], shown(p["events"])) for p in found]


def _scope(source: SourceWriter) -> CodeScope:
    source.bind("clock", Clock(0))
    return CodeScope(source, {})


def shown(match: dict[str, Any]) -> str:
    """The ids of the events of a match, ``-`` where there is none."""
    return " ".join(_shown(value) for value in match.values())


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(_shown(event) for event in value) + "]"
    return "-" if value is None else str(value["id"])
