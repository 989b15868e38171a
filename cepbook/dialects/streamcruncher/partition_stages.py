"""The stages of a partition: keys, window, aggregates and pre-filter, each with the columns that it may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from cepbook.errors import did_you_mean, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.expression import bind_condition
from cepbook.lang.bind.scope import ModuleScope, Scope, ScopeStream, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.cycles import STATUS, CycleAggregate, CycleStage, CycleWindow
from cepbook.lang.registry.cycles import CYCLE_AGGREGATES, CycleAggregateRow
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import walk
from cepbook.lang.types import Type

_FILTER = "a pre-filter"
_ALLOWED = "it has comparisons, arithmetic, in, and, or, not; a condition after the partitions may have more"
_UNKEYED = t.UNHASHABLE


@dataclass(frozen=True, slots=True)
class BoundStages:
    """The bound stages: `filter` tests events; `columns` are those of the last stage, or None if they are unknown."""

    stages: tuple[CycleStage, ...]
    filter: x.BoundExpr | None
    columns: Mapping[str, Type] | None


Rewrite = Callable[[ast.Expr], ast.Expr]


def bind_stages(
    node: ast.PartitionStream, alias: str, event_type: EventType | None, rewrite: Rewrite, module: ModuleScope
) -> BoundStages:
    """Bind the stages in order and report their problems. `rewrite` turns conditions into the binder's form."""
    columns: Mapping[str, Type] | None = None if event_type is None else event_type.properties
    stages: list[CycleStage] = []
    condition = None
    for number, stage in enumerate(node.stages):
        reader = _Stage(stage, columns, node.type_name if number == 0 else "the stage before", rewrite, module)
        takes, where = reader.first(alias) if number == 0 else reader.chained(alias)
        if number == 0:
            condition, where = where, None
        bound = reader.bound(takes, where)
        columns = reader.output
        stages.append(bound)
    return BoundStages(tuple(stages), condition, columns)


class _Stage:
    """One stage; `columns` are the incoming columns, or None if they are unknown."""

    def __init__(
        self, node: ast.Stage, columns: Mapping[str, Type] | None, of: str, rewrite: Rewrite, module: ModuleScope
    ) -> None:
        self.node = node
        self.rewrite = rewrite
        self.columns = columns
        self.of = of
        self.module = module
        self.output: Mapping[str, Type] | None = columns

    def bound(self, takes: Literal["new", "dead"] | None, where: x.BoundExpr | None) -> CycleStage:
        node = self.node
        keys: dict[str, Type] = {}
        for key in node.keys:
            type_ = self._column(key)
            if key.text in keys:
                fact = f"partition column `{key.text}` is named twice"
                self.module.report("duplicate-name", fact, key.span, "leave one of them out")
            if not _is_key(type_):
                fact = f"rows cannot be partitioned by a column of type {type_text(type_)}"
                self.module.report("type-mismatch", fact, key.span, self._columns_hint(_is_key))
            keys[key.text] = type_
        aggregates = self._aggregates(keys)
        window = self._window()
        names = () if self.output is None else tuple(self.output)
        visible_names = tuple(keys) + tuple(aggregate.alias for aggregate in aggregates) if aggregates else names
        return CycleStage(tuple(keys), window, aggregates, node.pinned, takes, where, visible_names, span=node.span)

    def _column(self, name: ast.Name) -> Type:
        if self.columns is None:
            return t.NULL
        type_ = self.columns.get(name.text)
        if type_ is None:
            where = f"`{self.of}`" if " " not in self.of else self.of
            hint = nearest_or_known_names(name.text, self.columns)
            self.module.report("unknown-property", f"no column `{name.text}` in {where}", name.span, hint)
            return t.NULL
        return type_

    def _columns_hint(self, fits: Callable[[Type], bool]) -> str | None:
        return nearest_or_known_names(None, [name for name, type_ in (self.columns or {}).items() if fits(type_)])

    def _aggregates(self, keys: Mapping[str, Type]) -> tuple[CycleAggregate, ...]:
        node = self.node
        aggregates: list[CycleAggregate] = []
        output: dict[str, Type] = dict(keys)
        for call in node.aggregates:
            row = CYCLE_AGGREGATES.get(call.function.text.lower())
            type_ = self._column(call.column)
            registered = self.module.catalog.functions.get(call.function.text)
            if row is None and registered is not None:
                row = CycleAggregateRow(
                    call.function.text, partial(_constant_type, registered.returns), "a registered function", "any"
                )
            if row is None:
                hint = did_you_mean(call.function.text, CYCLE_AGGREGATES) or f"there are {', '.join(CYCLE_AGGREGATES)}"
                self.module.report("unknown-function", f"no aggregate `{call.function.text}`", call.function.span, hint)
                output[call.alias.text] = t.NULL
                continue
            if row.values == "numbers" and not t.is_numeric(type_) and type_ != t.NULL:
                fact = f"`{row.name}` needs numbers, found {type_text(type_)}"
                self.module.report("type-mismatch", fact, call.column.span, _aggregates_hint(type_))
            if row.values == "ordered" and not _is_key(type_):
                fact = f"`{row.name}` cannot order {type_text(type_)}"
                self.module.report("type-mismatch", fact, call.column.span, _aggregates_hint(type_))
            if call.alias.text in output:
                what = "a partition column" if call.alias.text in keys else "another aggregate"
                fact = f"`{call.alias.text}` is the name of {what} already"
                self.module.report("duplicate-name", fact, call.alias.span, "give it another name with as")
            output[call.alias.text] = row.result(type_)
            column, alias = call.column.text, call.alias.text
            aggregates.append(CycleAggregate(row.name, column, alias, not call.entrance_only, span=call.span))
        if node.aggregates:
            self.output = output
        return tuple(aggregates)

    def _window(self) -> CycleWindow:
        node = self.node.window
        if node.column is not None:
            type_ = self._column(node.column)
            if not _is_ranked(type_):
                hint = self._columns_hint(_is_ranked)
                self.module.report("no-order", f"rows cannot be ranked by {type_text(type_)}", node.column.span, hint)
        for column in node.update_group:
            type_ = self._column(column)
            if not _is_key(type_):
                fact = f"{type_text(type_)} cannot be a key of an update group"
                self.module.report("type-mismatch", fact, column.span, self._columns_hint(_is_key))
        size = node.size
        if node.kind == "recent" and self.module.options.microseconds:
            size *= 1000
        ranked_by = None if node.column is None else node.column.text
        group = tuple(group_column.text for group_column in node.update_group)
        return CycleWindow(node.kind, size, node.at_most, ranked_by, group, span=node.span)

    def first(self, alias: str) -> tuple[None, x.BoundExpr | None]:
        node = self.node.where
        if node is None:
            return None, None
        for subexpr in walk(node):
            if isinstance(subexpr, ast.RowStatus):
                fact = f"events have no `{STATUS}` before the first partition"
                hint = "write the condition after the partitions, in where"
                self.module.wrong(fact, subexpr.span, hint)
        return None, self._condition(node, alias)

    def chained(self, alias: str) -> tuple[Literal["new", "dead"] | None, x.BoundExpr | None]:
        node = self.node.where
        hint = f"begin with where {STATUS} is new, or is dead"
        if node is None:
            fact = "a chained partition needs a where clause that says which rows it takes"
            self.module.wrong(fact, self.node.span, hint)
            return None, None
        first, *rest = split_conjuncts(node)
        if not isinstance(first, ast.RowStatus):
            fact = f"the where clause of a chained partition begins with a condition on `{STATUS}`"
            self.module.wrong(fact, first.span, hint)
        elif first.alias is not None and first.alias != alias:
            self.module.report(
                "unknown-name", f"no partition `{first.alias}` before this one", first.span, f"write {STATUS}"
            )
        elif first.status == "not dead":
            fact = "a chained partition takes rows that are new, or rows that are dead"
            self.module.wrong(fact, first.span, hint)
        for subexpr in (subexpr for conjunct in rest for subexpr in walk(conjunct)):
            if isinstance(subexpr, ast.RowStatus):
                fact = f"`{STATUS}` stands only at the beginning of the where clause of a chained partition"
                hint = f"a condition after the partitions, in where, tests {alias}.{STATUS}"
                self.module.wrong(fact, subexpr.span, hint)
        takes: Literal["new", "dead"] = "new"
        if isinstance(first, ast.RowStatus):
            takes = "dead" if first.status == "dead" else "new"
        if not rest or not isinstance(first, ast.RowStatus):
            return takes, None
        whole = rest[0] if len(rest) == 1 else ast.Logical("and", tuple(rest), span=rest[0].span.to(rest[-1].span))
        return takes, self._condition(whole, alias)

    def _condition(self, node: ast.Expr, alias: str) -> x.BoundExpr | None:
        wrong = False
        for subexpr in walk(node):
            what = _unsupported_part(subexpr)
            if what is not None:
                wrong = True
                self.module.wrong(f"{what} in {_FILTER}", subexpr.span, _ALLOWED)
        if wrong or self.columns is None or any(isinstance(subexpr, ast.RowStatus) for subexpr in walk(node)):
            return None
        stream = ScopeStream(None, EventType(self.of, self.columns), self.of, alias)
        scope = Scope(self.module, (stream,), no_aggregates=_FILTER, no_row_functions=_FILTER)
        return bind_condition(self.rewrite(node), scope, _FILTER)


def _is_key(type_: Type) -> bool:
    return type_.name not in _UNKEYED


def _is_ranked(type_: Type) -> bool:
    return t.is_numeric(type_) or type_ in (t.STRING, t.CHAR, t.NULL, t.TIMESTAMP)


def _aggregates_hint(type_: Type) -> str:
    kinds = ("any", "ordered") if _is_key(type_) else ("any",)
    return f"values of this type are taken by {', '.join(n for n, r in CYCLE_AGGREGATES.items() if r.values in kinds)}"


def _constant_type(type_: Type, _: Type) -> Type:
    return type_


def split_conjuncts(node: ast.Expr | None) -> list[ast.Expr]:
    if node is None:
        return []
    if isinstance(node, ast.Logical) and node.op == "and":
        return [conjunct for operand in node.operands for conjunct in split_conjuncts(operand)]
    return [node]


def _unsupported_part(node: ast.SyntaxNode) -> str | None:
    match node:
        case ast.Like():
            return "like"
        case ast.Between():
            return "between"
        case ast.Case():
            return "case"
        case ast.Compare(op="is" | "is not"):
            return "a test for null"
        case ast.Subquery():
            return "exists"
        case ast.NameStep(args=args, wildcard=wildcard, name=name) if args is not None or wildcard:
            return f"the function `{name}`"
        case ast.PartitionStream() | ast.SameStream() | ast.AlertStream():
            return "a partition"
    return None
