"""Functions, aggregates and data windows from Python, with the types that their annotations declare.

::

    @cep.function
    def spread(bid: float, ask: float) -> float:
        return ask - bid

    @cep.aggregate                      # a function of the values of all events in the window
    def mad(prices: list[float]) -> float:
        return float(np.median(np.abs(np.array(prices) - np.median(prices))))

    @cep.aggregate                      # values come and go one by one
    class Ema:
        def __init__(self): self.mean = None
        def enter(self, price: float): …
        def leave(self, price: float): …
        def value(self) -> float: …

    @cep.window                         # which events stay in the window: from Tick#usual(price)
    def usual(prices: list[float]) -> list[bool]:
        return list(np.abs(np.array(prices) - np.mean(prices)) <= 3 * np.std(prices))

Annotations are those of `Workbench.define`: ``int`` is long, ``float`` double, ``list[float]`` double[]. A parameter of
dates takes a long, too, and the function gets and returns the annotated class (`engine.expressions.user_values`). A
function gets no null where its parameter does not allow None: the result is null then, and an aggregate passes over the
event.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar, overload

from cepbook.engine.snapshot.runtime_snapshot import function_data
from cepbook.errors import UsageError, exception_text
from cepbook.lang.plan.catalog import FunctionType
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.types import OBJECT
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.event_validation import EventTypes
from cepbook.session.io.python_values import RowsLike, plain_rows, replace_window_rows
from cepbook.session.io.schema_inference import annotation_type

_CLOCK = "clock"  # the keyword-only parameter of a window's function that gets its `WindowClock`
RegisteredCode = TypeVar("RegisteredCode", bound=Callable[..., Any])


class RegistrationMixin(WorkbenchCore):
    """Python functions, aggregates and windows that EPL calls by name, and rows of named windows."""

    def replace_rows(self, name: str, rows: RowsLike) -> None:
        """Replace the rows of the named window `name` by `rows` (a DataFrame, dicts, lists).

        Raises UsageError for an unknown name, unknown columns, and values of other types.
        """
        rows = plain_rows(rows)
        with self._lock, self._engine.action("replace_rows", name=name, rows=rows), self.runtime.turn:
            replace_window_rows(self.runtime, name, rows)
            done = f"the rows of `{name}` were replaced by hand"
            self._engine.record_manual_action(lambda runtime: replace_window_rows(runtime, name, rows), what=done)

    def register_function(self, name: str, fn: Callable[..., Any], *, returns: Any = OBJECT) -> None:
        """Make a Python function callable from EPL; `returns` is its EPL type, its name (``"long"``) or an annotation.

        Raises UsageError for an unknown type, and for names that EPL uses itself: reserved words, functions,
        aggregates.
        """
        if not callable(fn):
            raise UsageError(f"`{name}` must be a function, not {type(fn).__name__}")
        of = annotation_type(f"{name} -> …", returns, self.runtime.catalog.event_types)[0]
        self._register(name, fn, FunctionType(of))

    @overload
    def function(self, code: RegisteredCode) -> RegisteredCode: ...
    @overload
    def function(self, code: None = None, *, name: str | None = None) -> Callable[[RegisteredCode], RegisteredCode]: ...
    def function(self, code: Any = None, *, name: str | None = None) -> Any:
        """Decorator: make a function callable from EPL, with the types of its annotations, by its name or another.

        Deployed statements keep the function that they were deployed with. Raises UsageError for an annotation without
        an EPL type, and for names that EPL uses itself.
        """
        if code is None:
            return lambda code: self._function(code, name or getattr(code, "__name__", ""))
        return self._function(code, name or getattr(code, "__name__", ""))

    def _function(self, code: Any, name: Any) -> Any:
        if not callable(code) or isinstance(code, type):
            raise UsageError(f"`function` decorates a function, not {type(code).__name__}")
        self._register(name, code, _typed(name, code, self.runtime.catalog.event_types, "function"))
        return code

    @overload
    def aggregate(self, code: RegisteredCode) -> RegisteredCode: ...
    @overload
    def aggregate(
        self, code: None = None, *, name: str | None = None
    ) -> Callable[[RegisteredCode], RegisteredCode]: ...
    def aggregate(self, code: Any = None, *, name: str | None = None) -> Any:
        """Decorator: an aggregate from a class with `enter`, `leave` and `value`, or from a function of lists.

        A function gets the values of all events in the window (of the group), a list for each parameter, in order of
        arrival; it is called for each row. A class is instantiated for each group; without `leave` it works for streams
        that nothing leaves. `save` keeps the attributes of objects, which must be plain data: numbers, texts, lists,
        dicts. Exceptions are reported as errors of the statement.
        """
        if code is None:
            return lambda code: self._aggregate(code, name or getattr(code, "__name__", ""))
        return self._aggregate(code, name or getattr(code, "__name__", ""))

    def _aggregate(self, code: Any, name: Any) -> Any:
        types = self.runtime.catalog.event_types
        if not inspect.isclass(code):
            if not callable(code):
                raise UsageError(f"`aggregate` decorates a class or a function, not {type(code).__name__}")
            self._register(name, code, _collector(name, code, types))
            return code
        for method in ("enter", "value"):
            if not callable(getattr(code, method, None)):
                raise UsageError(f"the aggregate `{name}` has no method `{method}`")
        try:
            instance = code()
        except TypeError as error:
            raise UsageError(f"the aggregate `{name}` must be made without arguments: {error}") from None
        except Exception as error:
            raise UsageError(f"the aggregate `{name}` cannot be made: {exception_text(error)}") from error
        if not hasattr(instance, "__dict__"):
            raise UsageError(f"the aggregate `{name}` has __slots__, where attributes are needed")
        class_: Any = code
        enter = _typed(f"{name}.enter", class_.enter, types, "aggregate", bound=True)
        returns = _typed(f"{name}.value", class_.value, types, "aggregate", bound=True).returns
        self._register(name, code, FunctionType(returns, enter.parameters, enter.nullable, "aggregate"))
        return code

    @overload
    def window(self, code: RegisteredCode) -> RegisteredCode: ...
    @overload
    def window(self, code: None = None, *, name: str | None = None) -> Callable[[RegisteredCode], RegisteredCode]: ...
    def window(self, code: Any = None, *, name: str | None = None) -> Any:
        """Decorator: a data window from a function that decides which events stay, ``Tick#name(price)``.

        The function is called when an event arrives. Parameters annotated as lists get the values of all events in the
        window, the newest last; other parameters get the value of the newest event. It returns a list of truth values,
        one for each event, or the number of newest events that stay, or None for all. A keyword-only parameter `clock`
        gets a `WindowClock`: the present time, the arrival times of the events, and ``clock.call_at(time)``, which
        calls the function at that time without a new event. An event with a null that a parameter does not allow does
        not enter the window. Neither does an event for which the function raises; this is an error of the statement.
        """
        if code is None:
            return lambda code: self._window(code, name or getattr(code, "__name__", ""))
        return self._window(code, name or getattr(code, "__name__", ""))

    def _window(self, code: Any, name: Any) -> Any:
        if not callable(code) or inspect.isclass(code):
            raise UsageError(f"`window` decorates a function, not {type(code).__name__}")
        if name in WINDOWS:
            raise UsageError(f"a data window cannot be called `{name}`: EPL has a window of this name")
        types = self.runtime.catalog.event_types
        clocked = _clocked(code)
        signature = _typed(name, code, types, "window")
        if not any(of.of is not None for of in signature.parameters or ()):
            raise UsageError(f"the window `{name}` needs a parameter that is a list, such as `prices: list[float]`")
        loose = _loose(name, code, types)
        self._register(name, code, FunctionType(OBJECT, signature.parameters, loose, "window", clocked=clocked))
        return code

    def _register(self, name: str, code: Callable[..., Any], type_: FunctionType) -> None:
        with self._lock, self._engine.action("register_function", name=name, type=function_data(type_)):
            self.runtime.register_function(name, code, returns=type_)
            self._functions[name] = (code, type_)


def _clocked(code: Any) -> bool:
    try:
        parameter = inspect.signature(code).parameters.get(_CLOCK)
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY


def _typed(name: str, code: Any, types: EventTypes, kind: Any, *, bound: bool = False) -> FunctionType:
    try:
        hints = typing.get_type_hints(code)
        parameters = list(inspect.signature(code).parameters.values())[bound:]
        if kind == "window" and _clocked(code):
            parameters = [p for p in parameters if p.name != _CLOCK]
    except (NameError, SyntaxError, TypeError, ValueError) as error:
        if isinstance(error, NameError | SyntaxError):
            raise UsageError(f"an annotation of `{name}` cannot be resolved: {error}") from None
        return FunctionType(OBJECT)  # of a function in C there is no signature
    annotation = hints.get("return", type(None))
    returns = OBJECT if annotation is type(None) else annotation_type(f"{name} -> …", annotation, types)[0]
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD and p.kind is not p.POSITIONAL_ONLY for p in parameters):
        return FunctionType(returns, None, (), "function")
    optional = sum(p.default is not p.empty for p in parameters)
    if optional and kind != "function":
        raise UsageError(f"`{name}` has parameters with default values, which an aggregate cannot have")
    typed_parameters = [annotation_type(f"{name}({p.name})", hints.get(p.name, Any), types) for p in parameters]
    return FunctionType(
        returns, tuple(of for of, _ in typed_parameters), tuple(loose for _, loose in typed_parameters), kind, optional
    )


def _collector(name: str, code: Any, types: EventTypes) -> FunctionType:
    signature = _typed(name, code, types, "collector")
    if not signature.parameters or any(of.of is None for of in signature.parameters):
        raise UsageError(
            f"the parameters of the aggregate `{name}` must be lists, such as `prices: list[float]`"
            "\n  hint: a class with enter, leave and value takes values one by one"
        )
    return FunctionType(signature.returns, signature.parameters, _loose(name, code, types), "collector")


def _loose(name: str, code: Any, types: EventTypes) -> tuple[bool, ...]:
    hints = typing.get_type_hints(code)
    allows_none: list[bool] = []
    for parameter_name, parameter in inspect.signature(code).parameters.items():
        if parameter_name == _CLOCK and parameter.kind is parameter.KEYWORD_ONLY:
            continue
        annotation = hints.get(parameter_name, Any)
        of, loose = annotation_type(name, annotation, types)
        if of.of is not None:
            loose = annotation_type(name, (typing.get_args(annotation) or (Any,))[0], types)[1]
        allows_none.append(loose)
    return tuple(allows_none)
