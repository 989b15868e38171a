"""Event patterns: atoms with correlated filters, operators, observers and guards.

A filter reads the arriving event (`pattern.EVENT_STREAM`) and, if the names are not taken by it, the tags of earlier
steps of a followed-by (`pattern.MATCH_STREAM`). Problems are reported; the tree that results then is not for use.
Source: Esper reference, chapter "EPL Reference: Patterns".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cepbook.errors import Span, did_you_mean, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.contained_events import bind_contained_events
from cepbook.lang.bind.clauses.crontab import bind_crontab
from cepbook.lang.bind.clauses.filter import bind_filter, conjunction
from cepbook.lang.bind.clauses.timer_schedule import bind_schedule
from cepbook.lang.bind.expressions.expression import bind_condition, bind_expr
from cepbook.lang.bind.expressions.time_period import bind_duration
from cepbook.lang.bind.scope import (
    ERROR,
    MATCH_TYPE,
    PATTERN,
    TIMER,
    Scope,
    ScopeStream,
    count_text,
    error_expression,
    type_text,
)
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan import pattern as p
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import walk
from cepbook.lang.types import Type

PATTERN_OBSERVERS = ("interval", "at", "schedule")
PATTERN_GUARDS = ("within", "withinmax")
CONSUME = "consume"
EARLIER_TAGS_HINT = "expressions see the tags of the steps before their `->`"
NO_EVENT_STREAM = ScopeStream(None, EventType("", {}))

Tags = Mapping[str, Type]


def bind_pattern(node: ast.PatternNode, annotations: Sequence[ast.Annotation], scope: Scope) -> p.Pattern:
    """Bind the pattern. `scope` holds the names that its expressions see besides events and tags."""
    known = frozenset(one.tag for one in walk(node) if isinstance(one, ast.PatternFilter) and one.tag is not None)
    binder = _Binder(scope, known)
    root, tags = binder.bind(node, {})
    names = {annotation.name.lower() for annotation in annotations}
    for annotation in annotations:
        _known_annotation(annotation, (ast.SUPPRESS, ast.DISCARD), scope)
    single = {name: type_ for name, type_ in tags.items() if type_.of is None}
    return p.Pattern(
        root,
        EventType(MATCH_TYPE, {**single, **tags}),
        ast.SUPPRESS.lower() in names,
        ast.DISCARD.lower() in names,
        span=node.span,
    )


def _known_annotation(node: ast.Annotation, known: Sequence[str], scope: Scope) -> None:
    if node.name.lower() not in [name.lower() for name in known]:
        hint = did_you_mean(node.name, known) or f"here there is {' and '.join(f'@{name}' for name in known)}"
        scope.report("unknown-annotation", f"`@{node.name}` has no meaning in a pattern", node.span, hint)


def _number(e: x.BoundExpr | None) -> int | None:
    return e.value if isinstance(e, x.Const) and isinstance(e.value, int) else None


@dataclass(slots=True)
class _Binder:
    """Binds one pattern.

    `scope` is that of the whole pattern and `known` are all of its tags. `tags` are the tags so far, `atoms` is the
    number of atoms so far.
    """

    scope: Scope
    known: frozenset[str]
    tags: dict[str, Type] = field(default_factory=dict)
    atoms: int = 0

    def bind(self, node: ast.PatternNode, prior: Tags) -> tuple[p.PatternExpr, Tags]:
        """Return the node and the tags that it fills, in text order; `prior` are the tags of earlier steps."""
        match node:
            case ast.PatternFilter():
                return self.atom(node, prior)
            case ast.PatternObserver():
                return self.observer(node, prior), {}
            case ast.PatternFollowedBy():
                return self.followed_by(node, prior)
            case ast.PatternLogical():
                return self.logical(node, prior)
            case ast.PatternNot():
                operand, tags_below = self.bind(node.operand, prior)
                return p.NotPattern(operand, span=node.span), tags_below
            case ast.PatternEvery():
                return self.every(node, prior)
            case ast.PatternRepeat():
                return self.repeat(node, prior)
            case ast.PatternGuard():
                return self.guard(node, prior)
        raise TypeError(f"no rule for {type(node).__name__}")

    def seeing(
        self, node: ast.Expr, tags: Tags, arriving: ScopeStream = NO_EVENT_STREAM, *, hint: str = EARLIER_TAGS_HINT
    ) -> Scope:
        """Return the scope of `node`: the arriving event, then `tags`. Report other tags that `node` reads."""
        own_type = arriving.event_type
        tags = {name: type_ for name, type_ in tags.items() if name != arriving.alias}
        hidden = self.known.difference(tags, (arriving.alias,), own_type.properties if own_type is not None else ())
        for chain in walk(node) if hidden else ():
            if isinstance(chain, ast.Chain) and chain.steps[0].name in hidden and chain.steps[0].args is None:
                first = chain.steps[0]
                self.scope.report("unknown-property", f"the tag `{first.name}` is not known here", first.span, hint)
        correlated = {**self.unqualified(tags), **self.scope.correlated, **dict.fromkeys(hidden, error_expression())}
        streams = (arriving, ScopeStream(None, EventType(MATCH_TYPE, tags), fallback=True))
        return self.scope.without_aggregates(
            PATTERN,
            streams=streams,
            unwindowed=False,
            data_windows=(),
            no_row_functions=PATTERN,
            unchecked=False,
            correlated=correlated,
        )

    def unqualified(self, tags: Tags) -> dict[str, x.BoundExpr]:
        """Return properties of tagged events that may be written without the tag: those that no variable hides.

        Properties of the first tag win (recorded: timer_interval_with_a_plain_property_name).
        """
        catalog = self.scope.module.catalog
        members: dict[str, x.BoundExpr] = {}
        for tag, type_ in tags.items():
            event_type = catalog.event_types.get(type_.event or "")
            for name, own in (event_type.properties if event_type is not None else {}).items():
                if name not in catalog.variables:
                    members.setdefault(name, x.MemberAccess(own, x.Prop(type_, p.MATCH_STREAM, tag), name))
        return members

    def outside_filters(self, node: ast.Expr, tags: Tags, hint: str = EARLIER_TAGS_HINT) -> Scope:
        return replace(self.seeing(node, tags, hint=hint), no_subqueries=TIMER)

    def value(self, node: ast.Expr, tags: Tags, hint: str = EARLIER_TAGS_HINT) -> x.BoundExpr:
        bound = fold_expr(bind_expr(node, self.outside_filters(node, tags, hint)))
        for subexpr in x.walk(bound):
            if isinstance(subexpr, (x.Prop, x.EventOf)) and subexpr.stream == p.EVENT_STREAM:
                self.scope.wrong("only filters of a pattern read events", subexpr.span)
        return bound

    def duration(self, node: ast.Expr, what: str, tags: Tags) -> x.BoundExpr:
        return bind_duration(self.value(node, tags), what, self.scope)

    def count(self, node: ast.Expr, what: str, tags: Tags, least: int = 1) -> x.BoundExpr:
        """Bind an integer of at least `least`: a constant, or an expression that is read when the part starts."""
        bound = self.value(node, tags, EARLIER_TAGS_HINT if tags else "it is read once, from constants and variables")
        if bound.type not in (t.INT, t.SHORT, t.BYTE, ERROR):
            self.wrong(f"{what} must be an int, found {type_text(bound.type)}", node.span)
        elif (number := _number(bound)) is not None and number < least:
            fact = "must be above 0" if least else "must not be negative"
            self.wrong(f"{what} {fact}, found {number}", node.span)
        return bound

    def wrong(self, fact: str, span: Span, hint: str | None = None) -> None:
        self.scope.wrong(fact, span, hint)

    def atom(self, node: ast.PatternFilter, prior: Tags) -> tuple[p.PatternExpr, Tags]:
        stream = node.stream
        event_type = self.scope.module.event_type(stream.type_name, stream.span)
        store = self.scope.module.catalog.stores.get(stream.type_name)
        if store is not None and store.kind == "table":
            self.wrong(f"`{store.name}` is a table: its rows are not events", stream.span)
        name = "" if stream.type_name in prior else stream.type_name
        arriving = ScopeStream(node.tag, event_type, name, also=name)
        filters = [bind_filter(condition, self.seeing(condition, prior, arriving)) for condition in stream.filters]
        tags: dict[str, Type] = {}
        if node.tag is not None:
            tags[node.tag] = t.event_of(event_type.name) if event_type is not None else ERROR
        contained: tuple[nodes.ContainedSelection, ...] = ()
        if stream.contained and event_type is not None:
            selection = bind_contained_events(stream.contained, arriving, self.scope)
            contained, within = selection if selection is not None else ((), None)
            if node.tag is not None:
                tags[node.tag] = ERROR if within is None else t.array_of(self.event(within))
        if node.tag is not None:
            self.use(node.tag, tags[node.tag], self.scope.module.locate(node.tag, node.span))
        number, self.atoms = self.atoms, self.atoms + 1
        level = self.consumption(node)
        condition = conjunction(filters)
        return p.Atom(number, node.tag, stream.type_name, condition, level, contained, span=node.span), tags

    def event(self, event_type: EventType) -> Type:
        """Return the type of events of `event_type`; a type made by a select-clause is described by its columns."""
        if event_type.name in self.scope.module.catalog.event_types:
            return t.event_of(event_type.name)
        return t.struct_of(tuple(event_type.properties.items()))

    def use(self, tag: str, type_: Type, span: Span) -> None:
        used = self.tags.setdefault(tag, type_)
        again = used is not type_
        if again and (used != type_ or type_.of is not None) and ERROR not in (used, type_):
            fact = f"the tag `{tag}` is {type_text(used)} already"
            self.scope.report("duplicate-name", fact, span, "use another tag")

    def consumption(self, node: ast.PatternFilter) -> int:
        level = 0
        for annotation in node.annotations:
            _known_annotation(annotation, (CONSUME,), self.scope)
            if annotation.name.lower() == CONSUME:
                if annotation.value is None and self.scope.module.text(annotation.span).rstrip().endswith(")"):
                    self.wrong("`@consume()` without a level", annotation.span, "write @consume or @consume(2)")
                consume_level = 1 if annotation.value is None else annotation.value
                if not isinstance(consume_level, int) or isinstance(consume_level, bool) or consume_level < 0:
                    self.wrong("the level of `@consume` must be a whole number, 0 or above", annotation.span)
                else:
                    level = consume_level
        return level

    def observer(self, node: ast.PatternObserver, prior: Tags) -> p.PatternExpr:
        name = node.name.lower()
        if node.namespace.lower() != "timer" or name not in PATTERN_OBSERVERS:
            observer_name = f"{node.namespace}:{node.name}"
            hint = nearest_or_known_names(observer_name, [f"timer:{known}" for known in PATTERN_OBSERVERS])
            self.scope.report("unknown-function", f"no observer `{observer_name}`", node.span, hint)
        elif name == "schedule":
            return bind_schedule(node, lambda value: self.value(value, prior), self.scope)
        elif node.named:
            self.wrong(f"`timer:{name}` has no parameter `{node.named[0][0]}:`", node.span)
        elif name == "at":
            crontab = bind_crontab(node.args, node.span, self.scope, lambda value: self.value(value, prior))
            if crontab is not None:
                return p.CrontabTimer(crontab, span=node.span)
        elif len(node.args) != 1:
            self.wrong(f"`timer:interval` takes 1 parameter, found {len(node.args)}", node.span, "such as 10 sec")
        else:
            return p.IntervalTimer(self.duration(node.args[0], "the period of `timer:interval`", prior), span=node.span)
        return p.IntervalTimer(x.Const(ERROR, None), span=node.span)  # reported

    def followed_by(self, node: ast.PatternFollowedBy, prior: Tags) -> tuple[p.PatternExpr, Tags]:
        operands: list[p.PatternExpr] = []
        tags: dict[str, Type] = {}
        for step in node.operands:
            operand, own = self.bind(step, {**prior, **tags})
            operands.append(operand)
            tags.update(own)
        maxima = tuple(None if m is None else self.count(m, "the maximum of `->`", {}) for m in node.maxima)
        return p.FollowedByPattern(tuple(operands), maxima, span=node.span), tags

    def logical(self, node: ast.PatternLogical, prior: Tags) -> tuple[p.PatternExpr, Tags]:
        """Bind ``and`` or ``or``. The branches of an ``or`` may share tags: only one branch is in a match."""
        operands: list[p.PatternExpr] = []
        tags: dict[str, Type] = {}
        before = self.tags
        for branch in node.operands:
            if node.op == "or":
                self.tags = dict(before)
            operand, own = self.bind(branch, prior)
            operands.append(operand)
            tags.update({name: self.joint(tags.get(name, type_), type_) for name, type_ in own.items()})
        self.tags = {**before, **tags}
        return p.LogicalPattern(node.op, tuple(operands), span=node.span), tags

    def joint(self, one: Type, other: Type) -> Type:
        """Return the type of a tag that has both types: the more general one, or a map if they are not related."""
        if one == other or ERROR in (one, other):
            return one
        if one.of is not None and other.of is not None:
            return t.array_of(self.joint(one.of, other.of))
        for below, above in ((one, other), (other, one)):
            if below.event and above.event and self.scope.module.catalog.is_a(below.event, above.event):
                return above
        return t.MAP if one.of is None and other.of is None else t.OBJECT

    def every(self, node: ast.PatternEvery, prior: Tags) -> tuple[p.PatternExpr, Tags]:
        operand, tags = self.bind(node.operand, prior)
        if node.distinct is None:
            return p.EveryPattern(operand, span=node.span), tags
        keys: list[x.BoundExpr] = []
        expiry: x.BoundExpr | None = None
        for position, key in enumerate(node.distinct):
            bound = self.value(key, tags, "keys read the tags of the sub-expression after them")
            last = position == len(node.distinct) - 1
            if last and (isinstance(bound, x.Period) or (keys and isinstance(bound, x.Const))):
                expiry = bind_duration(bound, "the expiry of `every-distinct`", self.scope)
            elif bound.type != ERROR and not any(isinstance(subexpr, x.Prop) for subexpr in x.walk(bound)):
                self.wrong("a key of `every-distinct` must read a tag of its own sub-expression", key.span)
            else:
                keys.append(bound)
        if expiry is not None and not keys:
            self.wrong("`every-distinct` needs a key", node.span, "such as every-distinct(a.id) a=A")
        return p.EveryPattern(operand, tuple(keys), expiry, span=node.span), tags

    def repeat(self, node: ast.PatternRepeat, prior: Tags) -> tuple[p.PatternExpr, Tags]:
        outside, self.tags = self.tags, {}
        operand, own = self.bind(node.operand, prior)
        self.tags = outside
        arrays = {name: type_ if type_ == ERROR or type_.of else t.array_of(type_) for name, type_ in own.items()}
        for name, type_ in arrays.items():
            self.use(name, type_, self.scope.module.locate(name, node.span))
        until, after = (None, {}) if node.until is None else self.bind(node.until, prior)
        which, least = ("number", 1) if node.exact else ("lower bound", 0)
        low = None if node.low is None else self.count(node.low, f"the {which} of a repeat", prior, least)
        high = low
        if not node.exact:
            high = None if node.high is None else self.count(node.high, "the upper bound of a repeat", prior)
        same = _number(low) is not None and _number(low) == _number(high)
        if until is None and not node.exact and not same:
            hint = "such as [2:] a=A until b=B, in parentheses under every"
            self.wrong("a repeat with a range needs `until`", node.span, hint)
        lowest, highest = _number(low), _number(high)
        if lowest is not None and highest is not None and lowest > highest:
            self.wrong(f"the bounds of a repeat run backwards: {lowest} to {highest}", node.span)
        return p.RepeatPattern(operand, low, high, until, tuple(own), span=node.span), {**arrays, **after}

    def guard(self, node: ast.PatternGuard, prior: Tags) -> tuple[p.PatternExpr, Tags]:
        operand, tags = self.bind(node.operand, prior)
        name = node.name.lower()
        if node.namespace == "" and name == "while":
            seen = self.outside_filters(node.args[0], {**prior, **tags})
            condition = bind_condition(node.args[0], seen, "the condition of `while`")
            return p.WhileGuard(operand, condition, span=node.span), tags
        if node.namespace.lower() != "timer" or name not in PATTERN_GUARDS:
            guard_name = f"{node.namespace}:{node.name}"
            hint = nearest_or_known_names(guard_name, [f"timer:{known}" for known in PATTERN_GUARDS])
            self.scope.report("unknown-function", f"no guard `{guard_name}`", node.span, hint)
            return operand, tags
        parameter_count = 1 if name == "within" else 2
        if len(node.args) != parameter_count:
            takes = count_text(parameter_count, parameter_count)
            fact = f"`timer:{name}` takes {takes}, found {len(node.args)}"
            self.wrong(fact, node.span, "such as timer:within(10 sec), timer:withinmax(10 sec, 3)")
            return operand, tags
        period = self.duration(node.args[0], f"the period of `timer:{name}`", prior)
        what = "the number of matches of `timer:withinmax`"
        count = None if name == "within" else self.count(node.args[1], what, prior, 0)
        return p.WithinGuard(operand, period, count, span=node.span), tags
