"""Data windows of a stream: which windows, in which combinations (registry: `lang.registry.windows`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cepbook.errors import Span, nearest_or_known_names
from cepbook.lang.bind.clauses.annotations import Reclaim
from cepbook.lang.bind.clauses.derived_window import BoundDerivedWindow, bind_derived, group_key_columns
from cepbook.lang.bind.clauses.window_parameters import bind_window_parameters
from cepbook.lang.bind.expressions.user_functions import bind_user_window
from cepbook.lang.bind.scope import DATA_WINDOW, AlreadyReported, Scope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import EventType, FunctionType
from cepbook.lang.plan.nodes import OutputColumn, SourceNode, StreamNode, Windowed, WindowSpec
from cepbook.lang.registry.foreign_words import foreign_word
from cepbook.lang.registry.windows import USER_WINDOW, WINDOWS, WindowRow
from cepbook.lang.syntax import ast

MAX_WINDOWS = 100  # of one stream: the time to check them grows with the square


@dataclass(slots=True)
class BoundWindows:
    """Data windows, then optionally a derived-value window, then data windows over its events.

    `groups` are the columns of the ``groupwin`` that still applies after the last window so far. `holding` names the
    data windows that hold the events of the statement's rows, including reported ones.
    """

    below: tuple[WindowSpec, ...] = ()
    derived: BoundDerivedWindow | None = None
    above: tuple[WindowSpec, ...] = ()
    union: bool = False
    groups: tuple[OutputColumn, ...] = ()
    holding: tuple[str, ...] = ()

    @property
    def event_type(self) -> EventType | None:
        """The type of the derived events, or None."""
        return None if self.derived is None else self.derived.event_type

    def add(self, spec: WindowSpec) -> None:
        if self.derived is None:
            self.below = (*self.below, spec)
        else:
            self.above = (*self.above, spec)

    def over(self, source: SourceNode) -> StreamNode:
        """Return the chain of plan nodes from `source` up."""
        rows: Windowed | SourceNode = source
        if self.below:
            rows = Windowed(source, self.below, self._is_union(self.below), span=_span(self.below))
        if self.derived is None:
            return rows
        derived = self.derived.over(rows)
        if not self.above:
            return derived
        return Windowed(derived, self.above, self._is_union(self.above), span=_span(self.above))

    def _is_union(self, stage: Sequence[WindowSpec]) -> bool:
        return self.union and sum(spec.row.holds for spec in stage) > 1


def _span(stage: Sequence[WindowSpec]) -> Span:
    return stage[0].span.to(stage[-1].span)


def bind_windows(source: ast.StreamSource, reclaim: Reclaim, scope: Scope) -> BoundWindows:
    """Bind the windows of `source` in text order.

    `scope` sees the arriving events. `reclaim` applies to ``groupwin``.
    """
    if len(source.windows) > MAX_WINDOWS:
        fact = f"a stream has at most {MAX_WINDOWS} data windows, found {len(source.windows):,}"
        scope.wrong(fact, source.windows[MAX_WINDOWS].span, "insert the events into a stream with the other windows")
        source = replace(source, windows=source.windows[:MAX_WINDOWS])
    _check_order(source, scope)
    windows = BoundWindows(union=source.retain == "union")
    own = scope = replace(scope, no_subqueries=DATA_WINDOW)
    for node in source.windows:
        row = _row(node, scope)
        if row is not None and row.derived:
            windows.holding = ()
        elif row is None or row.holds:
            windows.holding = (*windows.holding, node.name)
        try:
            if row is not None:
                _bind_window(row, node, windows, reclaim, own)
        except AlreadyReported:
            if row is not None and row.derived:  # nothing is known of its events
                own = _scope_after(None, own)
        if row is not None and row.derived and windows.derived is not None:
            own = _scope_after(windows.event_type, own)
    return windows


def has_derived_window(windows: Sequence[ast.Window]) -> bool:
    """Return whether a window replaces the stream's events by derived events."""
    return _any_has((node.name for node in windows), "derived")


def has_groupwin(windows: Sequence[ast.Window]) -> bool:
    """Return whether there is a window for each key."""
    return _any_has((node.name for node in windows), "grouping")


def _scope_after(event_type: EventType | None, scope: Scope) -> Scope:
    stream = replace(scope.streams[0], event_type=event_type)
    return replace(scope, streams=(stream,), unchecked=scope.unchecked or event_type is None)


def _check_order(source: ast.StreamSource, scope: Scope) -> None:
    names = [node.name for node in source.windows]
    if source.retain is not None and not names:
        hint = f"such as #length(5)#time(10 sec) retain-{source.retain}"
        scope.wrong(f"`retain-{source.retain}` without a data window", source.span, hint)
    for position, node in enumerate(source.windows):
        before, behind = names[:position], names[position + 1 :]
        has = partial(_row_has, node.name)
        grouped, merged = _any_has(before, "grouping"), _any_has(before, "merging")
        if has("grouping") and position > 0:
            fact = f"a stream has one `{node.name}`" if grouped else f"`{node.name}` must be the first window"
            hint = f"it takes several keys: #{node.name}(a, b)" if grouped else f"such as #{node.name}(key)#length(5)"
            scope.wrong(fact, node.span, hint)
        elif has("grouping") and (not behind or _row_has(behind[0], "merging")):
            hint = f"such as #{node.name}(key)#length(5)"
            scope.wrong(f"`{node.name}` needs a data window after it", node.span, hint)
        elif has("batch") and source.retain != "union" and _any_has(_sharing_windows(before), "batch"):
            fact = f"`{node.name}` after another batch window: only one can say when events are released"
            hint = "insert the events of one into a stream for the other"
            scope.wrong(fact, node.span, hint)
        elif has("hides") and not _evicts_in_order(before, behind, source.retain):
            fact = f"`{node.name}` must come last, after windows that evict the oldest event first"
            scope.wrong(fact, node.span, f"such as #length(5)#{node.name}(key)")
        elif has("gates") and _shares_events(before, behind):
            scope.wrong(f"`{node.name}` does not go with other windows, which do not wait for its gates", node.span)
        elif has("chooses") and _shares_events(before, behind):
            fact = f"`{node.name}` does not go with other windows, which take all events"
            hint = "derive a stream from it: insert into Chosen select * from …"
            scope.wrong(fact, node.span, hint)
        elif has("passing") and (before or behind):
            scope.wrong(f"`{node.name}` does not go with other windows", node.span)
        elif has("merging") and (not grouped or merged):
            hint = "such as #groupwin(key)#length(5)#merge(key)"
            scope.wrong("`merge` needs a `groupwin` before it", node.span, hint)
        elif merged and node.name in WINDOWS and not has("derived") and not _any_has(before, "derived"):
            hint = "derived values may follow merge; leave it out, or insert the events into a stream of their own"
            scope.wrong(f"`{node.name}` after `merge`", node.span, hint)


def _row_has(name: str, fact: str) -> bool:
    return name in WINDOWS and bool(getattr(WINDOWS[name], fact))


def _any_has(names: Iterable[str], fact: str) -> bool:
    return any(_row_has(name, fact) for name in names)


def _shares_events(before: Sequence[str], behind: Sequence[str]) -> bool:
    others = [name for name in (*_sharing_windows(before), *behind) if name in WINDOWS]
    return any(WINDOWS[name].leaves is not None and not WINDOWS[name].hides for name in others)


def _evicts_in_order(before: Sequence[str], behind: Sequence[str], retain: str | None) -> bool:
    rows = [WINDOWS[name] for name in before if name in WINDOWS and not WINDOWS[name].grouping]
    plain = all(row.kind == "window" and row.leaves in ("in order", "never") for row in rows)
    return bool(rows) and plain and not behind and retain != "union"


def _sharing_windows(names: Sequence[str]) -> Sequence[str]:
    """Return the windows that hold the same events: those after the last ``merge`` or derived-value window."""
    ends = [i for i, name in enumerate(names) if _row_has(name, "merging") or _row_has(name, "derived")]
    return names[ends[-1] + 1 :] if ends else names


def _row(node: ast.Window, scope: Scope) -> WindowRow | None:
    row = WINDOWS.get(node.name)
    if row is None and node.namespace is None and _user_window(node.name, scope) is not None:
        return replace(USER_WINDOW, name=node.name)
    if row is not None and node.namespace in (None, row.namespace):
        return row
    window_text = node.name if node.namespace is None else f"{node.namespace}:{node.name}"
    known = WINDOWS if node.namespace is None else [f"{r.namespace}:{r.name}" for r in WINDOWS.values()]
    meant = f"{row.namespace}:{row.name}" if row is not None else window_text
    elsewhere = foreign_word(node.name, "window")
    hint = nearest_or_known_names(meant, known) if meant not in known else f"did you mean `{meant}`?"
    if row is None and elsewhere is not None:
        hint = elsewhere.doc
    scope.report("unknown-window", f"no data window `{window_text}`", scope.module.locate(node.name, node.span), hint)
    return None


def _user_window(name: str, scope: Scope) -> FunctionType | None:
    function = scope.module.catalog.functions.get(name)
    return function if function is not None and function.kind == "window" else None


def _bind_window(row: WindowRow, node: ast.Window, windows: BoundWindows, reclaim: Reclaim, scope: Scope) -> None:
    arguments = bind_window_parameters(row, node, scope)
    supplied = _user_window(row.name, scope) if row.name not in WINDOWS else None
    if supplied is not None:
        windows.add(bind_user_window(node, supplied, arguments.args, scope))
        return
    if row.derived:
        _add_derived(bind_derived(row.name, arguments, windows.groups, scope, node.span), windows, reclaim, scope)
    elif row.merging:
        groups = next((spec for spec in windows.below if spec.row.grouping), None)
        if groups is not None and set(groups.args) != set(arguments.args):
            fact = f"`{row.name}` names other keys than its `{groups.name}`"
            hint = "merge joins the groups of all keys: repeat these, or leave it out"
            scope.reject(fact, node.span, hint)
        windows.groups = ()
        if windows.derived is None:
            windows.add(WindowSpec(row.name, (), span=node.span))
    elif row.grouping:
        windows.groups = group_key_columns(node.args, arguments.args, scope)
        windows.add(WindowSpec(row.name, tuple(arguments.args), reclaim=reclaim, span=node.span))
    else:
        if windows.groups and windows.derived is not None and not windows.above:
            keys = tuple(x.Prop(c.value.type, 0, c.name, span=c.span) for c in windows.groups)
            windows.add(WindowSpec("groupwin", keys, reclaim=reclaim, span=node.span))
        spec = WindowSpec(
            row.name,
            tuple(arguments.args),
            arguments.options,
            tuple(arguments.criteria),
            arguments.calls,
            span=node.span,
        )
        windows.add(spec)


def _add_derived(derived: BoundDerivedWindow, windows: BoundWindows, reclaim: Reclaim, scope: Scope) -> None:
    if windows.derived is not None:
        scope.unsupported("a derived-value window after another one", derived.span)
        return
    if [spec.row.grouping for spec in windows.below] == [True]:  # its keys are those of the derived values
        windows.below = ()
        if reclaim is not None:
            scope.unsupported("reclaim_group hints with a derived-value window alone", derived.span)
    windows.derived = derived
