"""Local grouping: aggregates with a ``group_by:`` of their own, independent of the statement's groups.

Each distinct list of local keys has a table of cells by key, in a slot of the statement's state. Where a row is made,
the cells  of its local groups are loaded next to those of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cepbook.engine.aggregates.incremental import AggregateCodegen
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.physical.operators import Eviction
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import AggregateCall

LocalKeys = tuple[x.BoundExpr, ...]


class LocalGroups:
    """The calls with the local keys `keys`, which have the indexes `numbers` among the calls of the statement. `table`
    is the code of the table, `key_of` returns the code of a key. `row_keys` are the local keys as rows see them.
    """

    def __init__(
        self,
        scope: CodeScope,
        calls: Sequence[AggregateCall],
        keys: LocalKeys,
        leaving: Eviction,
        table: str,
        key_of: Callable[[CodeScope, LocalKeys], str],
        row_keys: LocalKeys,
        *,
        remembers: bool,
        joined: bool,
    ) -> None:
        self.source = scope.source
        self.numbers = [i for i, call in enumerate(calls) if call.group_by == keys]
        self.keys = keys
        self.table = table
        self.key_of = key_of
        self.row_keys = row_keys
        prefix = f"b{self.numbers[0]}_"
        mine = [replace(calls[i], group_by=None) for i in self.numbers]
        counted = bool(keys) and leaving is not Eviction.NONE
        self.cells = AggregateCodegen(scope, mine, leaving, counted, prefix, remembers=remembers, joined=joined)
        self._key, self._group = f"{prefix}k", f"{prefix}g"

    def enter(self, scope: CodeScope, ordinal: str) -> None:
        self._find(scope)
        self.cells.enter(scope, ordinal)
        self.cells.store(self._group)

    def leave(self, scope: CodeScope, ordinal: str) -> None:
        """Write code that removes the event of `scope` from its local group, and drops an empty group."""
        self._find(scope)
        self.cells.leave(scope, ordinal)
        self.cells.store(self._group)
        if self.cells.size is not None:
            with self.source.block(f"if not {self.cells.size}:"):
                self.source.line(f"del {self.table}[{self._key}]")

    def _find(self, scope: CodeScope) -> None:
        self.source.line(f"{self._key} = {self.key_of(scope, self.keys)}")
        self.source.line(f"{self._group} = {self.table}.get({self._key})")
        with self.source.block(f"if {self._group} is None:"):
            self.source.line(f"{self._group} = {self.table}[{self._key}] = {self.cells.fresh()}")
        self.cells.load(self._group)

    def load(self, scope: CodeScope) -> None:
        """Write code that loads the cells of the local group of a row; those of an empty group if there is none."""
        self.source.line(f"{self._group} = {self.table}.get({self.key_of(scope, self.row_keys)})")
        self.cells.load(f"{self.cells.fresh()} if {self._group} is None else {self._group}")


def distinct_local_keys(calls: Sequence[AggregateCall]) -> list[LocalKeys]:
    """Return the distinct lists of local keys. Errors: Refusal if an aggregate is nested in another one and either has
    local keys.
    """
    for call in calls:
        read = [e for e in (*call.args, call.filter, *(e for e, _ in call.criteria)) if e is not None]
        inner = [node.index for e in read for node in x.find(x.AggregateRef, e)]
        if any(group_by is not None for group_by in (calls[i].group_by for i in inner)) or (inner and call.group_by):
            raise Refusal("local-grouping", "an aggregate of an aggregate with group_by")
    return list(dict.fromkeys(call.group_by for call in calls if call.group_by is not None))
