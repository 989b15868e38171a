"""The latest events over again, in a second workbench: with a further statement, with other values of variables.

What is known of the past is what marble diagrams are made from (`session.running.arrivals`): for each event type its
latest events, and the latest stops of the clock. A second workbench with the same statements in their first state is
shown all of them in their order. Variables have the given values, or those that they were given from outside, from the
beginning on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cepbook.engine.delta import Row
from cepbook.engine.runtime import Runtime
from cepbook.lang import ast
from cepbook.lang.dialects import epl as dialect
from cepbook.session.past.relived import Again, stimuli
from cepbook.session.running.arrivals import Born, Happening
from cepbook.session.running.stage import Stage


@dataclass(frozen=True, slots=True)
class Past:
    """What happened from clock time `start` to `now`, oldest first; `complete`: nothing has been forgotten.

    `assignments` are the values that variables were given from outside, `deployments` what is deployed, in the order
    in which it was.
    """

    happenings: tuple[Happening, ...]
    assignments: tuple[Happening, ...]
    start: int
    now: int
    complete: bool
    deployments: tuple[Born, ...] = ()

    @property
    def events(self) -> int:
        return sum(each.type_name is not None for each in self.happenings)


class ForgottenWarning(UserWarning):
    """Only the latest events happen anew: earlier ones are not known any more."""


def past_of(stage: Stage, start: int) -> Past:
    """What is known of the past of a workbench."""
    types = stage.runtime.catalog.event_types
    happenings = stage.arrivals.since((0, 0), set(types), types)
    complete = stage.arrivals.lost(set(types)) is None
    born = sorted(map(stage.arrivals.born, stage.runtime.deployments.values()), key=lambda each: each.place)
    return Past(tuple(happenings), tuple(stage.arrivals.assignments), start, stage.now, complete, tuple(born))


class Twin(Again):
    """All that is known of the past, in the `stage` of a second workbench, which takes note of it as well."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.runtime)
        self._arrivals = stage.arrivals

    def relive(self, past: Past) -> None:
        """Let it all happen, up to the present of then."""
        for happenings in stimuli(past.happenings):
            self.let(happenings)
        if past.now > self.runtime.now:
            self.let([Happening((0, 0), past.now)])

    def stopped(self, time: int, *, stepping: bool) -> None:
        self._arrivals.stopped(time, stepping=stepping)

    def comes(self, type_name: str, event: Row, time: int) -> None:
        self._arrivals.recorder(type_name)(time, event)


def is_query(epl: str, runtime: Runtime) -> bool:
    """Whether a text is a query of what is held now: of named windows, tables and rows of statements."""
    statements = dialect.parse(epl).statements
    if len(statements) != 1:
        return False
    only = statements[0]
    if not isinstance(only, ast.Select):
        return isinstance(only, ast.FafInsert | ast.FafUpdate | ast.FafDelete)
    held: Collection[str] = {*runtime.statements, *runtime.stores}
    return bool(only.sources) and all(
        isinstance(source.stream, ast.FilterStream) and not source.windows and source.stream.type_name in held
        for source in only.sources
    )
