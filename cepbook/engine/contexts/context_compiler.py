"""Contexts, compiled once: conditions, keys and hashes as functions, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.contexts.assigner import is_deterministic, keys_are_deterministic, read_properties
from cepbook.engine.contexts.hashing import HASHES, bucket, hasher
from cepbook.engine.contexts.keyed_context import keys_code
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.fragments.unnest import write_unnest
from cepbook.engine.patterns.matcher import PatternProgram
from cepbook.engine.patterns.pattern_codegen import PatternCodegen
from cepbook.engine.time.calendar_periods import add_months
from cepbook.engine.time.clock import NEVER
from cepbook.engine.time.crontab import CrontabSchedule
from cepbook.errors import Refusal
from cepbook.lang.plan import context as c
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import ContainedSelection, CrontabSpec, KeyedStream
from cepbook.lang.plan.pattern import EVENT_STREAM
from cepbook.lang.types import OBJECT

# f(event, node): nodes have the `properties` that conditions read
ConditionTest = Callable[[Any, Any], bool]
ConditionValue = Callable[[Any, Any], Any]
EqualityKeys = tuple[ConditionValue, ConditionValue]  # an equality, (of the event, of the node)


@dataclass(frozen=True, slots=True)
class NowCondition:
    """``@now``."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventCondition:
    """An event. `key` is an equality in its filter, (of the event, of the node): who waits is found by it.

    `test` is the whole filter; `names` are the properties that the condition gives. `unfold` gives the events within
    that it is about, at least one; None: it is about the event itself.
    """

    event_type: str
    names: tuple[str, ...]
    test: ConditionTest | None
    key: EqualityKeys | None
    unfold: ConditionValue | None = None


@dataclass(frozen=True, slots=True)
class TimeCondition:
    """A point in time: ``due(node, now)``. `repeats`: what is begun by it, is begun again."""

    due: Callable[[Any, int], int]
    crontab: bool
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternCondition:
    """A pattern. `alias` is the name of its match, None: its tags are `names` themselves.

    `replay` has the tags whose events count for the statements, with their types: single ones before arrays (recorded).
    `keys` has, of each event type all of whose atoms have one, equalities of their filters with properties of the node:
    an event that none of them allows is of no use to a matcher.
    """

    program: PatternProgram
    names: tuple[str, ...]
    alias: str | None
    replay: tuple[tuple[str, str], ...]
    keys: Mapping[str, tuple[EqualityKeys, ...]]

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the events that it looks at."""
        return tuple(group.event_type for group in self.program.groups)


CompiledCondition = NowCondition | EventCondition | TimeCondition | PatternCondition


@dataclass(frozen=True, slots=True)
class LevelStream:
    """How events of one listed type find their node: `place` gives (key, key values); `passes` is the filter.

    `reads` and `decides` as of `Way`.
    """

    event_type: str
    place: Callable[[Any], tuple[Any, Sequence[Any]]]
    passes: Callable[[Any], bool] | None
    alias: str | None = None
    reads: tuple[str, ...] | None = None
    decides: bool = False


@dataclass(frozen=True, slots=True)
class CompiledLevel:
    """One level. Of the parts those are there that its kind of context has."""

    name: str
    spec: c.ContextSpec
    streams: tuple[LevelStream, ...] = ()
    begins: tuple[CompiledCondition, ...] = ()
    ends: CompiledCondition | None = None
    labels: tuple[str, ...] = ()
    distinct: ConditionValue | None = None


CompiledLevels = tuple[CompiledLevel, ...]  # outermost first


def compile_levels(name: str, spec: c.ContextSpec, scope_in: ScopeFactory) -> CompiledLevels:
    """The functions of context `name`. Errors: Refusal for an expression that the row engine cannot run."""
    levels = spec.levels if isinstance(spec, c.NestedSpec) else ((name, spec),)
    writer = _Writer(scope_in)
    return tuple(writer.level(each, inner) for each, inner in levels)


def correlation_keys(condition: x.BoundExpr | None, scope_in: ScopeFactory) -> EqualityKeys | None:
    """The equalities in a statement's filter between an event and its context partition, as a pair of keys."""
    return _Writer(scope_in).key(condition)


class _Writer:
    def __init__(self, scope_in: ScopeFactory) -> None:
        self._scope_in = scope_in

    def level(self, name: str, spec: c.ContextSpec) -> CompiledLevel:
        match spec:
            case c.KeyedSpec():
                streams = tuple(self._keyed_stream(s) for s in spec.streams.streams)
                begins = tuple(self._condition(i) for i in spec.initiated)
                return CompiledLevel(name, spec, streams, begins, self._ending(spec.terminated))
            case c.HashSpec():
                return CompiledLevel(name, spec, tuple(self._hashed(s, spec.granularity) for s in spec.streams))
            case c.CategorySpec():
                predicates = tuple(predicate for _, predicate in spec.categories)
                decides = all(map(is_deterministic, (spec.filter, *predicates)))
                needed, place = read_properties(spec.filter, *predicates), self._matching(predicates)
                stream = LevelStream(spec.event_type, place, self._passes(spec.filter), None, needed, decides)
                return CompiledLevel(name, spec, (stream,), labels=tuple(label for label, _ in spec.categories))
            case c.NonOverlappingSpec():
                return CompiledLevel(name, spec, (), (self._condition(spec.start),), self._ending(spec.end))
            case c.OverlappingSpec():
                distinct = self._values(spec.distinct) if spec.distinct else None
                begins = (self._condition(spec.initiated),)
                return CompiledLevel(name, spec, (), begins, self._ending(spec.terminated), distinct=distinct)
        raise Refusal("nested-context", "nested contexts inside nested contexts are not supported")

    # -------------------------------------------------------------- streams
    def _keyed_stream(self, stream: KeyedStream) -> LevelStream:
        def write(scope: CodeScope) -> str:
            scope.source.line(f"keys = ({''.join(lower.value(scope, e) + ', ' for e in stream.keys)})")
            return f"{keys_code(scope.source, 'keys', [e.type for e in stream.keys])}, keys"

        place = self._function("e", stream.keys, write)
        decides = stream.alias is None and keys_are_deterministic(stream.filter, stream.keys)
        needed = read_properties(stream.filter, *stream.keys)
        return LevelStream(stream.event_type, place, self._passes(stream.filter), stream.alias, needed, decides)

    def _hashed(self, stream: c.HashedStream, granularity: int) -> LevelStream:
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

        place = self._function("e", stream.args, write)
        decides = inner is None and all(map(is_deterministic, (stream.filter, *stream.args)))
        needed = read_properties(stream.filter, *stream.args)
        return LevelStream(stream.event_type, place, self._passes(stream.filter), None, needed, decides)

    def _matching(self, predicates: Sequence[x.BoundExpr]) -> Callable[[Any], tuple[Any, Sequence[Any]]]:
        """The numbers of the categories that an event belongs to."""

        def write(scope: CodeScope) -> str:
            source = scope.source
            source.line("found = []")
            for number, predicate in enumerate(predicates):
                with source.block(f"if {lower.filter_condition(scope, predicate)}:"):
                    source.line(f"found.append({number})")
            return "None, found"

        return self._function("e", predicates, write)

    def _passes(self, condition: x.BoundExpr | None) -> Callable[[Any], bool] | None:
        if condition is None:
            return None
        return self._function("e", (condition,), lambda scope: lower.filter_condition(scope, condition))

    # -------------------------------------------------------------- conditions
    def _ending(self, condition: c.PartitionCondition | None) -> CompiledCondition | None:
        return None if condition is None else self._condition(condition)

    def _condition(self, condition: c.PartitionCondition) -> CompiledCondition:
        match condition:
            case c.AtOnce():
                return NowCondition()
            case c.OnEvent():
                names = () if condition.alias is None else (condition.alias,)
                test, key = self._test(condition.filter), self.key(condition.filter)
                return EventCondition(condition.event_type, names, test, key, self._unfold(condition.contained))
            case c.OnCrontab():
                return TimeCondition(self._crontabs(condition.crontabs), crontab=True)
            case c.AfterPeriod():
                return TimeCondition(self._period(condition.period), crontab=False)
            case c.OnPattern():
                return self._pattern(condition)
        raise TypeError(f"no form for {type(condition).__name__}")

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
            found = [self.key(atom.filter) for atom in pattern.atoms if atom.event_type == event_type]
            if None not in found:
                keys[event_type] = tuple(key for key in found if key is not None)
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
        found: ConditionValue = source.load()["unfold"]
        return found

    def key(self, condition: x.BoundExpr | None) -> EqualityKeys | None:
        """The equalities between the event and properties of the node, as a pair of keys."""
        pairs = [pair for part in x.conjuncts(condition) if (pair := _sides(part)) is not None]
        if not pairs:
            return None
        return self._values([event for event, _ in pairs]), self._values([node for _, node in pairs])

    def _values(self, exprs: Sequence[x.BoundExpr]) -> ConditionValue:
        """A tuple of values, arrays by content."""

        def write(scope: CodeScope) -> str:
            codes = (key_code(scope.source, lower.value(scope, e), e.type) for e in exprs)
            return f"({''.join(code + ', ' for code in codes)})"

        return self._function("e, P", exprs, write)

    def _crontabs(self, crontabs: Sequence[CrontabSpec]) -> Callable[[Any, int], int]:
        """The earliest next point of all."""
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
        def write(scope: CodeScope) -> str:
            months: x.BoundExpr | None = None
            rest: x.BoundExpr | None = period
            if isinstance(period, x.Period):
                months, rest = period.months, period.millis
            codes = ["0" if part is None else lower.value(scope, part) for part in (months, rest)]
            return f"{scope.source.bind('_after', period_end)}(now, {', '.join(codes)}, {scope.calendar})"

        return self._function("P, now", (), write)

    # -------------------------------------------------------------- functions
    def _function(
        self, parameters: str, exprs: Sequence[x.BoundExpr], write: Callable[[CodeScope], str]
    ) -> Callable[..., Any]:
        """A function of `parameters` that returns the code that `write` gives; it reads the event `e`."""
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
        found: Callable[..., Any] = source.load()["condition"]
        return found


def period_end(now: int, months: int | None, units: int | None, second: int, zone: str = "UTC") -> int:
    """A period behind `now`: calendar months in the time zone, then the rest.

    `second` is a second in units of the clock.

    Errors: ValueError for null and negative periods.
    """
    if months is None or units is None:
        raise ValueError("the period of a context's condition is null")
    if months < 0 or units < 0:
        raise ValueError(f"the period of a context's condition is negative: {months} months and {units}")
    if months:
        now = add_months(now, months, second, zone)
    return min(now + units, NEVER)


_LATER = (x.VariableRead, x.CurrentTimestamp, x.UserCall)  # not the same at every event


def _sides(e: x.BoundExpr) -> tuple[x.BoundExpr, x.BoundExpr] | None:
    """An equality as (of the event, of the node)."""
    if not isinstance(e, x.ComparisonExpr) or e.op != "=":
        return None
    for event, node in ((e.left, e.right), (e.right, e.left)):
        fixed = _reads(node, (x.ContextProp,)) and not _reads(node, (x.Prop, x.EventOf, *_LATER))
        if fixed and _of_event(event) and not _reads(event, (x.ContextProp, *_LATER)):
            return event, node
    return None


def _of_event(e: x.BoundExpr) -> bool:
    """Whether `e` reads the arriving event, and not the match of a pattern so far."""
    streams = {part.stream for part in x.walk(e) if isinstance(part, (x.Prop, x.EventOf))}
    return streams == {EVENT_STREAM}


def _reads(e: x.BoundExpr, kinds: tuple[type, ...]) -> bool:
    return any(isinstance(part, kinds) for part in x.walk(e))
