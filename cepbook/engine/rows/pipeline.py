"""The views of a statement on the general path, as code: how they are made, and how events become their items."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.items import Items
from cepbook.engine.rows.shape import Stage
from cepbook.engine.rows.windows import STATISTICS, VIEWS
from cepbook.engine.rows.windows.chain import Chain, Windows
from cepbook.engine.rows.windows.combined import Union, intersection
from cepbook.engine.rows.windows.derived import Derive
from cepbook.engine.rows.windows.groupwin import GroupWin
from cepbook.engine.rows.windows.view import LastSeen, Unbound
from cepbook.errors import Span
from cepbook.lang import expr as x
from cepbook.lang.plan import Derived, WindowSpec


class Pipeline:
    """Writes what turns arrivals into changes of the statement's rows."""

    def __init__(self, code: Code, iterable_unbound: bool) -> None:
        self.code = code
        self.source = code.source
        self.shape = code.shape
        self.iterable_unbound = iterable_unbound
        self.derived = code.shape.plan.derived
        self.operands: list[str] = []  # code for the arriving event, of the stage that was written last
        self.first_operands: list[str] = []
        self._priors = self._prior_slots() if self.shape.priors else None

    @property
    def span(self) -> Span:
        """Where the windows stand that events arrive at; the source of a statement without windows."""
        windows = self.shape.stages[0].windows
        return windows[0].span.to(windows[-1].span) if windows else self.shape.source.span

    # -------------------------------------------------------------- views
    def view(self) -> str:
        """Code of the statement's view; it reads ``S`` and ``now``."""
        below, *above = self.shape.stages
        with self._at(self.code.first):
            found = self._views(below)
        if self.derived is None:
            return found
        chain, windows = self.source.bind("_Chain", Chain), self.source.bind("_Windows", Windows)
        found = f"{chain}({found}, {self._derive(self.derived)})"
        if above[0].windows:
            with self._at(self.code.items):
                found = f"{chain}({found}, {windows}({self._views(above[0])}))"
        return found

    @contextmanager
    def _at(self, items: Items) -> Iterator[None]:
        """Write for items of another stage."""
        code = self.code
        before = code.items, code.arrivals
        code.items = code.arrivals = items
        yield
        code.items, code.arrivals = before

    def _views(self, stage: Stage) -> str:
        """The windows of one stage: those under ``groupwin``, then those behind ``merge``."""
        self.operands = []
        names = [spec.name for spec in stage.windows]
        if "groupwin" not in names:
            return self._combined(stage.windows, stage.union)
        groups, *rest = stage.windows
        at = self._operand(self.code.window_key(self.code.arriving("now"), groups.args))
        cut = names.index("merge") - 1 if "merge" in names else len(rest)
        inner = self._combined(rest[:cut], stage.union)
        make = f"group_view{len(self.code.helpers)}"
        self.code.helpers.append(partial(self._write_group_view, make, inner))
        found = f"{self.source.bind('_GroupWin', GroupWin)}({at}, S, {make}, {groups.reclaim}, now)"
        if not rest[cut + 1 :]:
            return found
        chain, windows = self.source.bind("_Chain", Chain), self.source.bind("_Windows", Windows)
        return f"{chain}({found}, {windows}({self._combined(rest[cut + 1 :], stage.union)}))"

    def _write_group_view(self, name: str, inner: str) -> None:
        """``group_view0(S, now)``: the view of a new group."""
        with self.source.block(f"def {name}(S, now):"):
            self.source.line(f"return {inner}")

    def _combined(self, specs: Sequence[WindowSpec], union: bool) -> str:
        views = [self._window(spec) for spec in specs]
        if not views:
            passing = LastSeen if self.iterable_unbound and not self.shape.fully else Unbound
            return f"{self.source.bind(f'_{passing.__name__}', passing)}()"
        if len(views) == 1:
            return views[0]
        name = self.source.bind("_Union", Union) if union else self.source.bind("_intersection", intersection)
        return f"{name}({', '.join(views)})"

    def _window(self, spec: WindowSpec) -> str:
        window = VIEWS[spec.name]
        at = self.code.items.first_operand + len(self.operands)
        self.operands += window.operands(self.code, spec)
        return window.make(self.code, spec, at)

    def _operand(self, code: str) -> int:
        self.operands.append(code)
        return self.code.items.first_operand + len(self.operands) - 1

    # -------------------------------------------------------------- derived events
    def _derive(self, derived: Derived) -> str:
        """Code of the derived-value window; its parameters become operands of the first stage's items."""
        source = self.source
        at = self.code.first.first_operand + len(self.operands)
        with self._at(self.code.first):
            scope = self.code.arriving("now")
            columns = (*derived.extra, *derived.keys)
            self.operands += [lower.value(scope, e) for e in (*derived.args, *(c.value for c in columns))]
        self.first_operands, self.operands = self.operands, []
        self.code.helpers.append(self._write_pack)
        extra = source.const(tuple(c.name for c in derived.extra), "names")
        keys = source.const(tuple(c.name for c in derived.keys), "names")
        statistic = source.bind(f"_{derived.name}", STATISTICS[derived.name])
        return (
            f"{source.bind('_Derive', Derive)}({statistic}, {at}, {len(derived.args)}, {extra}, {keys}, "
            f"S, pack, now, {derived.name == 'size'})"
        )

    def _write_pack(self) -> None:
        """``pack(S, e, now, posted)``: the item of a derived event; ``prior`` counts those that are posted."""
        source, items = self.source, self.code.items
        with self._at(items), source.block("def pack(S, e, now, posted):"):
            self.code.number()
            for name, position in items.positions.items():
                source.line(f"p{position} = e[{source.const(name, 'n')}]")
            if self._priors is not None:
                nothing = " = ".join(f"pr{number}" for number in range(len(self.shape.priors)))
                source.line(f"{nothing} = None")
                with source.block("if posted:"):
                    self._write_priors()
            source.line(f"return {items.pack('now', self.operands)}")

    # -------------------------------------------------------------- prior
    def _prior_slots(self) -> str:
        """The state's part that holds the values of ``prior`` of the last events."""
        most = max(prior.index for prior in self.shape.priors)
        return self.code.slot(f"{self.source.bind('_deque', deque)}(maxlen={most + 1})")

    def _write_priors(self) -> None:
        """``pr0`` and so on: the values of the calls of ``prior`` for the arriving event."""
        if self._priors is None:
            return
        source, priors = self.source, self.shape.priors
        values = list(dict.fromkeys(prior.value for prior in priors))
        scope = self.code.arriving("now")
        source.line(f"before = {self._priors}")
        source.line(f"before.append(({''.join(lower.value(scope, e) + ', ' for e in values)}))")
        for number, prior in enumerate(priors):
            value = f"before[{-1 - prior.index}][{values.index(prior.value)}]"
            source.line(f"pr{number} = {value} if len(before) > {prior.index} else None")

    def prior(self, e: x.Expr) -> str:
        """Code of a call of ``prior`` for an unpacked item."""
        assert isinstance(e, x.Prior)
        return f"qr{self.shape.priors.index(e)}"

    # -------------------------------------------------------------- arrival
    def arrive(self) -> str:
        """Write what an arriving event is made into; gives the code of its item."""
        if self.derived is None:
            self._write_priors()
            return self.code.items.pack("now", self.operands)
        return self.code.first.pack("now", self.first_operands)
