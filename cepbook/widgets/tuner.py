"""Sliders for the variables of a workbench: the rows that statements would have delivered with other values.

The pictures are outputs of their own, updated in place, so a saved notebook holds the last of them; the sliders have a
static form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets
from pandas.api.types import is_numeric_dtype

from cepbook.display import DisplayTable, captioned_html, format_count, format_value, table_text
from cepbook.errors import CepbookError, UsageError, hint_line
from cepbook.lang.types import BITS
from cepbook.session import Workbench
from cepbook.session.history.event_log import HORIZON
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.charts import stream_chart

STEPS = 100  # of a slider
ROWS = 10  # in a table


def _last_rows(workbench: Workbench, name: str) -> StaticPicture:
    """Return a table of the last rows that a statement delivered."""
    rows = workbench.changes(name).drop(columns="seq")
    last, caption = rows.tail(ROWS), f"{name}: {format_count(len(rows), 'row')}"
    numbers = tuple(is_numeric_dtype(last[column]) for column in last)
    cells = tuple(tuple(map(format_value, row)) for row in last.itertuples(index=False))
    table = DisplayTable(tuple(map(str, last)), numbers, cells)
    return StaticPicture(captioned_html(caption, table), f"{caption}\n{table_text(table)}")


class Tuner:
    """The widget of `%epl tune`: controls by variable, and pictures of each statement in `names`.

    `ranges` are the ends of sliders, by default from 0 to twice the present value. Raises UsageError for unknown names,
    and if there is no variable that can be changed.
    """

    def __init__(
        self, workbench: Workbench, names: Sequence[str], ranges: Mapping[str, tuple[float, float]] | None = None
    ) -> None:
        self.workbench = workbench
        self.names = list(dict.fromkeys(names))
        for name in names:
            workbench.runtime.statement(name)
        self.past = workbench.past()
        ranges = ranges or {}
        known = workbench.runtime.catalog.variables
        for name in ranges:
            if name not in known:
                raise UsageError(f"there is no variable `{name}`{hint_line(name, known)}")
            if known[name].constant or known[name].context is not None or str(known[name].type) not in _NUMBER_TYPES:
                kind = "a constant" if known[name].constant else f"of type {known[name].type}"
                where = f" in context `{known[name].context}`" if known[name].context is not None else ""
                raise UsageError(f"`{name}` has no slider, and no range: it is {kind}{where}")
        variables = [v for v in known.values() if not v.constant and v.context is None]
        self.controls: dict[str, Any] = {}
        for variable in variables:
            control = _control(variable.name, str(variable.type), workbench.get(variable.name), ranges)
            if control is not None:
                self.controls[variable.name] = control
        if not self.controls:
            raise UsageError("there is no variable to tune\n  hint: `create variable double threshold = 5`")
        self.apply = ipywidgets.Button(description="Apply", tooltip="set the variables of the running statements")
        self.apply.on_click(self._assign_variables)
        self.note = ipywidgets.HTML()
        self.box = ipywidgets.VBox([*self.controls.values(), ipywidgets.HBox([self.apply, self.note])])
        for control in self.controls.values():
            control.observe(self._changed, names="value")
        self._outputs: list[Any] = []

    @property
    def values(self) -> dict[str, Any]:
        """The values of the controls."""
        return {name: control.value for name, control in self.controls.items()}

    def pictures(self) -> list[object]:
        """Return two pictures of each statement with the present values: a marble diagram (of a pattern, a join and the
        like the last rows), and a chart if there are rows with numbers.
        """
        twin = self.workbench.again(self.values, past=self.past)
        pictures: list[object] = []
        for name in self.names:
            try:
                pictures.append(twin.marble(name))
            except UsageError:
                pictures.append(_last_rows(twin, name))
            if not twin.feed(name).total_insert:  # a chart would have axes without a range
                fact = f"{name}: no rows with these values"
                pictures.append(StaticPicture(f"<div>{escape(fact)}</div>", fact))
                continue
            try:
                pictures.append(stream_chart(twin, name))
            except UsageError:  # nothing to draw: no numbers, or altair is not installed
                pictures.append(StaticPicture("", ""))
        return pictures

    def show(self, display: Callable[..., Any]) -> None:
        """Display the controls and the pictures by `IPython.display.display`."""
        pictures = self.pictures()
        display(self._bundle(), raw=True)
        self._outputs = [display(picture, display_id=True) for picture in (self._values_picture(), *pictures)]

    watched = False  # no page tells

    def close(self) -> None:
        """Close the controls; the last pictures stay."""
        self._outputs = []
        for control in (*self.controls.values(), self.apply, self.note, *self.box.children, self.box):
            for widget in (control, control.layout, getattr(control, "style", None)):
                if widget is not None:
                    widget.close()

    def _changed(self, _: object) -> None:
        if not self._outputs:  # not shown yet
            return
        try:
            pictures = [self._values_picture(), *self.pictures()]
        except CepbookError as error:  # the pictures below stay those of the values before
            pictures = [StaticPicture(f"<div>{escape(str(error))}</div>", str(error))]
        for handle, picture in zip(self._outputs, pictures, strict=False):
            if handle is not None:
                handle.update(picture)

    def _bundle(self) -> dict[str, Any]:
        """Return the controls as an output: live, and as a text for a saved notebook."""
        live_bundle = self.box._repr_mimebundle_()
        text = f"controls of {', '.join(self.controls)}"
        live = live_bundle[0] if isinstance(live_bundle, tuple) else live_bundle
        return {**live, **StaticPicture(f"<div>{escape(text)}</div>", text)._repr_mimebundle_()}

    def _values_picture(self) -> StaticPicture:
        """Return what the pictures are of. The controls stay, so a moved slider keeps the focus."""
        lost = "" if self.past.complete else f"; {HORIZON}"
        text = f"tuned: {self._values_text()}, over the last {format_count(self.past.events, 'event')}{lost}"
        return StaticPicture(f"<div>{escape(text)}</div>", text)

    def _assign_variables(self, _: object) -> None:
        try:
            for name, value in self.values.items():
                self.workbench.set(name, value)
        except CepbookError as error:
            self.note.value = escape(str(error))
            return
        # Not replaced by a picture of a value that arrives later: the page sends a moved slider behind the click.
        self.note.value = escape(f"assigned: {self._values_text()}")

    def _values_text(self) -> str:
        return ", ".join(f"{name} = {format_value(value)}" for name, value in self.values.items())


def _control(name: str, type_name: str, value: Any, ranges: Mapping[str, tuple[float, float]]) -> Any:
    """Return a slider for numbers, a checkbox for booleans, a field for texts; None for anything else."""
    settings = {"description": name, "continuous_update": False, "style": {"description_width": "initial"}}
    if type_name == "boolean":
        return ipywidgets.Checkbox(value=bool(value), description=name)
    if type_name == "string":
        return ipywidgets.Text(value=value or "", **settings)
    number = _NUMBER_TYPES.get(type_name)
    if number is None:
        return None
    value = number(value or 0)
    if not math.isfinite(value):
        value = number(0)
    low, high = ranges.get(name) or (min(0, 2 * value), max(0, 2 * value) or 10)
    low, high = min(low, value), max(high, value)
    if number is int:
        step = max(1, round((high - low) / STEPS))
        return ipywidgets.IntSlider(value=value, min=math.floor(low), max=math.ceil(high), step=step, **settings)
    return ipywidgets.FloatSlider(value=value, min=low, max=high, step=(high - low) / STEPS, **settings)


_NUMBER_TYPES: dict[str, Any] = dict.fromkeys(BITS, int) | {"float": float, "double": float}
