"""The states of statements, stores and subqueries in one context partition, with a name for each value.

Generated code and the engine read the same fields. Values that only generated code reads, and that depend on the
clauses of one statement, are in `slots`; the code generator numbers them.

A state is not to be confused with the rows of a store. `StoreState` is what the statement that created the store knows
about all of its rows; one row with its number is an *item* (see `Store` and `Table`).
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.output.limiter import Limiter
from cepbook.engine.patterns.matcher import Matcher
from cepbook.engine.relations.relation import Relation, RelationIndex
from cepbook.engine.relations.store_indexes import IndexName
from cepbook.engine.state import State
from cepbook.engine.windows.window_view import PassThroughView, WindowView

_NO_WINDOW = PassThroughView()


class StatementState(State):
    """The state of a statement, or of one input of a join.

    `limiter`, `matcher`, `subqueries` and `slots` are set only where the statement has an output clause, a pattern,
    subqueries or further values.
    """

    __slots__ = ("cells", "groups", "limiter", "matcher", "ordinal", "partition", "slots", "subqueries", "view")

    partition: Any  # the context partition; None without a context
    view: WindowView  # the windows with the events that they retain; without windows a view that retains nothing
    groups: dict[Any, Any] | None  # the aggregate cells by group key; None without groups
    cells: Any  # the aggregate cells of a statement with one group; None without aggregates
    ordinal: int  # the number of the latest event, if events are told apart by numbers
    limiter: Limiter  # the rows that wait for the output clause, and its clock
    matcher: Matcher  # the partial matches of the pattern
    subqueries: list[StatementState]  # the states of the subqueries, by number
    slots: list[Any]  # window parameters, local groups and other values of generated code

    def __init__(self, partition: Any, ordinal: int = 0) -> None:
        self.partition = partition
        self.view = _NO_WINDOW
        self.groups = None
        self.cells = None
        self.ordinal = ordinal


class StoreState(StatementState):
    """The state of a statement that created a named window or a table; `view` has the items."""

    __slots__ = ("indexes",)

    indexes: dict[IndexName, RelationIndex]  # the indexes of the items that readers request

    def __init__(self, partition: Any, ordinal: int = 0) -> None:
        super().__init__(partition, ordinal)
        self.indexes = {}


class SubqueryState(StatementState):
    """The state of a subquery. `relation` is set only if the subquery keeps rows and looks them up."""

    __slots__ = ("followed", "relation")

    relation: Relation  # the rows with the index that the conditions need
    followed: dict[Any, Any] | None  # the items of a followed table, by the key of their row; None: rebuild all of them

    def __init__(self, partition: Any) -> None:
        super().__init__(partition)
        self.followed = None
