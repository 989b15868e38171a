"""``create index`` on a named window or table."""

from __future__ import annotations

from cepbook.errors import nearest_or_known_names
from cepbook.lang.bind.clauses.annotations import StatementHeading
from cepbook.lang.bind.clauses.target_store import TargetStore, bind_target
from cepbook.lang.bind.scope import ModuleScope
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import IndexType
from cepbook.lang.syntax import ast


def bind_create_index(
    node: ast.CreateIndex, name: str, heading: StatementHeading, module: ModuleScope
) -> nodes.CreateIndexStatement | None:
    """``create [unique] index I on W (a hash, b btree)``; None when the report says why not."""
    target = bind_target(node.target, None, node.span, node, module, anywhere=True)
    if target is None:
        return None
    columns = tuple(_index_column(key, kind, target, module) for key, kind in node.columns)
    index = IndexType(node.name, node.target, tuple(c for c in columns if c is not None), node.unique)
    if index.full_name in module.catalog.indexes:
        fact = f"an index `{node.name}` of `{node.target}` exists already"
        module.report("duplicate-name", fact, module.word(node.name, node.span))
    if None in columns:
        return None
    module.catalog.indexes[index.full_name] = index
    module.provides["index", index.full_name] = None
    text = module.text(node.span)
    return nodes.CreateIndexStatement(name, heading.name is not None, text, heading.annotations, index, span=node.span)


def _index_column(key: ast.Expr, kind: str, target: TargetStore, module: ModuleScope) -> tuple[str, str] | None:
    plain = isinstance(key, ast.Chain) and len(key.steps) == 1 and key.steps[0].args is None
    if kind not in ("hash", "btree"):
        module.unsupported(f"an index of kind `{kind}`", key.span, "there are hash, for equality, and btree")
        return None
    if not plain:
        module.report("wrong-parameter", "an index is on columns", key.span)
        return None
    assert isinstance(key, ast.Chain)
    name = key.steps[0].name
    if name not in target.event_type.properties:
        hint = nearest_or_known_names(name, target.event_type.properties)
        fact = f"no column `{name}` in `{target.store.name}`"
        module.report("unknown-property", fact, key.span, hint)
        return None
    return name, kind
