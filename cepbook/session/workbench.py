"""Workbench: the one object that notebooks, magics and widgets hold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from cepbook import spark as bridge
from cepbook.argument_checks import check_public_arguments, describe_value
from cepbook.dialects.registry import declared_names
from cepbook.engine.contexts.partition_listeners import PartitionListener
from cepbook.engine.snapshot.runtime_snapshot import event_type_data
from cepbook.errors import BindError, ErrorPolicy, UsageError, exception_text
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.syntax.source_text import dialect_of, settings_of
from cepbook.session.core import cell_deployments as cells
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.core.garbage_collection import garbage, rare_collection
from cepbook.session.core.run_results import RunResult
from cepbook.session.core.saved_state import initial_runtime
from cepbook.session.explanation_mixin import ExplanationMixin
from cepbook.session.history import rerun_workbench
from cepbook.session.inspect.overview import variables_frame
from cepbook.session.inspection_mixin import InspectionMixin
from cepbook.session.io.files import format_of
from cepbook.session.io.parameter_values import ParameterValues as Values
from cepbook.session.io.parameter_values import with_dialect_settings
from cepbook.session.io.python_values import fitting_value
from cepbook.session.io.schema_inference import infer_event_types
from cepbook.session.io.time_conversion import TimeLike, clock_text
from cepbook.session.journal_mixin import JournalMixin
from cepbook.session.live_mixin import LiveMixin
from cepbook.session.output_mixin import OutputMixin
from cepbook.session.registration_mixin import RegistrationMixin
from cepbook.session.replay.replay_results import ReplayResult

if TYPE_CHECKING:  # pyspark is loaded by the first job only
    from cepbook.spark import Comparison
    from cepbook.spark.execution.spark_run import SparkRun


@check_public_arguments(but=("send",))
class Workbench(RegistrationMixin, InspectionMixin, ExplanationMixin, LiveMixin, JournalMixin, OutputMixin):
    """EPL statements over events that you define, send and replay, on a clock that you drive.

    The clock starts at `start` (int ms, datetime or ISO 8601 text; naive is UTC). Each statement has a feed of its
    latest deliveries, at most `feed_capacity` rows (None: all), and a file of earlier ones (`changes`). `config`
    chooses between meanings of statements (`cepbook.Config`). A call that raises leaves the workbench as it was.

    >>> cep = Workbench()
    >>> cep.run("create schema Tick(symbol string, price double)")
    deployed Tick
    """

    def run(self, epl: str, *, cell: str | None = None, dialect: str = "epl", **settings: Any) -> RunResult:
        """Compile and deploy a module of one or several statements, all or nothing.

        `dialect` is the language, `settings` are its further inputs: the ``name`` of the statement and what the
        dialect's registry row lists. For EPL these are ``parameters``, the values of ``?`` and ``:name`` in the text as
        a list or by name, which stay fixed.

        A previous deployment of the same `cell` is replaced, and statements that depend on it are redeployed. Without a
        `cell`, the deployment that declares one of the same names is replaced. Raises ParseError, BindError, and
        UsageError if the names belong to other cells or dependants stand in the way; then nothing has changed.
        """
        if dialect != "epl" or settings:
            epl = with_dialect_settings(epl, dialect, settings, self._config)
        text = {"epl": str(epl), "dialect": dialect_of(epl), "settings": dict(settings_of(epl))}
        rarely = rare_collection(epl, len(self.runtime.statements))
        with self._lock, self._engine.action("run", **text, cell=cell), rarely:
            names = declared_names(epl, self.runtime.catalog)
            target = cells.replaced_deployment(names, epl, cell, self._cells)
            failed = set(map(id, self.runtime.errors))
            gone: frozenset[str] = frozenset()
            again: list[str] = []
            owned = cells.CellRun(cell, names, " ".join(epl.split()))
            if target is None:
                id_ = cells.unused_deployment_id(cell, self.runtime.deployments)
                with self._noting(owned, id_):
                    deployment = self.runtime.deploy(epl, deployment_id=id_)
            else:
                gone, before = self._cells[target].names - names, dict(self.runtime.statements)
                try:
                    with self._noting(owned, target):
                        deployment = self.runtime.redeploy(target, epl)
                except BindError as error:
                    raise cells.explain_replacement(error, target, gone) from None
                present = [s for s in self.runtime.statements.values() if s.deployment_id != target]
                again = [s.name for s in present if s.name in before and before[s.name] is not s]
        messages = [f"dropped {', '.join(sorted(gone))}"] if gone else []
        if again:
            messages.append(f"redeployed, because they depend on it: {', '.join(again)}")
        new = [e for e in self.runtime.errors if id(e) not in failed]
        texts = [f"`{e.statement}` failed as it began: {exception_text(e.cause)}" for e in new]
        messages += dict.fromkeys(texts)  # the same failure in several partitions is listed once
        return RunResult(deployment, deployment.statements, target is not None, tuple(messages))

    @contextmanager
    def _noting(self, owned: cells.CellRun, id_: str) -> Iterator[None]:
        before = self.runtime.deployments.get(id_)
        try:
            yield
        finally:
            present, touched = self.runtime.deployments, self.runtime.touched
            for gone in [name for name in touched if name not in present]:
                self._cells.pop(gone, None)
            if id_ in present and present[id_] is not before:
                self._cells[id_] = owned
            if touched:
                self._engine.follow_deployments()

    def drop(self, name: str, *, cascade: bool = False) -> tuple[str, ...]:
        """Drop the statement `name`, or the statement that created the event type, context, variable, store, index or
        expression `name`.

        The rest of its deployment keeps running if it can do without. Return the names of all dropped statements.
        Raises UsageError if there is no such name, and, without `cascade`, if more would go; the message lists it.
        """
        with self._lock, self._engine.action("drop", name=name, cascade=cascade):
            deployment = cells.find_deployment(self.runtime, name)
            before = list(self.runtime.statements)
            try:
                cells.drop_by_name(self.runtime, deployment, name, cascade)
            finally:
                gone = tuple(n for n in before if n not in self.runtime.statements)
                self._cells = cells.remaining_cells(self._cells, self.runtime, frozenset(gone))
                self._engine.follow_deployments()
            return gone

    def reset(self) -> None:
        """Start again: no statements, no event types, the clock at its start. Registered functions stay, open sinks are
        closed.
        """
        with self._lock, self._engine.action("reset"):
            self._end_replay()
            former = self._engine
            self._begin()
            self._engine.use_journal(former.journal)
            former.release()
            del former
        garbage.clear()

    def rewind(self) -> None:
        """Start again with the same deployments: all statements in their initial state, the clock at its start.

        Windows and feeds are empty, listeners stay. Variables have the values that were assigned from outside, not
        those that statements assigned.
        """
        with self._lock, self._engine.action("rewind"):
            fresh = initial_runtime(self.runtime, self._start)
            self._end_replay()
            self._checks = {}
            self._engine.restart(fresh)
        garbage.clear()

    async def replay_again(self) -> ReplayResult:
        """Rewind, and replay what was replayed since the start, in the same order. Return the last result.

        Of a replay that was stopped, or that failed, as many events are replayed as before. Events that were sent one
        by one are not repeated. Raises UsageError if nothing was replayed, if events can be read only once, or if the
        workbench no longer has the arguments of an earlier replay.
        """
        with self._lock:
            if self.not_repeatable:
                raise UsageError(self.not_repeatable)
            former = [(replay, replay.request, replay.repeated_limit) for replay in self._replays]
            self.rewind()
        for replay, request, limit in former:
            assert request is not None  # else it is not repeatable
            with self._lock:
                latest = self._begin_replay(replace(request, paused=False, limit=limit), repeated=replay)
            result = await latest
        return result

    def variables(self) -> pd.DataFrame:
        """Return all variables and constants: name, type, value, constant."""
        with self._lock:
            return variables_frame(self.runtime)

    def get(self, name: str) -> Any:
        """Return the value of a variable. Raises UsageError for an unknown name."""
        return self.runtime.get_variable(name)

    def set(self, name: str, value: object) -> None:
        """Assign a variable. Statements read the new value from now on; None is null.

        Raises UsageError for an unknown name, a constant, and a value that is not of the variable's type.
        """
        value = fitting_value(self.runtime, name, value)
        action = self._engine.action("set", name=name, value=value)
        with self._lock, self._engine.raising_failures(), action, self.runtime.turn:
            self.runtime.set_variable(name, value)
            self._engine.event_log.record_assignment(self.runtime.now, name, self.runtime.variables[name].given)

    def define(
        self,
        name: str,
        source: object,
        *,
        time: str | None = None,
        inherits: str | Sequence[str] = (),
        sep: str | None = None,
        encoding: str | None = None,
        comment: str | None = None,
        na: str | Sequence[str] = (),
    ) -> EventType:
        """Define an event type from a DataFrame, an Arrow table, a list of dicts, the path of a file (Parquet, CSV,
        JSON lines), a dataclass, a TypedDict or a dict of name -> type. Dicts within become nested event types.

        `cepbook.session.io.schema_inference` and `foreign_frames` list the EPL types. `time` is the property with the
        event time for `replay`: dates, texts in ISO 8601, or numbers in the unit of the clock. Without it an index of
        dates is the time of a DataFrame. `sep`, `encoding`, `comment` and `na` say how a file is read, as for
        `replay`. Defining the same again changes nothing. Raises UsageError with the column
        that has no EPL type, or the statements that prevent a change of the type.
        """
        parents = (inherits,) if isinstance(inherits, str) else tuple(inherits)
        form = format_of((source,), sep, encoding, comment, na)
        with self._lock, self._engine.manual_call():
            clock = (self._config.second, self._config.time_zone, self.runtime.now)
            known = self.runtime.catalog.event_types
            event_types = infer_event_types(name, source, known, time=time, inherits=parents, clock=clock, form=form)
            self._define(event_types)
            self.defined = {**{key: of for key, of in self.defined.items() if key != name}, name: event_types[-1]}
        return event_types[-1]

    def _define(self, event_types: Sequence[EventType]) -> None:
        with self._lock, self._engine.action("define", types=[event_type_data(of) for of in event_types]):
            known = self.runtime.catalog.event_types
            changed = [event_type for event_type in event_types if known.get(event_type.name) != event_type]
            self.runtime.define(*changed, replace=True)
            self._engine.follow_deployments()

    def send(self, type_name: str, event: object = None, /, **properties: Any) -> None:
        """Send one event at the present time: a dict, a dataclass instance, or keyword arguments.

        The event is checked and copied. An unknown type or property and a value of a wrong type raise EventError, a
        missing property is null (rules: `cepbook.session.io.event_validation`). `Workbench.runtime.sender` skips the
        check.
        """
        if event is not None and properties:
            raise UsageError("give the event or its properties, not both")
        with self._lock:
            check, record = self._entry(type_name)
            checked = check(properties if event is None else event)
            stage, runtime = self._engine, self._engine.runtime
            before = stage.failures
            with stage.manual_call():
                try:
                    record(runtime.clock.now, checked, None)
                    runtime.send(type_name, checked)
                except BaseException as failure:  # costs less than `with runtime.turn`
                    runtime.turn.mark_broken(failure)
                    raise
            if stage.failures != before:
                stage.raise_failure_since(before)

    def send_together(self, *events: tuple[str, object]) -> None:
        """Send several (type, event) pairs that arrive together: one activation for queries of other dialects."""
        for pair in events:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise UsageError(f'an event is (type, properties), such as ("Tick", {{…}}), not {describe_value(pair)}')
        with self._lock:
            entries = [(name, self._entry(name), event) for name, event in events]
            pairs = [(name, check(event)) for name, (check, _), event in entries]
            log = self._engine.event_log
            self._engine.admit(len(pairs))
            with self._engine.raising_failures(), self._engine.action("send_together", events=pairs), self.runtime.turn:
                for position, (name, event) in zip(log.positions(len(pairs)), pairs, strict=True):
                    log.recorder(name)(self.runtime.now, event, position)
                self.runtime.send_together(pairs)

    def end_partition(self, context: str, partition: int) -> None:
        """End a context partition as its own condition would. Output that is due at its end is delivered.

        Raises UsageError for an unknown context and for an unknown partition id.
        """
        action = self._engine.action("end_partition", context=context, partition=partition)
        with self._lock, self._engine.raising_failures(), action:
            self.runtime.context(context)
            done = f"a partition of `{context}` was ended by hand"
            with self.runtime.turn:
                self._engine.record_manual_action(lambda runtime: runtime.end_partition(context, partition), what=done)
                self.runtime.end_partition(context, partition)

    def on_partition(self, context: str, fn: PartitionListener) -> Callable[[], None]:
        """Call ``fn(notice)`` when a partition is allocated or deallocated, or the context is activated or deactivated.

        A notice has `kind` (``allocated`` …), `context`, `partition` (the id), `properties` and `time` (ms). Return the
        function that ends it.
        """
        if not callable(fn):
            raise UsageError(f"a partition listener is a function of one notice, not {type(fn).__name__}")
        with self._lock:
            return self._engine.listen_to_partitions(context, fn)

    def rehearsal(self) -> Workbench:
        """Return a workbench with the same functions, event types and statements in their initial state, its clock at
        the start.

        Nothing done there affects this workbench.
        """
        with self._lock:
            return self._rehearsal({})

    def _rehearsal(self, values: Mapping[str, Any]) -> Workbench:
        twin = Workbench(start=self._start, feed_capacity=self._capacity, config=self._config)
        twin._engine = EngineHandle(initial_runtime(self.runtime, self._start, values), twin._lock, self._capacity)
        twin._functions = dict(self._functions)
        twin._cells = cells.CellRuns(self._cells)
        twin._engine.follow_deployments()
        return twin

    def past(self) -> rerun_workbench.RecordedHistory:
        """Return the latest events and clock stops, for `again`."""
        with self._lock:
            return rerun_workbench.recorded_history(self.runtime, self._engine.event_log, self._start)

    def again(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        epl: str | None = None,
        parameters: Values | None = None,
        past: rerun_workbench.RecordedHistory | None = None,
    ) -> Workbench:
        """Return a second workbench in which the latest events happen again; this one is unchanged.

        Variables have the `values` there before any statement is deployed. `epl` adds statements. `past` is the history
        to repeat, by default everything known now; a `ForgottenWarning` is issued if earlier events are unknown. Raises
        UsageError for an unknown variable, and as `run` does.
        """
        with self._lock:
            if past is not None and not isinstance(past, rerun_workbench.RecordedHistory):
                raise UsageError(f"`past` is what `Workbench.past()` gives, not {describe_value(past)}")
            known = past or rerun_workbench.recorded_history(self.runtime, self._engine.event_log, self._start)
            fitting = {name: fitting_value(self.runtime, name, value) for name, value in (values or {}).items()}
            twin = self._rehearsal({name: self.runtime.assignable_value(name, v) for name, v in fitting.items()})
        if past is None and not known.complete:
            fact = f"only the latest {known.events:,} events happen anew, earlier ones are not known any more"
            hint = "`cep.rehearsal()` and a replay there take all"
            warnings.warn(
                f"{fact}\n  hint: {hint}", rerun_workbench.ForgottenWarning, stacklevel=3
            )  # above the check of arguments
        if epl is not None:
            twin.run(epl, parameters=parameters)
        rerun_workbench.WorkbenchRerun(twin.runtime, twin._engine.event_log).relive(known)
        return twin

    def answer(self, epl: str, *, parameters: Values | None = None) -> pd.DataFrame:
        """Return a query's rows now (`query`), or for any other select everything that it would have delivered over the
        latest events.

        The latter is in the form of `changes`. Nothing is deployed. Raises as `query` and `run` do, and UsageError if
        the text delivers nothing.
        """
        if rerun_workbench.is_fire_and_forget(epl, self.runtime):
            return self.query(epl, parameters=parameters)
        twin = self.again(epl=epl, parameters=parameters)
        last = [s for s in twin.runtime.statements.values() if s.name not in self.runtime.statements]
        if not last:
            raise UsageError("this delivers no rows\n  hint: `%%epl` deploys it; an expression is one select or query")
        return twin.changes(last[-1].name)

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
        leap: bool = False,
        errors: ErrorPolicy = "raise",
    ) -> SparkRun:
        """Run deployed select statements on Spark over frames, Arrow tables and Parquet files, from an empty state.

        Arguments and errors are those of `cepbook.spark.run`. The clock starts at the workbench's start and ends at
        `until`.
        """
        return bridge.run(
            runtime=self.runtime,
            frames=df_by_type,
            time=time,
            sequence=sequence,
            statements=statements,
            start=self._start,
            until=None if until is None else self._moment(until),
            session=session,
            persist=persist,
            leap=leap,
            errors=errors,
        )

    def compare(self, batch: Any, **options: Any) -> Comparison:
        """Compare this workbench's deliveries with the result of `spark`; options as in `cepbook.spark.compare`."""
        return bridge.compare(self, batch, **options)

    def __repr__(self) -> str:
        count = sum(statement.kind != "create variable" for statement in self.runtime.statements.values())
        clock = clock_text(self.runtime.now, self._config.second)
        return f"Workbench({count} statement{'' if count == 1 else 's'}, clock {clock})"
