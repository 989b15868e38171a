"""Fire-and-forget queries: which statements are one (Esper reference, section "Fire-and-Forget Queries")."""

from __future__ import annotations

from cepbook.errors import BindError, Diagnostic, Span
from cepbook.lang import ast, plan
from cepbook.lang.bind import Options, bind
from cepbook.lang.catalog import Catalog


def bind_query(module: ast.Module, catalog: Catalog, source: str, options: Options = Options()) -> plan.ModulePlan:
    """The plan of the one query of `module`. Raises BindError with all diagnostics."""
    found = list(_problems(module, catalog))
    if found:
        raise BindError(tuple(found), source)
    (query,) = module.statements
    return bind(ast.Module((query,), span=module.span), catalog, source, (), options)


def _problems(module: ast.Module, catalog: Catalog) -> list[Diagnostic]:
    if len(module.statements) != 1:
        return [_problem("a query is one statement", module.span)]
    (query,) = module.statements
    if not isinstance(query, ast.Select):
        return [_problem("a query is a select, an update, a delete, or an insert", query.span)]
    found = []
    for given, what in (
        (query.output, "an output clause"),
        (query.into_table, "into table"),
        (query.match_recognize, "match_recognize"),
        (query.selector not in (None, "istream"), "a stream selector"),
    ):
        if given:
            found.append(_problem(f"a query runs once and cannot have {what}", query.span))
    if not query.sources:
        found.append(_problem("a query needs a from-clause that names a named window or table", query.span))
    for each in query.sources:
        found += _of_source(each, catalog)
    return found


def _of_source(source: ast.StreamSource, catalog: Catalog) -> list[Diagnostic]:
    stream = source.stream
    if not isinstance(stream, ast.FilterStream):
        return [_problem("a query reads named windows and tables, not patterns", stream.span)]
    if stream.type_name not in catalog.event_types:
        return []  # the binder tells
    if stream.type_name not in catalog.stores:
        fact = f"`{stream.type_name}` is an event type, and events are not kept"
        return [_problem(fact, stream.span, "query a named window or a table")]
    if source.windows:
        return [_problem("a query reads the rows that are held now and takes no data window", source.windows[0].span)]
    return []


def _problem(fact: str, span: Span, hint: str | None = None) -> Diagnostic:
    return Diagnostic("wrong-query", fact, span, hint)
