"""Who must see an event: the statements that read its type, and before them the contexts that it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from cepbook.engine.contexts.tree import Tree
from cepbook.engine.filters import Handler, Subscriber
from cepbook.engine.flow import Replayed, allocating
from cepbook.engine.statement import Statement

_FIRST = (-(1 << 62), 0)  # ahead of whatever `@Priority` puts first


def takers(runtime: Replayed, trees: Mapping[str, Tree], type_name: str) -> list[Subscriber]:
    """Everything that must see events of `type_name`: statements, and before them their contexts."""
    readers = runtime.readers(type_name)
    found = _in_trees(runtime.statements.values(), trees.values(), type_name)
    listed_in = {context.name: listed for context, listed in allocating(runtime, type_name)}
    for name, listed in listed_in.items():
        context = runtime.contexts[name]
        own = [s for s in readers if s.context is context]
        handler = context.handler(listed, [(s, take) for s in own if (take := s.taker(type_name)) is not None])
        found.append(Subscriber(context.order, None, handler, handler))
    for statement in readers:
        if isinstance(statement.context, Tree):
            continue
        look = statement.looker(type_name)
        if look is not None:
            found.append(Subscriber(_FIRST, None, look, look))
        checked, matched = statement.handlers(type_name, listed_in.get(statement.plan.context or ""))
        condition = statement.condition(type_name)
        found.append(Subscriber(statement.order, condition, checked, matched, statement.plan.drop))
    return found


def _in_trees(statements: Iterable[Statement], trees: Iterable[Tree], type_name: str) -> list[Subscriber]:
    """Contexts other than plain keyed ones, and the statements in them, for events of `type_name`."""
    found: list[Subscriber] = []
    for tree in trees:
        if not tree.active:
            continue
        own = [s for s in statements if s.context is tree and s.taker(type_name) is not None]
        if own or tree.handles(type_name):
            looks: Handler = partial(tree.on_event, type_name)
            found.append(Subscriber(tree.order, None, looks, looks))
        for statement in own:
            handler = statement.in_tree(tree, type_name)
            found.append(Subscriber(statement.order, None, handler, handler, statement.plan.drop))
    return found
