"""A compiled statement: the functions of its generated module, and the facts that a running statement needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.codegen.join_loop import JoinColumns
from cepbook.engine.codegen.store_query import StoreQuery
from cepbook.engine.delivery.outlet import Precedence
from cepbook.engine.expressions.to_python import ReadableVariable
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.fragments.event_layout import EventLayout
from cepbook.engine.patterns.matcher import PatternProgram
from cepbook.engine.physical.explain_operators import explain_operators
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.relations.store_indexes import IndexRequest
from cepbook.errors import Span
from cepbook.lang.explain.expressions import show_expr

_CELL_NAMES = {"n": "count", "nulls": "count of nulls", "s": "sum"}


@dataclass(slots=True)
class StatementProgram:
    """The generated module of one statement or subquery, with the facts that a running statement needs.

    `namespace` holds the functions; ``program["rows"]`` is one of them. ``S`` is the state of one context partition
    ``P``, a list whose slots `CodegenContext` describes. ``e`` is an event, a dict; ``now`` is engine time.

    ==============================  ===================================================================================
    ``new_state(P, now)``           create the state of a partition (every program)
    ``on_event(e, S)``              handle one event; ``on_match``: one that already passed the filter
    ``rows(S, now)``                return the present rows, as the statement's iterator does
    ``settle(S, now)``              evict the expired events of a lazy window
    ``dues(S)``, ``tick(S, …)``     return due times, and advance what is due (statements with timers)
    ``run(…, *columns)``            handle a batch, one argument per column (statements that a replay can batch)
    ==============================  ===================================================================================

    Parameters of ``run``: ``times`` and ``marks`` have one value per event; a mark says which event a delivery is due
    to. ``out`` receives insert rows as flat records, ``push`` other deliveries, each with the mark of its event.
    ``push_expired`` receives deliveries of timers, without marks; those that go to ``out`` get the mark that
    ``mark_of(time)`` returns. ``catch_up(time)`` fires the due timers of the statement. ``fire(due)`` returns the
    time at which the clock stops for a due time. ``partitions`` has the partition of each event; without a
    context ``prefiltered`` takes its place: True if all events are known to pass the filter.

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
    store_query: Callable[[], StoreQuery | None] = field(default=lambda: None)  # compiles how a query finds rows
    # equalities of the filter between an event and its context partition, as keys: (of the event, of the partition)
    correlation: tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] | None = None
    delivery_key: Callable[[dict[str, Any]], Any] | None = None  # the key of a for-clause
    precedences: tuple[Precedence | None, ...] = ()  # of the inserts, if one of them has a precedence

    def __getitem__(self, name: str) -> Any:
        return self.namespace[name]

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
