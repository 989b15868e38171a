"""The views of a statement as code: how they are created, and how arriving events become their items."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.fragments.event_layout import EventLayout, intermediate_layout
from cepbook.engine.fragments.unnest import write_unnest
from cepbook.engine.physical.operators import DeriveOperator as Step
from cepbook.engine.physical.operators import RecognizeOperator, UnnestOperator, WindowOperator
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.recognize.match_view import recognize_view
from cepbook.engine.recognize.recognize_codegen import RECOGNIZE_PROGRAM, RecognizeCodegen
from cepbook.engine.recognize.row_entry_codegen import ENTER_ROW, recognize_codegen
from cepbook.engine.time.timers import NEVER, WINDOW
from cepbook.engine.windows import STATISTICS, WINDOW_FORMS, window_codegen
from cepbook.engine.windows.combined import WindowUnion, intersection
from cepbook.engine.windows.derived_value import DerivedValueView
from cepbook.engine.windows.groupwin import GroupWindow
from cepbook.engine.windows.newest import NewestWindow
from cepbook.engine.windows.unnest_view import UnnestView
from cepbook.engine.windows.view_chain import DownstreamWindow, ViewChain
from cepbook.engine.windows.view_wrappers import AccumulatingView, ActivationView
from cepbook.engine.windows.window_view import LastEventView, PassThroughView
from cepbook.errors import Span
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import Derivation, WindowSpec
from cepbook.lang.registry.windows import WINDOWS


class ViewCodegen:
    """Writes how arrivals become deltas of the statement."""

    def __init__(self, code: CodegenContext, iterable_unbound: bool) -> None:
        self.code = code
        self.source = code.source
        self.steps = code.steps
        self.iterable_unbound = iterable_unbound
        self.derive = code.steps.derive
        self.operands: list[str] = []  # code for the arriving event, of the stage that was written last
        self.first_operands: list[str] = []
        self._priors: str | None = None  # state slot of the values of ``prior``
        if self.steps.priors:
            most = max(prior.index for prior in self.steps.priors)
            self._priors = code.slot(f"{self.source.bind('_deque', deque)}(maxlen={most + 1})")
        self.recognize: RecognizeCodegen | None = None
        self.prefetched = False  # True while the loop of `run` is written, after the locals of `prefetch`

    @property
    def span(self) -> Span:
        """The place of the windows in the EPL text; that of the source of a statement without windows."""
        windows = self.steps.stages[0].windows
        return windows[0].span.to(windows[-1].span) if windows else self.steps.source.span

    def view(self) -> str:
        """Return the code of the statement's view, which reads ``S`` and ``now``."""
        view = self._stages()
        if self.steps.buffers_input:
            return f"{self.source.bind('_Taking', ActivationView)}({view})"
        return f"{self.source.bind('_Gathered', AccumulatingView)}({view})" if self.steps.sorts_matches else view

    def _stages(self) -> str:
        below, *above = self.steps.stages
        with self._at(self.code.first):
            view = self._views(below)
        if not above:
            return view
        if self.derive is not None:
            view = self._behind(view, above[0])
        return view if self.steps.recognizer is None else self._recognize(self.steps.recognizer, view)

    def _behind(self, rows: str, stage: WindowOperator) -> str:
        items = intermediate_layout(self.steps) or self.code.items
        chain, windows = self.source.bind("_Chain", ViewChain), self.source.bind("_Windows", DownstreamWindow)
        with self._packing(items) as pack:
            derived = self._derive(self.derive.node, pack) if isinstance(self.derive, Step) else self._unfold(pack)
            view = derived if self.steps.views_store else f"{chain}({rows}, {derived})"
            if stage.windows:
                with self._at(items):
                    view = f"{chain}({view}, {windows}({self._views(stage)}))"
        return view

    @contextmanager
    def _packing(self, items: EventLayout) -> Iterator[str]:
        name = f"pack{len(self.code.helpers)}"
        operands: list[str] = []
        self.code.helpers.append(partial(self._write_pack, name, items, operands))
        yield name
        operands += self.operands

    @contextmanager
    def _at(self, items: EventLayout) -> Iterator[None]:
        code = self.code
        before = code.items, code.arrivals
        code.items = code.arrivals = items
        yield
        code.items, code.arrivals = before

    def _views(self, stage: WindowOperator) -> str:
        self.operands = []
        groups = stage.groups
        if groups is None:
            return self._combined(stage.windows, stage.union)
        _, *rest = stage.windows
        at = self._operand(self.code.window_key(self.code.arriving("now"), groups.args))
        cut = next((place for place, spec in enumerate(rest) if spec.row.merging), len(rest))
        inner = self._combined(rest[:cut], stage.union)
        make = f"group_view{len(self.code.helpers)}"
        self.code.helpers.append(partial(self._write_group_view, make, inner))
        sweep = NEVER if groups.reclaim is None else f"now + {groups.reclaim[1]}"
        arguments = f"{at}, S, {make}, {groups.reclaim}, {sweep}, {self.steps.buffers_input}"
        view = f"{self.source.bind('_GroupWin', GroupWindow)}({arguments})"
        if not rest[cut + 1 :]:
            return view
        chain, windows = self.source.bind("_Chain", ViewChain), self.source.bind("_Windows", DownstreamWindow)
        return f"{chain}({view}, {windows}({self._combined(rest[cut + 1 :], stage.union)}))"

    def _write_group_view(self, name: str, inner: str) -> None:
        with self.source.block(f"def {name}(S, now):"):
            self.source.line(f"return {inner}")

    @property
    def _remembers_last(self) -> bool:
        return self.iterable_unbound and not self.steps.rows_per_group and len(self.steps.stages) == 1

    def _combined(self, specs: Sequence[WindowSpec], union: bool) -> str:
        if specs and specs[-1].row.hides:
            inner = self._combined(specs[:-1], union)
            return f"{self.source.bind('_Newest', NewestWindow)}({inner}, {self._place_of(specs[-1])})"
        views = [self._window(spec) for spec in specs]
        if not views:
            passing = LastEventView if self._remembers_last else PassThroughView
            return f"{self.source.bind(f'_{passing.__name__}', passing)}()"
        if len(views) == 1:
            return views[0]
        name = self.source.bind("_Union", WindowUnion) if union else self.source.bind("_intersection", intersection)
        return f"{name}({', '.join(views)})"

    def _window(self, spec: WindowSpec) -> str:
        window = WINDOW_FORMS[spec.name]
        at = self._place_of(spec)
        if self.steps.aggregate_only and window.aggregate_only is not None:
            return window.aggregate_only(self.code, spec, at)
        return window.make(self.code, spec, at)

    def _place_of(self, spec: WindowSpec) -> int:
        at = self.code.items.first_operand + len(self.operands)
        self.operands += WINDOW_FORMS[spec.name].operands(self.code, spec)
        return at

    def _operand(self, code: str) -> int:
        self.operands.append(code)
        return self.code.items.first_operand + len(self.operands) - 1

    def _derive(self, derived: Derivation, pack: str) -> str:
        """Return the code of a derived-value window; its parameters become operands of the first stage's items."""
        source = self.source
        at = self.code.first.first_operand + len(self.operands)
        with self._at(self.code.first):
            scope = self.code.arriving("now")
            columns = (*derived.extra, *derived.keys)
            self.operands += [lower.value(scope, e) for e in (*derived.args, *(c.value for c in columns))]
        self.first_operands, self.operands = self.operands, []
        extra = source.const(tuple(c.name for c in derived.extra), "names")
        keys = source.const(tuple(c.name for c in derived.keys), "names")
        statistic = source.bind(f"_{derived.name}", STATISTICS[derived.name])
        return (
            f"{source.bind('_Derive', DerivedValueView)}({statistic}, {at}, {len(derived.args)}, {extra}, {keys}, "
            f"S, {pack}, now, {WINDOWS[derived.name].skips_unchanged})"
        )

    def _recognize(self, step: RecognizeOperator, rows: str) -> str:
        *before, _ = self.steps.stages
        if len(before) == 1:
            self.first_operands = self.operands
        self.operands = []
        with self._packing(self.code.items) as pack:
            # a derived event that the next one takes back stays a row; one that a window drops does not
            stage = before[-1]
            permanent = not stage.merged and all(window.row.leaves == "never" for window in stage.windows)
            leaves = self.steps.reads_store or not permanent
            self.recognize = recognize_codegen(
                step.node, self.code.base, leaves=leaves, alone=self.steps.enters_rows_alone
            )
            self.code.helpers.append(self.recognize.write)
        return f"{self.source.bind('_recognizing', recognize_view)}({rows}, {RECOGNIZE_PROGRAM}, S, {pack})"

    def _unfold(self, pack: str) -> str:
        assert isinstance(self.derive, UnnestOperator)
        source, name = self.source, f"unfold{len(self.code.helpers)}"
        self.first_operands, self.operands = self.operands, []
        self.code.helpers.append(partial(self._write_unfold, self.derive, name))
        remembers = self.iterable_unbound and not (self.steps.rows_per_group or self.steps.windows)
        return f"{source.bind('_Unfold', UnnestView)}({name}, S, {pack}, remembers={remembers})"

    def _write_unfold(self, unfold: UnnestOperator, name: str) -> None:
        write_unnest(unfold.contained, self.code.base, name)

    def _write_pack(self, name: str, items: EventLayout, operands: Sequence[str]) -> None:
        """Write ``pack0(S, e, now, posted)``: the item of a derived event; ``prior`` counts those that are posted."""
        source, of_rows = self.source, items is self.code.items
        with self._at(items), source.block(f"def {name}(S, e, now, posted):"):
            self.code.number()
            for name, position in items.positions.items():
                key = source.const(name, "n")
                source.line(f"p{position} = e.get({key})" if self.steps.source.contained else f"p{position} = e[{key}]")
            if self._priors is not None and of_rows:
                nothing = " = ".join(f"pr{number}" for number in range(len(self.steps.priors)))
                source.line(f"{nothing} = None")
                with source.block("if posted:"):
                    self._write_priors()
            source.line(f"return {items.pack(operands)}")

    def _write_priors(self) -> None:
        if self._priors is None:
            return
        source, priors = self.source, self.steps.priors
        values = list(dict.fromkeys(prior.value for prior in priors))
        scope = self.code.arriving("now")
        source.line(f"before = {self._priors}")
        span = values[0].span.to(values[-1].span)
        source.line(f"before.append(({''.join(lower.value(scope, e) + ', ' for e in values)}))", span)
        for number, prior in enumerate(priors):
            value = f"before[{-1 - prior.index}][{values.index(prior.value)}]"
            source.line(f"pr{number} = {value} if len(before) > {prior.index} else None")

    def prior(self, e: x.Prior, *, arriving: bool) -> str:
        """Return the code of a call of ``prior`` for the arriving event or for an unpacked item."""
        return f"{'pr' if arriving else 'qr'}{self.steps.priors.index(e)}"

    @property
    def _fragment(self) -> window_codegen.ArrivalFragment | None:
        only = self.steps.single_window
        return None if only is None or self.objection is not None else WINDOW_FORMS[only.name].fragment

    @property
    def queued(self) -> bool:
        """True if the code of an arrival appends its item to the local ``queue``, the window that the event is in."""
        only = self.steps.single_window
        return only is not None and self.objection is None and WINDOW_FORMS[only.name].queued

    @property
    def objection(self) -> str | None:
        """The reason why arrivals call the view; None if they are written into the statement."""
        steps, only = self.steps, self.steps.single_window
        if steps.sorts_matches:
            return "matches are sorted together"
        if only is None:
            if self._passes_by:
                return None
            if isinstance(self.derive, UnnestOperator):
                return "an event may contain several"
            if self.steps.recognizer is not None and self.derive is None:
                return "it finds matches"
            return "several windows decide" if self.derive is None else "it makes derived events"
        if any(spec.reclaim is not None for spec in steps.stages[0].windows):
            return "groups are forgotten by their age"
        return None if WINDOW_FORMS[only.name].fragment is not None else f"{only.name} has no fragment"

    @property
    def _passes_by(self) -> bool:
        return len(self.steps.stages) == 1 and not self.steps.stages[0].windows and not self.steps.sorts_matches

    @property
    def keeps_nothing(self) -> bool:
        return self._passes_by and not self._remembers_last

    @property
    def passes(self) -> bool:
        return self.keeps_nothing and self._priors is None

    @property
    def reads_now(self) -> bool:
        if self._passes_by:
            return False
        steps, only = self.steps, self.steps.single_window
        if self._fragment is None or only is None or steps.group_keys:
            return True
        return (WINDOW_FORMS[only.name].reads_now or not steps.enters_alone) and not steps.clock_starts_with_group

    def item(self, operands: Sequence[str] | None = None) -> str:
        """Write the values of an arriving event's item; return its code. `operands` are given if they are locals."""
        if len(self.steps.stages) > 1:
            return self.code.first.pack(self.first_operands)
        self._write_priors()
        return self.code.items.pack(self.operands if operands is None else operands)

    def arrive(self, swept: window_codegen.EvictionWriter) -> window_codegen.EmittedChange | None:
        """Write the arrival of an event; return what the view posts. `swept` writes the eviction of unseen items."""
        if self.keeps_nothing:
            self._write_priors()
            return window_codegen.ARRIVAL_ONLY
        fragment = self._fragment
        operands = self.operands if fragment is None else self._in_locals(self.operands)
        item = self.item(operands)
        if self.steps.reads_prev or self.steps.lookup is not None:
            self.source.line(f"item = {item}")
            item = "item"
        if self._passes_by:
            self.source.line(f"W.last = ({item},)")
            return window_codegen.ARRIVAL_ONLY
        if fragment is None:
            if self.recognize is not None and self.recognize.enters_rows:
                self.source.line(f"change = {ENTER_ROW}(W.then, S, o, e, now)")
            else:
                self.source.line(f"change = W.arrive({item}, now)", self.span)
                self.armed()
            return window_codegen.DELTA_IN_LOCAL
        if not self.steps.group_keys:
            return fragment(self._arrival(item, operands, swept))
        key, *operands = operands
        self.code.find_or_make("w", "views" if self.prefetched else "W.by_key", key, f"W.open({key}, now)")
        return fragment(self._arrival(item, operands, swept, key))

    def _arrival(
        self,
        item: str = "",
        operands: Sequence[str] = (),
        swept: window_codegen.EvictionWriter | None = None,
        key: str | None = None,
    ) -> window_codegen.WindowArrival:
        only = self.steps.single_window
        assert only is not None
        view = "W" if key is None else "w"
        return window_codegen.WindowArrival(
            self.code,
            only,
            view,
            item,
            operands,
            evicts_unseen=self.steps.aggregation is None and not self.steps.makes_remove_rows,
            prefetched=self.prefetched and key is None and WINDOW_FORMS[only.name].prefetch is not None,
            write_eviction=swept,
            write_arming=partial(self.armed, None if key is None else (key, view)),
        )

    def ahead(self) -> None:
        """Write the fields of the single view that the loop of `run` keeps in locals."""
        only, fragment = self.steps.single_window, self._fragment
        if only is None or fragment is None or self.steps.context is not None:  # each partition has a view of its own
            return
        self.prefetched = True
        prefetch = WINDOW_FORMS[only.name].prefetch
        if self.steps.group_keys:
            self.source.line("views = W.by_key")
        elif prefetch is not None:
            prefetch(self._arrival())

    def _in_locals(self, operands: Sequence[str]) -> list[str]:
        names = [o if o.isidentifier() else f"w{number}" for number, o in enumerate(operands)]
        for name, operand in zip(names, operands, strict=True):
            if name != operand:
                self.source.line(f"{name} = {operand}", self.span)
        return names

    def ask(self) -> None:
        """Write that the view takes the arriving event; its answer is the local ``change``."""
        self.source.line(f"change = W.arrive({self.item()}, now)")

    def arrive_along(self) -> window_codegen.EmittedChange | None:
        """Write the arrival of an event at a batch that keeps no events."""
        fragment = self._fragment
        assert fragment is not None
        return fragment(self._arrival())

    def armed(self, group: tuple[str, str] | None = None) -> None:
        """Write how the clock learns of the view's due time; `group` is the code of a key and of its view."""
        source, steps = self.source, self.steps
        if not steps.ticks:
            return
        if group is not None:
            key, view = group
            with source.block(f"if {view}.due != {view}.armed:"):
                source.line(f"W.arm({key}, {view})")
        if self.code.in_column_loop and self.code.has_single_timer:
            source.line("due = W.due")
        else:
            self.arm()

    def arm(self) -> None:
        """Write that a timer is armed if the view is due earlier than the present timer."""
        with self.source.block("if W.due < W.armed:"):
            self.source.line("W.armed = W.due")
            self.source.line(f"arm(W.due, S, W, {WINDOW})")


def write_properties(code: CodegenContext, names: Sequence[str]) -> None:
    """Write the properties of an event ``e`` into locals; a missing property is null."""
    source, local = code.source, code.first.positions
    keys = [(f"p{local[name]}", source.const(name, "n")) for name in names]
    if not keys:
        return
    with source.block("try:"):
        for target, key in keys:
            source.line(f"{target} = e[{key}]")
    with source.block("except KeyError:"):
        for target, key in keys:
            source.line(f"{target} = e.get({key})")


def write_event_reading(code: CodegenContext, condition: x.BoundExpr | None, now: str) -> None:
    """Write the reading of an event ``e``; return from the function if `condition` is not true."""
    source = code.source
    write_properties(code, code.steps.properties)
    if condition is not None:
        with source.block(f"if not {lower.filter_condition(code.arriving(now), condition)}:", condition.span):
            source.line("return None")


def write_store_items(name: str, code: CodegenContext, pipeline: ViewCodegen, base: str = "") -> None:
    """Write the function `name` ``(S, stored, now, failures)``: rows of a store that pass the filter, as items of a
    reader.

    They keep their ordinals, plus a parameter `base`. If a list of failures is passed, a row for which the filter fails
    is skipped and the failure is appended to the list.
    """
    source = code.source
    unfold = write_store_unnest(name, code)
    guarded = lower.may_fail(code.steps.source.filter)
    parameters = ", ".join(["S", "stored", *filter(None, [base]), "now", *(["failures=None"] if guarded else [])])
    with source.block(f"def {name}({parameters}):"):
        source.line("found = []")
        with source.block("for stored_item in stored:"):
            source.line(f"o, e = {f'{base} + ' if base else ''}stored_item[0], stored_item[-1]")
            with source.block("try:") if guarded else nullcontext():
                write_store_item(code, pipeline, unfold)
            if guarded:
                with source.block("except Exception as failure:"):
                    with source.block("if failures is None:"):
                        source.line("raise")
                    source.line("failures.append(failure)")
        source.line("return found")


@contextmanager
def filter_failures(source: SourceWriter, *inputs: PhysicalPlan) -> Iterator[str]:
    """Write code around the taking of rows of a store; yield the argument that collects filter failures. The first
    failure is raised at the end, once the change has taken effect.
    """
    guarded = any(lower.may_fail(steps.source.filter) for steps in inputs)
    if guarded:
        source.line("unread = []")
    yield ", unread" if guarded else ""
    if guarded:
        with source.block("if unread:"):
            source.line("raise unread[0]")


def write_store_unnest(name: str, code: CodegenContext) -> str | None:
    """Write the function of the events that a store's row contains; return its name, None if rows contain none."""
    contained = code.steps.source.contained
    return write_unnest(contained, code.base, f"within_{name}") if contained else None


def write_store_item(code: CodegenContext, pipeline: ViewCodegen, unfold: str | None) -> None:
    """Write that the row ``e`` of a store, number ``o``, becomes an item in ``found`` if it passes the filter. With
    `unfold` the events that it contains become items. They are numbered within the row, so that the same items leave
    with it.
    """
    source, condition = code.source, code.steps.source.filter
    places = code.first.positions.items()
    if unfold is None:
        for name, position in places:
            source.line(f"p{position} = e[{source.const(name, 'n')}]")
        with code.under(code.arriving("now"), condition):
            source.line(f"found.append({pipeline.item()})")
        return
    row = {name: f"e[{source.const(name, 'n')}]" for name in lower.property_names(condition)}
    with code.under(code.base.at(props=lower.property_codes(row), events={0: "e"}, now="now"), condition):
        source.line("first = o << 32")
        with source.block(f"for number, e in enumerate({unfold}(e, S) or ()):"):
            source.line("o = first | number")
            for name, position in places:
                source.line(f"p{position} = e.get({source.const(name, 'n')})")
            source.line(f"found.append({pipeline.item()})")
