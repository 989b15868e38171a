"""``point(x, y).inside(rectangle(x, y, width, height))`` and ``rectangle(…).intersects(rectangle(…))``.

Points and rectangles are no values: a call and its argument are bound as one function of all coordinates. Source: Esper
reference, chapter "EPL Reference: Spatial Methods and Indexes".
"""

from __future__ import annotations

from dataclasses import replace

from cepbook.lang import types as t
from cepbook.lang.bind.coercion import coerce
from cepbook.lang.bind.expressions.call import bind_function
from cepbook.lang.bind.scope import Binder, Scope, count_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.functions.spatial import SHAPES
from cepbook.lang.syntax import ast


def bind_spatial(shape: ast.NameStep, method: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr | None:
    """Bind ``shape.method(…)``, or return None for other calls. Raises AlreadyReported."""
    row = FUNCTIONS.get(f"{shape.name.lower()}.{method.name.lower()}")
    if shape.args is None or shape.name.lower() not in SHAPES or row is None:
        return None
    (argument, *more) = method.args or (None,)
    other = argument.steps[0] if isinstance(argument, ast.Chain) and len(argument.steps) == 1 else method
    if more or other.name.lower() != "rectangle":
        scope.reject(f"`{method.name}` takes a rectangle", method.span, "write rectangle(x, y, width, height)")
    for step in (shape, other):
        count = SHAPES[step.name.lower()]
        if len(step.args or ()) != count or step.wildcard:
            scope.reject(f"`{step.name}` takes {count_text(count, count)}, found {len(step.args or ())}", step.span)
    numbers = replace(method, args=(*shape.args, *(other.args or ())), span=shape.span.to(method.span))
    call = bind_function(row, numbers, scope, bind)
    args = (coerce(arg, t.DOUBLE) if arg.type == t.BIGDECIMAL else arg for arg in x.children(call))
    return replace(call, args=tuple(args)) if isinstance(call, x.FunctionCall) else call
