"""Code that reads a relation by an access path: the loop over the items of an index or of the whole relation.

The events of a statement's windows are in relations of its own. The rows of named windows and tables are in one
relation for all readers; `LookupCodegen` writes the indexes that a module requests, and how rows are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.fragments.event_layout import EventLayout
from cepbook.engine.physical.access import AccessPath, KeyRange, key_column
from cepbook.engine.relations.relation import CompositeIndex, HashIndex, SortedIndex
from cepbook.engine.relations.store_indexes import IndexRequest, in_arrival_order, lookup_keys, lookup_primary_keys
from cepbook.lang.plan import expressions as x

_INDEXES = {"hash": HashIndex, "composite": CompositeIndex, "sorted": SortedIndex}
_NOTHING: Mapping[int, object] = {}


def lookup_target(path: AccessPath, relation: str, index: int) -> str:
    """Return the code of what an access path reads: the table of a hash index, a sorted index, or all rows. `relation`
    is the code of the relation, `index` the position of the path's index.
    """
    if path.scans:
        return f"{relation}.rows"
    return f"{relation}.indexes[{index}]{'.table' if path.keys and path.band is None else ''}"


def write_loop_head(path: AccessPath, within: str, item: str, scope: CodeScope, *, by_age: bool = False) -> str:
    """Write the key or bounds of an access path; return the head of the loop over its items. `within` is the code that
    `lookup_target` returned, `scope` knows the values to look up. With `by_age` items come in the order of arrival.
    """
    source = scope.source
    if path.keys and path.keys[0].more:
        (equal,) = path.keys
        options = [lower.value(scope, e) for e in (equal.other, *equal.more)]
        keys = [key_code(source, code, e.type) for code, e in zip(options, (equal.other, *equal.more), strict=True)]
        name, function = ("_several_rows", lookup_primary_keys) if path.unique else ("_several", lookup_keys)
        find = source.bind(name, function)
        return f"for {item} in {find}({within}, ({', '.join(keys)},)):"
    if path.keys:
        key, checks = _key(path, scope)
        if path.unique:
            tests = " and ".join([*checks, f"({item} := {within}.get({key})) is not None"])
            return f"for {item} in (({item},) if {tests} else ()):"
        if path.band is not None:
            bounds, more = _bounds(path.band, scope)
            tests = " and ".join([*checks, *more])
            items = f"{within}.within({key}, {bounds})"
            return f"for {item} in ({items} if {tests} else ()):" if tests else f"for {item} in {items}:"
        source.bind("_NOTHING", _NOTHING)
        items = f"{within}.get({key}, _NOTHING).values()"
    elif path.range is not None:
        bounds, checks = _bounds(path.range, scope)
        items = f"{within}.within({bounds}, {path.range.with_low}, {path.range.with_high})"
        if by_age:
            items = f"{source.bind('_by_arrival', in_arrival_order)}({items})"
    else:
        return f"for {item} in {within}.values():"
    if checks:
        items = f"({items} if {' and '.join(checks)} else ())"
    return f"for {item} in {items}:"


def _key(path: AccessPath, scope: CodeScope) -> tuple[str, Sequence[str]]:
    """Return the code of the key, and the checks that it needs: null equals nothing; all NaN are one key."""
    codes, checks = [], []
    for place, equal in enumerate(path.keys):
        code = _local(f"key{place}", equal.other, scope)
        if equal.other.nullable and not equal.nulls:
            checks.append(f"{code} is not None")
        codes.append(key_code(scope.source, code, equal.other.type))
    return codes[0] if len(codes) == 1 else f"({', '.join(codes)})", checks


def _bounds(within: KeyRange, scope: CodeScope) -> tuple[str, Sequence[str]]:
    codes, checks = [], []
    for name, bound in (("low", within.low), ("high", within.high)):
        if bound is None:
            codes.append("None")
            continue
        codes.append(_local(name, bound, scope))
        checks += _checks(codes[-1], bound)
    if within.either:
        scope.source.line(f"low, high = {', '.join(codes)}")
        scope.source.line(f"if {' and '.join([*checks, 'low > high'])}: low, high = high, low")
        codes = ["low", "high"]
    return ", ".join(codes), checks


def _local(name: str, e: x.BoundExpr, scope: CodeScope) -> str:
    code = lower.value(scope, e)
    if code.isidentifier():
        return code
    scope.source.line(f"{name} = {code}", e.span)
    return name


def _checks(code: str, e: x.BoundExpr) -> list[str]:
    checks = [f"{code} is not None"] if e.nullable else []
    return checks + ([f"{code} == {code}"] if e.type.name in ("double", "float") else [])


def new_index_code(kind: str, key: str, source: SourceWriter) -> str:
    """Return the code of a new index; `key` names the function of its keys."""
    return f"{source.bind(f'_{kind}', _INDEXES[kind])}({key})"


def write_key_function(
    name: str, exprs: Sequence[x.BoundExpr], unpack: Callable[[str], None], scope: CodeScope, parts: Sequence[str] = ()
) -> None:
    """Write the function of the key of an item; ``unpack("item")`` writes how the item is unpacked for `scope`. `parts`
    are the locals of an item that is a plain tuple. A key that consists of some of them needs no function.
    """
    places = plain_key_positions(exprs, scope, parts)
    if places is not None:
        getter = scope.source.bind("_itemgetter", itemgetter)
        scope.source.line(f"{name} = {getter}({', '.join(map(str, places))})")
        return
    with scope.source.block(f"def {name}(item):"):
        unpack("item")
        codes = [key_code(scope.source, lower.value(scope, e), e.type) for e in exprs]
        scope.source.line(f"return {codes[0] if len(codes) == 1 else '(' + ', '.join(codes) + ')'}")


def plain_key_positions(exprs: Sequence[x.BoundExpr], scope: CodeScope, parts: Sequence[str]) -> list[int] | None:
    """Return the indexes, in an item with the locals `parts`, of the values of a key; None if it needs more."""
    values = [lower.value(scope, e) for e in exprs]
    plain = all(v in parts and key_code(scope.source, v, e.type) == v for v, e in zip(values, exprs, strict=True))
    return [parts.index(v) for v in values] if plain else None


class LookupCodegen:
    """The indexes of stores that a module reads, as functions that a running statement binds. `requests` maps the name
    of a function to (input, requested index).
    """

    def __init__(self, source: SourceWriter) -> None:
        self.source = source
        self.requests: dict[str, tuple[int, IndexRequest]] = {}
        self._keys: list[tuple[str, tuple[x.BoundExpr, ...], int]] = []

    def look(self, path: AccessPath) -> str:
        """Return the name of the function for an access path to a store."""
        request = path.input, self._want(path)
        for name, known in self.requests.items():
            if known == request:
                return name
        name = self.source.bind(f"look{len(self.requests)}", None)
        self.requests[name] = request
        return name

    def _want(self, path: AccessPath) -> IndexRequest:
        if path.unique:
            return IndexRequest("key")
        if path.index is None:
            return IndexRequest("rows")
        kind, exprs = path.index
        columns = [key_column(e) for e in exprs]
        if all(column is not None for column in columns):
            return IndexRequest(kind, tuple(column for column in columns if column is not None))
        for name, same, number in self._keys:
            if (same, number) == (exprs, path.input):
                return IndexRequest(kind, (), name)
        self._keys.append((f"store_key{len(self._keys)}", exprs, path.input))
        return IndexRequest(kind, (), self._keys[-1][0])

    def write_keys(self, unpack: Callable[[int, str], None], scope: CodeScope) -> None:
        """Write the functions of keys that are not columns; ``unpack(number, "item")`` unpacks an item."""
        for name, exprs, number in self._keys:
            write_key_function(name, exprs, partial(unpack, number), scope)


def write_item_unpacking(items: EventLayout, item: str, prefix: str, source: SourceWriter) -> None:
    """Write the locals of a store's item: its ordinal, columns of its row, the row."""
    names = {str(place): name for name, place in items.positions.items()}
    row = f"{prefix}e" if "e" in items.parts else f"{prefix}row"
    if any(component != "o" for component in items.parts):
        source.line(f"{row} = {item}[-1]")
    for component in items.parts:
        if component == "o":
            source.line(f"{prefix}o = {item}[0]")
        elif component != "e":
            source.line(f"{prefix}{component} = {row}[{source.const(names[component], 'n')}]")
