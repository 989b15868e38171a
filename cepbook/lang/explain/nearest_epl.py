"""The EPL nearest to a plan, for ``%epl show epl``; comments say what EPL cannot express.

A plan can say more than EPL: statements that take part in activations process everything that arrives together as one
change, give values where EPL gives null, or use windows that Esper lacks.
"""

from __future__ import annotations

from collections.abc import Callable

from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.cycles import DEAD, NEW, STATUS, CycleStage
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax.source_text import EPL, dialect_of


def nearest_epl(module: plan.ModulePlan) -> str:
    """Return the statements of a module as EPL."""
    return ";\n\n".join(_statement(statement, dialect_of(module.source) == EPL) for statement in module.statements)


def _statement(statement: plan.StatementPlan, is_epl: bool) -> str:
    if isinstance(statement, plan.CreateSchemaStatement):
        columns = ", ".join(f"{_name(name)} {of}" for name, of in statement.event_type.properties.items())
        return f"create schema {_name(statement.event_type.name)}({columns})"
    if isinstance(statement, plan.CycleStatement):
        return _nearest_cycle(statement)
    if not isinstance(statement, plan.SelectStatement) or (is_epl and not statement.lots):
        return statement.epl
    return _Text(statement).text()


def _name(name: str) -> str:
    return name if name.replace("_", "a").isalnum() else f"`{name}`"


class _Text:
    def __init__(self, statement: plan.SelectStatement) -> None:
        self.statement = statement
        self.differs: list[str] = []
        self.aliases = [source.alias or f"s{number}" for number, source in enumerate(statement.sources)]
        self.calls: tuple[plan.AggregateCall, ...] = ()
        self.keys: tuple[x.BoundExpr, ...] = ()

    def text(self) -> str:
        statement = self.statement
        nodes = list(plan.chain(statement.root))
        aggregation = next((node for node in nodes if isinstance(node, plan.Aggregation)), None)
        if aggregation is not None:
            self.calls, self.keys = aggregation.calls, aggregation.keys
        lines = [f"@name('{statement.name}')"]
        if statement.insert is not None:
            lines.append(f"insert into {_name(statement.insert.target)}")
        word = "" if statement.selector == "istream" else f"{statement.selector} "
        columns = ", ".join(f"{self.of(c.value)} as {_name(c.name)}" for c in statement.root.columns)
        lines.append(f"select {word}{columns}")
        streams = [self._stream(stream, n) for n, stream in enumerate(plan.streams(statement.root))]
        lines.append(f"from {', '.join(streams)}")
        where = [*self._on(), *(node.predicate for node in nodes if isinstance(node, plan.Selection))]
        lines += [f"where {' and '.join(map(self.of, where))}"] if where else []
        lines += [f"group by {', '.join(map(self.of, self.keys))}"] if self.keys else []
        lines += [f"having {self.of(node.predicate)}" for node in nodes if isinstance(node, plan.Having)]
        return "\n".join([*self._notes(), *lines])

    def _notes(self) -> list[str]:
        names = [window.name for window in self.statement.windows]
        ours = [f"#{name}" for name in dict.fromkeys(names) if not WINDOWS[name].esper and not WINDOWS[name].passing]
        notes = [f"{', '.join(ours)}: Esper has no such window, this workbench has"] if ours else []
        notes += self.differs
        many = [name for name, stream in zip(self.aliases, self.statement.sources, strict=True) if stream.lot]
        if many:
            notes.append(f"{', '.join(many)} comes in lots: what arrives together is one change, here it is one by one")
        if any(WINDOWS[name].timed for name in names):
            notes.append("the clock stops whenever something is due, as an advance with stepping does")
        return [f"// {note}" for note in notes]

    def _on(self) -> list[x.BoundExpr]:
        join = self.statement.join
        return [] if join is None else [stream.on for stream in join.inputs if stream.on is not None]

    def _stream(self, stream: plan.StreamNode, number: int) -> str:
        source = plan.source_of(stream)
        self.aliases[number], alias = (
            "",
            self.aliases[number],
        )  # in filters and windows nothing stands before properties
        filtered = "" if source.filter is None else f"({self.of(source.filter, 0, number)})"
        windows = stream.windows if isinstance(stream, plan.Windowed) else ()
        window_texts = "".join(self._window(window, number) for window in windows)
        self.aliases[number] = alias
        if any(window.row.passing for window in windows):
            if len(self.aliases) > 1:
                self.differs.append(f"{alias} is joined when it arrives, and is not there for others")
            else:
                self.differs.append("aggregates begin anew with what arrives together") if self.calls else None
        one_way = " unidirectional" if len(self.aliases) > 1 and any(w.row.passing for w in windows) else ""
        return f"{_name(source.event_type)}{filtered}{window_texts} as {_name(alias)}{one_way}"

    def _window(self, window: plan.WindowSpec, number: int) -> str:
        if window.row.passing and (len(self.aliases) > 1 or not self.calls):
            return ""  # events pass
        args = ", ".join(self.of(arg, 0, number) for arg in window.args)
        return f"#{window.name}({args})" if args else f"#{window.name}"

    def of(self, e: x.BoundExpr, stream: int | None = None, number: int = 0) -> str:
        """Return `e` as EPL. In a filter or window `stream` stands for the events of input `number`."""

        def show(inner: x.BoundExpr) -> str:
            return self.of(inner, stream, number)

        match e:
            case x.Prop():
                alias = "" if stream is not None else self.aliases[e.stream]
                return f"{alias}.{_name(e.name)}" if alias else _name(e.name)
            case x.EventOf() if stream is None:
                return _name(self.aliases[e.stream])
            case x.MemberAccess():
                return f"{show(e.target)}.{_name(e.name)}"
            case x.Period(months=None, millis=x.Const(value=int(millis))):
                return f"{millis // 1000} sec" if millis % 1000 == 0 else f"{millis} msec"
            case x.AggregateRef():
                return self._call(self.calls[e.index])
            case x.KeyRef():
                return self.of(self.keys[e.index])
            case x.FunctionCall(args=(x.BoundExpr() as value, x.Const(value=float(nan)))) if (
                nan != nan and e.name in FUNCTIONS and FUNCTIONS[e.name].nulls == "skipped"
            ):
                self._once("where EPL gives null this gives NaN")
                return show(value)
            case x.FunctionCall() if e.name in FUNCTIONS and FUNCTIONS[e.name].epl:
                return FUNCTIONS[e.name].epl.format(*map(show, e.args))
            case x.FunctionCall() if e.name in FUNCTIONS and " " not in e.name:
                return f"{e.name}({', '.join(map(show, e.args))})"
            case x.Const(value=float(value)) if value != value or abs(value) == float("inf"):
                return "Double.NaN" if value != value else f"Double.{'POSITIVE' if value > 0 else 'NEGATIVE'}_INFINITY"
            case x.Convert():
                return f"cast({show(e.operand)}, {e.type})"
            case x.BooleanCheck():
                return show(e.operand)
            case x.LogicalNot():
                return f"not ({show(e.operand)})"
            case x.Negate():
                return f"-({show(e.operand)})"
            case x.Concat():
                return " || ".join(map(show, e.operands))
            case x.ComparisonExpr() | x.Arith():
                return f"{self._side(e.left, show)} {e.op} {self._side(e.right, show)}"
            case x.Logic():
                return f" {e.op} ".join(self._side(operand, show) for operand in e.operands)
        return show_expr(e)

    def _side(self, e: x.BoundExpr, show: Callable[[x.BoundExpr], str]) -> str:
        compound = isinstance(e, (x.ComparisonExpr, x.Arith, x.Logic, x.Concat))
        return f"({show(e)})" if compound else show(e)

    def _call(self, call: plan.AggregateCall) -> str:
        args = ", ".join(self.of(arg) for arg in call.args) or "*"
        distinct = "distinct " if call.distinct else ""
        index = f", {self.of(call.index)}" if call.index is not None else ""
        condition = ""
        if call.filter is not None and _only_numbers(call.filter):
            self._once("aggregates ignore NaN")
        elif call.filter is not None:
            condition = f", filter: {self.of(call.filter)}"
        return f"{call.name}({distinct}{args}{index}{condition})"

    def _once(self, note: str) -> None:
        if note not in self.differs:
            self.differs.append(note)


def _only_numbers(e: x.BoundExpr) -> bool:
    """Return whether a condition says that a value is not NaN."""
    return isinstance(e, x.ComparisonExpr) and isinstance(e.right, x.Const) and e.right.value == float("inf")


_DIFFERS = "// EPL makes no cycles: events that arrive together come one by one"


def _nearest_cycle(statement: plan.CycleStatement) -> str:
    """Return EPL with comments, or a comment alone if nothing is near."""
    windows = _cycle_windows(statement)
    if windows is None:
        return f"// no EPL says what `{statement.name}` does: it looks at rows as new, there or dead, cycle by cycle"
    (partition,) = statement.partitions
    source, root = partition.source, statement.select.root
    filter_ = "" if source.filter is None else f"({show_expr(source.filter)})"
    status = _status(statement.select.source.filter)
    word = "istream " if status == NEW else "rstream " if status == DEAD else ""
    columns = ", ".join(f"{show_expr(column.value)} as {column.name}" for column in root.columns)
    lines = [f"@name('{statement.name}')", f"select {word}{columns}"]
    lines.append(f"from {source.event_type}{filter_}{windows} as {source.alias}")
    where = next((node.predicate for node in plan.stages(root, plan.Selection)), None)
    lines += [] if where is None else [f"where {show_expr(where)}"]
    snapshot = "// here every cycle shows all rows, those that were there before, too"
    return "\n".join([_DIFFERS, *([] if word else [snapshot]), *lines])


def _cycle_windows(statement: plan.CycleStatement) -> str | None:
    """Return the data windows of a single stage, or None if no EPL windows are near."""
    single = len(statement.partitions) == 1 and len(statement.partitions[0].stages) == 1
    plain = statement.select.kind == "unaggregated" and statement.select.join is None and not statement.subqueries
    if not single or not plain or statement.correlation is not None or statement.every is not None:
        return None
    (stage,) = statement.partitions[0].stages
    if stage.aggregates or (stage.keys and stage.window.row.admits_randomly):  # each group draws its own random numbers
        return None
    window = _cycle_window(stage, statement.seed)
    return f"#groupwin({', '.join(stage.keys)}){window}" if stage.keys else window


def _cycle_window(stage: CycleStage, seed: int) -> str:
    spec = stage.window
    match spec.name:
        case "sliding":
            return f"#length({spec.size})"
        case "recent":
            most = "" if spec.at_most is None else f"#length({spec.at_most})"
            return f"#time({spec.size} msec){most}"
        case "tumbling":
            return "#lastevent"
        case "random":
            return f"#random({spec.size}{f', {seed}L' if seed else ''})"
    order = f"{spec.column} {'desc' if spec.name == 'highest' else 'asc'}"
    if spec.update_group:
        return f"#rank({', '.join(spec.update_group)}, {spec.size}, {order})"
    return f"#sort({spec.size}, {order})"


def _status(condition: x.BoundExpr | None) -> int | None:
    for e in x.conjuncts(condition):
        if isinstance(e, x.ComparisonExpr) and isinstance(e.left, x.Prop) and e.left.name == STATUS and e.op == "=":
            return e.right.value if isinstance(e.right, x.Const) else None  # type: ignore[return-value]
    return None
