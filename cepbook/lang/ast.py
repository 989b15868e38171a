"""The syntax tree of EPL: what was written, nothing decided yet. Frozen, slotted, tuples for children.

Keywords are normalised to lower case, identifiers keep their case and lose their backticks. Every node
carries the `Span` of its text. Nothing here knows types; the binder decides what a name means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as L

from cepbook.errors import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span = field(default=NOWHERE, kw_only=True, compare=False)


# ---------------------------------------------------------------- expressions
@dataclass(frozen=True, slots=True)
class Expr(Node):
    pass


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """`type` is one of byte int long float double string boolean null (by form: 0x10, 5, 5L, 5f, 5.0, 1e3)."""

    value: object
    type: str


@dataclass(frozen=True, slots=True)
class NameStep(Node):
    """One step of a chain: ``name``, ``name[3]``, ``name('key')``, ``name(args)``, each maybe ``?``.

    A call has `args` not None; an index (array property) has `index`. The mapped property ``m('k')`` and
    a function call look alike: the binder decides. `distinct`, `wildcard` are ``f(distinct x)``, ``f(*)``
    (`args` then hold the other arguments); ``f(alias.*)`` has a `Star` among `args`. Named parameters
    (``filter:``, ``group_by:``) are in `named`. ``T[a, b]`` has a `Tuple_` as index; a second index
    (``m[0][1]``) and an index behind a call are a step of their own with the empty name.
    """

    name: str
    args: tuple[Expr, ...] | None = None
    index: Expr | None = None
    optional: bool = False
    distinct: bool = False
    wildcard: bool = False
    named: tuple[tuple[str, tuple[Expr, ...]], ...] = ()
    escaped: bool = False


@dataclass(frozen=True, slots=True)
class Chain(Expr):
    """A dotted chain: property path, function call, method chain, enum constant: ``a.b[0].where(x => x > 1)``."""

    steps: tuple[NameStep, ...]


@dataclass(frozen=True, slots=True)
class Member(Expr):
    """A chain that continues a parenthesised expression, subquery or array: ``(expr).method()``, ``(expr)[0]``."""

    target: Expr
    steps: tuple[NameStep, ...]


@dataclass(frozen=True, slots=True)
class Star(Expr):
    """``*`` as a parameter (``count(*)`` uses NameStep.wildcard) or ``alias.*`` as one."""

    stream: str | None = None


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    op: L["-", "+", "not"]
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """Arithmetic ``+ - * / % & | ^``, concatenation ``||``."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Logical(Expr):
    """``and`` / ``or``, flattened."""

    op: L["and", "or"]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    """``= != < <= > >= is is not``. ``<>`` is normalised to ``!=``."""

    op: L["=", "!=", "<", "<=", ">", ">=", "is", "is not"]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class QuantifiedCompare(Expr):
    """``x > any (…)``, ``x = all (subquery or list)``; ``some`` is normalised to ``any``."""

    op: str
    quantifier: L["any", "all"]
    left: Expr
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Between(Expr):
    operand: Expr
    low: Expr
    high: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In(Expr):
    """``x in (a, b)``; ``x in [low:high)`` has `range_` = the two brackets and two operands."""

    operand: Expr
    operands: tuple[Expr, ...]
    negated: bool = False
    range_: str | None = None


@dataclass(frozen=True, slots=True)
class Like(Expr):
    operand: Expr
    pattern: Expr
    escape: Expr | None = None
    negated: bool = False
    regexp: bool = False


@dataclass(frozen=True, slots=True)
class Case(Expr):
    """``case [operand] when … then … [else …] end``."""

    operand: Expr | None
    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr | None


@dataclass(frozen=True, slots=True)
class ArrayLiteral(Expr):
    """``{1, 2, 3}``"""

    elements: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class NewStruct(Expr):
    """``new { a = 1, b }``"""

    columns: tuple[tuple[str, Expr | None], ...]


@dataclass(frozen=True, slots=True)
class NewInstance(Expr):
    """``new Type(args)``, ``new int[3]``, ``new int[] {1,2}``."""

    type_name: str
    args: tuple[Expr, ...]
    array: bool = False
    dimensions: tuple[Expr | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """``cast(x as type)`` / ``cast(x, type, named: …)``"""

    operand: Expr
    type_name: str
    named: tuple[tuple[str, tuple[Expr, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class TypeTest(Expr):
    """``instanceof(x, t1, t2)``"""

    operand: Expr
    type_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lambda(Expr):
    """``x => expr``, ``(x, i) => expr``"""

    params: tuple[str, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class TimePeriod(Expr):
    """``1 hour 30 min``: (amount, unit) pairs, units normalised to singular long form (``minute``)."""

    parts: tuple[tuple[Expr, str], ...]


@dataclass(frozen=True, slots=True)
class Subquery(Expr):
    """``(select …)``, ``exists (select …)``"""

    select: Select
    exists: bool = False


@dataclass(frozen=True, slots=True)
class InSubquery(Expr):
    """``x in (select …)`` / ``x not in (select …)``"""

    operand: Expr
    select: Select
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Tuple_(Expr):
    """``(a, b)``: composite keys in group by and grouping sets, crontab lists."""

    elements: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class SortKey(Expr):
    """``price desc`` as a parameter of sort windows and of sorted, maxby …; without asc or desc a plain expression."""

    operand: Expr
    descending: bool = False


@dataclass(frozen=True, slots=True)
class CronStep(Expr):
    """One crontab field. `kind` and `operands`: star ``*`` (); step ``*/5`` (5,); range ``2:7`` (2, 7);

    list ``[a, b]`` (fields); last ``last`` (); nth_last ``5 last`` (5,); weekday ``10 weekday`` (10,);
    lastweekday (). A plain number or variable is that expression itself.
    """

    kind: str
    operands: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Crontab(Expr):
    """``(0, 9, *, *, *)``, also ``*crontab*`` parameters of ``timer:at``."""

    fields: tuple[Expr, ...]


# ---------------------------------------------------------------- streams and windows
@dataclass(frozen=True, slots=True)
class Window(Node):
    """``#length(5)``, ``#win:time(1 sec)``, ``.std:unique(a)``; `namespace` None for the first form.

    `name` keeps its written case. Named parameters (``flow``…) are rare and in `named`.
    """

    name: str
    args: tuple[Expr, ...]
    namespace: str | None = None
    has_parens: bool = True
    named: tuple[tuple[str, tuple[Expr, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Annotation(Node):
    """``@Name('x')``, ``@Hint('…')``, ``@Priority(10)``, ``@x(a=1, b={…})``. `value` for one unnamed value."""

    name: str
    value: object = None
    values: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class FilterStream(Node):
    """``EventType(filter, filter)[contained.event]``; filter expressions separated by commas are a conjunction."""

    type_name: str
    filters: tuple[Expr, ...] = ()
    contained: tuple[ContainedStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainedStep(Node):
    """``[select a, b from items as x where …]`` of contained-event selection."""

    path: Expr
    select: tuple[SelectItem, ...] | None = None
    alias: str | None = None
    where: Expr | None = None
    type_name: str | None = None


@dataclass(frozen=True, slots=True)
class PatternStream(Node):
    """``pattern @SuppressOverlappingMatches [ … ]``"""

    pattern: PatternNode
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalStream(Node):
    """``sql:db ['select …']``, ``method:Class.method(args)``"""

    kind: str
    name: str
    args: tuple[Expr, ...] = ()
    text: str | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class StreamSource(Node):
    """One entry of a from-clause: stream, windows, alias and the keywords behind it."""

    stream: FilterStream | PatternStream | ExternalStream
    windows: tuple[Window, ...] = ()
    alias: str | None = None
    unidirectional: bool = False
    retain: L["union", "intersection"] | None = None


@dataclass(frozen=True, slots=True)
class Join(Node):
    """``left outer join b on …`` between the sources so far and the next one."""

    kind: L["inner", "left", "right", "full"]
    on: Expr | None


# ---------------------------------------------------------------- patterns
@dataclass(frozen=True, slots=True)
class PatternNode(Node):
    pass


@dataclass(frozen=True, slots=True)
class PatternFilter(PatternNode):
    tag: str | None
    stream: FilterStream
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternObserver(PatternNode):
    """``timer:interval(5 sec)``, ``timer:at(…)``, ``timer:schedule(…)``"""

    namespace: str
    name: str
    args: tuple[Expr, ...]
    named: tuple[tuple[str, tuple[Expr, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class PatternFollowedBy(PatternNode):
    """``a -> b -[max]> c``: operands and, between them, the optional maximum."""

    operands: tuple[PatternNode, ...]
    maxima: tuple[Expr | None, ...]


@dataclass(frozen=True, slots=True)
class PatternLogical(PatternNode):
    op: L["and", "or"]
    operands: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class PatternNot(PatternNode):
    operand: PatternNode


@dataclass(frozen=True, slots=True)
class PatternEvery(PatternNode):
    """``every``, ``every-distinct(exprs, expiry)``: `distinct` None for plain every."""

    operand: PatternNode
    distinct: tuple[Expr, ...] | None = None


@dataclass(frozen=True, slots=True)
class PatternRepeat(PatternNode):
    """``[3] a``, ``[2:5] a until b``, ``a until b``; bounds None where absent; `exact` for ``[n]``."""

    operand: PatternNode
    low: Expr | None
    high: Expr | None
    until: PatternNode | None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class PatternGuard(PatternNode):
    """``(p) where timer:within(5 sec)``, ``p while (expr)``: `name` "while" has namespace ""."""

    operand: PatternNode
    namespace: str
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MatchRecognize(Node):
    """Clauses of match_recognize: partition by, measures, all matches, after match skip, pattern, interval, define."""

    partition_by: tuple[Expr, ...]
    measures: tuple[SelectItem, ...]
    all_matches: bool
    after: str | None
    pattern: RowPattern
    interval: Expr | None
    or_terminated: bool
    define: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class RowPattern(Node):
    """`kind` is ``atom`` (with `name`), ``seq``, ``alt``, ``permute`` or ``group`` (one operand).

    `quantifier` is None, ``*``, ``+``, ``?``, their reluctant forms ``*?``, ``+?``, ``??``, or ``{n}`` and ``{n,m}``
    with `low` and `high` (None where not written).
    """

    kind: str
    name: str | None = None
    operands: tuple[RowPattern, ...] = ()
    quantifier: str | None = None
    low: Expr | None = None
    high: Expr | None = None


# ---------------------------------------------------------------- select
@dataclass(frozen=True, slots=True)
class SelectItem(Node):
    """``expr [as] alias``, ``*`` (expr None, stream None), ``alias.* [as x]`` (stream set)."""

    expr: Expr | None
    alias: str | None = None
    stream: str | None = None
    wildcard: bool = False
    eventbean: bool = False  # @eventbean annotation behind the item


@dataclass(frozen=True, slots=True)
class OrderItem(Node):
    expr: Expr
    descending: bool = False


@dataclass(frozen=True, slots=True)
class RowLimit(Node):
    """`limit` and `offset`; ``limit a, b`` is offset a, limit b."""

    limit: Expr
    offset: Expr | None = None


@dataclass(frozen=True, slots=True)
class GroupBy(Node):
    """Items are expressions, `Rollup` or `GroupingSets`."""

    items: tuple[Expr | Rollup | GroupingSets, ...]


@dataclass(frozen=True, slots=True)
class Rollup(Node):
    kind: L["rollup", "cube"]
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class GroupingSets(Node):
    items: tuple[Expr | Rollup | GroupingSets, ...]


@dataclass(frozen=True, slots=True)
class Output(Node):
    """The output clause.

    `after`: events (Expr) or time period. `which`: all first last snapshot or None. `kind`: every-events,
    every-time, at, when, terminated, or None (only after). `then_set`: assignments.
    `and_terminated`: the part ``and when terminated [and expr] [then set …]``.
    """

    kind: str | None
    which: str | None = None
    after: Expr | None = None
    rate: Expr | None = None
    crontab: Crontab | None = None
    when: Expr | None = None
    then_set: tuple[Assignment, ...] = ()
    and_terminated: bool = False
    terminated_when: Expr | None = None
    terminated_then: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment(Node):
    """``target = expr`` of set clauses (target: property path, variable, indexed) or a bare call expression."""

    target: Expr | None
    value: Expr


@dataclass(frozen=True, slots=True)
class InsertInto(Node):
    """``insert [istream|rstream|irstream] into Name [(columns)] [partition by …]``"""

    target: str
    selector: str | None = None
    columns: tuple[str, ...] = ()
    event_precedence: Expr | None = None


@dataclass(frozen=True, slots=True)
class Statement(Node):
    annotations: tuple[Annotation, ...] = field(default=(), kw_only=True)
    context: str | None = field(default=None, kw_only=True)
    expressions: tuple[ExpressionDecl, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Select(Statement):
    """The full select statement. `selector` None when none was written (then istream).

    `sources` is empty for ``context X select …`` without from-clause. `joins[i]` joins source i+1;
    comma joins are ``Join("inner", None)``.
    """

    items: tuple[SelectItem, ...]
    sources: tuple[StreamSource, ...] = ()
    joins: tuple[Join, ...] = ()
    selector: str | None = None
    distinct: bool = False
    insert_into: InsertInto | None = None
    where: Expr | None = None
    group_by: GroupBy | None = None
    having: Expr | None = None
    output: Output | None = None
    order_by: tuple[OrderItem, ...] = ()
    limit: RowLimit | None = None
    match_recognize: MatchRecognize | None = None
    into_table: str | None = None  # ``into table T select …``


# ---------------------------------------------------------------- other statements
@dataclass(frozen=True, slots=True)
class ExpressionDecl(Node):
    """``expression name { body }``, ``create expression …``; script dialect in `language`."""

    name: str
    params: tuple[str, ...]
    body: Expr | str
    language: str | None = None
    return_type: str | None = None
    alias: bool = False  # ``expression x alias for { … }``


@dataclass(frozen=True, slots=True)
class CreateExpression(Statement):
    declaration: ExpressionDecl


@dataclass(frozen=True, slots=True)
class ColumnDef(Node):
    """``name type``; ``type[]``, ``type[primitive]``, ``primary key``; `dimensions` counts brackets."""

    name: str
    type_name: str
    dimensions: int = 0
    primitive: bool = False
    primary_key: bool = False
    annotations: tuple[Annotation, ...] = ()
    type_args: tuple[str, ...] = ()  # ``java.util.List<string>``
    aggregate: Expr | None = None  # create table columns such as count(*), sum(double)


@dataclass(frozen=True, slots=True)
class CreateSchema(Statement):
    """`representation` map objectarray json avro bean variant or None; `alias_of` for ``as some.Class``."""

    name: str
    columns: tuple[ColumnDef, ...] = ()
    inherits: tuple[str, ...] = ()
    copyfrom: tuple[str, ...] = ()
    representation: str | None = None
    alias_of: tuple[str, ...] = ()
    start_timestamp: str | None = None
    end_timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class ContextCondition(Node):
    """``@now``, filter, pattern, crontabs, ``after period``; kind: now filter pattern crontab after."""

    kind: str
    stream: FilterStream | None = None
    pattern: PatternNode | None = None
    inclusive: bool = False
    crontabs: tuple[Crontab, ...] = ()
    period: Expr | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class KeyedItem(Node):
    """``a, b from Type(filter) as x`` (keyed), ``hash_code(x) from Type`` (hash: `keys` holds one call)."""

    keys: tuple[Expr, ...]
    stream: FilterStream
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class ContextSpec(Node):
    pass


@dataclass(frozen=True, slots=True)
class KeyedContext(ContextSpec):
    items: tuple[KeyedItem, ...]
    initiated_by: tuple[ContextCondition, ...] = ()
    terminated_by: ContextCondition | None = None


@dataclass(frozen=True, slots=True)
class HashContext(ContextSpec):
    items: tuple[KeyedItem, ...]
    granularity: Expr
    preallocate: bool = False


@dataclass(frozen=True, slots=True)
class CategoryContext(ContextSpec):
    groups: tuple[tuple[Expr, str], ...]
    stream: FilterStream


@dataclass(frozen=True, slots=True)
class NonOverlappingContext(ContextSpec):
    start: ContextCondition
    end: ContextCondition | None


@dataclass(frozen=True, slots=True)
class OverlappingContext(ContextSpec):
    """`also_now` for ``initiated @now and …``; `distinct` keys of ``initiated by distinct(…)``."""

    initiated: ContextCondition
    terminated: ContextCondition | None
    distinct: tuple[Expr, ...] = ()
    also_now: bool = False


@dataclass(frozen=True, slots=True)
class NestedContext(ContextSpec):
    contexts: tuple[tuple[str, ContextSpec], ...]


@dataclass(frozen=True, slots=True)
class CreateContext(Statement):
    name: str
    spec: ContextSpec


@dataclass(frozen=True, slots=True)
class CreateVariable(Statement):
    name: str
    type_name: str
    dimensions: int = 0
    primitive: bool = False
    constant: bool = False
    initial: Expr | None = None


@dataclass(frozen=True, slots=True)
class CreateWindow(Statement):
    name: str
    windows: tuple[Window, ...]
    columns: tuple[ColumnDef, ...] = ()
    as_type: str | None = None
    select: tuple[SelectItem, ...] | None = None
    insert: bool = False
    insert_where: Expr | None = None
    retain: L["union", "intersection"] | None = None


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    name: str
    columns: tuple[ColumnDef, ...]


@dataclass(frozen=True, slots=True)
class CreateIndex(Statement):
    name: str
    target: str
    columns: tuple[tuple[Expr, str], ...]
    unique: bool = False


@dataclass(frozen=True, slots=True)
class OnTrigger(Statement):
    """``on <stream> …``: action is one of the On… nodes."""

    trigger: StreamSource
    action: OnAction


@dataclass(frozen=True, slots=True)
class OnAction(Node):
    pass


@dataclass(frozen=True, slots=True)
class OnSet(OnAction):
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class OnSelect(OnAction):
    """``select [and delete] … from Target as x …``"""

    select: Select
    delete: bool = False


@dataclass(frozen=True, slots=True)
class OnDelete(OnAction):
    target: str
    alias: str | None
    where: Expr | None


@dataclass(frozen=True, slots=True)
class OnUpdate(OnAction):
    target: str
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: Expr | None


@dataclass(frozen=True, slots=True)
class OnMerge(OnAction):
    target: str
    alias: str | None
    where: Expr | None
    branches: tuple[MergeBranch, ...]


@dataclass(frozen=True, slots=True)
class MergeBranch(Node):
    """``when [not] matched [and expr] then …``; `matched` None for the short ``merge X insert select`` form."""

    matched: bool | None
    condition: Expr | None
    actions: tuple[MergeAction, ...]


@dataclass(frozen=True, slots=True)
class MergeAction(Node):
    """kind: insert update delete."""

    kind: str
    into: str | None = None
    columns: tuple[str, ...] = ()
    items: tuple[SelectItem, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class OnSplit(OnAction):
    """``insert into … select … where … insert into … output first|all``"""

    branches: tuple[tuple[InsertInto, tuple[SelectItem, ...], tuple[ContainedStep, ...], Expr | None], ...]
    output_all: bool = False


@dataclass(frozen=True, slots=True)
class UpdateIStream(Statement):
    """``update istream Type as x set … where …``"""

    type_name: str
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: Expr | None


@dataclass(frozen=True, slots=True)
class FafUpdate(Statement):
    """Fire-and-forget ``update Target set …``"""

    target: str
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: Expr | None


@dataclass(frozen=True, slots=True)
class FafDelete(Statement):
    target: str
    alias: str | None
    where: Expr | None


@dataclass(frozen=True, slots=True)
class FafInsert(Statement):
    """``insert into W (cols) values (…)``, several rows; ``insert into W select …`` is a Select."""

    target: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True, slots=True)
class CreateDataflow(Statement):
    """Recognised and refused by the binder; `text` is its body."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Module(Node):
    """``module x.y; uses a.b; import …;`` and the statements, in order."""

    statements: tuple[Statement, ...]
    name: str | None = None
    uses: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
