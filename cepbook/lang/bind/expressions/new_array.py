"""``new int[3]``, ``new string[] {'a', 'b'}``, ``new ArrayList<String>()``: arrays of a named type.

Source: Esper reference, chapter "Expressions", section "The 'new' Operator".
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.lang import types as t
from cepbook.lang.bind.coercion import assignable, coerce
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Binder, Scope, error_expression, resolve_type, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

# Collections of Java that are arrays and maps here
_LISTS = ("ArrayList", "LinkedList", "ArrayDeque", "Vector", "HashSet", "LinkedHashSet", "TreeSet")
_MAPS = ("HashMap", "LinkedHashMap", "TreeMap")
# Initial values of elements of Java's primitive types; all other elements are null
_INITIAL_VALUES: dict[str, object] = {**dict.fromkeys(t.BITS, 0), "float": 0.0, "double": 0.0}
_INITIAL_VALUES["boolean"] = False


def bind_new_array(node: ast.NewInstance, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind an array. Raises AlreadyReported for objects of Java classes."""
    class_name = node.type_name.removeprefix("java.util.")
    if class_name in _MAPS and not node.array and not node.args:
        return x.FunctionCall(t.MAP, "new map", (), span=node.span)
    if class_name in _LISTS and not node.array and not node.args:
        of = resolve_type(node.type_args[0], scope.module, node.span) if node.type_args else t.OBJECT
        return x.ArrayOf(t.array_of(of), (), span=node.span)
    if not node.array:
        hint = "register a Python function that makes what you need"
        scope.unsupported(f"`new {node.type_name}(…)`", node.span, hint)
        raise AlreadyReported(node.type_name)
    of = resolve_type(node.type_name, scope.module, node.span)
    if of == ERROR:
        raise AlreadyReported(node.type_name)
    array_type = of
    for _ in node.dimensions:
        array_type = t.array_of(array_type, node.type_name in _INITIAL_VALUES)
    sizes = [size for size in node.dimensions if size is not None]
    if not sizes:
        return _filled(node.args, array_type, node, scope, bind)
    initial = _INITIAL_VALUES.get(node.type_name) if len(sizes) == len(node.dimensions) else None
    args: list[x.BoundExpr] = [x.Const(of, initial)]
    for size in sizes:
        bound = bind(size, scope)
        if bound.type not in (t.BYTE, t.SHORT, t.INT, ERROR):
            scope.mismatch(f"the size of an array must be an int, found {type_text(bound.type)}", size.span)
        args.append(bound)
    if any(arg.type == ERROR for arg in args):
        return error_expression(node.span)
    return x.FunctionCall(array_type, "new array", tuple(args), span=node.span)


def _filled(elements: Sequence[ast.Expr], array_type: Type, node: ast.Expr, scope: Scope, bind: Binder) -> x.BoundExpr:
    assert array_type.of is not None
    bound_elements: list[x.BoundExpr] = []
    for element in elements:
        if array_type.of.of is not None and isinstance(element, ast.ArrayLiteral):
            bound = _filled(element.elements, array_type.of, element, scope, bind)
        else:
            bound = bind(element, scope)
        if bound.type == ERROR:
            return error_expression(node.span)
        if not assignable(bound.type, array_type.of) or (bound.type == t.NULL and array_type.primitive):
            hint = "arrays of objects take null, such as new Integer[] {…}" if bound.type == t.NULL else None
            expected, actual = type_text(array_type.of), type_text(bound.type)
            scope.mismatch(f"an element of {expected}[] must be {expected}, found {actual}", element.span, hint)
        bound_elements.append(coerce(bound, array_type.of))
    array = x.ArrayOf(array_type, tuple(bound_elements), span=node.span)
    known = all(isinstance(element, x.Const) and element.value is not None for element in bound_elements)
    if known or not array_type.primitive or array_type.of.of is not None:
        return array
    return x.FunctionCall(array_type, "primitive array", (array,), span=node.span)
