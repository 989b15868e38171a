"""Properties and columns that hold times of events, so that users see times and not milliseconds.

For an event type these are its start and end timestamps and what `Workbench.define` got as dates, if they are whole
numbers in clock units. A column of a statement holds a time if it is such a property of the current or an earlier
event; the minimum, maximum, first or last of them; or chosen by a function or ``case``. So does ``current_timestamp``.
Times stay times in streams, tables, named windows and variables that statements fill, and in measures of
match_recognize.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cepbook.engine.runtime import Runtime
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.references import (
    event_types_read,
    output_store,
    stores_read,
    values_merged,
    variable_assignments,
)
from cepbook.lang.registry.aggregates import AGGREGATES, USER_AGGREGATE
from cepbook.lang.types import LONG, Type
from cepbook.session.io.output.time_types import DATES, output_types, time_type

_Subqueries = tuple[nodes.SubqueryPlan, ...]


class _Scope(NamedTuple):
    """The inputs of an expression: the times among the properties of each input, aggregates, and subqueries."""

    inputs: tuple[frozenset[str], ...] = ()
    aggregation: nodes.Aggregation | None = None
    subqueries: _Subqueries = ()


class TimeColumns:
    """The time columns of the current deployments. `ms`: only times in ms, which a finer clock does not have."""

    def __init__(self, runtime: Runtime, *, ms: bool = False) -> None:
        self._runtime = runtime
        self._none = ms and runtime.config.second != 1000
        self._types: dict[str, frozenset[str]] = {}
        self._variables: dict[str, bool] = {}
        self._plans: list[Any] = [s for d in runtime.deployments.values() for s in d.plan.statements]

    def of_type(self, name: str) -> frozenset[str]:
        """Return the properties of an event type that hold times."""
        properties = self._types.get(name)
        if properties is None:
            self._types[name] = frozenset()  # for a stream that feeds itself
            properties = self._types[name] = self._of_type(name)
        return properties

    def _of_type(self, name: str) -> frozenset[str]:
        event_type = self._runtime.catalog.event_types.get(name)
        if event_type is None or self._none:
            return frozenset()
        filled = [filling for item in self._plans for filling in self._fillings(item, name)]
        computed = frozenset(column for column, is_time in filled if is_time)
        computed -= {column for column, is_time in filled if not is_time}
        return frozenset(
            item for item, of in event_type.properties.items() if of == LONG and item in event_type.timed | computed
        )

    def _fillings(self, of: Any, name: str) -> Iterator[tuple[str, bool]]:
        """Yield the columns of the stream, table or named window `name` that a statement fills, and if with times."""
        if any(insert.target == name for insert in of.inserts):
            times = self.of_plan(of)
            yield from ((column, column in times) for column in self._runtime.catalog.event_types[name].properties)
        if of.into is not None and of.into.store.name == name:
            scope = self._scope(of.root, of.subqueries)
            calls = () if scope.aggregation is None else scope.aggregation.calls
            yield from ((column, self._picks_time(calls[index], scope)) for index, column in of.into.columns)
        for column, value in values_merged(of, name):
            row = self.of_type(name) | {column}  # the row's own value stays as it is
            scope = _Scope((row, self.of_types(_types_of(of.source)), row), None, of.subqueries)
            yield column, self._is_time(value, scope)

    def of_statement(self, name: str) -> frozenset[str]:
        """Return the columns of a statement that hold times."""
        statement = self._runtime.statements.get(name)
        return frozenset() if statement is None or self._none else self.of_plan(statement.plan)

    def of_events(self, name: str) -> frozenset[str]:
        """Return the properties that hold a time in every event type read by the statement's sources that has them."""
        statement = self._runtime.statements.get(name)
        sources = () if statement is None else statement.plan.sources
        return self.of_types(type_name for source in sources for type_name in _types_of(source))

    def of_all(self, name: str) -> frozenset[str]:
        """Return the same for everything that a statement reads, including subqueries, patterns and stores."""
        statement = self._runtime.statements.get(name)
        read = () if statement is None else (*event_types_read(statement.plan), *stores_read(statement.plan))
        return self.of_types(read)

    def of_context(self, name: str) -> frozenset[str]:
        """Return the same for the events that start partitions of a context."""
        context = self._runtime.catalog.contexts[name]
        kinds = [of for level in (context, *context.levels) for of in level.properties.values()]
        return self.of_types(of.event for of in kinds if of.event is not None)

    def of_types(self, names: Iterable[str]) -> frozenset[str]:
        """Return the properties that hold a time in each of these event types that has them."""
        known = self._runtime.catalog.event_types
        time_properties, others = set[str](), set[str]()
        for name in names:
            times = self.of_type(name)
            time_properties |= times
            others |= (known[name].properties.keys() if name in known else set()) - times
        return frozenset(time_properties - others)

    def of_plan(self, of: nodes.StatementPlan) -> frozenset[str]:
        """Return the columns of the statement with this plan that hold times."""
        if of.assigned:
            return frozenset(filter(self._of_variable, of.assigned))
        if of.projection is not None:
            return self._of_query(of.projection, of.subqueries)
        store = output_store(of)
        return frozenset() if store is None else self.of_type(store.name)

    def _of_query(self, root: nodes.Projection, subqueries: _Subqueries) -> frozenset[str]:
        if nodes.stage(root, nodes.Derivation) is not None:
            return frozenset()  # it makes columns of its own, whose names may equal those of properties
        scope = self._scope(root, subqueries)
        columns = {column.name for column in root.columns if self._is_time(column.value, scope)}
        if root.wildcard and len(scope.inputs) == 1:
            columns |= scope.inputs[0]
        return frozenset(columns)

    def _scope(self, root: nodes.Projection, subqueries: _Subqueries = ()) -> _Scope:
        aggregation = nodes.stage(root, nodes.Aggregation)
        matches = nodes.stage(root, nodes.Recognition)
        if matches is not None:
            measures = {measure.name for measure in matches.measures if self._is_time(measure.value, _Scope())}
            return _Scope((frozenset(measures),), aggregation, subqueries)
        sources = map(nodes.source_of, nodes.streams(root))
        return _Scope(tuple(self.of_types(_types_of(source)) for source in sources), aggregation, subqueries)

    def _is_time(self, e: x.BoundExpr, scope: _Scope) -> bool:
        if e.type != LONG:
            return False
        if scope.aggregation is not None:
            e = e.of_group(scope.aggregation.keys)
        if e.picked_from:
            return all(self._is_time(value, scope) for value in e.picked_from)
        if e.named_property is not None:
            owner, name = e.named_property
            return name in self.of_type(owner)
        if e.variable_name:
            return self._of_variable(e.variable_name)
        if e.python_function:
            return e.type.dated
        if e.aggregate_number is not None and scope.aggregation is not None:
            return self._picks_time(scope.aggregation.calls[e.aggregate_number], scope)
        if isinstance(e, x.SubqueryRef) and e.index < len(scope.subqueries):
            root = scope.subqueries[e.index].root
            return len(root.columns) == 1 and self._is_time(root.columns[0].value, self._scope(root))
        if e.read_stream is not None:
            return e.read_stream < len(scope.inputs) and e.property_name in scope.inputs[e.read_stream]
        return isinstance(e, x.CurrentTimestamp)

    def _picks_time(self, call: nodes.AggregateCall, scope: _Scope) -> bool:
        if call.name == USER_AGGREGATE.name:
            return call.type.dated
        picks = call.name in AGGREGATES and AGGREGATES[call.name].picks
        return picks and bool(call.args) and self._is_time(call.args[0], scope._replace(aggregation=None))

    def _of_variable(self, name: str) -> bool:
        """Return True if statements set a variable to times, and to nothing else."""
        if name not in self._variables:
            self._variables[name] = False  # for a variable that is set to its own value
            values = [
                self._is_time(one.value, _Scope((self.of_types(_types_of(of.source)),), None, of.subqueries))
                for of in self._plans
                for one in variable_assignments(of)
                if one.variable == name and not one.path
            ]
            self._variables[name] = bool(values) and all(values)
        return self._variables[name]


def statement_output(runtime: Runtime, name: str, times: str = DATES) -> tuple[dict[str, Type], Type]:
    """Return the types of a statement's columns, and of the time of its deliveries, for users (`io.output_times`).

    Raises UsageError for an unknown name, and for another form of `times`.
    """
    time = time_type(runtime.config, times)
    properties = runtime.statement(name).output_type.properties
    return output_types(properties, TimeColumns(runtime).of_statement(name), time), time


def _types_of(source: nodes.SourceNode) -> Iterator[str]:
    if source.pattern is not None:
        yield from (of.event for of in source.pattern.match_type.properties.values() if of.event is not None)
    else:
        yield source.event_type if source.store is None else source.store.name
