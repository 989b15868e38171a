"""Code generation for patterns: functions in generated source, and the tree of specs that calls them.

`PatternCodegen` writes all functions when it is created, into the source of a statement or into a source of its own.
After that source is loaded, `program` returns the specs with its functions. So a method that writes a function returns
a callable, which returns the function from the namespace of a loaded source: statements of one shape share the source
and have a namespace each.

The functions of specs take (event, match, context partition, now). Those of groups of atoms (``select``, ``entry``,
``pick``) have the parameters that `AtomGroup` names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.fragments.unnest import write_unnest
from cepbook.engine.patterns.atom_filters import AtomFilter, split_filter
from cepbook.engine.patterns.atoms import AtomSpec, expression_text
from cepbook.engine.patterns.chain_forms import chain_form
from cepbook.engine.patterns.matcher import AtomGroup, PatternProgram
from cepbook.engine.patterns.observers import (
    CrontabTime,
    ObserverSpec,
    ScheduleSpec,
    WhileSpec,
    WithinSpec,
)
from cepbook.engine.patterns.operators import AndSpec, EverySpec, FollowedBySpec, NotSpec, OrSpec, RepeatSpec
from cepbook.engine.patterns.state_node import PatternFunction, PatternSpec
from cepbook.engine.subscriptions.filter_index import IndexCondition, index_conditions, leading_conditions
from cepbook.engine.time.calendar_periods import period_after
from cepbook.engine.time.crontab import CrontabSchedule
from cepbook.errors import Span
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import pattern as p
from cepbook.lang.plan.placeholder import ConstantRead
from cepbook.lang.plan.places import places_in
from cepbook.lang.tree_builder import NotUniform, compile_builder
from cepbook.lang.types import BOOLEAN, EXACT_KEY_TYPES

Namespace = Mapping[str, Any]
_Alternatives = tuple[tuple[IndexCondition, ...], ...]
# of a pattern its atoms, and by event type the alternatives and the common condition of the atoms
_PatternFacts = tuple[tuple[p.Atom, ...], Mapping[str, _Alternatives], Mapping[str, x.BoundExpr]]
_NOT_IN_COLUMNS = (x.VariableRead, x.CurrentTimestamp, x.ContextProp, x.UserCall, x.EventOf)


class PatternCodegen:
    """Writes the functions of one pattern; names begin with `prefix`.

    A statement that receives its events through `AtomGroup.entry` passes as `matcher` the code of the matcher in its
    state ``S``. Without a `matcher` no entries are written.
    """

    def __init__(self, pattern: p.Pattern, scope: CodeScope, prefix: str = "pattern", matcher: str = "") -> None:
        self.pattern = pattern
        self.source: SourceWriter = scope.source
        self.tags = tuple(pattern.match_type.properties)
        self._positions = {tag: i for i, tag in enumerate(self.tags)}
        self._tagged = lower.property_codes({tag: f"m[{i}]" for tag, i in self._positions.items()}, p.MATCH_STREAM)
        own = scope.at(props=self._tagged, partition="P", state="state_of(P)", now="now")
        self._scope = own.at(events={p.EVENT_STREAM: "e"})
        self._prefix = prefix
        self._count = 0
        self._pattern_atoms = pattern.atoms
        self._filters = [split_filter(atom.filter) for atom in self._pattern_atoms]
        self._under_every = {id(repeated) for node in p.walk(pattern.root) for repeated in node.repeated}
        self._negated = {atom.number for node in p.walk(pattern.root) for atom in node.absent}
        self._atoms = [self._atom(atom, parts) for atom, parts in zip(self._pattern_atoms, self._filters, strict=True)]
        self._selects = {name: self._select(name) for name in self.types}
        self._entries = {name: self._entry(name, matcher) for name in self.types} if matcher else {}
        self._picks = {name: self._pick(name) for name in self.types}
        self._root = self._build(pattern.root)
        self._build_facts: Callable[[p.Pattern], _PatternFacts] | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """The event types of the atoms, without repetition."""
        return tuple(dict.fromkeys(atom.event_type for atom in self._pattern_atoms))

    def _conditions(self, filters: Sequence[AtomFilter]) -> dict[str, x.BoundExpr]:
        """Return the conditions that all atoms of a type have in common, by type."""
        by_type: dict[str, list[tuple[x.BoundExpr, ...]]] = {}
        for atom, parts in zip(self._pattern_atoms, filters, strict=True):
            by_type.setdefault(atom.event_type, []).append(parts.event)
        common = {
            name: [e for e in first if all(e in conditions for conditions in others)]
            for name, (first, *others) in by_type.items()
        }
        return {name: _all(exprs) for name, exprs in common.items() if exprs}

    def program(self, namespace: Namespace, pattern: p.Pattern | None = None) -> PatternProgram:
        """Return the compiled pattern with the functions of the loaded source: this one, or a `pattern` that differs
        from it in constants only.
        """
        own = self.pattern if pattern is None else pattern
        nodes, alternatives, conditions = self._facts(own)
        atoms = tuple([make(node, namespace) for make, node in zip(self._atoms, nodes, strict=True)])
        groups = []
        for name, select in self._selects.items():
            of_type = tuple([atom for atom, node in zip(atoms, nodes, strict=True) if node.event_type == name])
            pick = self._picks[name]
            picking = None if pick is None else namespace[pick]
            entry = namespace[self._entries[name]] if self._entries else None
            groups.append(AtomGroup(name, namespace[select], of_type, {}, picking, alternatives[name], entry))
        return PatternProgram(
            self._root(atoms, namespace),
            self.tags,
            atoms,
            tuple(groups),
            self.pattern.suppress_overlapping,
            self.pattern.discard_partials,
            conditions,
            partial(chain_form, own),
        )

    def _facts(self, pattern: p.Pattern) -> _PatternFacts:
        """Return the facts of a pattern that differs in constants only. A builder returns them for the patterns after
        the first one, if no fact depends on the constants.
        """
        if pattern is self.pattern:
            return self._computed_facts(pattern, self._filters)
        if self._build_facts is None:
            try:
                facts = self._computed_facts(self.pattern, self._filters)
                self._build_facts = compile_builder("pattern", facts, places_in("pattern", self.pattern))
            except (ConstantRead, NotUniform, TypeError):
                self._build_facts = lambda other: self._computed_facts(
                    other, [split_filter(atom.filter) for atom in other.atoms]
                )
        return self._build_facts(pattern)

    def _computed_facts(self, pattern: p.Pattern, filters: Sequence[AtomFilter]) -> _PatternFacts:
        alternatives = {name: self._alternatives(name, filters) for name in self._selects}
        return pattern.atoms, alternatives, self._conditions(filters)

    def _new_name(self, kind: str = "") -> str:
        self._count += 1
        return f"{self._prefix}_{kind}{self._count - 1}"

    def _function(self, exprs: Sequence[x.BoundExpr], write: Callable[[CodeScope], None], span: Span) -> _Load:
        """Write a function over the event and tags that `exprs` read."""
        name = self._new_name()
        with self.source.block(f"def {name}(e, m, P, now):", span):
            write(self._read_event(exprs, self._scope))
        return itemgetter(name)

    def _read_event(self, exprs: Sequence[x.BoundExpr], scope: CodeScope) -> CodeScope:
        """Write the properties of the event that `exprs` read into locals; return the scope of `exprs`."""
        names = lower.property_names(*exprs, at=p.EVENT_STREAM)
        keys = [(f"p{i}", self.source.const(name, "n")) for i, name in enumerate(names)]
        if keys:
            with self.source.block("try:"):
                for target, key in keys:
                    self.source.line(f"{target} = e[{key}]")
            with self.source.block("except KeyError:"):
                for target, key in keys:
                    self.source.line(f"{target} = e.get({key})")
        return self._scope_of_properties(names, scope)

    def _scope_of_properties(self, names: Sequence[str], scope: CodeScope) -> CodeScope:
        """Return the scope in which the event's properties `names` are the locals ``p0``, ``p1`` and so on."""
        own = {name: f"p{i}" for i, name in enumerate(names)}
        return scope.at(props={**self._tagged, **lower.property_codes(own, p.EVENT_STREAM)})

    def _expression_function(self, exprs: Sequence[x.BoundExpr], code: Callable[[CodeScope], str], span: Span) -> _Load:
        return self._function(exprs, lambda scope: self.source.line(f"return {code(scope)}", span), span)

    def _condition(self, exprs: Sequence[x.BoundExpr]) -> _Load | None:
        if not exprs:
            return None
        condition = _all(exprs)
        return self._expression_function(exprs, lambda scope: lower.filter_condition(scope, condition), condition.span)

    def _value(self, e: x.BoundExpr) -> _Load:
        return self._expression_function([e], lambda scope: lower.value(scope, e), e.span)

    def _key(self, exprs: Sequence[x.BoundExpr]) -> _Load | None:
        """Write a lookup key. It is None if a value is null or NaN, which equal nothing."""
        if not exprs:
            return None

        def write(scope: CodeScope) -> None:
            for i, e in enumerate(exprs):
                self.source.line(f"k{i} = {lower.value(scope.at(deciding=True), e)}", e.span)
                is_nan = "" if e.type.name in EXACT_KEY_TYPES else f" or k{i} != k{i}"
                with self.source.block(f"if k{i} is None{is_nan}:"):
                    self.source.line("return None")
            names = [f"k{i}" for i in range(len(exprs))]
            self.source.line(f"return {names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'}")

        return self._function(exprs, write, exprs[0].span)

    def _time(self, period: x.BoundExpr) -> _Load:
        if isinstance(period.constant_millis, int):
            after = self.source.const(period.constant_millis)
            return self._expression_function([period], lambda _: f"now + {after}", period.span)
        return self._expression_function(
            [period], lambda scope: lower.period_code(scope, "now", period, period_after), period.span
        )

    def _select(self, event_type: str) -> str:
        """Write ``select(e, P, now)``, which returns by bits the atoms of a type that an event may satisfy."""
        name = self._new_name("select_")
        with self.source.block(f"def {name}(e, P, now):"):
            self._write_bits(event_type, self._scope)
            self.source.line("return bits")
        return name

    def _entry(self, event_type: str, matcher: str) -> str:
        """Write ``entry(known, clock, take)``. It returns a function (event, state or `known`) that calls
        ``take(e, S, bits)``, without `bits` after a failure, unless the event is for no atom.
        """
        name, source = self._new_name("entry_"), self.source
        with source.block(f"def {name}(known, clock, take):"):
            with source.block("def on_event(e, S=known):"):
                with source.block("try:"):
                    self._write_bits(event_type, self._scope.at(partition="S.partition", state="S", now="clock.now"))
                with source.block("except Exception:"):  # the matcher reports it, if an atom waits
                    source.line("bits = None")
                with source.block(f"if bits == 0 and not {matcher}.completed:"):
                    source.line("return False")  # most events are for no atom, and end here
                source.line("return take(e, S, bits)")
            source.line("return on_event")
        return name

    def _write_bits(self, event_type: str, scope: CodeScope) -> None:
        conditions = [
            parts.event
            for atom, parts in zip(self._pattern_atoms, self._filters, strict=True)
            if atom.event_type == event_type
        ]
        scope = self._read_event([e for parts in conditions for e in parts], scope)
        self.source.line(f"bits = {sum(1 << i for i, parts in enumerate(conditions) if not parts)}")
        for i, parts in enumerate(conditions):
            if parts:
                with self.source.block(f"if {lower.filter_condition(scope, _all(parts))}:", parts[0].span):
                    self.source.line(f"bits |= {1 << i}")

    def _pick(self, event_type: str) -> str | None:
        """Write ``pick(columns)``, which returns per event whether an atom may take it; None if columns alone do not
        decide.
        """
        atoms = zip(self._pattern_atoms, self._filters, strict=True)
        conditions = [parts.event for atom, parts in atoms if atom.event_type == event_type]
        exprs = [e for parts in conditions for e in parts]
        if not all(conditions) or any(isinstance(q, _NOT_IN_COLUMNS) for e in exprs for q in x.walk(e)):
            return None
        names = lower.property_names(*exprs, at=p.EVENT_STREAM)
        if not names:
            return None
        name, source = self._new_name("pick_"), self.source
        scope = self._scope_of_properties(names, self._scope)
        condition = " or ".join(lower.truth(scope, _all(parts)) for parts in conditions)
        with source.block(f"def {name}(columns):"):
            columns = ", ".join(f"columns[{source.const(name, 'n')}]" for name in names)
            rows = ", ".join(f"p{i}" for i in range(len(names)))
            columns_code = columns if len(names) == 1 else f"zip({columns})"
            source.line(f"return [{condition} for {rows} in {columns_code}]")
        return name

    def _alternatives(self, event_type: str, filters: Sequence[AtomFilter]) -> _Alternatives:
        """Return the simple conditions of each atom of a type; none if a condition of an atom is not simple."""
        atoms = zip(self._pattern_atoms, filters, strict=True)
        conditions = [parts.event for atom, parts in atoms if atom.event_type == event_type]
        simple = all(parts and all(map(index_conditions, parts)) for parts in conditions)
        return tuple(map(leading_conditions, conditions)) if simple else ()

    def _atom(self, atom: p.Atom, parts: AtomFilter) -> Callable[[p.Atom, Namespace], AtomSpec]:
        test = self._condition(parts.event)
        event_key = self._key([event for event, _ in parts.keys])
        match_key = self._key([match for _, match in parts.keys])
        bound = parts.bound
        event_bound = None if bound is None else self._key([bound.event])
        match_bound = None if bound is None else self._key([bound.match])
        rest = self._condition(parts.rest)
        unfold = self._unfold(atom)
        stays = id(atom) in self._under_every
        return lambda node, loaded: AtomSpec(
            number=atom.number,
            node=node,
            position=None if atom.tag is None else self._positions[atom.tag],
            consume=atom.consume,
            stays=stays,
            negated=atom.number in self._negated,
            test=_loaded(test, loaded),
            event_key=_loaded(event_key, loaded),
            match_key=_loaded(match_key, loaded),
            event_bound=_loaded(event_bound, loaded),
            match_bound=_loaded(match_bound, loaded),
            op=None if bound is None else bound.op,
            rest=_loaded(rest, loaded),
            unfold=_loaded(unfold, loaded),
        )

    def _unfold(self, atom: p.Atom) -> _Load | None:
        if not atom.contained:
            return None
        name = self._new_name()
        write_unnest(atom.contained, self._scope, name, "e, m, P, now")
        return itemgetter(name)

    def _build(self, node: p.PatternExpr) -> _Make:
        """Write the functions of `node`. The result makes its spec, given the atoms."""
        match node:
            case p.Atom():
                return lambda atoms, _: atoms[node.number]
            case p.FollowedByPattern():
                steps = [self._build(operand) for operand in node.operands]
                maxima = [None, *(None if e is None else self._value(e) for e in node.maxima)]
                return lambda atoms, loaded: FollowedBySpec(
                    tuple(step(atoms, loaded) for step in steps), tuple(_loaded(maximum, loaded) for maximum in maxima)
                )
            case p.LogicalPattern():
                return self._logical(node)
            case p.NotPattern():
                below = self._build(node.operand)
                return lambda atoms, loaded: NotSpec(below(atoms, loaded))
            case p.EveryPattern():
                return self._every(node)
            case p.RepeatPattern():
                return self._repeat(node)
            case p.WithinGuard():
                below, due = self._build(node.operand), self._time(node.period)
                most = None if node.count is None else self._value(node.count)
                return lambda atoms, loaded: WithinSpec(below(atoms, loaded), due(loaded), _loaded(most, loaded))
            case p.WhileGuard():
                below = self._build(node.operand)
                predicate = node.condition
                condition = self._expression_function(
                    [predicate], lambda scope: lower.truth(scope, predicate), predicate.span
                )
                return lambda atoms, loaded: WhileSpec(below(atoms, loaded), condition(loaded))
        return self._observer(node)

    def _logical(self, node: p.LogicalPattern) -> _Make:
        operands = [self._build(operand) for operand in node.operands]
        if node.op == "or":
            return lambda atoms, loaded: OrSpec(tuple(operand(atoms, loaded) for operand in operands))
        positions = self._positions  # of tags in the list of a match
        tagged = [[atom.tag for atom in operand.atoms if atom.tag is not None] for operand in node.operands]
        tags = tuple(tuple(map(positions.__getitem__, names)) for names in tagged)
        return lambda atoms, loaded: AndSpec(tuple(operand(atoms, loaded) for operand in operands), tags, node.negated)

    def _every(self, node: p.EveryPattern) -> _Make:
        operand = node.operand
        below = self._build(operand)
        keys = expiry = None
        if node.keys is not None:
            keys = self._expression_function(
                node.keys, lambda scope: self._key_tuple(scope, node.keys or ()), node.span
            )
            expiry = None if node.expiry is None else self._time(node.expiry)
        return lambda atoms, loaded: EverySpec(
            below(atoms, loaded), operand.respawns, operand.restarts, _loaded(keys, loaded), _loaded(expiry, loaded)
        )

    def _key_tuple(self, scope: CodeScope, exprs: Sequence[x.BoundExpr]) -> str:
        """Return code of a tuple as a key. Arrays compare by content, and null is a value."""
        codes = [key_code(self.source, lower.value(scope, e), e.type) for e in exprs]
        return "(" + "".join(f"{code}, " for code in codes) + ")"

    def _repeat(self, node: p.RepeatPattern) -> _Make:
        below = self._build(node.operand)
        until = None if node.until is None else self._build(node.until)
        check = self.source.bind("_bounds", repeat_bounds)
        limit_exprs = [e for e in (node.low, node.high) if e is not None]

        def code(scope: CodeScope) -> str:
            low = "0" if node.low is None else lower.value(scope, node.low)
            high = "_ABSENT" if node.high is None else lower.value(scope, node.high)
            return f"{check}({low}, {high})"

        self.source.bind("_ABSENT", NO_UPPER_BOUND)
        limits = self._expression_function(limit_exprs, code, node.span)
        tags = tuple(self._positions[tag] for tag in node.tags)
        return lambda atoms, loaded: RepeatSpec(
            below(atoms, loaded), None if until is None else until(atoms, loaded), limits(loaded), tags
        )

    def _observer(self, node: p.PatternExpr) -> _Make:
        if isinstance(node, p.IntervalTimer):
            due = self._time(node.period)
            interval = f"timer:interval({expression_text(node.period)})"
            return lambda _, loaded: ObserverSpec(interval, due(loaded))
        if isinstance(node, p.CrontabTimer):
            schedule = CrontabSchedule(node.crontab, self._scope.second)
            numbers = schedule.operands
            operands = self._expression_function(numbers, lambda scope: self._values(scope, numbers), node.span)
            return lambda _, loaded: ObserverSpec("timer:at", CrontabTime(schedule, operands(loaded)))
        if not isinstance(node, p.ScheduleTimer):
            raise TypeError(f"no rule for {type(node).__name__}")
        points = [node.date, node.repetitions]
        points_function = self._expression_function(
            [e for e in points if e is not None],
            lambda scope: "(" + ", ".join("None" if e is None else lower.value(scope, e) for e in points) + ")",
            node.span,
        )
        after = None if node.period is None else self._time(node.period)
        repeats = node is self.pattern.root or id(node) in self._under_every
        fixed_period = node.period is None or node.period.period_parts[0] is None
        return lambda _, loaded: ScheduleSpec(
            "timer:schedule", points_function(loaded), _loaded(after, loaded), fixed_period, repeats, node.delayed
        )

    def _values(self, scope: CodeScope, exprs: Sequence[x.BoundExpr]) -> str:
        return "(" + "".join(f"{lower.value(scope, e)}, " for e in exprs) + ")"


_Load = Callable[[Namespace], PatternFunction]
_Make = Callable[[Sequence[AtomSpec], Namespace], PatternSpec]  # makes the spec of a node, given all atoms
NO_UPPER_BOUND = -1


def repeat_bounds(low: int | None, high: int | None) -> tuple[int, int | None]:
    """Return (lowest, highest) number of matches of a repeat, None for no highest. The lowest may be 0.

    Errors: ValueError for null, for a bound that is too low, and for a lowest above the highest.
    """
    if low is None or high is None:
        raise ValueError("a bound of a repeat is null")
    if low < 0 or (high != NO_UPPER_BOUND and high < 1):
        raise ValueError(f"a bound of a repeat is too low: {low if low < 0 else high}")
    if high != NO_UPPER_BOUND and low > high:
        raise ValueError(f"the bounds of a repeat run backwards: {low} to {high}")
    return low, None if high == NO_UPPER_BOUND else high


def _loaded(function: _Load | None, namespace: Namespace) -> PatternFunction | None:
    return None if function is None else function(namespace)


def _all(exprs: Sequence[x.BoundExpr]) -> x.BoundExpr:
    first = exprs[0]
    if len(exprs) == 1:
        return first
    return x.Logic(BOOLEAN, "and", tuple(exprs), span=first.span)
