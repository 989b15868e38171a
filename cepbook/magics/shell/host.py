"""The registry rows of magics and of verbs of ``%epl``, and the host: the shell, its workbench, the running cell."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell
from IPython.display import display

from cepbook.dialects.registry import DIALECTS
from cepbook.display import format_count
from cepbook.editor.offers import Offer
from cepbook.errors import Diagnostic, UsageError, hint_line
from cepbook.lang.plan.catalog import EventType
from cepbook.magics.shell.cell_marks import CellMarks
from cepbook.magics.shell.options import WORKBENCH, MagicOptions, feed_rows_option
from cepbook.magics.shell.output import text
from cepbook.session import Workbench
from cepbook.spark.spark_session import cancel_actions

LineRun = Callable[["NotebookHost", str], object]
CellRun = Callable[["NotebookHost", str, str], object]
Check = Callable[["NotebookHost", str, str, str | None], Iterable[Diagnostic]]
Complete = Callable[["NotebookHost", list[str]], Iterable[Offer]]


@dataclass(frozen=True, slots=True)
class MagicCommand:
    """One magic: ``%name`` runs `line`, ``%%name`` runs `cell`; None if the magic has no such form.

    What `line` returns is the value of the expression, what `cell` returns is displayed. ``%epl help magics`` prints
    `summary` (one sentence) and `usage` (one line per form), ``%epl help NAME`` also `details`.
    """

    name: str
    summary: str
    usage: tuple[str, ...]
    line: LineRun | None = None
    cell: CellRun | None = None
    details: str = ""
    says: Mapping[str, str] = field(default_factory=dict)
    """A sentence for each form of `usage`, where there are several forms."""
    options: MagicOptions | None = None
    """The options of the cell magic, for completion."""
    check: Check | None = None
    """``check(host, line, body, cell id)`` returns or raises what is wrong with a cell, and runs nothing."""
    complete: Complete | None = None
    """``complete(host, words)`` returns what can follow the complete words of a line magic."""


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One verb of ``%epl``. `command.SUBCOMMANDS` lists them all."""

    name: str
    run: Callable[[NotebookHost, list[str]], object]
    """``run(host, arguments)`` returns the value of the line, or None if it displays its output itself."""
    forms: Mapping[str, str]
    """A sentence for each form, as ``%epl help`` prints them."""
    complete: Complete | None = None
    """``complete(host, arguments)`` returns what can follow the complete arguments."""
    raw: bool = False
    """True if the rest of the line is one argument as it stands, not split at blanks and quotes."""


def statement_names(host: NotebookHost, words: list[str]) -> Iterator[Offer]:
    """Complete the first argument with the names of all statements."""
    if not words:
        yield from ((name, "statement") for name in host.workbench.runtime.statements)


def refuse_arguments(name: str, arguments: list[str]) -> None:
    """Raise UsageError if a subcommand without arguments got some."""
    if arguments:
        raise UsageError(f"%epl {name} takes no argument, not `{' '.join(arguments)}`")


def context_names(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    """Complete the first argument with the names of all contexts."""
    if not arguments:
        yield from ((name, "class") for name in host.workbench.runtime.catalog.contexts)


class NotebookHost:
    """One loaded extension in one shell."""

    def __init__(self, shell: InteractiveShell, commands: tuple[MagicCommand, ...]) -> None:
        self.shell = shell
        self.commands = commands
        self.since = CellMarks()
        self.defining_cell: dict[str, int] = {}  # event types that `Workbench.define` defined: the number of the cell
        self._numbers: dict[str, int] = {}  # of the cells that deployed something, by the key that the workbench has
        self._ran: list[str] = []  # keys of the running cell, whose number is known behind it
        self._cell_id: str | None = None

    def command(self, name: str) -> MagicCommand | None:
        """Return the magic called `name`, without ``%``, or None."""
        return next((command for command in self.commands if command.name == name), None)

    @property
    def workbench(self) -> Workbench:
        """The workbench in the variable ``cep``. Raises UsageError if there is none."""
        value = self.shell.user_ns.get(WORKBENCH)
        if not isinstance(value, Workbench):
            if value is None:
                raise UsageError(f"the variable `{WORKBENCH}` is gone; `%reload_ext cepbook` makes a new one")
            raise UsageError(
                f"the variable `{WORKBENCH}` is of type {type(value).__name__}, not a Workbench\n"
                f"  hint: `del {WORKBENCH}`, then `%reload_ext cepbook` makes a new one"
            )
        return value

    def statements_with_rows(self) -> list[str]:
        """Return the names of all statements except those that create variables."""
        statements = self.workbench.runtime.statements
        return [name for name, statement in statements.items() if statement.kind != "create variable"]

    def adopt(self) -> Workbench:
        """Reuse the workbench in the namespace, or put a new one there.

        The environment variable CEPBOOK_FEED_CAPACITY is the `feed_capacity` of a new one: rows, or ``all``.
        """
        if self.shell.user_ns.get(WORKBENCH) is None:
            capacity = os.environ.get("CEPBOOK_FEED_CAPACITY")
            self.shell.user_ns[WORKBENCH] = (
                Workbench() if not capacity else Workbench(feed_capacity=feed_rows_option(capacity))
            )
        return self.workbench

    def variable(self, name: str) -> Any:
        """Return a variable of the user. Raises UsageError if there is none of that name."""
        if name not in self.shell.user_ns:
            known = [key for key in self.shell.user_ns if not key.startswith("_")]
            raise UsageError(f"there is no variable `{name}`{hint_line(name, known)}")
        return self.shell.user_ns[name]

    def assign(self, name: str, value: object) -> None:
        self.shell.user_ns[name] = value

    def show(self, thing: object) -> None:
        """Display `thing` as output of the running cell, beside the value of the magic."""
        display(thing)  # type: ignore[no-untyped-call]  # IPython does not annotate it

    @property
    def cell_id(self) -> str | None:
        """The id of the running notebook cell, if it is a cell of statements and the front end sent one."""
        return self._cell_id

    def ran(self, key: str | None) -> None:
        """Note that the running cell deployed something under this key."""
        if key is not None:
            self._ran.append(key)

    def cell_label(self, deployment: str) -> str | None:
        """Return the cell that made a deployment, as the notebook numbers it (``[3]``), or None."""
        key = self.workbench.cell_of(deployment)
        number = None if key is None else self._numbers.get(key)
        return None if number is None else f"[{number}]"

    def before_cell(self, info: ExecutionInfo) -> None:
        """Handle `pre_run_cell`. A Python cell may run several ``%%epl`` magics, so its id is not used."""
        first = (info.raw_cell or "").split(maxsplit=1)[:1]
        ours = bool(first) and first[0] in {f"%%{row.magic}" for row in DIALECTS.values()}
        self._cell_id = info.cell_id if ours and info.cell_id else None
        workbench = self.shell.user_ns.get(WORKBENCH)
        if isinstance(workbench, Workbench):
            self.since.begin(workbench)
            workbench.defined.clear()

    def defined_with(self, last: EventType) -> list[EventType]:
        """Return the event types that the running cell has defined, if `last` is the latest of them; else `last`."""
        workbench = self.shell.user_ns.get(WORKBENCH)
        defined = list(workbench.defined.values()) if isinstance(workbench, Workbench) else []
        return defined if defined and defined[-1] is last else [last]

    def after_cell(self, result: object = None) -> None:
        """Handle `post_run_cell`. Spark does not see Ctrl-C, because the kernel handles it, so its jobs are cancelled
        here.
        """
        self._cell_id = None
        if isinstance(getattr(result, "error_in_exec", None), KeyboardInterrupt):
            jobs = cancel_actions()
            if jobs:
                self.show(text(f"{format_count(jobs, 'job')} of Spark cancelled"))
        workbench, number = self.shell.user_ns.get(WORKBENCH), getattr(result, "execution_count", None)
        if number is not None:
            self._numbers.update(dict.fromkeys(self._ran, int(number)))
            defined = workbench.defined if isinstance(workbench, Workbench) else ()
            self.defining_cell.update(dict.fromkeys(defined, int(number)))
        self._ran.clear()
