"""Code that reads a relation as an access path says: the loop over the items that an index or the whole of it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepbook.engine.relations.access import Access, Range
from cepbook.engine.relations.relation import HashIndex, SortedIndex
from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.expr import Scope
from cepbook.engine.rows.frozen import key_code
from cepbook.engine.rows.source import Source
from cepbook.lang import expr as x

_INDEXES = {"hash": HashIndex, "sorted": SortedIndex}
_NOTHING: Mapping[int, object] = {}


def looked_into(path: Access, relation: str, index: int) -> str:
    """Code of what an access looks into, for `loop_head`: the table of a hash index, a sorted index, or all rows.

    `relation` is code of the relation, `index` the place of the path's index among its own.
    """
    if path.scans:
        return f"{relation}.rows"
    return f"{relation}.indexes[{index}]{'.table' if path.keys else ''}"


def loop_head(path: Access, within: str, item: str, scope: Scope) -> str:
    """Write what an access needs (the key, the bounds); gives the head of the loop over the items that it finds.

    `within` is code of what it looks into; `scope` has what is known.
    """
    if path.keys:
        key, checks = _key(path, scope)
        scope.source.bind("_NOTHING", _NOTHING)
        found = f"{within}.get({key}, _NOTHING).values()"
    elif path.range is not None:
        bounds, checks = _bounds(path.range, scope)
        found = f"{within}.within({bounds}, {path.range.with_low}, {path.range.with_high})"
    else:
        return f"for {item} in {within}.values():"
    if checks:
        found = f"({found} if {' and '.join(checks)} else ())"
    return f"for {item} in {found}:"


def _key(path: Access, scope: Scope) -> tuple[str, Sequence[str]]:
    """Code of the key, and what must hold of it: null equals nothing. NaN equals itself, and all NaN are one key."""
    codes, checks = [], []
    for place, equal in enumerate(path.keys):
        code = _local(f"key{place}", equal.other, scope)
        if lower.nullable(equal.other) and not equal.nulls:
            checks.append(f"{code} is not None")
        codes.append(key_code(scope.source, code, equal.other.type))
    return codes[0] if len(codes) == 1 else f"({', '.join(codes)})", checks


def _bounds(within: Range, scope: Scope) -> tuple[str, Sequence[str]]:
    codes, checks = [], []
    for name, bound in (("low", within.low), ("high", within.high)):
        if bound is None:
            codes.append("None")
            continue
        codes.append(_local(name, bound, scope))
        checks += _checks(codes[-1], bound)
    if within.either:
        low, high = codes
        swapped = " and ".join([*checks, f"{low} > {high}"])
        scope.source.line(f"low, high = ({high}, {low}) if {swapped} else ({low}, {high})")
        codes = ["low", "high"]
    return ", ".join(codes), checks


def _local(name: str, e: x.Expr, scope: Scope) -> str:
    code = lower.value(scope, e)
    if code.isidentifier():
        return code
    scope.source.line(f"{name} = {code}", e.span)
    return name


def _checks(code: str, e: x.Expr) -> list[str]:
    """Null and NaN bound nothing."""
    found = [f"{code} is not None"] if lower.nullable(e) else []
    return found + ([f"{code} == {code}"] if e.type.name in ("double", "float") else [])


def fresh_index(kind: str, key: str, source: Source) -> str:
    """Code of a new index of a `kind`; `key` names the function that gives its keys."""
    return f"{source.bind(f'_{kind}', _INDEXES[kind])}({key})"


def key_function(name: str, exprs: Sequence[x.Expr], unpack: str, scope: Scope) -> None:
    """Write the function that gives the key of an item; the line `unpack` takes it apart for `scope`."""
    with scope.source.block(f"def {name}(item):"):
        scope.source.line(unpack)
        codes = [key_code(scope.source, lower.value(scope, e), e.type) for e in exprs]
        scope.source.line(f"return {codes[0] if len(codes) == 1 else '(' + ', '.join(codes) + ')'}")
