"""Code generation for rows of `match_recognize` that enter one by one: the automaton as one function.

It applies where only the earliest match is reported, at once, and no row leaves (`PhysicalPlan.enters_rows_alone`).
The open matches of a partition are then few: one at each position, or one for each choice of the rows that later
conditions read. They are in order of preference, so the first match that moves to a position keeps it, and the first
complete match is the one to report. It ends all others, which would share rows with it.

``enter_row(V, S, o, e, now)`` does for one row what `MatchView.take` does for a delta. `V` is the view, `o` the ordinal
of the row `e`. The conditions are written where a match tries them. Names beside those of `recognize_codegen`:

==============================  ========================================================================================
``former``, ``going``           the open matches of the partition before and after the row
``others``                      the number of open matches in other partitions
``complete``                    the rows of the match to report, or None
``log``, ``last``               the log of the partition (`RowPartition`), and the index of the row there
``begin``, ``since``, ``tail``  as in `match_view.OpenMatch`
``meets1``                      the result of the condition of variable 1, if that reads no matched rows; None until
                                it is evaluated
``free2``                       False once a match has moved to position 2
``seen``, ``future``            for positions behind which conditions read matched rows: (position, these rows) of the
                                matches that have moved there, and of the match that is to move
==============================  ========================================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.recognize.match_view import RowPartition
from cepbook.engine.recognize.recognize_codegen import RecognizeCodegen
from cepbook.engine.recognize.row_aggregates import read_rows, with_run
from cepbook.lang.plan.relational import Recognition
from cepbook.lang.plan.row_pattern import END_OF_MATCH

ENTER_ROW = "enter_row"
MOST_TRANSITIONS = 60  # of automata that are written out
_START = -1  # stands for the position before the first row


class RowEntryCodegen(RecognizeCodegen):
    """Writes ``enter_row``, beside the functions that the iterator calls."""

    enters_rows = True

    def write(self) -> None:
        super().write()
        source, back, runs = self.source, self.back, any(v.many for v in self.node.variables)
        create = source.bind("_RowPartition", RowPartition)
        with source.block(f"def {ENTER_ROW}(V, S, o, e, now):"):
            scope = self._read_partition_key()
            source.line("partition = V.partitions.get(k)")
            with source.block("if partition is None:"):
                source.line(f"partition = V.partitions[k] = {create}()")
            source.line("h, former, going, complete = partition.before, partition.open, [], None")
            source.line("others = V.size - len(former)")
            source.line("V.serial += 1")
            with self._reported("going, complete = [], None"):
                if runs:
                    source.line("log = partition.log")
                    with source.block("if not former or len(log) >= partition.room:"):
                        source.line(f"partition.note(o, e, {source.const(self.automaton.variables)})")
                        source.line("log = partition.log")
                    with source.block("else:"):
                        source.line("log.append(e)")
                    source.line("last = len(log) - 1")
                self._continue_matches(scope)
                with source.block("if others + len(going) > recognize_limit:"):
                    source.line("too_many(recognize_limit)")
            with source.block("if complete is not None:"):
                source.line("going = []")
            source.line("partition.open = going")
            source.line("V.size = others + len(going)")
            if back:
                source.line("h.append(e)")
                with source.block(f"if len(h) > {back}:"):
                    source.line("del h[0]")
            with source.block("if not going:"):
                source.line("partition.log = []" if back else "del V.partitions[k]")
            with source.block("if complete is not None:"):
                source.line("return V.emit_matches([complete], now)")

    def _read_partition_key(self) -> CodeScope:
        """Write the where clause and the key of a row; return the scope of its conditions."""
        source, node = self.source, self.node
        conditions = [e for e in self.conditions if e is not None]
        scope = self.tested([*([] if node.predicate is None else [node.predicate]), *node.keys, *conditions])
        with self._reported("return None"):
            if node.predicate is not None:
                with source.block(f"if not {lower.truth(scope, node.predicate)}:", node.predicate.span):
                    source.line("return None")
            source.line(f"k = {self.key(scope) if node.keys else None}", node.keys[0].span if node.keys else None)
        return scope

    @contextmanager
    def _reported(self, otherwise: str) -> Iterator[None]:
        with self.source.block("try:"):
            yield
        with self.source.block("except Exception as failure:"):
            self.source.line("failed(failure)")
            self.source.line(otherwise)

    def _continue_matches(self, scope: CodeScope) -> None:
        """Write that each open match, and one that begins with the row, tries its transitions."""
        source = self.source
        targets = {
            position: [target for target in follow if target != END_OF_MATCH]
            for position, follow in enumerate(self.automaton.follow)
        }
        targets[_START] = list(self.automaton.start)
        writer = _TransitionCodegen(self, scope, targets)
        writer.declare()
        sources = [position for position, follow in targets.items() if follow and position != _START]
        if sources:
            with source.block("for match in partition.open:"):
                source.line("begin, since, position, m, _, tail = match")
                for index, position in enumerate(sources):
                    with source.block(f"{'elif' if index else 'if'} position == {position}:"):
                        writer.write(position)
        writer.write(_START)


def recognize_codegen(node: Recognition, scope: CodeScope, *, leaves: bool, alone: bool) -> RecognizeCodegen:
    """Return the codegen of one `match_recognize`. `alone` is `PhysicalPlan.enters_rows_alone`."""
    if alone:
        codegen = RowEntryCodegen(node, scope, leaves=leaves)
        if sum(map(len, codegen.automaton.follow)) <= MOST_TRANSITIONS:
            return codegen
    return RecognizeCodegen(node, scope, leaves=leaves)


class _TransitionCodegen:
    """Writes the transitions of the automaton. `targets` are the positions that may follow each position.

    `uses` counts, by variable, how often a condition may be evaluated for a row; 2 stands for any number above 1.
    `contested` are the positions to which several matches may move with one row.
    """

    def __init__(self, recognition: RecognizeCodegen, scope: CodeScope, targets: dict[int, list[int]]) -> None:
        self.recognition = recognition
        self.source = recognition.source
        self.scope = scope
        self.targets = targets
        self.variables = recognition.automaton.variables
        self.uses: Counter[int] = Counter()
        sources: dict[int, list[int]] = {target: [] for target in range(len(self.variables))}
        for position, following in targets.items():
            for target in following:
                sources[target].append(position)
                self.uses[self.variables[target]] += 2 if self._may_share(position) else 1
        self.contested = {
            target
            for target, positions in sources.items()
            if self.targets[target] and (len(positions) > 1 or self._may_share(positions[0]))
        }

    def _may_share(self, position: int) -> bool:
        """Return whether several matches may be open at a position: their rows decide about later conditions."""
        return position != _START and bool(self.recognition.ahead[position])

    def _takes_run(self, position: int) -> bool:
        """Return whether the variable at a position may have several rows."""
        return position != _START and self.recognition.node.variables[self.variables[position]].many

    def declare(self) -> None:
        """Write the locals that all open matches share."""
        recognition = self.recognition
        for number, condition in enumerate(recognition.conditions):
            if condition is not None and not recognition.reads[number] and self.uses[number] > 1:
                self.source.line(f"meets{number} = None")
        for target in sorted(self.contested):
            if not recognition.ahead[target]:
                self.source.line(f"free{target} = True")
        if any(recognition.ahead[target] for target in self.contested):
            self.source.line("seen = set()")

    def write(self, position: int) -> None:
        """Write the transitions of a match at `position`, whose rows are ``m``."""
        recognition, source, targets = self.recognition, self.source, self.targets[position]
        reads_rows = any(recognition.reads[self.variables[target]] or recognition.ahead[target] for target in targets)
        extended = "m"
        if position == _START and reads_rows:
            source.line(f"m = {_tuple(['None'] * len(recognition.node.variables))}")
        if self._takes_run(position):
            extended = f"m if tail < 0 else {self._extend('m', position, 'tail', 'last')}"
            if reads_rows:  # so the run must be in ``m``
                source.line(f"m = {extended}")
                extended = "m"
        for target in targets:
            tests, condition = self._tests(target), recognition.conditions[self.variables[target]]
            span = None if condition is None else condition.span
            with source.block(f"if {' and '.join(tests)}:", span) if tests else nullcontext():
                if recognition.ahead[target] and target in self.contested:
                    source.line(f"future = {target}, {source.bind('_read', read_rows)}(m, {recognition.ahead[target]})")
                    with source.block("if future not in seen:"):
                        source.line("seen.add(future)")
                        self._move(position, target, extended, reads_rows)
                else:
                    if target in self.contested:
                        source.line(f"free{target} = False")
                    self._move(position, target, extended, reads_rows)

    def _tests(self, target: int) -> list[str]:
        """Write what must be evaluated before a transition; return its conditions."""
        recognition, number = self.recognition, self.variables[target]
        condition, tests = recognition.conditions[number], list[str]()
        if condition is not None:
            code = lower.truth(self.scope, condition)
            if recognition.reads[number] or self.uses[number] == 1:
                tests.append(code)
            else:
                with self.source.block(f"if meets{number} is None:"):
                    self.source.line(f"meets{number} = {code}", condition.span)
                tests.append(f"meets{number}")
        if not self.targets[target]:
            tests.append("complete is None")
        elif target in self.contested and not recognition.ahead[target]:
            tests.append(f"free{target}")
        return tests

    def _move(self, position: int, target: int, extended: str, reads_rows: bool) -> None:
        """Write that a match at `position` moves to `target` with the row. `extended` is the code of its rows before.
        If it `reads_rows`, these are in ``m`` already.
        """
        source, variable, count = self.source, self.variables[target], len(self.recognition.node.variables)
        begin = "o, now" if position == _START else "begin, since"
        continues = self._takes_run(position) and self.variables[position] == variable
        none = ["None"] * count
        if self._takes_run(target):
            rows, tail = _tuple(none) if position == _START else extended, "last"
            if continues and not reads_rows:  # the run goes on
                rows, tail = "m", "tail if tail >= 0 else last"
            self._complete(target, self._extend(rows, target, tail, "last + 1"))
            if target == position:
                source.line(f"going.append(match if tail >= 0 else ({begin}, {target}, {rows}, 0, last))")
            elif self.targets[target]:
                source.line(f"going.append(({begin}, {target}, {rows}, 0, {tail}))")
            return
        if extended != "m":
            source.line(f"r = {extended}")
            extended = "r"
        cells = none if position == _START else [f"{extended}[{number}]" for number in range(count)]
        cells[variable] = "e"
        self._complete(target, _tuple(cells))
        if self.targets[target]:
            source.line(f"going.append(({begin}, {target}, {_tuple(cells)}, 0, -1))")

    def _complete(self, target: int, rows: str) -> None:
        """Write that `rows` are the match that is reported, if it may end at `target` and is the first."""
        if END_OF_MATCH in self.recognition.automaton.follow[target]:
            with self.source.block("if complete is None:") if self.targets[target] else nullcontext():
                self.source.line(f"complete = {rows}")

    def _extend(self, rows: str, position: int, start: str, stop: str) -> str:
        return f"{self.source.bind('_extended', with_run)}({rows}, {self.variables[position]}, log, {start}, {stop})"


def _tuple(codes: Sequence[str]) -> str:
    return f"({codes[0]},)" if len(codes) == 1 else f"({', '.join(codes)})"
