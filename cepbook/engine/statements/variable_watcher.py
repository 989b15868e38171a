"""Variables that the conditions of a statement's windows and output clause read: their changes evaluate these."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.expressions.to_python import FIRST_SUBQUERY_SLOT, ReadableVariable
from cepbook.engine.time.clock import Clock


class VariableWatcher:
    """``states(partition)`` gives the statement's state in a partition, without one all; `failed` is told of failures:

    they are the statement's, not those of who assigns the variable.
    """

    def __init__(
        self,
        program: StatementProgram,
        states: Callable[[ContextPartition | None], Iterable[Any]],
        clock: Clock,
        failed: Callable[[Exception], None],
    ) -> None:
        self._program = program
        self._states = states
        self._clock = clock
        self._failed = failed

    def begin(self) -> None:
        """Be told of changes from now on."""
        for cell in self._watched:
            cell.listeners.append(self._reevaluate)
        for cell in self._program.output_watched:
            cell.listeners.append(self._reconsider)

    def end(self) -> None:
        """Be told no more."""
        for cell in self._watched:
            if self._reevaluate in cell.listeners:
                cell.listeners.remove(self._reevaluate)
        for cell in self._program.output_watched:
            if self._reconsider in cell.listeners:
                cell.listeners.remove(self._reconsider)

    @property
    def _watched(self) -> list[ReadableVariable]:
        """The variables that conditions of windows read, each once."""
        cells = [cell for each in (self._program, *self._program.subqueries) for cell in each.watched]
        return list({id(cell): cell for cell in cells}.values())

    def _reevaluate(self, partition: ContextPartition | None = None) -> None:
        """A variable that a window's condition reads has changed: evaluate it at the next advance."""
        for state in self._states(partition) if self._program.watched else ():
            self._call(self._program["reevaluate"], state)
        for place, each in enumerate(self._program.subqueries, FIRST_SUBQUERY_SLOT):
            for state in self._states(partition) if each.watched else ():
                self._call(each["reevaluate"], state[place])

    def _reconsider(self, partition: ContextPartition | None = None) -> None:
        """A variable that the output's condition reads was assigned: what is due follows at the next advance."""
        for state in self._states(partition):
            self._call(self._program["reconsider"], state)

    def _call(self, evaluate: Callable[[Any, int], object], state: Any) -> None:
        try:
            evaluate(state, self._clock.now)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self._failed(failure)
