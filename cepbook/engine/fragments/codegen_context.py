"""The context that all code of one generated statement shares: scopes, rows, groups and state slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from cepbook.engine.aggregates.incremental import AggregateCodegen, drop_idle_groups
from cepbook.engine.aggregates.local_groups import LocalGroups, LocalKeys, distinct_local_keys
from cepbook.engine.aggregates.table_columns import TableAggregateCodegen
from cepbook.engine.delivery.delta import INSERT
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.hashable import key_code, unhashed
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.fragments.event_layout import arrival_layout, row_layout
from cepbook.engine.output.row_order import RowOrder
from cepbook.engine.physical.operators import Eviction
from cepbook.engine.physical.plan import PhysicalPlan, expressions_after_windows
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import AggregateCall, OutputColumn
from cepbook.lang.types import is_hashable

Write = Callable[[], None]


class CodegenContext:
    """Writes the common parts of one statement's functions.

    The state of a statement or subquery in one context partition is ``S``, a `StatementState`. Generated code uses
    fixed locals:

    ==============  =======================================================================
    ``P``           the context partition, ``S.partition``; None without a context
    ``W``           the view, ``S.view``: windows and the events that they retain
    ``A``           the aggregate cells of a statement with one group, ``S.cells``
    ``groups``      the cells by group key, ``S.groups``
    ``k``, ``G``    a group key, and the cells of that group
    ``H``           the cells of the group that the arriving event enters
    ``p0``, ``q0``  property 0 of the arriving event, and of an unpacked item
    ``o``, ``qo``   the ordinal of the arriving event (``S.ordinal``), and of an unpacked item
    ==============  =======================================================================
    """

    def __init__(self, steps: PhysicalPlan, scope: CodeScope) -> None:
        self.steps = steps
        self.source: SourceWriter = scope.source
        calls = steps.calls
        counted = steps.grouped and steps.eviction is not Eviction.NONE
        own = [call for call in calls if call.group_by is None]
        self._subqueries = scope.subqueries if steps.subqueries else ()
        self._slots: list[str] = []  # the initial values of the slots of the state
        self.limits = False  # True if the state has a limiter
        self.aggregates = (
            AggregateCodegen(
                scope,
                own,
                steps.eviction,
                counted,
                remembers=steps.membership_may_change,
                touched=steps.reclaims,
                shuffled=_shuffled(steps),
                joined=bool(steps.inputs) and not _shuffled(steps),
            )
            if steps.into is None
            else TableAggregateCodegen(scope, own, steps.into, partial(self.slot, "{}"))
        )
        self.table = "" if steps.into is None else self.source.table(steps.into.store.name)
        self._look = self.slot("0") if steps.reclaims else ""  # when to look for idle groups
        self.local = [self._local_groups(scope, calls, keys) for keys in distinct_local_keys(calls)]
        self.values = self._values(calls)
        by_ordinal = any(cells.needs_ordinal for cells in (self.aggregates, *(group.cells for group in self.local)))
        by_ordinal |= steps.keeps_relation
        self.items = row_layout(steps, by_ordinal)
        self.first = arrival_layout(steps) or self.items  # layout of arriving events
        self.arrivals = self.first  # layout of the stage that is being written
        self._named = self._named_values()
        values = tuple(self._named.get(i, value) for i, value in enumerate(self.values))
        self.base = scope.at(aggregates=values, keys=self._key_codes())
        self._parameter_names: dict[x.BoundExpr, str] = {}
        self.arranged = self._arrangement()
        self.helpers: list[Callable[[], None]] = []  # write further functions, after those of the statement
        self.in_column_loop = False  # True while the loop of `run` is written, where ``now`` is a local
        self.notes_taken = False  # True while ``taken`` must become true for events that pass the where clause

    def _local_groups(self, scope: CodeScope, calls: Sequence[AggregateCall], keys: LocalKeys) -> LocalGroups:
        steps = self.steps
        row_keys = keys
        if steps.rows_per_group:  # rows stand for groups
            row_keys = tuple(x.KeyRef(e.type, steps.keys.index(e)) for e in keys)
        table, leaving = self.slot("{}"), steps.local_eviction
        flags = {"remembers": steps.membership_may_change, "joined": bool(steps.inputs) and not _shuffled(steps)}
        return LocalGroups(scope, calls, keys, leaving, table, self._key_of, row_keys, **flags)

    def _values(self, calls: Sequence[AggregateCall]) -> list[str]:
        own = iter(self.aggregates.values)
        local = {i: code for group in self.local for i, code in zip(group.numbers, group.cells.values, strict=True)}
        return [local[i] if call.group_by is not None else next(own) for i, call in enumerate(calls)]

    def _named_values(self) -> dict[int, str]:
        """Name aggregate values that both having and the row read; `having` assigns them to locals."""
        steps = self.steps
        if steps.having is None or steps.aggregation is None:
            return {}
        read = [e for c in steps.aggregation.calls for e in (*c.args, c.filter, *(e for e, _ in c.criteria))]
        inner = aggregate_indexes(*(e for e in read if e is not None))
        both = aggregate_indexes(steps.having) & aggregate_indexes(*steps.projection.row_expressions) - inner
        return {i: f"g{i}" for i in sorted(both) if not self.values[i].isidentifier()}

    def _key_codes(self) -> tuple[str, ...]:
        keys = self.steps.keys
        codes = ["k"] if len(keys) == 1 else [f"k[{i}]" for i in range(len(keys))]
        if self.steps.levels:  # the key of a group begins with the number of its level
            codes = [f"k[{i}]" for i in range(1, len(keys) + 1)]
        thaw = self.source.bind("_thawed", unhashed)
        return tuple(c if is_hashable(e.type) else f"{thaw}({c})" for c, e in zip(codes, keys, strict=True))

    def _arrangement(self) -> bool:
        projection = self.steps.projection
        if not projection.arranged:
            return False
        self.source.bind("arrange", RowOrder.of(projection, self.base.variables, self.steps.on_select is not None))
        return True

    def arriving(self, now: str = "clock.now") -> CodeScope:
        """Return the scope of the arriving event (``p`` locals)."""
        return self.arrivals.scope(self.base.at(now=now), retained=False)

    def retained(self, now: str = "clock.now") -> CodeScope:
        """Return the scope of an unpacked item (``q`` locals)."""
        return self.items.scope(self.base.at(now=now), retained=True)

    def parameter(self, e: x.BoundExpr) -> str:
        """Return the code of a window parameter: the constant itself, or a state slot."""
        code = lower.value(self.base.at(partition="P"), e)
        if e.constant is not None:
            return code
        if e not in self._parameter_names:
            self._parameter_names[e] = self.slot(code)
        return self._parameter_names[e]

    def slot(self, initial: str) -> str:
        """Return the code of a new slot of the state, which starts as `initial`."""
        self._slots.append(initial)
        return f"S.slots[{len(self._slots) - 1}]"

    def new_state(self, kind: type, ordinal: str = "", *, former: str = "") -> None:
        """Write ``S``, a new state without its view and groups, once all slots are known (see `write_new_state`)."""
        write_new_state(self.source, kind, self._subqueries, self._slots, ordinal=ordinal, former=former)
        if self.limits:
            self.source.line("S.limiter = limiter(P, now)")

    def number(self) -> None:
        """Write ``o``, the ordinal of the arriving event, if ordinals are needed."""
        if "o" in self.items.parts or "o" in self.first.parts:
            self.source.line("S.ordinal = o = S.ordinal + 1")

    @contextmanager
    def reported(self, *then: str) -> Iterator[None]:
        """Write what follows so that a failure is reported and other windows and timers go on. `then` are lines that
        run after a failure.
        """
        with self.source.block("try:"):
            yield
        with self.source.block("except Exception as failure:"):
            for line in ("failed(failure)", *then):
                self.source.line(line)

    @contextmanager
    def where(self, scope: CodeScope) -> Iterator[None]:
        with self.under(scope, self.steps.where):
            if self.notes_taken:
                self.source.line("taken = True")
            yield

    @contextmanager
    def having(self, scope: CodeScope) -> Iterator[None]:
        for i, name in self._named.items():
            self.source.line(f"{name} = {self.values[i]}")
        with self.under(scope, self.steps.having):
            yield

    def under(self, scope: CodeScope, condition: x.BoundExpr | None) -> AbstractContextManager[None]:
        """Write what follows under a condition, if there is one."""
        if condition is None:
            return nullcontext()
        return self.source.block(f"if {lower.truth(scope, condition)}:", condition.span)

    @property
    def row_columns(self) -> tuple[str, ...] | None:
        """The names of the values of an output row; None with a wildcard, where rows are dicts."""
        projection = self.steps.projection
        return None if projection.wildcard else tuple(c.name for c in projection.columns)

    def row(self, scope: CodeScope) -> str:
        """Return the code of an output row: a tuple, a dict with a wildcard, or a (sort key, row) pair if rows are
        ordered.
        """
        projection = self.steps.projection
        if projection.wildcard:
            code = self._whole(scope)
        else:
            code = f"({self._values_of(scope)}{',' * (len(projection.columns) == 1)})"
        if not self.arranged:
            return code
        key = "".join(f"{lower.value(scope, e)}, " for e in projection.row_keys)
        return f"(({key}), {code})"

    def record(self, scope: CodeScope, now: str, mark: str | None = None) -> str:
        """Return the code of the record of an insert row, by default the only one of its delivery. In the loop over
        columns the record carries the mark of the event.
        """
        values = self._whole(scope) if self.steps.projection.wildcard else self._values_of(scope)
        return f"({mark or ('mark' if self.in_column_loop else INSERT)}, {now}, {values})"

    def _whole(self, scope: CodeScope) -> str:
        columns = [self._column(scope, c, f"{self.source.const(c.name, 'n')}: ") for c in self.steps.projection.columns]
        return "{" + ", ".join([f"**{scope.events[0]}", *columns]) + "}" if columns else scope.events.get(0, "e")

    def _values_of(self, scope: CodeScope) -> str:
        return ", ".join(self._column(scope, c) for c in self.steps.projection.columns)

    def _column(self, scope: CodeScope, column: OutputColumn, name: str = "") -> str:
        """Return ``name: value``; code that may fail gets a line of its own, so that the error points at the column."""
        code = lower.value(scope, column.value)
        plain = code.isidentifier() or isinstance(column.value, (x.Prop, x.KeyRef, x.AggregateRef))
        return f"{name}{code}" if plain else f"{self.source.part(column.value.span)}{name}{code}"

    def append_row(self, rows: str, scope: CodeScope) -> None:
        """Write ``rows.append(row)`` under having."""
        self.load_local(scope)
        with self.having(scope):
            self.source.line(f"{rows}.append({self.row(scope)})", self.steps.projection.span)

    def load_local(self, scope: CodeScope) -> None:
        for group in self.local:
            group.load(scope)

    def enter(self, scope: CodeScope, ordinal: str = "qo") -> None:
        """Write code that adds the item of `scope` to the loaded cells and to its local groups."""
        for group in self.local:
            group.enter(scope, ordinal)
        self.aggregates.enter(scope, ordinal)

    @property
    def risky(self) -> bool:
        """True if a delta may leave a failure in the local ``broken`` after it has begun."""
        steps = self.steps
        fails = lower.may_fail(steps.where, checks=False)
        if steps.aggregation is not None and (fails or steps.former_rows_may_fail):
            return True
        return bool(self.risky_keys) or self.aggregates.risky or any(group.cells.risky for group in self.local)

    @property
    def breaks(self) -> bool:
        """True if a delta may leave a failure in the local ``broken``, raised once all cells are updated."""
        return self.risky or (self.steps.aggregation is not None and lower.may_fail(self.steps.where))

    @property
    def risky_keys(self) -> list[x.BoundExpr]:
        """The group keys that may fail to be computed; such an event belongs to no group."""
        local = (key for call in self.steps.calls for key in call.group_by or ())
        return [key for key in (*self.steps.keys, *local) if lower.may_fail(key)]

    def leave(self, scope: CodeScope) -> None:
        """Write code that removes the item of `scope` from the loaded cells and from its local groups."""
        for group in self.local:
            group.leave(scope, "qo")
        self.aggregates.leave(scope, "qo")

    def key(self, scope: CodeScope) -> str:
        """Return the code of the group key of the event of `scope`; arrays count by content."""
        return self._key_of(scope, self.steps.keys)

    def level_key(self, scope: CodeScope, level: int) -> str:
        """Return the code of the key of grouping set `level`: its number, then all keys, null for keys it does not
        have.
        """
        chosen = self.steps.levels[level]
        keys = enumerate(self.steps.keys)
        codes = [key_code(self.source, lower.value(scope, e), e.type) if i in chosen else "None" for i, e in keys]
        return f"({', '.join([str(level), *codes])})"

    def _row_key(self, key: str) -> str:
        if not self.steps.levels:
            return key
        return f"{key}[1]" if len(self.steps.keys) == 1 else f"{key}[1:]"

    def window_key(self, scope: CodeScope, keys: tuple[x.BoundExpr, ...]) -> str:
        return self._key_of(scope, keys)

    def _key_of(self, scope: CodeScope, keys: tuple[x.BoundExpr, ...]) -> str:
        codes = [key_code(self.source, lower.value(scope, e), e.type) for e in keys]
        return codes[0] if len(codes) == 1 else f"({', '.join(codes)})"

    def open_group(self, group: str = "G") -> None:
        """Write code that loads the cells of group ``k`` into `group`, and creates the group if it is new."""
        self._reclaim()
        if self.table:
            self._find_in_table(group, "k")
        else:
            self.find_or_make(group, "groups", "k", self.aggregates.fresh())
        self.aggregates.load(group)

    def _find_in_table(self, target: str, key: str) -> None:
        key = self._row_key(key)
        with self.source.block(f"if {key} in groups:"):
            self.source.line(f"{target} = groups[{key}][1]")
            self.source.line(f"if {self.table}.followers: {self.table}.touch({key})")
        with self.source.block("else:"):
            self.source.line(f"{target} = {self.table}.cells(S.partition, {key})")

    def _reclaim(self) -> None:
        aggregation = self.steps.aggregation
        if not self._look or aggregation is None or aggregation.reclaim is None:
            return
        age, every = (lower.value(self.base, e) for e in aggregation.reclaim)
        with self.source.block(f"if now >= {self._look}:"):
            forget_ = self.source.bind("_forget", drop_idle_groups)
            self.source.line(f"{self._look} = {forget_}(groups, {self.aggregates.touched}, now, {age}, {every})")

    def find_or_make(self, target: str, table: str, key: str, fresh: str, then: Write | None = None) -> None:
        """Write ``target = table[key]``, created as `fresh` if new; `then` writes what else happens for a new key."""
        source = self.source
        with source.block(f"if {key} in {table}:"):  # faster than a call of ``get``
            source.line(f"{target} = {table}[{key}]")
        with source.block("else:"):
            source.line(f"{target} = {table}[{key}] = {fresh}")
            if then is not None:
                then()

    def load_group_or_fresh(self, groups: str = "groups", *, emptied: bool = False) -> None:
        """Load the cells of group ``k`` of `groups`, or those of an empty group. `emptied`: a group that this delta has
        emptied keeps its aggregates over all events ever.
        """
        if self.table:
            self.source.line(f"G = {self.table}.peek(S.partition, {self._row_key('k')})")
            self.aggregates.load("G")
            return
        if emptied and self.aggregates.lasting:
            self.source.line(f"G = {groups}.get(k) or emptied.get(k)")
        else:
            self.source.line(f"G = {groups}.get(k)")
        self.aggregates.load(f"{self.aggregates.fresh()} if G is None else G")

    def leave_group(self, scope: CodeScope, before: Write | None = None, *, emptied: bool = False) -> None:
        """Write code that removes the event of `scope` from group ``k``, and drops an empty group. `before` is written
        when the cells are loaded. `emptied`: as in `load_group_or_fresh`.
        """
        source = self.source
        self.find_to_leave()
        self.aggregates.load("G")
        if before is not None:
            before()
        self.leave(scope)
        self.aggregates.store("G")
        if self.aggregates.size is not None:
            with source.block(f"if not {self.aggregates.size}:"):
                if emptied and self.aggregates.lasting:
                    source.line("emptied[k] = groups.pop(k)")
                else:
                    source.line("del groups[k]")

    def find_to_leave(self) -> None:
        """Write code that binds ``G`` to group ``k``, which an event leaves. It exists if the event entered it."""
        if self.table:
            self._find_in_table("G", "k")
        elif self.steps.may_leave_unentered:
            self.find_or_make("G", "groups", "k", self.aggregates.fresh())
        else:
            self.source.line("G = groups[k]")

    @property
    def reads_now(self) -> bool:
        """True if the windows, rows or aggregates of an arrival need engine time in the local ``now``."""
        steps = self.steps
        exprs = [e for e in expressions_after_windows(steps) if e is not None]
        exprs += [e for w in steps.stages[0].windows for e in (*w.args, *(e for e, _ in w.criteria))]
        of_time = (x.CurrentTimestamp, x.SubqueryRef)
        clocked = steps.reclaims or any(isinstance(node, of_time) for e in exprs for node in x.walk(e))
        return clocked or any(cells.reads_now for cells in (self.aggregates, *(g.cells for g in self.local)))

    @property
    def has_single_view(self) -> bool:
        """True if all timers of the statement belong to one view."""
        alone = self.steps.output is None and self.steps.context is None
        return alone and not any(subquery.ticks for subquery in self.steps.subqueries)

    @property
    def has_single_timer(self) -> bool:
        """True if `run` need only look at one view to know when time matters."""
        return self.has_single_view and self.steps.ticks

    def fresh_state(self) -> str:
        """Return the code of a new state of the partition of ``S``, with the states of its subqueries."""
        return f"new_state(S.partition, now{', S.subqueries' if self.steps.subqueries else ''})"

    def load_state(self, *, only_read: bool = False) -> None:
        """Write ``W``, and ``A`` (one group) or ``groups``, as locals. With `only_read` a missing table row is not
        created.
        """
        self.source.line("W = S.view")
        self.load_groups(only_read=only_read)

    def load_groups(self, *, only_read: bool = False) -> None:
        if self.table and only_read:
            if not self.steps.grouped:
                self.source.line(f"A = {self.table}.peek(S.partition, ())")
        elif self.table:
            self.source.line(f"groups = {self.table}.items(S.partition)")
            self.find_row()
        elif self.steps.aggregation is not None:
            self.source.line("groups = S.groups" if self.steps.grouped else "A = S.cells")

    def find_row(self) -> None:
        """Bind ``A`` to the cells of the only row of the table, for a statement without groups."""
        if not self.steps.grouped:
            self._find_in_table("A", "()")


def write_new_state(
    source: SourceWriter,
    kind: type,
    subqueries: Sequence[str] = (),
    slots: Sequence[str] = (),
    *,
    ordinal: str = "",
    former: str = "",
) -> None:
    """Write ``S``, a new state of the class `kind` with the states of `subqueries`, and the initial values of `slots`.

    `former` is a local with the states of subqueries that ran before, or None.
    """
    source.line(f"S = {source.bind(f'_{kind.__name__}', kind)}(P{ordinal})")
    if subqueries:
        fresh = f"[{', '.join(f'_{name}_state(P, now)' for name in subqueries)}]"
        source.line(f"S.subqueries = {f'{fresh} if {former} is None else {former}' if former else fresh}")
    if slots:
        source.line(f"S.slots = [{', '.join(slots)}]")


def write_state(
    source: SourceWriter,
    kind: type,
    rows: str,
    own: Sequence[str] = (),
    *,
    subqueries: Sequence[str] = (),
    first: str | None = None,
    view: str | None = None,
) -> None:
    """Write the functions that every program has: `new_state`, `settle`, and `rows`, the iterator.

    The state is a `kind`. `rows` is the code of a list, `own` are the initial values of slots, `view` is the code of
    the view. `first` is a line before the state is created.
    """
    with source.block("def new_state(P, now):"):
        if first is not None:
            source.line(first)
        write_new_state(source, kind, subqueries, own)
        if view is not None:
            source.line(f"S.view = {view}")
        source.line("return S")
    with source.block("def settle(S, now):"):
        source.line("return None")
    with source.block("def rows(S, now):"):
        source.line(f"return {rows}")


def _shuffled(steps: PhysicalPlan) -> bool:
    """Return whether events may enter out of order: they waited in a group, or they are combinations."""
    if steps.inputs:
        return steps.buffers_input
    windows = steps.stages[-1].windows
    return any(w.row.grouping for w in windows) and any(w.row.gates for w in windows)


def aggregate_indexes(*exprs: x.BoundExpr) -> set[int]:
    """Return the indexes of the aggregate calls that the expressions read."""
    return {node.index for e in exprs for node in x.find(x.AggregateRef, e)}
