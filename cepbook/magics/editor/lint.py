"""Errors and help while a cell is typed: a comm through which the editor sends requests.

The front end (`labextension/src/ask.js`) sends ``{id, kind, text, cell, alone}``, for ``hover`` and ``complete`` also
``at``. It receives ``{id, found}``: for ``lint`` a list of ``{from, to, message, hint, severity}``, for ``hover`` the
help text, for ``complete`` ``{typed, items}`` (the length of the word so far, and pairs of text and kind), for
``format`` ``{text}`` or ``{problem}``. Offsets count UTF-16 units, as in JavaScript. Nothing is run or changed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

from cepbook.editor.cursor import STRING
from cepbook.errors import MOST_PROBLEMS, NO_SPAN, CompileError, Diagnostic, ParseError, Span, UsageError, printable
from cepbook.lang.syntax.formatter import format_epl
from cepbook.lang.syntax.rare_readings import RARELY_MEANT, rare_readings
from cepbook.magics.editor.completion import complete
from cepbook.magics.editor.inspection import describe
from cepbook.magics.shell.host import NotebookHost
from cepbook.magics.shell.variable_hints import hinted_diagnostics
from cepbook.testing.cell_reader import EventsError

TARGET = "cepbook.lint"
MAX_CHECKED = 50_000  # characters
MAX_STATEMENTS = 1_000  # which take a second
_SEMICOLON = re.compile(rf"{STRING.pattern}|(?P<end>;)", STRING.flags)
_CELL = re.compile(r"\s*%%(\w+)([^\n]*)(?:\n|\Z)")


def open_target(host: NotebookHost) -> Callable[[], object] | None:
    """Answer requests from now on. Return a function that undoes this, or None in a terminal."""
    manager = getattr(getattr(host.shell, "kernel", None), "comm_manager", None)
    if manager is None:
        return None

    def opened(comm: Any, _: object) -> None:
        comm.on_msg(lambda message: comm.send(answer_request(host, message["content"]["data"])))

    manager.register_target(TARGET, opened)
    return lambda: manager.unregister_target(TARGET, opened)


def answer_request(host: NotebookHost, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to one request."""
    try:
        host.workbench  # noqa: B018 - without one nothing is known
    except UsageError:
        return {"id": request.get("id"), "found": None}
    text = str(request.get("text", ""))
    alone = bool(request.get("alone"))
    head = "%%epl\n" if alone else ""  # a file is what stands below the first line of a cell
    answer: object
    match request.get("kind"):
        case "hover":
            answer = describe(host, head + text, len(head) + _index(text, int(request.get("at", 0))))
        case "complete":
            offered = complete(host, head + text, len(head) + _index(text, int(request.get("at", 0))))
            items = [(offer.text, offer.type) for offer in offered["completions"] if offer.type is not None]
            answer = {"typed": _units(offered["matched_fragment"]) if items else 0, "items": items}
        case "format":
            answer = _format(text, alone=alone)
        case _:
            wrong = problems(host, text, request.get("cell"), alone=alone)
            answer = [_underlined(text, problem) for problem in (*wrong[:MOST_PROBLEMS], *wrong[MOST_PROBLEMS:][-1:])]
    return {"id": request.get("id"), "found": answer}


def _format(text: str, *, alone: bool) -> dict[str, str]:
    """Format the text, or say why it cannot be formatted."""
    head = None if alone else _CELL.match(text)
    if not alone and (head is None or head[1] != "epl"):
        return {"problem": "only EPL is formatted: a cell that begins with %%epl, or an .epl file"}
    above = "" if head is None else head.group().strip("\n") + "\n"
    try:
        below = format_epl(text if head is None else text[head.end() :])
    except CompileError as error:
        return {"problem": printable(str(error.counted_from(1 if alone else 2, "file" if alone else "cell")))}
    return {"text": below if alone else (above + below).rstrip("\n")}


def problems(host: NotebookHost, text: str, cell: str | None, *, alone: bool = False) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a cell, or with a file (`alone`); spans refer to `text`.

    At most `MAX_STATEMENTS` statements in the first `MAX_CHECKED` characters are checked, because the kernel would be
    busy at every key. The last diagnostic says then how many statements were checked.
    """
    if len(text) <= MAX_CHECKED and text.count(";") <= MAX_STATEMENTS:
        return _problems(host, text, cell, alone)
    ends = [match.end() for match in _SEMICOLON.finditer(text) if match["end"]]
    checked = min(MAX_STATEMENTS, bisect_right(ends, MAX_CHECKED))
    if checked == len(ends) and len(text) <= MAX_CHECKED:  # other semicolons stand in texts
        return _problems(host, text, cell, alone)
    limit = f"at most {MAX_STATEMENTS:,} statements and {MAX_CHECKED:,} characters are checked while they are written"
    total = len(ends) + (ends != [] and text[ends[-1] :].strip() != "")
    amount = f"checked {checked:,} of {total:,} statements" if checked else f"not checked: {len(text):,} characters"
    start = ends[checked - 1] if checked else 0
    start += len(text[start:]) - len(text[start:].lstrip())
    end = text.find("\n", start)
    at = Span(start, len(text) if end < 0 else end)
    rest = Diagnostic(
        "unchecked", f"{amount}; {limit}", at, "run it: problems are reported then; or divide it into cells"
    )
    return (*(_problems(host, text[: ends[checked - 1]], cell, alone) if checked else ()), rest)


def _problems(host: NotebookHost, text: str, cell: str | None, alone: bool) -> tuple[Diagnostic, ...]:
    if alone:
        return host.workbench.problems(text, alone=True) or rare_readings(text)
    head = _CELL.match(text)
    body = "" if head is None else text[head.end() :]
    if head is None or not body.strip():
        return ()
    command = host.command(head[1])
    if command is None or command.check is None:
        return ()
    try:
        diagnostics = hinted_diagnostics(command.check(host, head[2], body, cell), body, host)
        if not diagnostics and head[1] in ("epl", "query"):
            diagnostics = rare_readings(body)
    except (ParseError, EventsError) as error:
        diagnostics = error.diagnostics
    except UsageError as error:  # of the options
        return (Diagnostic("usage", str(error), Span(head.start(2), head.end(2))),)
    first = Span(head.start(1) - 2, head.end(1))
    start = head.end()
    return tuple(
        Diagnostic(
            diagnostic.code,
            diagnostic.message,
            first if diagnostic.span == NO_SPAN else Span(diagnostic.span.start + start, diagnostic.span.end + start),
            diagnostic.hint,
        )
        for diagnostic in diagnostics
    )


def _underlined(text: str, problem: Diagnostic) -> dict[str, Any]:
    end = min(len(text), max(problem.span.end, problem.span.start + 1))
    start = min(problem.span.start, end)
    if not text[start:end].strip():  # where something is missing there is nothing to underline: the sign before it is
        end = len(text[:end].rstrip()) or end
        start = max(0, end - 1)
    severity = "warning" if problem.code == RARELY_MEANT else "error"
    place = {"from": _units(text[:start]), "to": _units(text[:end])}
    return {**place, "message": problem.message, "hint": problem.hint, "severity": severity}


def _units(text: str) -> int:
    return len(text) + sum(ord(character) > 0xFFFF for character in text)


def _index(text: str, units: int) -> int:
    """Convert an offset in UTF-16 units to an index of `text`."""
    for index, character in enumerate(text):
        if units <= 0:
            return index
        units -= 2 if ord(character) > 0xFFFF else 1
    return len(text)
