"""Variables at run time, and conversion of values that come from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, ClassVar

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.delivery.outlet import DeliveryOutlet
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.plain_values import plain_value
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import ReadableVariable
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.time.clock import Clock
from cepbook.errors import UsageError
from cepbook.lang.java.numbers import to_float32
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.types import BITS, DATETIMES, Type

# called with the context partition if each has its own value
VariableListener = Callable[..., None]


class RuntimeVariable:
    """One variable. Generated code reads `value`.

    `given` is the last value that did not come from a statement; a rerun from an empty state starts with it. Filters of
    events read `before` if statements assign the variable in reaction to such an event (`hold`, `release`); otherwise
    it equals `value`. `read_by_filters` is True if there are such filters.

    `listeners` are called after each assignment, also of an equal value. The statement that created the variable
    delivers only assignments by statements (recorded: var_create_variable_statement_output).
    """

    __slots__ = ("_deliverer", "_in_event", "before", "given", "listeners", "name", "read_by_filters", "type", "value")
    SAVED = ("before", "given", "value")

    def __init__(self, name: str, type_: Type, value: Any) -> None:
        self.name = name
        self.type = type_
        self.restore(value)
        self.given = value
        self.read_by_filters = False
        self.listeners: list[VariableListener] = []
        self._deliverer: DeliveryOutlet | None = None

    def __repr__(self) -> str:
        return f"<variable {self.name} {self.type} = {self.value!r}>"

    def deliver_through(self, outlet: DeliveryOutlet) -> None:
        """Deliver assignments by statements through `outlet`."""
        self._deliverer = outlet

    def set(self, value: Any) -> None:
        """Assign from outside; `value` has the variable's type."""
        self.given = value
        self._change(value)

    partitioned: ClassVar[bool] = False  # True if each partition of a context has its own value

    def restore(self, value: Any) -> None:
        """Set the value without notification."""
        self.value = self.before = value
        self._in_event = False

    def decide(self) -> None:
        """Note that a filter reads the variable."""
        self.read_by_filters = True

    def hold(self) -> None:
        """Begin an event: filters keep reading the present value until `release`."""
        self.before = self.value
        self._in_event = True

    def release(self) -> None:
        """End an event."""
        self.before = self.value
        self._in_event = False

    def _change(self, value: Any) -> None:
        self.value = value
        if not self._in_event:
            self.before = value
        for listener in tuple(self.listeners):
            listener()

    def assign(self, value: Any, now: int) -> None:
        """Assign by a statement, at engine time `now`."""
        former = self.value
        self._change(value)
        push = None if self._deliverer is None else self._deliverer.push
        if push is not None:
            push(now, [(value,)], [(former,)])


class ContextVariable(RuntimeVariable):
    """A variable of a context: each partition has its own value, under `name`; `value` is None."""

    __slots__ = ("_former",)  # former values of partitions that changed during the present event
    partitioned = True

    def restore(self, value: Any) -> None:
        super().restore(value)
        self._former: dict[ContextPartition, Any] = {}

    def hold(self) -> None:
        self._former.clear()
        self._in_event = True

    def release(self) -> None:
        self._former.clear()
        self._in_event = False

    def before_in(self, partition: ContextPartition) -> Any:
        """Return the value in `partition` when the present event began."""
        return self._former.get(partition, partition.variables[self.name])

    def assign_in(self, partition: ContextPartition, value: Any, now: int) -> None:
        """Assign by a statement in `partition`, at engine time `now`."""
        former = partition.variables.get(self.name)
        if self._in_event:
            self._former.setdefault(partition, former)
        partition.variables[self.name] = value
        for listener in tuple(self.listeners):
            listener(partition)
        push = None if self._deliverer is None else self._deliverer.push
        if push is not None:
            push(now, [(value,)], [(former,)])


Variables = Mapping[str, RuntimeVariable]


def compile_initial_value(e: BoundExpr, scope_in: lower.ScopeFactory) -> Callable[[], Any]:
    """Return a function that evaluates an initial expression. Errors: Refusal."""
    source = SourceWriter()
    scope = scope_in(source)
    with source.block("def initial():"):
        source.line(f"return {lower.value(scope, e)}")
    initial: Callable[[], Any] = source.load()["initial"]
    return initial


def convert_value(name: str, value: Any, type_: Type) -> Any:
    """Convert `value` to the type of variable `name`; null always fits. Errors: UsageError if it does not fit."""
    try:
        return _fitted(plain_value(value), type_)
    except OverflowError:
        raise UsageError(f"variable `{name}` is {type_}: the value is out of range") from None
    except ValueError as error:
        raise UsageError(f"variable `{name}` is {type_}: {error}") from None


def _fitted(value: Any, type_: Type) -> Any:
    if value is None or type_.name == "object":
        return value
    if type_.of is not None:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{value!r} is no list")
        return [_fitted(item, type_.of) for item in value]
    if not isinstance(value, _KINDS[type_.name]) or (isinstance(value, bool) and type_.name != "boolean"):
        raise ValueError(f"{value!r} does not fit")
    return _converted(value, type_)


def _converted(value: Any, type_: Type) -> Any:
    bits = BITS.get(type_.name)
    if bits is not None and not -1 << (bits - 1) <= value < 1 << (bits - 1):
        raise ValueError(f"{value} is out of range")
    if type_.name == "char" and len(value) != 1:
        raise ValueError(f"{value!r} is not one character")
    if type_.name == "double":
        return float(value)
    if type_.name == "float":
        return to_float32(float(value))
    if type_.name == "bigdecimal":
        return value if isinstance(value, Decimal) else Decimal(str(value))
    return value


# types of plain values; the binder replaces constants of these types by their values
SIMPLE = frozenset("boolean byte short int long biginteger float double bigdecimal string char".split())
_KINDS: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    **dict.fromkeys(("byte", "short", "int", "long", "biginteger"), (int,)),
    **dict.fromkeys(("float", "double"), (int, float)),
    "bigdecimal": (int, float, Decimal),
    **dict.fromkeys(("string", "char"), (str,)),
    **dict.fromkeys(("map", "event", "struct"), (dict,)),
    **dict.fromkeys((type_.name for type_ in DATETIMES), (datetime,)),
    "localdate": (date,),
    "localtime": (time,),
}


@dataclass(eq=False)
class VariableWatcher:
    """Watches the variables of one statement. `states(partition)` returns its state in a partition, or all without one.

    `failed` reports failures, which belong to the statement and not to the one that assigned the variable.
    """

    _program: StatementProgram
    _states: Callable[[ContextPartition | None], Iterable[Any]]
    _clock: Clock
    _failed: Callable[[Exception], None]

    def begin(self) -> None:
        """Start to watch."""
        for cell in self._window_variables:
            cell.listeners.append(self._reevaluate)
        for cell in self._program.output_watched:
            cell.listeners.append(self._reconsider)

    def end(self) -> None:
        """Stop watching."""
        for cell in self._window_variables:
            if self._reevaluate in cell.listeners:
                cell.listeners.remove(self._reevaluate)
        for cell in self._program.output_watched:
            if self._reconsider in cell.listeners:
                cell.listeners.remove(self._reconsider)

    @property
    def _window_variables(self) -> list[ReadableVariable]:
        cells = [cell for program in (self._program, *self._program.subqueries) for cell in program.watched]
        return list({id(cell): cell for cell in cells}.values())

    def _reevaluate(self, partition: ContextPartition | None = None) -> None:
        """Evaluate window conditions again at the next advance, because a variable has changed."""
        for state in self._states(partition) if self._program.watched else ():
            self._call(self._program.functions.reevaluate, state)
        for number, program in enumerate(self._program.subqueries):
            for state in self._states(partition) if program.watched else ():
                self._call(program.functions.reevaluate, state.subqueries[number])

    def _reconsider(self, partition: ContextPartition | None = None) -> None:
        """Evaluate the output condition again at the next advance, because a variable was assigned."""
        for state in self._states(partition):
            self._call(self._program.functions.reconsider, state)

    def _call(self, evaluate: Callable[[Any, int], object], state: StatementState) -> None:
        try:
            evaluate(state, self._clock.now)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self._failed(failure)
