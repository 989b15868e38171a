"""A compiled statement: the functions of its generated module, and the facts that a running statement needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from cepbook.engine.codegen.join_loop import JoinColumns
from cepbook.engine.codegen.join_view import JoinSpec
from cepbook.engine.codegen.store_query import StoreQuery
from cepbook.engine.delivery.delta import Row
from cepbook.engine.delivery.outlet import Precedence
from cepbook.engine.expressions.to_python import ReadableVariable
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.fragments.event_layout import EventLayout
from cepbook.engine.output.row_order import RowOrder
from cepbook.engine.patterns.matcher import PatternProgram
from cepbook.engine.physical.explain_operators import explain_operators
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.recognize.recognize_program import RecognizeProgram
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.relations.store_indexes import IndexRequest
from cepbook.engine.vectorized.stream_forms import LookupForm, VectorizedForm
from cepbook.engine.windows.window_view import Item, ViewDelta
from cepbook.errors import Span
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.nodes import SourceNode

_CELL_NAMES = {"n": "count", "nulls": "count of nulls", "s": "sum"}

EventFunction = Callable[..., object]  # (e, S); the result is true if the event was consumed
TimeFunction = Callable[[StatementState, int], None]  # (S, now)
ChangeFunction = Callable[[StatementState, Sequence[Item], Sequence[Item], int], None]  # (S, entered, left, now)


@dataclass(slots=True, init=False)
class ProgramFunctions:
    """The functions of a generated module. ``S`` is the `StatementState` of a context partition ``P``, ``e`` an event,
    a dict, and ``now`` engine time in ms.

    Every program has the first five. A further function is set only in statements that need it; those that may be None
    are None in all others.

    Parameters of ``run``: ``times`` and ``marks`` have one value per event; a mark says which event a delivery is due
    to. ``out`` receives insert rows as flat records, ``push`` other deliveries, each with the mark of its event.
    ``push_expired`` receives deliveries of timers, without marks; those that go to ``out`` get the mark that
    ``mark_of(time)`` returns. ``catch_up(time)`` fires the due timers of the statement. ``fire(due)`` returns the
    time at which the clock stops for a due time. ``partitions`` has the partition of each event; without a
    context ``prefiltered`` takes its place: True if all events are known to pass the filter.
    """

    new_state: Callable[..., StatementState]  # (P, now)
    on_event: EventFunction  # (e, S): handle one event
    on_match: EventFunction  # (e, S): handle one event that already passed the filter
    rows: Callable[[StatementState, int], list[Any]]  # (S, now): the present rows, as the iterator returns them
    settle: TimeFunction  # evict the expired events of a lazy window
    run: Callable[..., Any]  # (…, *columns): handle a batch, one argument per column
    run_joined: Callable[..., None]  # (order, S, out, push, advance, reads): the same for a join
    on_events: EventFunction  # (e, S, inputs): handle an event of several inputs; with patterns pairs (input, event)
    tick: Callable[..., bool | None]  # (S, W, now, ins, rem, place): advance what is due; of a subquery (S, now)
    ended: Callable[..., bool]  # (S, now, ins, rem): rows of the output clause at the end of the partition
    waiting: Callable[[StatementState], int]  # (S): the number of rows that wait for the output clause
    prefill: TimeFunction  # begin with the contents of stores
    refreshed: Callable[[StatementState, int], StatementState]  # (S, now): a state with the present rows of tables
    copied: Callable[[StatementState, Row, int], Row | None]  # (S, e, now): a row made of one of another named window
    move: Callable[..., None]  # (S, old, new, origins, now, silent): a change of a named window by others
    apply: Callable[..., None]  # (S, entered, left, now, silent): the rest of it, once the items are known
    moved: Callable[[StatementState, ViewDelta, int], None]  # (S, change, now): deliver a delta of buffered input
    reevaluate: TimeFunction  # a variable of a window's condition was assigned
    reconsider: TimeFunction  # a variable of the output clause's condition was assigned
    ask: Callable[[StatementState], object]  # (S): an on-trigger without an event
    update: Callable[[Row], Row | None]  # (e): change an event before other statements see it
    lookup: Callable[..., Any]  # (S, now, v0, …): the result of a subquery
    on_change: Callable[..., None]  # (S, entered, left, base, now): a change of the store that a subquery reads
    due: Callable[[StatementState], int]  # (S): the due time of a subquery
    dues: Callable[[StatementState], list[tuple[int, int]]] | None  # (S): places and due times
    run_expiry: Callable[..., int] | None  # (S, W, upto, fire, push): advance the only view with timers
    expire_all: Callable[..., None] | None  # (states, now, out, cause_of): advance the views of partitions in a batch
    begin_output: TimeFunction | None  # start the clock of a snapshot of stores
    post: Callable[[StatementState], None] | None  # (S): deliver the delta of the matches of one event
    arrange: RowOrder | None  # distinct, order and limit of one delivery
    on_event_of: dict[int, EventFunction]  # by input of a join
    on_change_of: dict[int, ChangeFunction]  # by input that is a named window
    item_of: dict[int, Callable[..., Item | None]]  # by buffered input: (e, S, now); None if the filter rejects `e`

    def __init__(self, namespace: Mapping[str, Any], inputs: int) -> None:
        for name in _SOMETIMES & namespace.keys():
            setattr(self, name, namespace[name])
        for name in _OPTIONAL:
            setattr(self, name, namespace.get(name))
        for name in _BY_INPUT:
            numbered = ((number, f"{name.removesuffix('_of')}{number}") for number in range(inputs))
            setattr(self, name, {number: namespace[key] for number, key in numbered if key in namespace})
        if not inputs and "on_change" in namespace:
            self.on_change_of[0] = namespace["on_change"]


_OPTIONAL = frozenset(field.name for field in fields(ProgramFunctions) if str(field.type).endswith("None"))
_BY_INPUT = frozenset(field.name for field in fields(ProgramFunctions) if field.name.endswith("_of"))
_SOMETIMES = frozenset(field.name for field in fields(ProgramFunctions)) - _OPTIONAL - _BY_INPUT


@dataclass(frozen=True, slots=True)
class CycleFunctions:
    """The functions of a query that is run in cycles: `takes` by partition, `conditions` by partition and stage.

    `aggregates` are the registered aggregates that the query uses, as functions of the values in a window.
    """

    takes: tuple[Callable[..., Any], ...]  # (e, S): the values of an event; None if the pre-filter rejects it
    conditions: tuple[tuple[Callable[..., Any] | None, ...], ...]  # (values, S): True if a row enters the stage
    aggregates: Mapping[str, Callable[..., Any]]


@dataclass(slots=True)
class StatementProgram:
    """The generated module of one statement or subquery, with the facts that a running statement needs.

    `namespace` is that of the module. A running statement puts values into it that the functions read, such as the
    outlet; what it calls itself is in `functions`.

    `bound` lists, for each function, the parameters that get values of the namespace as default values.
    """

    steps: PhysicalPlan
    text: str  # source of the module
    namespace: dict[str, Any]
    spans: dict[int, Span]  # the EPL that a source line comes from, by line number
    columns: tuple[str, ...]  # properties that `run` takes as columns
    constants: dict[str, Any]
    bound: dict[str, tuple[str, ...]]
    row_columns: tuple[str, ...] | None  # names of the values of a row; None if rows are dicts
    watched: tuple[ReadableVariable, ...] = ()  # variables read by the condition of a window
    output_watched: tuple[ReadableVariable, ...] = ()  # variables read by the condition of the output clause
    legend: dict[str, str] = field(default_factory=dict)  # meaning of each local of the generated text
    notes: tuple[str, ...] = ()  # for people: how arrivals are written and stored
    items: EventLayout | None = None  # layout of retained events
    patterns: dict[int, PatternProgram] = field(default_factory=dict)  # by the input that reads their matches
    subqueries: tuple[StatementProgram, ...] = ()  # each is a module of its own
    select: StatementProgram | None = None  # of a query run in cycles: the select over its relations
    # of a join with `run_joined`: for each stream its columns, and whether whole events are needed
    loop: JoinColumns | None = None
    # indexes of stores, by the name of the generated function that looks them up: (number of the input, request)
    index_requests: Mapping[str, tuple[int, IndexRequest]] = field(default_factory=dict)
    # the form in which arrays run the statement, or why they do not
    kernel_form: Callable[[], VectorizedForm | str] = field(default=lambda: "it is no select over one stream")
    # of a subquery: the form in which arrays look it up, by its arguments; raises a Refusal if there is none
    lookup_form: Callable[[Sequence[BoundExpr]], LookupForm] | None = None
    store_query: Callable[[], StoreQuery | None] = field(default=lambda: None)  # compiles how a query finds rows
    match_columns: tuple[str, ...] | None = None  # as in `StatementCodegen`
    # equalities of the filter between an event and its context partition, as keys: (of the event, of the partition)
    correlation: tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] | None = None
    delivery_key: Callable[[dict[str, Any]], Any] | None = None  # the key of a for-clause
    precedences: tuple[Precedence | None, ...] = ()  # of the inserts, if one of them has a precedence
    join: JoinSpec | None = None  # what the states of a join share
    recognize: RecognizeProgram | None = None  # the same of match_recognize
    cycles: CycleFunctions | None = None  # of a query run in cycles
    functions: ProgramFunctions = field(init=False)

    def __post_init__(self) -> None:
        several = self.steps.inputs or self.steps.buffers_input
        self.functions = ProgramFunctions(self.namespace, len(self.steps.scans) if several else 0)

    @property
    def slot(self) -> int:
        """The position of the statement's state in `ContextPartition.states`; 0 without a context."""
        number: int = self.namespace["slot"]
        return number

    @slot.setter
    def slot(self, number: int) -> None:
        self.namespace["slot"] = number

    def table(self, name: str) -> Any:
        """Return the table `name`, once tables are bound."""
        return self.namespace[self.namespace["__tables__"][name]]

    def bind_tables(self, table_of: Callable[[str], Any]) -> None:
        """Bind the tables that the functions read; `table_of` returns them by name."""
        for name, local in self.namespace["__tables__"].items():
            self.namespace[local] = table_of(name)

    @property
    def sources(self) -> list[SourceNode]:
        """The sources of the streams, then those of the subqueries."""
        steps = [self.steps, *(subquery.steps for subquery in self.subqueries)]
        return [scan.source for own in steps for scan in own.scans]

    @property
    def reads_types(self) -> bool:
        """True if the statement reads the type of events (``typeof``)."""
        return "_event_type" in self.namespace

    @property
    def pattern(self) -> PatternProgram | None:
        """The pattern of the only input; None for other inputs and for joins."""
        return None if self.steps.inputs else self.patterns.get(0)

    def bind(self) -> None:
        """Bind the constants that functions read, for a program without a running statement."""
        for name, parameters in self.bound.items():
            self.namespace[name].__defaults__ = tuple(self.namespace.get(parameter) for parameter in parameters)


def explain_program(name: str, program: StatementProgram) -> str:
    """Return the operators of a program and of its subqueries as text, for ``%epl show steps``."""
    lines = explain_operators(name, program.steps, program.notes)
    nested = [] if program.select is None else [("select", program.select)]
    nested += [(f"subquery {number}", subquery) for number, subquery in enumerate(program.subqueries)]
    for title, inner in nested:
        lines += [f"  {line}" for line in explain_program(title, inner).splitlines()]
    return "\n".join(lines)


def storage_notes(code: CodegenContext, arrivals: str) -> tuple[str, ...]:
    """Describe what is kept of an event, followed by `arrivals`, how arriving events are written."""
    if not code.steps.stages[0].windows:
        return ()
    if code.steps.aggregate_only:
        return (arrivals,)
    return f"keeps of each event: {_describe_layout(code.first)}", arrivals


def _describe_layout(layout: EventLayout) -> str:
    names = {"o": "number", "t": "time of arrival", "e": "event"}
    properties = {str(position): name for name, position in layout.positions.items()}
    values = []
    for component in layout.parts:
        kind = {"w": "compared value", "r": "prior value"}.get(component[0], "") if len(component) > 1 else ""
        values.append(names.get(component) or properties.get(component) or kind or component)
    return values[0] if layout.bare else f"({', '.join(values)})" if values else "()"


def locals_legend(code: CodegenContext) -> dict[str, str]:
    """Return what the locals of generated code mean: ``p0`` of an arriving event, ``q0`` of an item, ``a0`` a cell."""
    legend = {f"p{position}": name for name, position in code.first.positions.items()}
    legend |= {f"q{position}": f"{name} of an item" for name, position in code.items.positions.items()}
    for cells in (code.aggregates, *(group.cells for group in code.local)):
        for argument in cells.arguments:
            values = ", ".join(map(show_expr, argument.exprs)) or "events"
            only = "" if argument.filter is None else f" where {show_expr(argument.filter)}"
            for kind, name in argument.cells.items():
                legend[name] = f"{_CELL_NAMES.get(kind, kind)} of {values}{only}"
    return legend
