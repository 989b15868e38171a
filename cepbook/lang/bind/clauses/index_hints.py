"""Hints that name an index: ``@Hint('index(I, bust)')``.

With ``bust`` a statement is refused if no index of the hint serves its condition (Esper reference, section "Hints for
Indexes"). Without it the hint has no effect: the engine chooses the indexes.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.lang.bind.clauses.annotations import statement_hints
from cepbook.lang.bind.scope import ModuleScope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.syntax import ast


def check_index_hints(
    annotations: Sequence[ast.Annotation], store: StoreType, condition: x.BoundExpr | None, module: ModuleScope
) -> None:
    """Report a hint with ``bust`` none of whose indexes serves `condition`, which reads rows of `store` as stream 0."""
    equal, ordered = _compared_columns(condition)
    own = {index.name: index.columns for index in module.catalog.indexes.values() if index.store == store.name}
    serving = {
        name
        for name, columns in {**own, "": tuple((key, "hash") for key in store.keys)}.items()
        if columns and all(column in equal or (kind == "btree" and column in ordered) for column, kind in columns)
    }
    for hint, value, node in statement_hints(annotations):
        names = [name.strip() for name in value.split(",")] if hint == "index" else []
        if "bust" in names and not (
            serving.intersection(names) or "implicit" in names or (serving and "explicit" in names)
        ):
            unknown = next((n for n in names if n not in own and n not in ("bust", "explicit")), None)
            fact = f"no index of the hint serves the condition on `{store.name}`"
            if unknown is not None:
                fact = f"`{store.name}` has no index `{unknown}`"
            columns = ", ".join(sorted(equal)) or "…"
            module.wrong(fact, node.span, f"create index NAME on {store.name}({columns}), or leave out the hint")


def check_subquery_hints(node: ast.Statement, subqueries: Sequence[nodes.SubqueryPlan], module: ModuleScope) -> None:
    """Check the index hints for subqueries of tables, and of windows that share their indexes."""
    for subquery in subqueries:
        below = list(nodes.chain(subquery.root))
        store = next((one.store for one in below if isinstance(one, nodes.SourceNode)), None)
        if store is not None and (store.kind == "table" or store.shares_indexes):
            check_index_hints(node.annotations, store, condition_of(subquery.root), module)


def condition_of(root: nodes.Projection) -> x.BoundExpr | None:
    """Return the condition of the where-clause below `root`."""
    return next((one.predicate for one in nodes.chain(root) if isinstance(one, nodes.Selection)), None)


def _compared_columns(condition: x.BoundExpr | None) -> tuple[set[str], set[str]]:
    """Return the columns that are equal to a value of another stream, and those that are in a range of such values."""
    equal: set[str] = set()
    ordered: set[str] = set()
    for conjunct in x.conjuncts(condition):
        columns = equal if isinstance(conjunct, (x.InList, x.Is)) else ordered
        if isinstance(conjunct, x.ComparisonExpr) and conjunct.op == "=":
            columns = equal
        for operand in x.children(conjunct):
            others = [e for other in x.children(conjunct) if other is not operand for e in x.walk(other)]
            while isinstance(operand, x.Convert):
                operand = operand.operand
            own = [e for e in others if isinstance(e, (x.Prop, x.EventOf)) and e.stream == 0]
            if isinstance(operand, x.Prop) and operand.stream == 0 and not own:
                columns.add(operand.name)
    return equal, ordered
