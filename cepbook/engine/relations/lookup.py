"""How statements find rows of named windows and tables: by the indexes of these, which are on columns."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.engine.relations.access import Access, access
from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.expr import Scope
from cepbook.engine.rows.frozen import key_code
from cepbook.lang import expr as x


def describe_access(found: Access) -> str:
    """How rows are found, for people."""
    if found.keys:
        names = ", ".join(equal.own.name for equal in found.keys if isinstance(equal.own, x.Prop))
        return f"a hash index on {names}"
    if found.range is not None and isinstance(found.range.own, x.Prop):
        return f"a sorted index on {found.range.own.name}"
    return "looking at all of them: no equality or range of a column with what is known"


def access_by_columns(predicate: x.Expr | None, target: int, known: Sequence[int]) -> Access:
    """How rows of a store are read: its indexes are on columns."""
    usable: list[x.Expr] = []
    rest: list[x.Expr] = []
    for condition in x.conjuncts(predicate):
        index = access([condition], target, known).index
        plain = index is not None and all(isinstance(e, x.Prop) for e in index[1])
        (usable if plain else rest).append(condition)
    found = access(usable, target, known)
    return Access(target, found.keys, found.range, (*found.rest, *rest))


def write_lookup(found: Access, scope: Scope) -> None:
    """Write the local ``items``: those of the contents ``T`` that `found` leads to; conditions are left to test."""
    source = scope.source
    if found.keys:
        names = tuple(equal.own.name for equal in found.keys if isinstance(equal.own, x.Prop))
        codes = [lower.value(scope, equal.other) for equal in found.keys]
        for number, code in enumerate(codes):
            source.line(f"k{number} = {code}", found.keys[number].other.span)
        needed = [f"k{number} is not None" for number, equal in enumerate(found.keys) if not equal.nulls]
        keys = [key_code(source, f"k{number}", equal.other.type) for number, equal in enumerate(found.keys)]
        key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        look = f"by_key(T, {source.const(names, 'names')}, {key})"
        source.line(f"items = {look} if {' and '.join(needed)} else ()" if needed else f"items = {look}")
    elif found.range is not None and isinstance(found.range.own, x.Prop):
        bounds = [e for e in (found.range.low, found.range.high) if e is not None]
        for number, e in enumerate(bounds):
            source.line(f"k{number} = {lower.value(scope, e)}", e.span)
        low = "k0" if found.range.low is not None else "None"
        high = f"k{len(bounds) - 1}" if found.range.high is not None else "None"
        needed = [f"k{number} is not None" for number in range(len(bounds))]
        if found.range.either:
            source.line(f"if {' and '.join(needed)} and k0 > k1: k0, k1 = k1, k0")
        column = source.const(found.range.own.name, "n")
        look = f"within(T, {column}, {low}, {high}, {found.range.with_low}, {found.range.with_high})"
        source.line(f"items = {look} if {' and '.join(needed)} else ()")
    else:
        source.line("items = contents(T)")
