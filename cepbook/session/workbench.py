"""Workbench: the one object that notebooks, magics and widgets hold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pandas as pd

from cepbook import spark as bridge
from cepbook.argument_checks import check_public_arguments, describe_value
from cepbook.dialects.registry import declared_names
from cepbook.engine.contexts.partition_listeners import PartitionListener
from cepbook.errors import BindError, UsageError, exception_text
from cepbook.lang.plan.catalog import EventType
from cepbook.session.core.cell_deployments import (
    CellDeployment,
    drop_by_name,
    explain_replacement,
    find_deployment,
    remaining_cells,
    replaced_deployment,
    unused_deployment_id,
)
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.core.garbage_collection import garbage
from cepbook.session.core.run_results import RunResult
from cepbook.session.core.saved_state import (
    initial_runtime,
)
from cepbook.session.explanation_mixin import ExplanationMixin
from cepbook.session.history.rerun_workbench import (
    ForgottenWarning,
    RecordedHistory,
    WorkbenchRerun,
    is_fire_and_forget,
    recorded_history,
)
from cepbook.session.inspect.overview import variables_frame
from cepbook.session.inspection_mixin import InspectionMixin
from cepbook.session.io.parameter_values import ParameterValues as Values
from cepbook.session.io.parameter_values import with_dialect_settings
from cepbook.session.io.python_values import set_variable
from cepbook.session.io.schema_inference import infer_event_types
from cepbook.session.io.time_conversion import TimeLike, format_clock_time, to_clock_units
from cepbook.session.live_mixin import LiveMixin
from cepbook.session.output_mixin import OutputMixin
from cepbook.session.registration_mixin import RegistrationMixin

if TYPE_CHECKING:  # pyspark is loaded by the first job only
    from cepbook.spark import Comparison
    from cepbook.spark.execution.spark_run import SparkRun


@check_public_arguments(but=("send",))
class Workbench(RegistrationMixin, InspectionMixin, ExplanationMixin, LiveMixin, OutputMixin):
    """EPL statements over events that you define, send and replay, on a clock that you drive.

    The clock starts at `start` (int ms, datetime or ISO 8601 text; naive is UTC). Each statement has a feed of its
    latest deliveries, at most `feed_capacity` rows (None: all), and a file of those before, for `compare`. `config` is
    what was chosen of the meaning of statements (`cepbook.Config`). Errors leave the workbench as it was
    before the call.

    >>> cep = Workbench()
    >>> cep.run("create schema Tick(symbol string, price double)")
    deployed Tick
    """

    # ---- statements

    def run(self, epl: str, *, cell: str | None = None, dialect: str = "epl", **settings: Any) -> RunResult:
        """Compile and deploy a module of one or several statements, all or nothing.

        `dialect` is the language (`lang.dialects.DIALECTS`), `settings` what it takes beside the text: the ``name`` of
        the statement, and what else the dialect's row lists; for EPL ``parameters``, the values of ``?`` and ``:name``
        in the text as a list or by name (`session.values.parameters`), which stay what they are now.

        What the same `cell` deployed before is replaced, and statements that depend on it are deployed anew. Without
        a `cell`, the deployment that declares one of the same names is replaced. Raises ParseError, BindError, and
        UsageError when the names belong to other cells or dependants stand in the way; then nothing has changed.
        """
        if dialect != "epl" or settings:
            epl = with_dialect_settings(epl, dialect, settings, self._config.second)
        with self._lock, self._engine.manual_call():
            names = declared_names(epl)
            target = replaced_deployment(names, epl, cell, self._cells)
            before, failed = dict(self.runtime.statements), set(map(id, self.runtime.errors))
            gone: frozenset[str] = frozenset()
            owned = CellDeployment(cell, names, " ".join(epl.split()))
            if target is None:
                with self._noting(owned):
                    deployment = self.runtime.deploy(
                        epl, deployment_id=unused_deployment_id(cell, self.runtime.deployments)
                    )
            else:
                gone = self._cells[target].names - names
                try:
                    with self._noting(owned):
                        deployment = self.runtime.redeploy(target, epl)
                except BindError as error:
                    raise explain_replacement(error, target, gone) from None
            again = [
                s.name
                for s in self.runtime.statements.values()
                if s.name in before and before[s.name] is not s and s.deployment_id != deployment.id
            ]
        messages = [f"dropped {', '.join(sorted(gone))}"] if gone else []
        if again:
            messages.append(f"deployed anew, because they depend on it: {', '.join(again)}")
        new = [each for each in self.runtime.errors if id(each) not in failed]
        told = [f"`{each.statement}` failed as it began: {exception_text(each.cause)}" for each in new]
        messages += dict.fromkeys(told)  # alike in each partition
        return RunResult(deployment, deployment.statements, target is not None, tuple(messages))

    @contextmanager
    def _noting(self, owned: CellDeployment) -> Iterator[None]:
        before = dict(self.runtime.deployments)
        try:
            yield
        finally:
            after = self.runtime.deployments
            if after != before:
                self._cells = {key: what for key, what in self._cells.items() if key in after}
                new = next((key for key in after if after[key] is not before.get(key)), None)
                if new is not None:
                    self._cells.pop(new, None)
                    self._cells[new] = owned
                self._engine.follow_deployments()

    def drop(self, name: str, *, cascade: bool = False) -> tuple[str, ...]:
        """Drop the statement `name`, or that which created the event type, context, variable or store `name`.

        The rest of its deployment runs on where it does not need it. The names of all statements that went are
        returned. Raises UsageError when there is no such name, and, unless `cascade`, when more would go: it says what.
        """
        with self._lock, self._engine.manual_call():
            deployment = find_deployment(self.runtime, name)
            before = list(self.runtime.statements)
            try:
                drop_by_name(self.runtime, deployment, name, cascade)
            finally:
                gone = tuple(n for n in before if n not in self.runtime.statements)
                self._cells = remaining_cells(self._cells, self.runtime, frozenset(gone))
                self._engine.follow_deployments()
            return gone

    def reset(self) -> None:
        """Begin again: no statements, no event types, the clock at its start. Registered functions stay."""
        with self._lock:
            self._end_replay()
            former = self._engine
            self._begin()
            former.release()
            del former
        garbage.clear()

    def rewind(self) -> None:
        """Begin again with what is deployed: all statements in their first state, the clock at its start.

        Windows and feeds are empty, listeners stay. Variables have the values that they were given from outside, not
        those that statements assigned.
        """
        with self._lock, self._engine.manual_call():
            self._end_replay()
            self._engine.restart(initial_runtime(self.runtime, self._start))
            self._checks = {}
        garbage.clear()

    # ---- variables

    def variables(self) -> pd.DataFrame:
        """All variables and constants: name, type, value, constant."""
        with self._lock:
            return variables_frame(self.runtime)

    def get(self, name: str) -> Any:
        """The present value of a variable. Raises UsageError for an unknown name."""
        return self.runtime.get_variable(name)

    def set(self, name: str, value: object) -> None:
        """Assign a variable: statements read the new value from now on; None is null.

        Raises UsageError for an unknown name, a constant, and a value that is not of the variable's type.
        """
        with self._lock, self._engine.manual_call(), self._engine.raising_failures():
            set_variable(self.runtime, name, value)
            self._engine.event_log.record_assignment(self.runtime.now, name, self.runtime.variables[name].given)

    # ---- event types and events

    def define(
        self, name: str, source: object, *, time: str | None = None, inherits: str | Sequence[str] = ()
    ) -> EventType:
        """Define an event type from a DataFrame, an Arrow table, a path of a Parquet file, a dataclass, a TypedDict or
        a dict of name -> type.

        See `cepbook.session.io.schema_inference` and `frames` for how they become EPL types. `time` is the property
        that
        `replay` takes the event time from. Defining the same again changes nothing. Raises UsageError naming the
        column that has no EPL type, or the statements that stand in the way of a changed type.
        """
        parents = (inherits,) if isinstance(inherits, str) else tuple(inherits)
        with self._lock:
            made = infer_event_types(name, source, self.runtime.catalog.event_types, time=time, inherits=parents)
            for event_type in made:
                if self.runtime.catalog.event_types.get(event_type.name) != event_type:
                    self.runtime.define(event_type, replace=True)
            self._engine.follow_deployments()
            self.defined.pop(name, None)
            self.defined[name] = made[-1]
        return made[-1]

    def send(self, type_name: str, event: object = None, /, **properties: Any) -> None:
        """Send one event at the present time: a dict, a dataclass instance, or keyword arguments.

        The event is checked and copied: an unknown type or property and a value of a wrong type are EventErrors, a
        missing property is null (`cepbook.session.io.event_validation` has the rules). `Workbench.runtime.sender` skips
        this.
        """
        if event is not None and properties:
            raise UsageError("give the event or its properties, not both")
        with self._lock:
            check, record = self._entry(type_name)
            checked = check(properties if event is None else event)
            stage, runtime = self._engine, self._engine.runtime
            record(runtime.clock.now, checked, None)
            before = stage.failures
            with stage.manual_call():
                runtime.send(type_name, checked)
            if stage.failures != before:
                stage.raise_failure_since(before)

    def send_together(self, *events: tuple[str, object]) -> None:
        """Send events, (type, event) each, that arrive together: one activation to queries of other dialects."""
        for each in events:
            if not isinstance(each, tuple | list) or len(each) != 2:
                raise UsageError(f'an event is (type, properties), such as ("Tick", {{…}}), not {describe_value(each)}')
        with self._lock:
            entries = [(name, self._entry(name), event) for name, event in events]
            made = [(name, check(event), record) for name, (check, record), event in entries]
            places = self._engine.event_log.positions(len(made))
            for place, (_, event, record) in zip(places, made, strict=True):
                record(self.runtime.now, event, place)
            with self._engine.manual_call(), self._engine.raising_failures():
                self.runtime.send_together([(name, event) for name, event, _ in made])

    # ---- context partitions

    def end_partition(self, context: str, partition: int) -> None:
        """End a context partition by hand, as its own condition would: what is due at its end is delivered.

        Raises UsageError for an unknown context and for an id of which there is no partition.
        """
        with self._lock, self._engine.manual_call(), self._engine.raising_failures():
            self.runtime.context(context)
            done = f"a partition of `{context}` was ended by hand"
            self._engine.record_manual_action(lambda runtime: runtime.end_partition(context, partition), what=done)
            self.runtime.end_partition(context, partition)

    def on_partition(self, context: str, fn: PartitionListener) -> Callable[[], None]:
        """Call ``fn(notice)`` when a partition is allocated or deallocated and when the context is activated or not.

        A notice has `kind` (``allocated`` …), `context`, `partition` (the id), `properties` and `time` (ms). Returns
        the function that ends it.
        """
        if not callable(fn):
            raise UsageError(f"a partition listener is a function of one notice, not {type(fn).__name__}")
        with self._lock:
            return self._engine.listen_to_partitions(context, fn)

    # ---- second workbenches

    def rehearsal(self) -> Workbench:
        """A workbench of the same functions, event types and statements in their first state, its clock at the start.

        What is tried there leaves this one alone.
        """
        with self._lock:
            twin = Workbench(start=self._start, feed_capacity=self._capacity, config=self._config)
            twin._engine = EngineHandle(initial_runtime(self.runtime, self._start), twin._lock, self._capacity)
            twin._functions = dict(self._functions)
            twin._cells = dict(self._cells)
            twin._engine.follow_deployments()
        return twin

    def past(self) -> RecordedHistory:
        """The latest events and stops of the clock, for `again`."""
        with self._lock:
            return recorded_history(self.runtime, self._engine.event_log, self._start)

    def again(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        epl: str | None = None,
        parameters: Values | None = None,
        past: RecordedHistory | None = None,
    ) -> Workbench:
        """A second workbench in which the latest events happen anew; this one stays as it is (`session.past.again`).

        Its variables have `values` where given, and it has the statements of `epl` beside the others. `past` is what
        happens, by default what is known now; a `ForgottenWarning` says when that is not all. Raises UsageError for an
        unknown variable, and as `run`.
        """
        with self._lock:
            if past is not None and not isinstance(past, RecordedHistory):
                raise UsageError(f"`past` is what `Workbench.past()` gives, not {describe_value(past)}")
            known = past or recorded_history(self.runtime, self._engine.event_log, self._start)
            twin = self.rehearsal()
        if past is None and not known.complete:
            told = f"only the latest {known.events:,} events happen anew, earlier ones are not known any more"
            hint = "`cep.rehearsal()` and a replay there take all"
            warnings.warn(f"{told}\n  hint: {hint}", ForgottenWarning, stacklevel=3)  # behind the check of arguments
        for name, value in (values or {}).items():
            twin.set(name, value)
        if epl is not None:
            twin.run(epl, parameters=parameters)
        WorkbenchRerun(twin.runtime, twin._engine.event_log).relive(known)
        return twin

    def answer(self, epl: str, *, parameters: Values | None = None) -> pd.DataFrame:
        """A query's rows now (`query`); of any other select all that it would have delivered over the latest events.

        The latter as `changes` gives them. Nothing is deployed. Raises as `query` and `run`, UsageError for what
        delivers nothing.
        """
        if is_fire_and_forget(epl, self.runtime):
            return self.query(epl, parameters=parameters)
        twin = self.again(epl=epl, parameters=parameters)
        last = [each for each in twin.runtime.statements.values() if each.name not in self.runtime.statements]
        if not last:
            raise UsageError("this delivers no rows\n  hint: `%%epl` deploys it; an expression is one select or query")
        return twin.changes(last[-1].name)

    # ---- Spark

    def spark(
        self,
        df_by_type: Mapping[str, Any],
        *,
        time: str | Mapping[str, str] | None = None,
        sequence: str | Mapping[str, str] | None = None,
        statements: Sequence[str] | None = None,
        until: TimeLike | None = None,
        session: Any = None,
        persist: bool | None = None,
    ) -> SparkRun:
        """Run deployed select statements over frames, Arrow tables and Parquet files, from an empty state.

        As `cepbook.spark.run`, its errors too. The clock begins at the workbench's start and ends at `until`.
        """
        return bridge.run(
            runtime=self.runtime,
            frames=df_by_type,
            time=time,
            sequence=sequence,
            statements=statements,
            start=self._start,
            until=None if until is None else to_clock_units(until, self._config.second),
            session=session,
            persist=persist,
        )

    def compare(self, batch: Any, **options: Any) -> Comparison:
        """Compare what this workbench delivered with the result of `spark`; options as in `cepbook.spark.compare`."""
        return bridge.compare(self, batch, **options)

    def __repr__(self) -> str:
        count = sum(each.kind != "create variable" for each in self.runtime.statements.values())
        clock = format_clock_time(self.runtime.now, self._config.second)
        return f"Workbench({count} statement{'' if count == 1 else 's'}, clock {clock})"
