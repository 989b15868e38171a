"""Plans as text: a tree of nodes, outermost first, with the type of every column.

::

    select statement `out` (unaggregated, istream)
      project
        symbol: string = symbol
        window length(5)
          from Tick
            filter price > 10
      gives <out>(symbol string)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cepbook.lang.explain.context import show_context
from cepbook.lang.explain.cycles import show_partitions
from cepbook.lang.explain.expressions import display_names, show_expr, stream_names
from cepbook.lang.explain.pattern import show_crontab, show_pattern
from cepbook.lang.explain.recognize import show_recognize
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.registry.aggregates import aggregate_row
from cepbook.lang.syntax.unparser import unparse


def show_plan(module: nodes.ModulePlan) -> str:
    """Return all statements of `module`, then the names it requires and provides."""
    parts = [show_statement(s) for s in module.statements]
    for title, names in (("requires", module.requires), ("provides", module.provides)):
        if names:
            parts.append(f"{title} " + ", ".join(f"{kind} {name}" for kind, name in names))
    return "\n\n".join(parts)


def show_statement(statement: nodes.StatementPlan) -> str:
    with display_names(streams=stream_names(statement)):
        lines = list(_statement(statement))
    return "\n".join([*lines, *_subqueries(statement)])


def show_subquery(subquery: nodes.SubqueryPlan) -> str:
    """Return the form of a subquery: ``value``, ``exists``, ``= any``."""
    return f"{subquery.op} {subquery.form}".strip()


def _subqueries(statement: nodes.StatementPlan) -> list[str]:
    lines: list[str] = []
    for number, subquery in enumerate(statement.subqueries):
        lines += [
            f"  subquery {number} ({show_subquery(subquery)}, {subquery.kind})",
            *_node(subquery.root, "    ", []),
        ]
    return lines


def _statement(statement: nodes.StatementPlan) -> list[str]:
    if isinstance(statement, nodes.SelectStatement):
        return _select(statement)
    if isinstance(statement, nodes.CycleStatement):
        lines = [f"running query `{statement.name}`", *(f"  {line}" for line in show_partitions(statement))]
        return [*lines, *_select(statement.select)[1:]]
    if isinstance(statement, nodes.CreateSchemaStatement):
        lines = [f"create schema `{statement.name}`", f"  {_event_type(statement.event_type)}"]
        if statement.event_type.supertypes:
            lines.append(f"  inherits {', '.join(statement.event_type.supertypes)}")
        return lines
    if isinstance(statement, nodes.ContextStatement):
        head = f"create context `{statement.context.name}` ({statement.context.kind})"
        return [head, *(f"  {line}" for line in show_context(statement.spec))]
    if isinstance(statement, nodes.CreateExpressionStatement):
        expression = statement.expression
        what = "alias" if expression.alias else "expression"
        params = "" if expression.alias else f"({', '.join(expression.params)})"
        return [f"create {what} `{statement.name}`", f"  {expression.name}{params} = {unparse(expression.body)}"]
    if isinstance(statement, nodes.CreateVariableStatement):
        kind = "constant" if statement.variable.constant else "variable"
        value = "" if statement.initial is None else f" = {show_expr(statement.initial)}"
        lines = _head(f"create {kind} `{statement.name}`", statement.context)
        return [*lines, f"  {statement.variable.name}: {statement.variable.type}{value}"]
    if isinstance(statement, nodes.CreateTableStatement):
        keys = f" by {', '.join(statement.store.keys)}" if statement.store.keys else ""
        return [f"create table `{statement.name}`{keys}", f"  {_event_type(statement.output_type)}"]
    if isinstance(statement, nodes.CreateIndexStatement):
        index = statement.index
        columns = ", ".join(f"{name} {kind}" for name, kind in index.columns)
        return [f"create {'unique ' * index.unique}index `{statement.name}`", f"  of {index.store}({columns})"]
    if isinstance(statement, nodes.OnSetStatement):
        return _on_set(statement)
    if isinstance(statement, nodes.SplitStatement):
        return _split(statement)
    if isinstance(statement, nodes.UpdateStatement):
        return _update(statement)
    if isinstance(statement, nodes.MergeStatement):
        return _merge(statement)
    return [f"statement `{statement.name}`"]


def _head(text: str, context: str | None) -> list[str]:
    return [text, *([] if context is None else [f"  in context {context}"])]


def _on_set(statement: nodes.OnSetStatement) -> list[str]:
    lines = _head(f"on set statement `{statement.name}` ({statement.selector})", statement.context)
    lines += [f"  {_assignment(assignment)}" for assignment in statement.assignments]
    return [*lines, *_node(statement.source, "    ", []), f"  gives {_event_type(statement.output_type)}"]


def _split(statement: nodes.SplitStatement) -> list[str]:
    to = "every branch" if statement.output_all else "the first branch"
    lines = _head(f"split statement `{statement.name}` (to {to} that takes it)", statement.context)
    for branch in statement.branches:
        lines.append(f"  into {_event_type(branch.output_type)}{_insert(branch.insert)}")
        if branch.predicate is not None:
            lines.append(f"    where {show_expr(branch.predicate)}")
        lines += [f"    {show_contained(selection)}" for selection in branch.contained]
        lines += ["    *"] * branch.wildcard
        lines += [f"    {c.name}: {c.value.type} = {show_expr(c.value)}" for c in branch.columns]
    return [*lines, *_node(statement.source, "    ", []), f"  gives {_event_type(statement.output_type)}"]


def _insert(insert: nodes.Insert) -> str:
    created = ", created here" if insert.creates else ""
    return created if insert.precedence is None else f"{created}, precedence {show_expr(insert.precedence)}"


def _merge(statement: nodes.MergeStatement) -> list[str]:
    lines = _head(
        f"on {statement.kind} statement `{statement.name}` (of {statement.target.kind} {statement.target.name})",
        statement.context,
    )
    if statement.predicate is not None:
        lines.append(f"  where {show_expr(statement.predicate)}")
    lines += [f"  {line}" for branch in statement.branches for line in show_branch(branch)]
    return [*lines, *_node(statement.source, "    ", []), f"  gives {_event_type(statement.output_type)}"]


def show_branch(branch: nodes.MergeBranchPlan) -> list[str]:
    """Return a branch of a merge, and below it its actions."""
    words = {True: "when matched", False: "when not matched", None: "always"}[branch.matched]
    head = words if branch.condition is None else f"{words} and {show_expr(branch.condition)}"
    return [head, *(f"  {_action(action)}" for action in branch.actions)]


def _action(action: nodes.MergeActionPlan) -> str:
    where = "" if action.predicate is None else f" where {show_expr(action.predicate)}"
    if action.kind == "update":
        return f"update {', '.join(map(show_change, action.changes))}{where}"
    if action.kind == "delete":
        return f"delete{where}"
    into = "" if action.insert is None else f" into {action.insert.target}"
    columns = ", ".join(f"{c.name} = {show_expr(c.value)}" for c in action.columns)
    insert, rank = action.insert, action.precedence
    rank = rank if insert is None else insert.precedence
    ranked = "" if rank is None else f", precedence {show_expr(rank)}"
    return f"insert{into} {columns}{where}{ranked}"


def _update(statement: nodes.UpdateStatement) -> list[str]:
    drops = ", dropped" if statement.drop else ""
    lines = [f"update statement `{statement.name}` (of {statement.source.event_type}{drops})"]
    if statement.predicate is not None:
        lines.append(f"  where {show_expr(statement.predicate)}")
    lines += [f"  {show_change(change)}" for change in statement.changes]
    return [*lines, *[f"  priority {statement.priority}"] * bool(statement.priority)]


def show_change(change: nodes.PropertyAssignment) -> str:
    if change.reset:
        return f"{change.name} begins anew"
    return f"{change.name}{_path(change.path)} = {show_expr(change.value)}"


def _event_type(event_type: EventType) -> str:
    return f"{event_type.name}({', '.join(f'{n} {t}' for n, t in event_type.shown.items())})"


def _select(statement: nodes.SelectStatement) -> list[str]:
    if isinstance(statement, nodes.CreateWindowStatement):
        return _create_window(statement)
    lines = _head(f"select statement `{statement.name}` ({statement.kind}, {statement.selector})", statement.context)
    lines.extend(_node(statement.root, "  ", []))
    if statement.output is not None:
        lines.extend(show_output(statement.output))
    gives = f"  gives {_event_type(statement.output_type)}"
    if statement.insert is not None:
        gives += f" inserted by {statement.insert.selector}{_insert(statement.insert)}"
    lines.append(gives)
    if statement.delivery_key is not None:
        grouped = f"together what agrees in {', '.join(map(show_expr, statement.delivery_key))}"
        lines.append(f"  delivers {grouped if statement.delivery_key else 'each row by itself'}")
    if statement.priority:
        lines.append(f"  priority {statement.priority}")
    return lines


def _create_window(statement: nodes.CreateWindowStatement) -> list[str]:
    lines = [f"create window `{statement.name}`", f"  {_event_type(statement.output_type)}"]
    if statement.context is not None:
        lines.append(f"  in context {statement.context}")
    lines += [f"  window {show_window(window)}" for window in statement.windows]
    if statement.fill is not None:
        where = "" if statement.fill.where is None else f" where {show_expr(statement.fill.where)}"
        lines.append(f"  begins with the rows of {statement.fill.store}{where}")
    return lines


def _assignment(assignment: nodes.VariableAssignment) -> str:
    return f"{assignment.variable}{_path(assignment.path)} = {show_expr(assignment.value)}"


def _path(path: Sequence[x.BoundExpr]) -> str:
    properties = ((e, isinstance(e, x.Const) and isinstance(e.value, str)) for e in path)
    return "".join(f".{show_expr(e)}".replace("'", "") if name else f"[{show_expr(e)}]" for e, name in properties)


def show_output(output: nodes.OutputClause) -> list[str]:
    words = ["  output"]
    if output.after is not None:
        words.append(f"after {_amount(output.after)}")
    words += [output.which] if output.which is not None else []
    if output.rate is not None:
        words.append(f"every {_amount(output.rate)}")
    if output.crontab is not None:
        words.append(f"at {show_crontab(output.crontab)}")
    if output.when is not None:
        words.append(f"when {show_expr(output.when)}")
    words += ["keeping every row"] * output.every_row
    lines = [" ".join(words), *(f"    then {_assignment(a)}" for a in output.then_set)]
    if output.and_terminated:
        condition = "" if output.terminated_when is None else f" and {show_expr(output.terminated_when)}"
        lines.append(f"    when terminated{condition}")
        lines += [f"      then {_assignment(a)}" for a in output.terminated_then]
    return lines


def _amount(amount: x.BoundExpr) -> str:
    return show_expr(amount) if isinstance(amount, x.Period) else f"{show_expr(amount)} events"


def _node(node: nodes.RowNode, indent: str, calls: list[str]) -> list[str]:
    match node:
        case nodes.Projection():
            return _project(node, indent)
        case nodes.Having():
            return [f"{indent}having {show_expr(node.predicate, calls)}", *_node(node.input, indent + "  ", calls)]
        case nodes.Aggregation():
            keys = f" by {', '.join(show_expr(k) for k in node.keys)}" if node.keys else ""
            lines = [f"{indent}aggregate{keys}"]
            lines += [f"{indent}  {show_call(c)}: {c.type}{' (ever)' if c.ever else ''}" for c in node.calls]
            if node.levels:
                levels = (", ".join(show_expr(node.keys[number]) for number in level) for level in node.levels)
                lines.append(f"{indent}  grouping sets ({'), ('.join(levels)})")
            if node.reclaim is not None:
                lines.append(f"{indent}  {_reclaimed(*map(show_expr, node.reclaim))}")
            return lines + _node(node.input, indent + "  ", calls)
        case nodes.Selection():
            return [f"{indent}where {show_expr(node.predicate)}", *_node(node.input, indent + "  ", calls)]
        case nodes.Windowed():
            windows = " ".join(show_window(w) for w in node.windows)
            kind = "union of windows" if node.union else "window"
            return [f"{indent}{kind} {windows}", *_node(node.input, indent + "  ", calls)]
        case nodes.Derivation():
            args = ", ".join([*map(show_expr, node.args), *(f"{c.name} = {show_expr(c.value)}" for c in node.extra)])
            keys = f" by {', '.join(c.name for c in node.keys)}" if node.keys else ""
            return [f"{indent}derive {node.name}({args}){keys}", *_node(node.input, indent + "  ", calls)]
        case nodes.Recognition():
            lines = [f"{indent}{line}" for line in show_recognize(node)]
            return lines + _node(node.input, indent + "  ", calls)
        case nodes.StreamJoin():
            lines = [f"{indent}join"]
            for number, stream in enumerate(node.inputs):
                lines += _joined(number, stream, indent + "  ")
            return lines
        case nodes.SourceNode():
            alias = f" as {node.alias}" if node.alias is not None else ""
            if node.pattern is not None:
                head, *tree = show_pattern(node.pattern)
                return [f"{indent}from {head}{alias}", *(f"{indent}{line}" for line in tree)]
            lines = [f"{indent}from {node.event_type or 'the partitions of the context'}{alias}"]
            with display_names(streams=()):
                lines += [] if node.filter is None else [f"{indent}  filter {show_expr(node.filter)}"]
                return [*lines, *(f"{indent}  {show_contained(selection)}" for selection in node.contained)]


def show_contained(node: nodes.ContainedSelection) -> str:
    """``items: id = [1].id, * where price > 5``: streams are numbered from the contained event outwards."""
    columns = ["*"] * node.wildcard + [f"{c.name} = {show_expr(c.value)}" for c in node.columns]
    where = "" if node.where is None else f" where {show_expr(node.where)}"
    return f"contained {show_expr(node.path)}: {', '.join(columns)}{where}"


def _joined(number: int, node: nodes.JoinInput, indent: str) -> list[str]:
    words = [f"stream {number}"]
    words += [node.kind] if number else []
    words += [f"on {show_expr(node.on)}"] if node.on is not None else []
    words += ["unidirectional"] if node.unidirectional else []
    with display_names(streams=()):
        return [f"{indent}{' '.join(words)}", *_node(node.stream, indent + "  ", [])]


def _project(node: nodes.Projection, indent: str) -> list[str]:
    below = node.input.input if isinstance(node.input, nodes.Having) else node.input
    calls = [show_call(c) for c in below.calls] if isinstance(below, nodes.Aggregation) else []
    lines = [f"{indent}project{' distinct' if node.distinct else ''}"]
    if node.wildcard:
        lines.append(f"{indent}  *")
    lines += [f"{indent}  {c.name}: {c.value.type} = {show_expr(c.value, calls)}" for c in node.columns]
    lines += [f"{indent}  {clause}" for clause in show_arrangement(node, calls)]
    return lines + _node(node.input, indent + "  ", calls)


def show_arrangement(node: nodes.Projection, calls: list[str]) -> Iterator[str]:
    """Yield the clauses that sort and limit rows: ``order by price desc``, ``limit 3``."""
    for keyword, criteria in node.arrangement:
        yield f"{keyword} {', '.join(show_criterion(*criterion, calls) for criterion in criteria)}"


def show_criterion(e: x.BoundExpr, descending: bool, calls: list[str] | None = None) -> str:
    """``price desc``"""
    return f"{show_expr(e, calls)}{' desc' if descending else ''}"


def _reclaimed(age: str, every: str) -> str:
    return f"groups untouched for {age} are forgotten, looked for every {every}"


def show_window(window: nodes.WindowSpec) -> str:
    """``time(1 min)``, with its options and hints."""
    calls = [show_call(c) for c in window.calls]
    order = [show_criterion(*criterion) for criterion in window.criteria]
    text = f"{window.name}({', '.join([*(show_expr(a, calls) for a in window.args), *order, *window.options])})"
    if window.reclaim is None:
        return text
    return f"{text}: {_reclaimed(*(f'{span} units of the clock' for span in window.reclaim))};"


def show_call(call: nodes.AggregateCall) -> str:
    """``sum(distinct price, filter: volume > 1, group_by: (symbol))``"""
    words = [show_expr(a) for a in call.args] or (["*"] if aggregate_row(call.name).counts else [])
    if call.criteria:
        words = [show_criterion(*criterion) for criterion in call.criteria]
    if call.index is not None:
        words.append(show_expr(call.index))
    if call.filter is not None:
        words.append(f"filter: {show_expr(call.filter)}")
    if call.group_by is not None:
        words.append(f"group_by: ({', '.join(show_expr(key) for key in call.group_by)})")
    return f"{call.name}({'distinct ' if call.distinct else ''}{', '.join(words)})"
