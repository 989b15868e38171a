"""Register the magics, the completer and the inspector in a shell, and undo exactly that."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from IPython.core.magic import no_var_expand
from IPython.display import display

from cepbook.errors import CompileError, MissingRowsWarning
from cepbook.lang.plan.catalog import EventType
from cepbook.magics import panel
from cepbook.magics.editor import lint
from cepbook.magics.editor.completion import make_matcher
from cepbook.magics.editor.inspection import make_inspect
from cepbook.magics.epl.help import magic_doc
from cepbook.magics.shell.host import MagicCommand, NotebookHost
from cepbook.magics.shell.options import OptionsError
from cepbook.magics.shell.output import event_type_table, stack, text
from cepbook.magics.shell.variable_hints import with_variables
from cepbook.session import Workbench
from cepbook.session.core.garbage_collection import exclude_modules
from cepbook.session.explain.explanations import EventExplanation, RowExplanation
from cepbook.spark.spark_session import use_progress_display
from cepbook.widgets import show_live
from cepbook.widgets.base.static_picture import StaticPicture
from cepbook.widgets.base.static_picture import answer_picture as answer
from cepbook.widgets.charts.timeline_chart import show_timelines
from cepbook.widgets.marble.marble_chart import show_marbles

_GONE = object()


class InstalledExtension:
    """The changes that one loaded extension made to its shell."""

    def __init__(self, host: NotebookHost) -> None:
        self._host = host
        self._undo: list[Callable[[], object]] = []

    def install(self) -> None:
        for command in self._host.commands:
            if command.line is not None:
                self._magic("line", command.name, _line_magic(self._host, command))
            if command.cell is not None:
                self._magic("cell", command.name, _cell_magic(self._host, command))
        self._events()
        self._completer()
        self._inspector()
        self._front_end()
        self._event_types()
        self._warnings()
        if getattr(self._host.shell, "kernel", None) is not None:  # a terminal shows it by itself
            self._undo.append(use_progress_display(SparkProgress(lambda: int(self._host.shell.execution_count))))
            self._snapshots()
            self._collection()
        self._undo.append(show_live(self._host.shell, display))
        self._undo.append(show_marbles(self._host.shell))
        self._undo.append(show_timelines(self._host.shell))

    def uninstall(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _magic(self, kind: str, name: str, function: Callable[..., object]) -> None:
        table: dict[str, Any] = self._host.shell.magics_manager.magics[kind]
        before = table.get(name, _GONE)
        self._host.shell.magics_manager.register_function(function, magic_kind=kind, magic_name=name)

        def undo() -> None:
            if table.get(name) is not function:
                return  # someone else has taken the name since
            if before is _GONE:
                del table[name]
            else:
                table[name] = before

        self._undo.append(undo)

    def _events(self) -> None:
        events = self._host.shell.events
        for name, callback in (("pre_run_cell", self._host.before_cell), ("post_run_cell", self._host.after_cell)):
            events.register(name, callback)
            self._undo.append(lambda name=name, callback=callback: events.unregister(name, callback))  # type: ignore[misc]

    def _completer(self) -> None:
        completer = self._host.shell.Completer
        if completer is None:
            return
        matcher = make_matcher(self._host)
        matchers: list[Any] = completer.custom_matchers
        matchers.append(matcher)
        self._undo.append(lambda: matchers.remove(matcher) if matcher in matchers else None)

    def _event_types(self) -> None:
        """Show the results of `Workbench.define` and `Workbench.why` as tables; for several event types that one cell
        defines, all of them.
        """

        def defined(last: EventType) -> StaticPicture:
            return stack([event_type_table(event_type) for event_type in self._host.defined_with(last)])

        shell: Any = self._host.shell
        pictures: dict[type, Callable[[Any], StaticPicture]] = {
            EventType: defined,
            RowExplanation: answer,
            EventExplanation: answer,
        }
        for kind, make in pictures.items():
            for name, attribute in (("text/plain", "text"), ("text/html", "html")):
                formatter = shell.display_formatter.formatters[name]
                formatter.for_type(kind, _printer(make, attribute))
                self._undo.append(lambda formatter=formatter, kind=kind: formatter.pop(kind, None))  # type: ignore[misc]

    def _warnings(self) -> None:
        """Show what is said about missing rows as output of the cell, each time."""
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, MissingRowsWarning):
                self._host.show(text(str(message)))
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        warnings.simplefilter("always", MissingRowsWarning)
        always = warnings.filters[0]

        def undo() -> None:
            if warnings.showwarning is show:
                warnings.showwarning = usual
            if always in warnings.filters:
                warnings.filters.remove(always)  # type: ignore[attr-defined]

        self._undo.append(undo)

    def _inspector(self) -> None:
        kernel = getattr(self._host.shell, "kernel", None)
        if kernel is None:
            return
        own = kernel.__dict__.get("do_inspect", _GONE)
        replacement = make_inspect(self._host, kernel.do_inspect)
        kernel.do_inspect = replacement

        def undo() -> None:
            if kernel.__dict__.get("do_inspect") is not replacement:
                return
            if own is _GONE:
                del kernel.do_inspect
            else:
                kernel.do_inspect = own

        self._undo.append(undo)

    def _snapshots(self) -> None:
        """Let replays keep snapshots for the replay bar, unless they are told not to."""
        before, Workbench.keep = Workbench.keep, True
        self._undo.append(lambda: setattr(Workbench, "keep", before))

    def _collection(self) -> None:
        """Let events of a notebook wait less for garbage collection, if its process only has modules yet."""
        cells = self._host.shell.user_ns.get("In", ())  # an empty text, and those that ran or run
        undo = exclude_modules() if len(cells) <= 2 else None
        if undo is not None:
            self._undo.append(undo)

    def _front_end(self) -> None:
        for target in (lint, panel):
            undo = target.open_target(self._host)
            if undo is not None:
                self._undo.append(undo)


class SparkProgress:
    """Spark's progress as one line of output of the running cell; empty when the action is done.

    `cell` returns the number of the running cell.
    """

    def __init__(self, cell: Callable[[], int]) -> None:
        self._cell = cell
        self._handle: Any = None
        self._shown_in: int | None = None

    def __call__(self, line: str | None) -> None:
        data = {"text/plain": line or ""}
        if self._handle is not None and (line is None or self._shown_in == self._cell()):
            self._handle.update(data, raw=True)
        elif line is not None:
            self._shown_in = self._cell()
            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def _printer(make: Callable[[Any], StaticPicture], part: str) -> Callable[..., str | None]:
    """Return a formatter: IPython passes a printer for plain text, and none for HTML."""

    def show(thing: object, printer: Any = None, _cycle: bool = False) -> str | None:
        text: str = getattr(make(thing), part)
        return text if printer is None else printer.text(text)

    return show


def _line_magic(host: NotebookHost, command: MagicCommand) -> Callable[[str], object]:
    run = command.line
    assert run is not None

    def magic(line: str) -> object:
        try:
            return run(host, line)
        except OptionsError as error:
            raise error.forms(command.usage) from None
        except CompileError as error:
            raise with_variables(error, host) from None

    return _dressed(magic, command)


def _cell_magic(host: NotebookHost, command: MagicCommand) -> Callable[[str, str], object]:
    run = command.cell
    assert run is not None

    def magic(line: str, cell: str) -> object:
        try:
            return run(host, line, cell)
        except OptionsError as error:
            raise error.forms(command.usage) from None
        except CompileError as error:
            # the front end counts the line of the magic as the first
            raise with_variables(error, host).counted_from(2, "cell") from None

    return _dressed(magic, command)


def _dressed(magic: Callable[..., object], command: MagicCommand) -> Callable[..., object]:
    """Add the documentation that ``%epl?`` shows. Braces in a line are EPL, so IPython must not expand them."""
    magic.__name__ = command.name
    magic.__doc__ = magic_doc(command)
    no_var_expand(magic)
    return magic
