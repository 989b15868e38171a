"""Method calls as Python text: a call of the registered function, with lambdas mapped over the elements.

::

    f3(t1, map(lambda element0: …, t1))                          xs.where(x => …)
    f3(t1, map(lambda element0, index0: …, t1, count()))         xs.where((x, i) => …)
    f4(t1, 0, (lambda result0, element0: …, t1))                 xs.aggregate(0, (r, x) => …)
"""

from __future__ import annotations

from itertools import count, repeat

from cepbook.engine.expressions.code_scope import CodeScope, null_checked, unless_null, value
from cepbook.lang.java.dates.chronology import Chronology, EpochChronology
from cepbook.lang.plan import expressions as x
from cepbook.lang.registry.methods import METHODS


def method_call(scope: CodeScope, e: x.MethodCall) -> str:
    """Return the code of ``receiver.method(…)``; null for a null receiver."""
    row = METHODS[e.name]
    (receiver,), checks = null_checked(scope, e.receiver)
    args = [_lambda(scope, arg, receiver) if isinstance(arg, x.LambdaExpr) else value(scope, arg) for arg in e.args]
    if row.typed:
        args.append(scope.source.const((e.args[-1] if e.args else e).type, "type"))
    return unless_null(checks, f"{scope.source.const(row.py, 'f')}({', '.join([receiver, *args])})")


def _lambda(scope: CodeScope, e: x.LambdaExpr, receiver: str) -> str:
    columns = [f"{receiver}[::-1]" if e.backwards else receiver]
    if "index" in e.roles:
        columns.append(f"{scope.source.bind('_count', count)}()")
    if "size" in e.roles:
        columns.append(f"{scope.source.bind('_repeat', repeat)}(len({receiver}))")
    function = f"lambda {', '.join(f'{role}{e.level}' for role in e.roles)}: {value(scope, e.body)}"
    if "result" in e.roles:
        return f"({', '.join([function, *columns])})"
    return f"map({', '.join([function, *columns])})"


def method_may_fail(e: x.MethodCall) -> bool:
    """Return whether a method may raise an exception. Elements or keys whose type is unknown until run time may not be
    comparable. Dates may leave the range of years, or have a pattern that is unknown until run time.
    """
    known = [arg.constant for arg in e.args]
    if any(isinstance(value, Chronology) and not isinstance(value, EpochChronology) for value in known):
        return True
    patterns = any(p.kind == "pattern" for form in METHODS[e.name].forms for p in form.parameters)
    if patterns and known[-1] is None:
        return True
    types = [e.receiver.type.of, *(arg.type for arg in e.args)]
    return any(type_ is not None and type_.name in ("object", "map") for type_ in types)
