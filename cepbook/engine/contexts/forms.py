"""Contexts, compiled once: conditions, keys and hashes as functions, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.clock import NEVER
from cepbook.engine.contexts.dealing import decided, keys_decide, reads
from cepbook.engine.contexts.hashing import HASHES, bucket, hasher
from cepbook.engine.contexts.keyed import keys_code
from cepbook.engine.crontab import Schedule
from cepbook.engine.patterns.code import PatternCode
from cepbook.engine.patterns.matcher import PatternProgram
from cepbook.engine.rows import expr as lower
from cepbook.engine.rows import support
from cepbook.engine.rows.expr import Scope, ScopeIn
from cepbook.engine.rows.frozen import key_code
from cepbook.engine.rows.source import Source
from cepbook.engine.rows.unfold import write_unfold
from cepbook.errors import Refusal
from cepbook.lang import contexts as c
from cepbook.lang import expr as x
from cepbook.lang.patterns import EVENT
from cepbook.lang.plan import Contained, Crontab, KeyedStream
from cepbook.lang.types import OBJECT

# f(event, node): nodes have the `properties` that conditions read
Test = Callable[[Any, Any], bool]
Value = Callable[[Any, Any], Any]
Key = tuple[Value, Value]  # an equality, (of the event, of the node)


@dataclass(frozen=True, slots=True)
class NowForm:
    """``@now``."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventForm:
    """An event. `key` is an equality in its filter, (of the event, of the node): who waits is found by it.

    `test` is the whole filter; `names` are the properties that the condition gives. `unfold` gives the events within
    that it is about, at least one; None: it is about the event itself.
    """

    event_type: str
    names: tuple[str, ...]
    test: Test | None
    key: Key | None
    unfold: Value | None = None


@dataclass(frozen=True, slots=True)
class TimeForm:
    """A point in time: ``due(node, now)``. `repeats`: what is begun by it, is begun again."""

    due: Callable[[Any, int], int]
    crontab: bool
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternForm:
    """A pattern. `alias` is the name of its match, None: its tags are `names` themselves.

    `replay` has the tags whose events count for the statements, with their types: single ones before arrays (recorded).
    `keys` has, of each event type all of whose atoms have one, equalities of their filters with properties of the node:
    an event that none of them allows is of no use to a matcher.
    """

    program: PatternProgram
    names: tuple[str, ...]
    alias: str | None
    replay: tuple[tuple[str, str], ...]
    keys: Mapping[str, tuple[Key, ...]]

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the events that it looks at."""
        return tuple(group.event_type for group in self.program.groups)


Form = NowForm | EventForm | TimeForm | PatternForm


@dataclass(frozen=True, slots=True)
class Stream:
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
class LevelForm:
    """One level. Of the parts those are there that its kind of context has."""

    name: str
    spec: c.ContextSpec
    streams: tuple[Stream, ...] = ()
    begins: tuple[Form, ...] = ()
    ends: Form | None = None
    labels: tuple[str, ...] = ()
    distinct: Value | None = None


TreeForm = tuple[LevelForm, ...]  # outermost first


def compile_tree(name: str, spec: c.ContextSpec, scope_in: ScopeIn) -> TreeForm:
    """The functions of context `name`. Errors: Refusal for an expression that the row engine cannot run."""
    levels = spec.levels if isinstance(spec, c.Nested) else ((name, spec),)
    writer = _Writer(scope_in)
    return tuple(writer.level(each, inner) for each, inner in levels)


def correlation(condition: x.Expr | None, scope_in: ScopeIn) -> Key | None:
    """The equalities in a statement's filter between an event and its context partition, as a pair of keys."""
    return _Writer(scope_in).key(condition)


class _Writer:
    def __init__(self, scope_in: ScopeIn) -> None:
        self._scope_in = scope_in

    def level(self, name: str, spec: c.ContextSpec) -> LevelForm:
        match spec:
            case c.Keyed():
                streams = tuple(self._keyed_stream(s) for s in spec.streams.streams)
                begins = tuple(self._condition(i) for i in spec.initiated)
                return LevelForm(name, spec, streams, begins, self._ending(spec.terminated))
            case c.Hash():
                return LevelForm(name, spec, tuple(self._hashed(s, spec.granularity) for s in spec.streams))
            case c.Category():
                predicates = tuple(predicate for _, predicate in spec.categories)
                decides = all(map(decided, (spec.filter, *predicates)))
                needed, place = reads(spec.filter, *predicates), self._matching(predicates)
                stream = Stream(spec.event_type, place, self._passes(spec.filter), None, needed, decides)
                return LevelForm(name, spec, (stream,), labels=tuple(label for label, _ in spec.categories))
            case c.NonOverlapping():
                return LevelForm(name, spec, (), (self._condition(spec.start),), self._ending(spec.end))
            case c.Overlapping():
                distinct = self._values(spec.distinct) if spec.distinct else None
                begins = (self._condition(spec.initiated),)
                return LevelForm(name, spec, (), begins, self._ending(spec.terminated), distinct=distinct)
        raise Refusal("nested-context", "nested contexts inside nested contexts are not supported")

    # -------------------------------------------------------------- streams
    def _keyed_stream(self, stream: KeyedStream) -> Stream:
        def write(scope: Scope) -> str:
            scope.source.line(f"keys = ({''.join(lower.value(scope, e) + ', ' for e in stream.keys)})")
            return f"{keys_code(scope.source, 'keys', [e.type for e in stream.keys])}, keys"

        place = self._function("e", stream.keys, write)
        decides = stream.alias is None and keys_decide(stream.filter, stream.keys)
        needed = reads(stream.filter, *stream.keys)
        return Stream(stream.event_type, place, self._passes(stream.filter), stream.alias, needed, decides)

    def _hashed(self, stream: c.HashedStream, granularity: int) -> Stream:
        if stream.function in HASHES:
            types = [e.type for e in stream.args]
            inner: x.Expr | None = None
        else:
            inner = x.UserCall(OBJECT, stream.function, stream.args)

        def write(scope: Scope) -> str:
            source, scope = scope.source, scope.at(deciding=True)
            if inner is not None:
                code = lower.value(scope, inner)
            else:
                values = "".join(lower.value(scope, e) + ", " for e in stream.args)
                code = f"{source.bind('_hash', hasher(stream.function, types))}(({values}))"
            return f"{source.bind('_bucket', bucket)}({code}, {source.const(granularity)}), ()"

        place = self._function("e", stream.args, write)
        decides = inner is None and all(map(decided, (stream.filter, *stream.args)))
        needed = reads(stream.filter, *stream.args)
        return Stream(stream.event_type, place, self._passes(stream.filter), None, needed, decides)

    def _matching(self, predicates: Sequence[x.Expr]) -> Callable[[Any], tuple[Any, Sequence[Any]]]:
        """The numbers of the categories that an event belongs to."""

        def write(scope: Scope) -> str:
            source = scope.source
            source.line("found = []")
            for number, predicate in enumerate(predicates):
                with source.block(f"if {lower.passes(scope, predicate)}:"):
                    source.line(f"found.append({number})")
            return "None, found"

        return self._function("e", predicates, write)

    def _passes(self, condition: x.Expr | None) -> Callable[[Any], bool] | None:
        if condition is None:
            return None
        return self._function("e", (condition,), lambda scope: lower.passes(scope, condition))

    # -------------------------------------------------------------- conditions
    def _ending(self, condition: c.Condition | None) -> Form | None:
        return None if condition is None else self._condition(condition)

    def _condition(self, condition: c.Condition) -> Form:
        match condition:
            case c.Now():
                return NowForm()
            case c.OnEvent():
                names = () if condition.alias is None else (condition.alias,)
                test, key = self._test(condition.filter), self.key(condition.filter)
                return EventForm(condition.event_type, names, test, key, self._unfold(condition.contained))
            case c.OnCrontab():
                return TimeForm(self._crontabs(condition.crontabs), crontab=True)
            case c.After():
                return TimeForm(self._period(condition.period), crontab=False)
            case c.OnPattern():
                return self._pattern(condition)
        raise TypeError(f"no form for {type(condition).__name__}")

    def _pattern(self, condition: c.OnPattern) -> PatternForm:
        pattern, alias = condition.pattern, condition.alias
        source = Source()
        code = PatternCode(pattern, self._scope_in(source))
        program = code.program(source.load())
        types = {atom.tag: atom.event_type for atom in pattern.atoms if atom.tag is not None}
        tags = tuple(pattern.match_type.properties)
        replay = tuple((tag, types[tag]) for tag in tags) if condition.inclusive else ()
        keys: dict[str, tuple[Key, ...]] = {}
        for event_type in code.types:
            found = [self.key(atom.filter) for atom in pattern.atoms if atom.event_type == event_type]
            if None not in found:
                keys[event_type] = tuple(key for key in found if key is not None)
        return PatternForm(program, tags if alias is None else (alias,), alias, replay, keys)

    def _test(self, condition: x.Expr | None) -> Test | None:
        if condition is None:
            return None
        return self._function("e, P", (condition,), lambda scope: lower.passes(scope, condition))

    def _unfold(self, contained: Sequence[Contained]) -> Value | None:
        if not contained:
            return None
        source = Source()
        write_unfold(contained, self._scope_in(source).at(partition="P", now="clock.now"), "unfold", "e, P")
        found: Value = source.load()["unfold"]
        return found

    def key(self, condition: x.Expr | None) -> Key | None:
        """The equalities between the event and properties of the node, as a pair of keys."""
        pairs = [pair for part in x.conjuncts(condition) if (pair := _sides(part)) is not None]
        if not pairs:
            return None
        return self._values([event for event, _ in pairs]), self._values([node for _, node in pairs])

    def _values(self, exprs: Sequence[x.Expr]) -> Value:
        """A tuple of values, arrays by content."""

        def write(scope: Scope) -> str:
            codes = (key_code(scope.source, lower.value(scope, e), e.type) for e in exprs)
            return f"({''.join(code + ', ' for code in codes)})"

        return self._function("e, P", exprs, write)

    def _crontabs(self, crontabs: Sequence[Crontab]) -> Callable[[Any, int], int]:
        """The earliest next point of all."""
        operands = [e for crontab in crontabs for e in Schedule(crontab, 1).operands]

        def write(scope: Scope) -> str:
            codes = []
            for crontab in crontabs:
                schedule = Schedule(crontab, scope.second)
                numbers = "".join(f"{lower.value(scope, e)}, " for e in schedule.operands)
                codes.append(f"{scope.source.const(schedule.next_time)}(now, ({numbers}))")
            return codes[0] if len(codes) == 1 else f"min({', '.join(codes)})"

        return self._function("P, now", operands, write)

    def _period(self, period: x.Expr) -> Callable[[Any, int], int]:
        def write(scope: Scope) -> str:
            months: x.Expr | None = None
            rest: x.Expr | None = period
            if isinstance(period, x.Period):
                months, rest = period.months, period.millis
            codes = ["0" if part is None else lower.value(scope, part) for part in (months, rest)]
            return f"{scope.source.bind('_after', after)}(now, {', '.join(codes)}, {scope.calendar})"

        return self._function("P, now", (), write)

    # -------------------------------------------------------------- functions
    def _function(self, parameters: str, exprs: Sequence[x.Expr], write: Callable[[Scope], str]) -> Callable[..., Any]:
        """A function of `parameters` that returns the code that `write` gives; it reads the event `e`."""
        source = Source()
        names = lower.properties(*exprs) if parameters.startswith("e") else []
        props = {name: f"p{i}" for i, name in enumerate(names)}
        now = "now" if "now" in parameters else "clock.now"
        scope = self._scope_in(source).at(props=lower.placed(props), events={0: "e"}, partition="P", now=now)
        with source.block(f"def condition({parameters}):"):
            for name, local in props.items():
                source.line(f"{local} = e.get({source.const(name, 'n')})")
            result = write(scope)
            source.line(f"return {result}")
        found: Callable[..., Any] = source.load()["condition"]
        return found


def after(now: int, months: int | None, units: int | None, second: int, zone: str = "UTC") -> int:
    """A period behind `now`: calendar months in the time zone, then the rest.

    `second` is a second in units of the clock.

    Errors: ValueError for null and negative periods.
    """
    if months is None or units is None:
        raise ValueError("the period of a context's condition is null")
    if months < 0 or units < 0:
        raise ValueError(f"the period of a context's condition is negative: {months} months and {units}")
    if months:
        now = support.add_months(now, months, second, zone)
    return min(now + units, NEVER)


_LATER = (x.Variable, x.CurrentTimestamp, x.UserCall)  # not the same at every event


def _sides(e: x.Expr) -> tuple[x.Expr, x.Expr] | None:
    """An equality as (of the event, of the node)."""
    if not isinstance(e, x.Compare) or e.op != "=":
        return None
    for event, node in ((e.left, e.right), (e.right, e.left)):
        fixed = _reads(node, (x.ContextProp,)) and not _reads(node, (x.Prop, x.EventOf, *_LATER))
        if fixed and _of_event(event) and not _reads(event, (x.ContextProp, *_LATER)):
            return event, node
    return None


def _of_event(e: x.Expr) -> bool:
    """Whether `e` reads the arriving event, and not the match of a pattern so far."""
    streams = {part.stream for part in x.walk(e) if isinstance(part, (x.Prop, x.EventOf))}
    return streams == {EVENT}


def _reads(e: x.Expr, kinds: tuple[type, ...]) -> bool:
    return any(isinstance(part, kinds) for part in x.walk(e))
