"""Panel: everything in a workbench, live: statements, event types, contexts, stores, variables, the clock, errors.

It is the widget of ``%cep`` and of JupyterLab's left sidebar. While it is displayed it sends items and figures at most
twice a second, with the details of the selected one, and nothing if nothing changed. Details are HTML that is made, and
escaped, here.
"""

from __future__ import annotations

import shlex
import time as wall
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from html import escape
from itertools import islice
from typing import Any, get_args

import traitlets

from cepbook.display import (
    DisplayTable,
    captioned_html,
    format_count,
    format_time,
    format_value,
    table_html,
    table_text,
)
from cepbook.engine.inspection.visible_rows import latest_rows
from cepbook.errors import CepbookError, UsageError, exception_text, printable
from cepbook.lang.syntax.formatter import format_epl
from cepbook.lang.syntax.source_text import EPL, dialect_of
from cepbook.session import Workbench
from cepbook.session.core.cpu_sampler import events_read
from cepbook.session.inspect.metrics import state_size
from cepbook.session.inspect.overview import (
    SECTIONS,
    OverviewItem,
    Section,
    field_text,
    overview_items,
    parse_field_value,
)
from cepbook.session.inspect.partition_table import key_names, partition_properties
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.time_conversion import clock_text
from cepbook.widgets.base.live_widget import LiveWidget, widget_asset, widget_script
from cepbook.widgets.base.static_picture import StaticPicture, table_of_rows
from cepbook.widgets.live_view.partition_rows import columns_of
from cepbook.widgets.live_view.statement_view import StatementView, view
from cepbook.widgets.map.flow_map import FlowMap

INTERVAL = 0.5  # seconds between two looks, at least
SHARE = 50  # and one that took t seconds is followed by a rest of SHARE * t: at most 2 % of the time
MAX_ITEMS = 500  # items of one section that are sent
ROWS = 8  # of a table of details
SECTION_TITLES: dict[Section, str] = {
    "statements": "Statements",
    "types": "Event types",
    "contexts": "Contexts",
    "stores": "Windows, tables",
    "variables": "Variables",
    "errors": "Errors",
}
SECTION_FIGURES: dict[Section, str] = {
    "statements": "rows",
    "types": "events",
    "contexts": "partitions",
    "stores": "rows",
    "variables": "value",
    "errors": "times",
}

ERRORS_KEPT = 100  # of orders that failed, by the name that they were for


class Panel(LiveWidget):
    """The panel of the workbench that `find` returns; `find` raises `UsageError` if there is none."""

    _esm = widget_script(__file__, "panel.js")
    _css = widget_asset(__file__, "panel.css")
    opened = traitlets.Unicode("").tag(sync=True)

    def __init__(self, find: Callable[[], Workbench], *, now: Callable[[], float] = wall.monotonic) -> None:
        self._find = find
        self._selection: tuple[Section, str] | None = None
        self._words: tuple[str, ...] = ()
        self._order_errors: dict[str, str] = {}  # by variable what was wrong with a value; "clock": with an order
        self._actions: deque[tuple[str, Callable[[], object]]] = deque(maxlen=100)  # of orders, by name
        self._below: StatementView | FlowMap | None = None
        self._frames: dict[int, dict[str, object]] = {}  # what the browser may know, by number of the frame
        self._acknowledged: dict[str, object] = {}  # the contents that it has drawn for certain
        self._plan_cache: tuple[object, str] = (None, "")
        super().__init__(rate=4.0, now=now)

    # ---- the saved picture
    def freeze(self) -> StaticPicture:
        """Return all items as tables."""
        try:
            workbench = self._find()
        except UsageError as error:
            return StaticPicture(f"<div>{escape(str(error))}</div>", str(error))
        head = f"clock {clock_text(workbench.runtime.now, workbench.runtime.config.second)}"
        html, text = [f"<div>{escape(head)}</div>"], [head]
        items_found = list(overview_items(workbench))
        for section in SECTIONS:
            items = [item for item in items_found if item.section == section]
            if not items:
                continue
            rows = tuple((item.name, item.kind, item.figure) for item in items[:MAX_ITEMS])
            table = DisplayTable(
                ("name", "kind", SECTION_FIGURES[section]), (False, False, section != "variables"), rows
            )
            first = f"the first {MAX_ITEMS} of " if len(items) > MAX_ITEMS else ""
            title = f"{SECTION_TITLES[section]} ({first}{len(items):,})"
            html.append(captioned_html(title, table))
            text += [title, table_text(table, None)]
        return StaticPicture("".join(html), "\n".join(text))

    def _mark(self) -> object:
        try:
            return self.freeze().text
        except CepbookError:
            return None

    # ---- frames
    def _build(self, number: int) -> bool:
        began = wall.perf_counter()
        contents = dict(self._contents())
        self._pump.remind(max(INTERVAL, SHARE * (wall.perf_counter() - began)))
        if contents == self._acknowledged:
            return False
        changed = {name: value for name, value in contents.items() if self._acknowledged.get(name, self) != value}
        self._frames[number] = contents
        self.send({"kind": "frame", "n": number, **changed})
        return True

    def _contents(self) -> Iterator[tuple[str, object]]:
        try:
            workbench = self._find()
        except UsageError as error:
            yield "note", str(error)
            return
        runtime = workbench.runtime
        yield "note", ""
        yield "clock", clock_text(runtime.now, runtime.config.second)
        due = runtime.next_due
        yield "due", None if due is None else clock_text(due, runtime.config.second)
        yield "busy", workbench.replaying is not None
        all_items = list(overview_items(workbench))
        sections = []
        for section in SECTIONS:
            mine = [item for item in all_items if item.section == section]
            texts = [f"{item.name}\n{item.kind}\n{item.figure}".lower() for item in mine]
            items = [item for item, text in zip(mine, texts, strict=True) if all(word in text for word in self._words)]
            sections.append(
                {
                    "key": section,
                    "title": SECTION_TITLES[section],
                    "figure": SECTION_FIGURES[section],
                    "total": len(mine),
                    "found": len(items),
                    "items": [
                        [item.name, format_value(item.name), format_value(item.kind), _shortened(item.figure)]
                        for item in items[:MAX_ITEMS]
                    ],
                }
            )
        yield "sections", sections
        note = workbench.clock_note
        yield "said", {**({"clock": note} if note else {}), **self._order_errors}
        yield "detail", self._detail(workbench, all_items)

    def _detail(self, workbench: Workbench, found: Sequence[OverviewItem]) -> dict[str, object] | None:
        if self._selection is None:
            return None
        section, name = self._selection
        if not any(item.section == section and item.name == name for item in found):
            return None
        about: dict[str, object] = {"section": section, "name": name}
        try:
            about["html"] = "".join(_details(workbench, section, name))
            about["plan"] = self._plan(workbench, name) if section == "statements" else ""
        except CepbookError as error:
            about["html"] = _note(str(error))
        about["opens"] = _view_link(workbench, section, name)
        if section == "variables":
            variable = workbench.runtime.catalog.variables[name]
            if not variable.constant and variable.context is None:
                about["field"] = {"value": field_text(workbench.get(name)), "type": str(variable.type)}
        return about

    def _plan(self, workbench: Workbench, name: str) -> str:
        """Return the steps of a statement as text, made once because that takes a compiler."""
        statement = workbench.runtime.statement(name)
        if self._plan_cache[0] is not statement:
            self._plan_cache = statement, printable(workbench.explain(name, "steps").split("\n", 1)[-1])
        return self._plan_cache[1]

    # ---- orders
    def _receive(self, content: dict[str, Any]) -> bool | None:
        match content:
            case {"kind": "hello"}:
                self._frames, self._acknowledged = {}, {}
            case {"kind": "ack", "n": int(number)} if number in self._frames:
                self._acknowledged, self._frames = self._frames[number], {}
            case {"kind": "order"} if (action := self._action(content)) is not None:
                self._actions.append((str(content.get("name", "clock")), action))
                self._pump.soon(self._run_orders)
            case _:
                return False
        return True

    def flush(self, *, urgent: bool = False) -> bool:
        """Send a frame as `LiveWidget` does, after running pending orders."""
        self._run_orders()
        return super().flush(urgent=urgent)

    def _run_orders(self) -> None:
        """Run pending orders; called where the engine may be used."""
        if not self._actions:
            return
        while self._actions:
            about, action = self._actions.popleft()
            self._order_errors.pop(about, None)
            try:
                action()
            except CepbookError as error:
                self._order_errors[about] = str(error)
            except Exception as error:  # noqa: BLE001 - a page may send anything
                self._order_errors[about] = exception_text(error)
        for about in list(self._order_errors)[:-ERRORS_KEPT]:
            del self._order_errors[about]
        self._pump.touch()
        super().flush(urgent=True)

    def _action(self, order: dict[str, Any]) -> Callable[[], object] | None:
        """Return what an order of the browser does once the engine may be used; None for one that makes no sense."""
        match order:
            case {"order": "select", "section": section, "name": str(name)} if section in get_args(Section):
                return lambda: self._select((section, name))
            case {"order": "select"} if "section" not in order and "name" not in order:
                return lambda: self._select(None)
            case {"order": "search", "text": str(text)}:
                return lambda: self._search(text)
            case {"order": "set", "name": str(name), "text": str(text)}:
                return lambda: self._set(name, text)
            case {"order": "advance"}:
                return lambda: self._find().advance(by="1 sec")
            case {"order": "due"}:
                return self._advance_to_due
            case {"order": "clear"}:
                return lambda: self._find().clear_errors()
            case {"order": "open", "what": "map"}:
                return lambda: self._open(FlowMap(self._find()))
            case {"order": "open", "what": "view", "name": str(name)}:
                return lambda: self._open(view(self._find(), name))
        return None

    def _select(self, selection: tuple[Section, str] | None) -> None:
        self._selection = selection

    def _search(self, text: str) -> None:
        self._words = tuple(text.lower().split())

    def _set(self, name: str, text: str) -> None:
        workbench = self._find()
        variable = workbench.runtime.catalog.variables.get(name)
        if variable is None:
            raise UsageError(f"there is no variable `{name}` any more")
        workbench.set(name, parse_field_value(text, variable.type))

    def _advance_to_due(self) -> None:
        due = self._find().runtime.next_due
        if due is not None:
            self._find().advance(due)

    def _open(self, opened_widget: StatementView | FlowMap) -> None:
        """Display a view or the map below the panel, in place of the previous one."""
        before, self._below = self._below, opened_widget
        self.opened = str(opened_widget.model_id)
        if before is not None:
            before.close()

    def close(self) -> None:
        """Close the panel and the widget that it opened."""
        if self._below is not None:
            self._below.close()
        super().close()


def panel(workbench: Workbench) -> Panel:
    """Return the panel of one workbench."""
    return Panel(lambda: workbench)


def _shortened(text: str) -> str:
    display_text = format_value(text)
    return display_text if len(display_text) <= 24 else display_text[:23] + "…"


def _view_link(workbench: Workbench, section: Section, name: str) -> dict[str, str] | None:
    """Return which view displays an item, and the line that opens it in a cell."""
    runtime = workbench.runtime
    if section == "stores" and name in runtime.stores:
        name = runtime.stores[name].owner.name
    elif section not in ("statements", "errors") or name not in runtime.statements:
        return None
    return {"name": name, "line": f"%view {shlex.quote(name)}", "why": f"%epl why {shlex.quote(name)}"}


def _details(workbench: Workbench, section: Section, name: str) -> Iterator[str]:
    if section == "statements":
        yield from _of_statement(workbench, name)
    elif section == "types":
        event_type = workbench.runtime.catalog.event_types[name]
        yield _table(("property", "type"), [(n, str(of)) for n, of in event_type.shown.items()])
        if event_type.supertypes:
            yield _note(f"inherits {', '.join(event_type.supertypes)}")
        readers = [s.name for s in workbench.runtime.statements.values() if s.reads(name)]
        yield _note(f"read by {', '.join(readers)}" if readers else "read by no statement")
    elif section == "contexts":
        yield from _of_context(workbench, name)
    elif section == "stores":
        owner = workbench.runtime.statement(workbench.runtime.stores[name].owner.name)
        yield _code(owner.epl)
        yield from _rows(
            "last rows", latest_rows(owner, ROWS).rows, TimeColumns(workbench.runtime, ms=True).of_type(name)
        )
    elif section == "errors":
        errors = [error for error in workbench.errors if error.statement == name]
        latest = errors[-3:]
        for error in latest:
            yield f'<pre class="cc-code cc-error">{escape(printable(str(error)))}</pre>'
        earlier = workbench.failures.get(name, 0) - len(latest)
        if earlier > 0:
            yield _note(f"{format_count(earlier, 'earlier error')}; `cep.errors` has the latest of all statements")


def _of_statement(workbench: Workbench, name: str) -> Iterator[str]:
    runtime = workbench.runtime
    statement, feed, second = runtime.statement(name), workbench.feed(name), runtime.config.second
    yield _code(statement.epl)
    counts = workbench.event_counts()
    facts = [
        ("events of its types", f"{events_read(runtime, statement, counts):,}"),
        ("insert rows", f"{feed.total_insert:,}"),
        ("remove rows", f"{feed.total_remove:,}"),
        ("retained", f"{state_size(runtime, name):,}"),
    ]
    failed = workbench.failures.get(name, 0)
    facts += [("errors", f"{failed:,}")] if failed else []
    facts += [("context", statement.steps.context)] if statement.steps.context is not None else []
    yield _table(("", ""), facts)
    last = feed.since(feed.deliveries - 1).deliveries if feed.deliveries else []
    if last:
        rows = [("+", row) for row in (last[-1].insert or [])] + [("−", row) for row in (last[-1].remove or [])]
        title = f"last delivery, {format_time(last[-1].time, second=second)}"
        times, signs = TimeColumns(runtime, ms=True).of_statement(name), tuple(sign for sign, _ in rows[:ROWS])
        yield from _rows(title, [row for _, row in rows[:ROWS]], times, signs, len(rows))
    else:
        yield _note("nothing was delivered yet")


def _of_context(workbench: Workbench, name: str) -> Iterator[str]:
    runtime = workbench.runtime
    context = runtime.catalog.contexts[name]
    for plan in runtime.plans:
        if getattr(getattr(plan, "context", None), "name", None) == name:
            yield _code(plan.epl)
    if context.event_types:
        yield _note(f"of events of {', '.join(context.event_types)}")
    if name in runtime.contexts:
        names = key_names(runtime, name)
        rows_found = [
            {"id": identity.id, **{names.get(key, key): value for key, value in partition_properties(identity).items()}}
            for identity in islice(runtime.context(name).identities(), ROWS)
        ]
        yield from _rows("first partitions", rows_found)
    else:
        yield _note("no statement uses it: it has no partitions")


def _rows(
    title: str, rows: Sequence[Any], times: Collection[str] = (), signs: Sequence[str] = (), total: int | None = None
) -> Iterator[str]:
    if not rows:
        yield _note(f"{title}: none")
        return
    names = tuple(dict.fromkeys(str(name) for row in rows for name in row))
    table = table_of_rows(rows, columns_of(names, rows, times))
    more = [] if total is None or total <= len(rows) else [f"… {format_count(total - len(rows), 'more row')}"]
    yield f'<div class="cc-wide">{captioned_html(title, _signed(table, signs), more)}</div>'


def _signed(table: DisplayTable, signs: Sequence[str]) -> DisplayTable:
    if not signs:
        return table
    cells = tuple((sign, *line) for sign, line in zip(signs, table.cells, strict=True))
    return DisplayTable(("", *table.headings), (False, *table.right), cells, tuple(signs))


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = tuple(tuple(map(format_value, row)) for row in rows)
    right = tuple(i > 0 and not headings[0] for i in range(len(headings)))
    return f'<div class="cc-wide">{table_html(DisplayTable(headings, right, cells))}</div>'


def _code(epl: str) -> str:
    epl = format_epl(epl) if dialect_of(epl) == EPL else epl
    return f'<pre class="cc-code">{escape(printable(epl.strip()))}</pre>'


def _note(text: str) -> str:
    return f'<div class="cc-note">{escape(printable(text))}</div>'
