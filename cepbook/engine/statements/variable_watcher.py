"""Variables in conditions of windows and output clauses: an assignment evaluates the condition again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.expressions.to_python import FIRST_SUBQUERY_SLOT, ReadableVariable
from cepbook.engine.time.clock import Clock


class VariableWatcher:
    """Watches the variables of one statement. `states(partition)` returns its state in a partition, or all without one.

    `failed` reports failures, which belong to the statement and not to the one that assigned the variable.
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
        """Start to watch."""
        for cell in self._watched:
            cell.listeners.append(self._reevaluate)
        for cell in self._program.output_watched:
            cell.listeners.append(self._reconsider)

    def end(self) -> None:
        """Stop watching."""
        for cell in self._watched:
            if self._reevaluate in cell.listeners:
                cell.listeners.remove(self._reevaluate)
        for cell in self._program.output_watched:
            if self._reconsider in cell.listeners:
                cell.listeners.remove(self._reconsider)

    @property
    def _watched(self) -> list[ReadableVariable]:
        cells = [cell for program in (self._program, *self._program.subqueries) for cell in program.watched]
        return list({id(cell): cell for cell in cells}.values())

    def _reevaluate(self, partition: ContextPartition | None = None) -> None:
        """Evaluate window conditions again at the next advance, because a variable has changed."""
        for state in self._states(partition) if self._program.watched else ():
            self._call(self._program["reevaluate"], state)
        for place, program in enumerate(self._program.subqueries, FIRST_SUBQUERY_SLOT):
            for state in self._states(partition) if program.watched else ():
                self._call(program["reevaluate"], state[place])

    def _reconsider(self, partition: ContextPartition | None = None) -> None:
        """Evaluate the output condition again at the next advance, because a variable was assigned."""
        for state in self._states(partition):
            self._call(self._program["reconsider"], state)

    def _call(self, evaluate: Callable[[Any, int], object], state: Any) -> None:
        try:
            evaluate(state, self._clock.now)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self._failed(failure)
