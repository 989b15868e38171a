"""Writes docs/reference: the language from the registries, each example run over a few events, and the Python API.

``python tools/reference.py`` writes the pages, and with ``--pictures`` also the marble diagrams of the data windows
(SVG, by vl-convert). A test compares the pages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cepbook.editor.word_docs import window_signature
from cepbook.errors import CepbookError, CompileError
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.clauses import CLAUSES, EXAMPLE_TYPES
from cepbook.lang.registry.functions import CONSTANTS, FUNCTIONS
from cepbook.lang.registry.methods import METHODS
from cepbook.lang.registry.problem_codes import PROBLEMS
from cepbook.lang.registry.windows import EXAMPLE_SCHEMA, WINDOWS
from cepbook.lang.syntax.formatter import format_epl
from cepbook.magics import COMMANDS
from cepbook.session import Workbench
from cepbook.widgets.base.column_encoding import format_value

sys.path.insert(0, str(Path(__file__).resolve().parent))
import reference_api

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
HEAD = "<!-- Written by tools/reference.py; a test compares it. -->\n\n"
# time in seconds, symbol, price, volume
EVENTS = ((1, "A", 10.0, 100), (2, "B", 7.0, 50), (3, "A", 14.0, 300), (5, "C", 3.0, 100), (6, "B", 8.0, 20),
          (8, "A", 12.0, 200), (9, "C", 5.0, 80), (12, "B", 9.0, 150))  # fmt: skip
UNTIL = 16


def played(statement: str) -> Workbench:
    """A workbench in which the example has seen the events."""
    cep = Workbench()
    cep.run(EXAMPLE_SCHEMA)
    cep.run(f"@name('example') {statement}")
    for second, symbol, price, volume in EVENTS:
        time = second * 1000
        cep.advance(time, stepping=True)
        flags = [second % 2, volume // 100]
        cep.send("Tick", symbol=symbol, price=price, volume=volume, ts=time, flags=flags, info={"source": "lit"})
    cep.advance(UNTIL * 1000, stepping=True)
    return cep


def is_statement(example: str) -> bool:
    return re.match(r"(select|insert|into|create|on|@|context)\b", example) is not None


def value_of(example: str) -> str:
    """What an expression is for the last event, as text; empty where the example is a statement of another kind."""
    statement = example if is_statement(example) else f"select {example} as v from Tick#length(5)"
    try:
        deliveries = played(statement).feed("example").snapshot()
    except CepbookError as error:
        return f"({str(error).splitlines()[0]})"
    rows = deliveries[-1].insert if deliveries else None
    value: Any = rows[-1].get("v") if rows and not is_statement(example) else ""
    return "" if isinstance(value, dict) or value == "" else _cell(format_value(value))


def _cell(text: str) -> str:
    return re.sub(r"([|*<>`\\])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    return "`" + " ".join(text.split()).replace("|", "\\|") + "`"


def _index(names: Iterable[str]) -> str:
    """Links to the headings of a page, as GitHub names their anchors."""
    return " · ".join(f"[{name}](#{re.sub(r'[^a-z0-9_ -]', '', name.lower()).replace(' ', '-')})" for name in names)


def windows() -> Iterator[str]:
    yield "# Data windows and derived values\n"
    yield f"{_index(row.name for row in WINDOWS.values())}\n"
    yield (
        "Each picture shows the same eight events: when they arrived, how long each event was in the window, and the "
        "rows that were delivered when it entered and when it left. [Data windows](../concepts/windows.md) explains "
        "the families.\n"
    )
    for row in WINDOWS.values():
        yield f"## {row.name}\n\n`{window_signature(row)}`\n\n{row.doc}\n"
        statement = row.example if is_statement(row.example) else f"select * from Tick{row.example}"
        yield f"```epl\n{format_epl(statement).rstrip()}\n```\n"
        if (FOLDER / f"{row.name}.svg").exists():
            yield f"![{row.name}, drawn]({row.name}.svg)\n"


def table(title: str, intro: str, rows: dict[str, Any]) -> Iterator[str]:
    yield f"# {title}\n\n{intro}\n"
    yield "| name | meaning | example | value |\n|---|---|---|---|"
    for row in rows.values():
        yield f"| `{row.name}` | {_cell(row.doc)} | {_code(row.example)} | {value_of(row.example)} |"
    yield ""


OVER = "The value is the result of the example over the last five of eight ticks: " + ", ".join(
    f"{symbol} {price}" for _, symbol, price, _ in EVENTS[-5:]
)


def clauses() -> Iterator[str]:
    yield "# Clauses and operators\n"
    yield f"{_index(row.name for row in CLAUSES.values())}\n"
    yield f"The examples use two event types:\n\n```epl\n{format_epl(EXAMPLE_TYPES).rstrip()}\n```\n"
    for row in CLAUSES.values():
        yield f"## {row.name}\n\n{row.doc}\n\n```epl\n{format_epl(row.example).rstrip()}\n```\n"


def problems() -> Iterator[str]:
    yield "# Problems of texts\n"
    yield (
        "The code of a problem stands before the colon of its message. `%epl help CODE` prints the same in a notebook. "
        "If the variable `CEPBOOK_SITE` has the address of this site, messages in a notebook end with a link to the "
        f"section of their code.\n\n{_index(PROBLEMS)}\n"
    )
    for row in PROBLEMS.values():
        yield f"## {row.name}\n\n{row.doc}\n\n{row.remedy}\n"
        if row.example:
            yield f"```epl\n{row.example}\n```\n"
            yield f"```text\n{message_of(row.example)}\n```\n"


def message_of(text: str) -> str:
    """Return the message of a text with a problem, deployed where `Tick` is known."""
    cep = Workbench()
    cep.run(EXAMPLE_SCHEMA)
    try:
        cep.run(text)
    except CompileError as error:
        return str(error)
    return "(no problem)"


def magics() -> Iterator[str]:
    yield "# Magics\n"
    yield f"{_index(command.name for command in COMMANDS)}\n"
    for command in COMMANDS:
        forms = "\n".join(command.usage)
        yield f"## {command.name}\n\n{command.summary}\n\n```text\n{forms}\n```\n"
        if command.details:
            yield f"```text\n{command.details.strip()}\n```\n"


OTHER_SYSTEMS = FOLDER.parent.parent / "tests" / "lang" / "other_systems.tsv"
SYSTEM = re.compile(r"(<!-- system: (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def coming_from(system: str) -> str:
    """Return the texts of another system, with the line that runs here, as a section. They are tested."""
    lines = ["", "## What you type, and what runs here", "", "| text | here |", "|---|---|"]
    for row in OTHER_SYSTEMS.read_text(encoding="utf-8").splitlines()[1:]:
        name, text, hint, line = row.split("\t")
        if name == system:
            lines.append(f"| {_code(text)} | {_code(line) if line else 'the same' if not hint else _cell(hint)} |")
    return "\n".join([*lines, "", ""])


def other_systems() -> dict[str, str]:
    """Path of each page about another system, from docs, and its text with its current section."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((FOLDER.parent / "coming_from").glob("*.md"))}
    return {
        f"coming_from/{path.name}": SYSTEM.sub(lambda m: f"{m[1]}{coming_from(m[2])}{m[3]}", text)
        for path, text in texts.items()
    }


def pages() -> dict[str, str]:
    """Name of each page and its text."""
    language = {
        "windows": windows(),
        "aggregates": table("Aggregation functions", OVER, AGGREGATES),
        "functions": table("Functions", OVER, {**FUNCTIONS, **CONSTANTS}),
        "methods": table("Methods of values", OVER, METHODS),
        "clauses": clauses(),
        "magics": magics(),
        "problems": problems(),
    }
    python = {name: page() for name, page in reference_api.PAGES.items()}
    texts = {f"{name}.md": HEAD + "\n".join(parts).rstrip() + "\n" for name, parts in (language | python).items()}

    def links(names: dict[str, Iterator[str]]) -> str:
        return "\n".join(f"- [{texts[f'{n}.md'].split('# ', 1)[1].splitlines()[0]}]({n}.md)" for n in names)

    index = (
        f"{HEAD}# Reference\n\n## The language\n\n{links(language)}\n- [Limits](limits.md)\n\n"
        f"## Python and the command line\n\n{links(python)}\n"
    )
    return {"README.md": index, **texts}


def pictures() -> Iterator[tuple[str, str]]:
    """The marble diagram of every data window, as SVG."""
    import vl_convert

    from cepbook.charts.offline_renderer import drawable
    from cepbook.charts.theme import printed
    from cepbook.widgets.charts import render
    from cepbook.widgets.marble.marble_chart import marble_chart

    for row in WINDOWS.values():
        statement = row.example if is_statement(row.example) else f"select * from Tick{row.example}"
        statement = re.sub(r"^select (?!irstream)", "select irstream ", statement)
        try:
            spec = marble_chart(played(statement).marble("example", label=["symbol", "price"])).to_dict()
        except CepbookError:
            continue
        shown = next(value for key, value in render(spec).items() if "vegalite" in key)
        yield row.name, vl_convert.vegalite_to_svg(drawable(printed(shown)), vl_version="5.21")


def _rounded(svg: str) -> str:
    """A tenth of a pixel is enough."""
    return re.sub(r"(\d\.\d)\d+", r"\1", svg)


def main(words: list[str]) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    if "--pictures" in words:
        for name, svg in pictures():
            (FOLDER / f"{name}.svg").write_text(_rounded(svg) + "\n", encoding="utf-8")
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for name, text in other_systems().items():
        (FOLDER.parent / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
