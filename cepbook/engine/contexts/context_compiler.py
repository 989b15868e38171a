"""The compiler of contexts: conditions, keys and hashes become functions before anything is deployed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cepbook.engine.contexts.conditions import (
    CompiledCondition,
    CompiledLevel,
    CompiledLevels,
    ConditionTest,
    ConditionValue,
    EqualityKeys,
    EventCondition,
    LevelStream,
    NowCondition,
    PatternCondition,
    TimeCondition,
)
from cepbook.engine.contexts.hashing import HASHES, bucket, hasher
from cepbook.engine.contexts.locator import (
    OUTSIDE,
    PartitionLocation,
    PartitionLocator,
    is_deterministic,
    keys_are_deterministic,
    keys_code,
    read_properties,
)
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.fragments.unnest import write_unnest
from cepbook.engine.patterns.pattern_codegen import PatternCodegen
from cepbook.engine.time.calendar_periods import period_after
from cepbook.engine.time.crontab import CrontabSchedule
from cepbook.errors import Refusal
from cepbook.lang.plan import context as c
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import ContainedSelection, CrontabSpec, KeyedStream, KeyedStreams
from cepbook.lang.plan.pattern import EVENT_STREAM
from cepbook.lang.plan.references import streams_read
from cepbook.lang.types import OBJECT

Locators = Mapping[str, PartitionLocator]  # by listed event type
_Write = Callable[[CodeScope], str]


def compile_locators(spec: KeyedStreams, scope_in: ScopeFactory) -> Locators:
    """Compile the locators of a flat keyed context, one per listed event type.

    Errors: Refusal for an expression that the row engine cannot run.
    """
    return {stream.event_type: _locator(stream, scope_in) for stream in spec.streams}


def _locator(stream: KeyedStream, scope_in: ScopeFactory) -> PartitionLocator:
    deterministic = keys_are_deterministic(stream.filter, stream.keys)
    as_is = deterministic and stream.filter is None and len(stream.keys) == 1 and bool(stream.keys[0].property_name)
    reads = read_properties(stream.filter, *stream.keys)
    return PartitionLocator(_locate_function(stream, scope_in), reads, deterministic, as_is)


def _locate_function(stream: KeyedStream, scope_in: ScopeFactory) -> Callable[[Any], PartitionLocation]:
    source = SourceWriter()
    names = lower.property_names(stream.filter, *stream.keys)
    locals_ = {name: f"p{i}" for i, name in enumerate(names)}
    scope = scope_in(source).at(props=lower.property_codes(locals_), events={0: "e"})
    source.bind("OUTSIDE", OUTSIDE)
    with source.block("def locate(e):"):
        for i, name in enumerate(names):
            source.line(f"p{i} = e.get({source.const(name, 'n')})")
        if stream.filter is not None:
            with source.block(f"if not ({lower.filter_condition(scope, stream.filter)}):"):
                source.line("return OUTSIDE, None")
        source.line(f"keys = ({''.join(lower.value(scope, e) + ', ' for e in stream.keys)})")
        source.line(f"return {keys_code(source, [e.type for e in stream.keys])}, keys")
    locate: Callable[[Any], PartitionLocation] = source.load()["locate"]
    return locate


def compile_levels(levels: Iterable[tuple[str, c.ContextSpec]], scope_in: ScopeFactory) -> CompiledLevels:
    """Compile the levels of a context, which come by name, outermost first.

    Errors: Refusal for an expression that the row engine cannot run.
    """
    compiler = _LevelCompiler(scope_in)
    return tuple(compiler.level(level_name, level) for level_name, level in levels)


def correlation_keys(condition: x.BoundExpr | None, scope_in: ScopeFactory) -> EqualityKeys | None:
    """Return the equalities in a statement's filter between event and context partition, as a pair of keys."""
    return _LevelCompiler(scope_in).key(condition)


class _LevelCompiler:
    def __init__(self, scope_in: ScopeFactory) -> None:
        self._scope_in = scope_in

    def level(self, name: str, spec: c.ContextSpec) -> CompiledLevel:
        match spec:
            case c.KeyedSpec():
                streams = tuple(self._keyed_stream(s) for s in spec.streams.streams)
                begins = tuple(self._condition(i) for i in spec.initiated)
                return CompiledLevel(name, spec, streams, begins, self._end_condition(spec.terminated))
            case c.HashSpec():
                streams = tuple(self._hash_stream(s, spec.granularity) for s in spec.streams)
                return CompiledLevel(name, spec, streams, preallocated=spec.granularity if spec.preallocate else 0)
            case c.CategorySpec():
                predicates = tuple(predicate for _, predicate in spec.categories)
                deterministic = all(map(is_deterministic, (spec.filter, *predicates)))
                reads, locate = read_properties(spec.filter, *predicates), self._matching_categories(predicates)
                stream = LevelStream(spec.event_type, locate, self._passes(spec.filter), None, reads, deterministic)
                return CompiledLevel(name, spec, (stream,), labels=tuple(label for label, _ in spec.categories))
            case c.NonOverlappingSpec():
                return CompiledLevel(name, spec, (), (self._condition(spec.start),), self._end_condition(spec.end))
            case c.OverlappingSpec():
                distinct = self._values(spec.distinct) if spec.distinct else None
                begins = (self._condition(spec.initiated),)
                ends = self._end_condition(spec.terminated)
                return CompiledLevel(name, spec, (), begins, ends, distinct=distinct, also_now=spec.also_now)
        raise Refusal("nested-context", "nested contexts inside nested contexts are not supported")

    def _keyed_stream(self, stream: KeyedStream) -> LevelStream:
        def write(scope: CodeScope) -> str:
            scope.source.line(f"keys = ({''.join(lower.value(scope, e) + ', ' for e in stream.keys)})")
            return f"{keys_code(scope.source, [e.type for e in stream.keys])}, keys"

        locate = self._function("e", stream.keys, write)
        deterministic = stream.alias is None and keys_are_deterministic(stream.filter, stream.keys)
        reads = read_properties(stream.filter, *stream.keys)
        return LevelStream(stream.event_type, locate, self._passes(stream.filter), stream.alias, reads, deterministic)

    def _hash_stream(self, stream: c.HashedStream, granularity: int) -> LevelStream:
        if stream.function in HASHES:
            types = [e.type for e in stream.args]
            inner: x.BoundExpr | None = None
        else:
            inner = x.UserCall(OBJECT, stream.function, stream.args)

        def write(scope: CodeScope) -> str:
            source, scope = scope.source, scope.at(deciding=True)
            if inner is not None:
                code = lower.value(scope, inner)
            else:
                values = "".join(lower.value(scope, e) + ", " for e in stream.args)
                code = f"{source.bind('_hash', hasher(stream.function, types))}(({values}))"
            return f"{source.bind('_bucket', bucket)}({code}, {source.const(granularity)}), ()"

        locate = self._function("e", stream.args, write)
        deterministic = inner is None and all(map(is_deterministic, (stream.filter, *stream.args)))
        reads = read_properties(stream.filter, *stream.args)
        return LevelStream(stream.event_type, locate, self._passes(stream.filter), None, reads, deterministic)

    def _matching_categories(self, predicates: Sequence[x.BoundExpr]) -> Callable[[Any], tuple[Any, Sequence[Any]]]:
        """Compile a function that returns the numbers of the categories that an event belongs to."""

        def write(scope: CodeScope) -> str:
            source = scope.source
            source.line("matches = []")
            for number, predicate in enumerate(predicates):
                with source.block(f"if {lower.filter_condition(scope, predicate)}:"):
                    source.line(f"matches.append({number})")
            return "None, matches"

        return self._function("e", predicates, write)

    def _passes(self, condition: x.BoundExpr | None) -> Callable[[Any], bool] | None:
        if condition is None:
            return None
        return self._function("e", (condition,), lambda scope: lower.filter_condition(scope, condition))

    def _end_condition(self, condition: c.PartitionCondition | None) -> CompiledCondition | None:
        return None if condition is None else self._condition(condition)

    def _condition(self, condition: c.PartitionCondition) -> CompiledCondition:
        match condition:
            case c.AtOnce():
                return NowCondition()
            case c.OnEvent():
                names = () if condition.alias is None else (condition.alias,)
                test, key = self._test(condition.filter), self.key(condition.filter)
                unfold, repeatable = self._unfold(condition.contained), not x.find(x.UserCall, condition.filter)
                return EventCondition(condition.event_type, names, test, key, unfold, repeatable, condition.filter)
            case c.OnCrontab():
                return TimeCondition(self._crontabs(condition.crontabs), crontab=True)
            case c.AfterPeriod():
                return TimeCondition(self._period(condition.period), crontab=False)
            case c.OnPattern():
                return self._pattern(condition)
        raise TypeError(f"no compiled condition for {type(condition).__name__}")

    def _pattern(self, condition: c.OnPattern) -> PatternCondition:
        pattern, alias = condition.pattern, condition.alias
        source = SourceWriter()
        code = PatternCodegen(pattern, self._scope_in(source))
        program = code.program(source.load())
        types = {atom.tag: atom.event_type for atom in pattern.atoms if atom.tag is not None}
        tags = tuple(pattern.match_type.properties)
        replay = tuple((tag, types[tag]) for tag in tags) if condition.inclusive else ()
        keys: dict[str, tuple[EqualityKeys, ...]] = {}
        for event_type in code.types:
            atom_keys = [self.key(atom.filter) for atom in pattern.atoms if atom.event_type == event_type]
            if None not in atom_keys:
                keys[event_type] = tuple(key for key in atom_keys if key is not None)
        return PatternCondition(program, tags if alias is None else (alias,), alias, replay, keys)

    def _test(self, condition: x.BoundExpr | None) -> ConditionTest | None:
        if condition is None:
            return None
        return self._function("e, P", (condition,), lambda scope: lower.filter_condition(scope, condition))

    def _unfold(self, contained: Sequence[ContainedSelection]) -> ConditionValue | None:
        if not contained:
            return None
        source = SourceWriter()
        write_unnest(contained, self._scope_in(source).at(partition="P", now="clock.now"), "unfold", "e, P")
        unfold: ConditionValue = source.load()["unfold"]
        return unfold

    def key(self, condition: x.BoundExpr | None) -> EqualityKeys | None:
        """Compile the equalities between event and node properties to a pair of keys; None if there are none."""
        pairs = [pair for conjunct in x.conjuncts(condition) if (pair := _sides(conjunct)) is not None]
        if not pairs:
            return None
        return self._values([event for event, _ in pairs]), self._values([node for _, node in pairs])

    def _values(self, exprs: Sequence[x.BoundExpr]) -> ConditionValue:
        def write(scope: CodeScope) -> str:
            codes = (key_code(scope.source, lower.value(scope, e), e.type) for e in exprs)
            return f"({''.join(code + ', ' for code in codes)})"

        return self._function("e, P", exprs, write)

    def _crontabs(self, crontabs: Sequence[CrontabSpec]) -> Callable[[Any, int], int]:
        operands = [e for crontab in crontabs for e in CrontabSchedule(crontab, 1).operands]

        def write(scope: CodeScope) -> str:
            codes = []
            for crontab in crontabs:
                schedule = CrontabSchedule(crontab, scope.second)
                numbers = "".join(f"{lower.value(scope, e)}, " for e in schedule.operands)
                codes.append(f"{scope.source.const(schedule.next_time)}(now, ({numbers}))")
            return codes[0] if len(codes) == 1 else f"min({', '.join(codes)})"

        return self._function("P, now", operands, write)

    def _period(self, period: x.BoundExpr) -> Callable[[Any, int], int]:
        return self._function("P, now", (), lambda scope: lower.period_code(scope, "now", period, period_end))

    def _function(self, parameters: str, exprs: Sequence[x.BoundExpr], write: _Write) -> Callable[..., Any]:
        """Compile a function of `parameters` that returns the code from `write`.

        Its properties are those of event `e`.
        """
        source = SourceWriter()
        names = lower.property_names(*exprs) if parameters.startswith("e") else []
        props = {name: f"p{i}" for i, name in enumerate(names)}
        now = "now" if "now" in parameters else "clock.now"
        scope = self._scope_in(source).at(props=lower.property_codes(props), events={0: "e"}, partition="P", now=now)
        with source.block(f"def condition({parameters}):"):
            for name, local in props.items():
                source.line(f"{local} = e.get({source.const(name, 'n')})")
            result = write(scope)
            source.line(f"return {result}")
        condition: Callable[..., Any] = source.load()["condition"]
        return condition


def period_end(now: int, months: int | None, units: int | None, second: int, zone: str = "UTC") -> int:
    """Return the time as `period_after` does. Errors: ValueError for a null or negative period."""
    if months is not None and units is not None and (months < 0 or units < 0):
        raise ValueError(f"the period of a context's condition is negative: {months} months and {units}")
    return period_after(now, months, units, second, zone)


_TIME_VARYING = (x.VariableRead, x.CurrentTimestamp, x.UserCall, x.TableRead)  # may differ from one event to the next


def _sides(e: x.BoundExpr) -> tuple[x.BoundExpr, x.BoundExpr] | None:
    """Return the sides of an equality as (event side, node side); None if `e` is no such equality."""
    for event, node in x.equality_sides(e):
        fixed = _reads(node, (x.ContextProp,)) and not _reads(node, (x.Prop, x.EventOf, *_TIME_VARYING))
        if fixed and streams_read(event) == {EVENT_STREAM} and not _reads(event, (x.ContextProp, *_TIME_VARYING)):
            return event, node
    return None


def _reads(e: x.BoundExpr, kinds: tuple[type, ...]) -> bool:
    return any(isinstance(node, kinds) for node in x.walk(e))
