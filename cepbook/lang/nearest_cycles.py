"""The EPL that is nearest to a query that is run in cycles, where there is one."""

from __future__ import annotations

from cepbook.lang.explain.statements import show_expr
from cepbook.lang.plan import nodes
from cepbook.lang.plan.cycles import DEAD, NEW, STATUS, CycleStage
from cepbook.lang.plan.expressions import BoundExpr, ComparisonExpr, Const, Prop, conjuncts
from cepbook.lang.plan.relational import chain

_DIFFERS = "// EPL makes no cycles: events that arrive together come one by one"


def nearest_cycle(statement: nodes.CycleStatement) -> str:
    """EPL with what it cannot say in comments; a comment alone where nothing is near."""
    windows = _windows(statement)
    if windows is None:
        return f"// no EPL says what `{statement.name}` does: it looks at rows as new, there or dead, cycle by cycle"
    (partition,) = statement.partitions
    source, root = partition.source, statement.select.root
    filter_ = "" if source.filter is None else f"({show_expr(source.filter)})"
    status = _status(statement.select.source.filter)
    word = "istream " if status == NEW else "rstream " if status == DEAD else ""
    columns = ", ".join(f"{show_expr(each.value)} as {each.name}" for each in root.columns)
    lines = [f"@name('{statement.name}')", f"select {word}{columns}"]
    lines.append(f"from {source.event_type}{filter_}{windows} as {source.alias}")
    where = next((node.predicate for node in chain(root) if isinstance(node, nodes.Selection)), None)
    lines += [] if where is None else [f"where {show_expr(where)}"]
    snapshot = "// here every cycle shows all rows, those that were there before, too"
    return "\n".join([_DIFFERS, *([] if word else [snapshot]), *lines])


def _windows(statement: nodes.CycleStatement) -> str | None:
    """The data windows of the one stage; None where EPL has none that are near."""
    single = len(statement.partitions) == 1 and len(statement.partitions[0].stages) == 1
    plain = statement.select.kind == "unaggregated" and statement.select.join is None and not statement.subqueries
    if not single or not plain or statement.correlation is not None or statement.every is not None:
        return None
    (stage,) = statement.partitions[0].stages
    if stage.aggregates or (stage.keys and stage.window.row.admits_randomly):  # whose groups throw coins of their own
        return None
    window = _window(stage, statement.seed)
    return f"#groupwin({', '.join(stage.keys)}){window}" if stage.keys else window


def _window(stage: CycleStage, seed: int) -> str:
    """What holds the same of events that come one by one."""
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


def _status(condition: BoundExpr | None) -> int | None:
    """The one status that rows must have."""
    for part in conjuncts(condition):
        if (
            isinstance(part, ComparisonExpr)
            and isinstance(part.left, Prop)
            and part.left.name == STATUS
            and part.op == "="
        ):
            return part.right.value if isinstance(part.right, Const) else None  # type: ignore[return-value]
    return None
