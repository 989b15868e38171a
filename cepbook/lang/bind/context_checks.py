"""The context of a statement, and the event types that the context must list."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.errors import Span
from cepbook.errors import did_you_mean as did_you_mean
from cepbook.errors import nearest_or_known_names as nearest_or_known_names
from cepbook.lang.bind.scope import ModuleScope
from cepbook.lang.plan.catalog import ContextType
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import walk


def resolve_context(name: str | None, span: Span, module: ModuleScope) -> tuple[ContextType | None, bool]:
    """Return the context of ``context NAME …``, and whether it is unknown (then it was reported)."""
    if name is None:
        return None, False
    context = module.catalog.contexts.get(name)
    if context is not None:
        module.need("context", name)
    elif name not in module.dropped:
        nested = (c.name for c in module.catalog.contexts.values() if name in (level.name for level in c.levels))
        whole = next((f"`{name}` is a level of `{one}`: write context {one}" for one in nested), None)
        hint = whole or nearest_or_known_names(name, module.catalog.contexts) or f"declare it: create context {name} …"
        at = module.word(name, span)
        module.report("unknown-context", f"no context `{name}`", at, hint)
    return context, context is None


def check_context_lists_stream(
    context: ContextType | None, node: ast.SyntaxNode, span: Span, module: ModuleScope
) -> None:
    """Report a keyed, hash or category context that lists no event type that the statement reads."""
    if context is not None:
        names = [stream.type_name for stream in walk(node) if isinstance(stream, ast.FilterStream)]
        stores = module.catalog.stores
        if any(name in stores and stores[name].context == context.name for name in names):
            return
        if names and all(name in module.catalog.event_types for name in names):
            check_context_lists_types(context, names, span, module)


def check_context_lists_types(context: ContextType, names: Sequence[str], span: Span, module: ModuleScope) -> None:
    """Report a keyed, hash or category context, or such a level of a context, that lists none of `names`."""
    listed = context.event_types
    known = any(module.catalog.is_a(name, of) for name in names for of in listed)
    if context.kind in ("keyed", "hash", "category") and not known:
        stream_text, only = (", ".join(f"`{name}`" for name in dict.fromkeys(some)) for some in (names, listed))
        fact = f"context `{context.name}` does not partition {stream_text}, only {only}"
        hint = f"list {'it' if len(set(names)) == 1 else 'one of them'} in `create context`, or leave the context out"
        module.report("wrong-context", fact, span, hint)
    for level in context.levels:
        check_context_lists_types(level, names, span, module)
