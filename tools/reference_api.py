"""The pages of docs/reference about Python and the command line, made from docstrings, signatures and parsers.

`tools/reference.py` writes them. Classes that no package exports are found by their name, so that this module names no
path inside the package.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Subjects of the methods of Workbench, in the order of the page. A method that no subject names stands at the end.
SUBJECTS = {
    "Define and deploy": "define run drop problems rewind reset",
    "Events and time": "send send_together advance clock start replay live run_clock stop_clock live_clock replaying "
    "replay_again not_repeatable events_before keep",
    "Read results": "changes to_frame iterate query prepare answer feed keeps_rows",
    "Deliver results": "on stream sink export",
    "Context partitions": "partitions end_partition on_partition partials timeline",
    "Why and history": "why marble again rehearsal",
    "Look around": "statements stores variables metrics graph explain event_counts by_hand errors failures failed "
    "clear_errors runtime",
    "Variables and Python functions": "set get function aggregate window register_function replace_rows",
    "Save, load, Spark": "save load spark compare",
}
# Members of Workbench for the magics and widgets.
INTERNAL = {"cell_of", "sampler", "clock_note", "why_row", "past"}
# What users call of other classes, in the order of the page; of a class that is not named here, all members.
CALLED = {
    "Replay": "run state progress result pause resume step run_to run_until stop speed at span",
    "Live": "state errors stop",
    "SparkRun": "frame union to_pandas to_arrow errors failures close",
    "ByCategory": "", "ByHash": "", "ById": "", "ByKey": "", "ByProperties": "", "Nested": "",
}  # fmt: skip
MEMORY = re.compile(r"<[^<>]*(?: at 0x[0-9a-f]+| object)[^<>]*>|<class '([^']+)'>")


def class_named(name: str) -> Any:
    """Return the class of cepbook with this name, wherever it is defined."""
    for path in sorted((ROOT / "cepbook").rglob("*.py")):
        if re.search(rf"^class {name}\b", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            return getattr(importlib.import_module(module), name)
    raise LookupError(f"no class {name}")


def prose(documented: Any) -> str:
    """Return the docstring as Markdown."""
    text = re.sub(r"``(.+?)``", r"`\1`", inspect.getdoc(documented) or "", flags=re.DOTALL)
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(">>>"):
            paragraphs.append(f"```pycon\n{paragraph}\n```")
        elif paragraph.startswith("    "):
            paragraphs.append(f"```text\n{inspect.cleandoc(paragraph)}\n```")
        elif re.match(r"[-*|] ?", paragraph):
            paragraphs.append(paragraph)
        else:
            paragraphs.append(" ".join(paragraph.split()))
    return "\n\n".join(paragraphs)


class _Annotation:
    """The text of an annotation, shown without quotes."""

    def __init__(self, text: object) -> None:
        self.text = text

    def __repr__(self) -> str:
        return str(self.text)


def signature(name: str, function: Any) -> str:
    """Return the call as a line of Python, without `self` and without the annotation of a result that is None."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return f"{name}(…)"

    def plain(annotation: object) -> object:
        return _Annotation(annotation) if isinstance(annotation, str) else annotation

    parameters = [p for p in found.parameters.values() if p.name not in ("self", "cls")]
    parameters = [p.replace(annotation=plain(p.annotation)) for p in parameters]
    text = str(found.replace(parameters=parameters, return_annotation=plain(found.return_annotation)))
    text = text.replace("PandasFrame", "pd.DataFrame").replace("PandasSeries", "pd.Series")  # `cepbook.lazy_imports`
    return f"{name}{MEMORY.sub('…', text).removesuffix(' -> None')}"


def _block(name: str, function: Any) -> str:
    line = signature(name, function)
    if len(line) > 110:
        head, _, tail = line.partition("(")
        inside, _, result = tail.rpartition(")")
        parts = re.split(r", (?=[*/\w]+(?::|=|, |$)|\*|/)", inside)
        line = f"{head}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"
    return f"```text\n{line}\n```"


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, also inherited ones of ours, in the order of definition."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.startswith("cepbook"):
            for name, member in vars(base).items():
                plain = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
                if name[0] != "_" and name not in seen and (inspect.isfunction(plain) or isinstance(member, property)):
                    seen.add(name)
                    yield name, plain


def _member(name: str, member: Any, level: str) -> str:
    if isinstance(member, property):
        return f"{level} {name}\n\nAttribute. {prose(member)}\n"
    return f"{level} {name}\n\n{_block(name, member)}\n\n{prose(member)}\n"


def described(kind: Any, level: str = "##") -> Iterator[str]:
    """A class or function: call, docstring, and the members of a class."""
    if inspect.isfunction(kind):
        yield _member(kind.__name__, kind, level)
        return
    yield f"{level} {kind.__name__}\n"
    shown = not issubclass(kind, BaseException)
    if shown and "__init__" in vars(kind) and _is_called_by_users(kind):
        yield f"{_block(kind.__name__, kind)}\n"
    yield f"{prose(kind)}\n"
    own = dict(members(kind)) if shown else {}
    for name in CALLED[kind.__name__].split() if shown and kind.__name__ in CALLED else own:
        if inspect.getdoc(own[name]):
            yield _member(name, own[name], level + "#")


def _is_called_by_users(kind: type) -> bool:
    return kind.__name__.startswith(("By", "Nested", "Workbench", "Config", "Diagnostic", "Span"))


def workbench() -> Iterator[str]:
    from cepbook import Workbench

    yield "# Workbench\n\nThe object behind the magics. A notebook has one as `cep`. `from cepbook import Workbench`.\n"
    yield f"{_block('Workbench', Workbench)}\n\n{prose(Workbench)}\n"
    if Workbench.__init__.__doc__:
        yield f"{prose(Workbench.__init__)}\n"
    found = dict(members(Workbench))
    for name, member in inspect.getmembers(Workbench):
        if name[0] != "_" and name not in found and isinstance(member, property):
            found[name] = member
    rest = [
        name for name in found if name not in INTERNAL and not any(name in names.split() for names in SUBJECTS.values())
    ]
    for subject, names in {**SUBJECTS, "Other": " ".join(rest)}.items():
        present = [name for name in names.split() if name in found and inspect.getdoc(found[name])]
        if present:
            yield f"## {subject}\n"
            yield from (_member(name, found[name], "###") for name in present)


def config() -> Iterator[str]:
    from cepbook import Config

    yield "# Config\n\nSettings of the language: `Workbench(config=Config(integer_division=True))`.\n"
    yield f"{prose(Config)}\n\n| setting | type | default |\n|---|---|---|"
    for field in dataclasses.fields(Config):
        yield f"| `{field.name}` | `{field.type}` | `{field.default!r}` |"
    yield ""


def errors() -> Iterator[str]:
    import cepbook.errors

    yield "# Errors\n\n`from cepbook.errors import CepbookError`. Errors that a user can mend are a `CepbookError`.\n"
    classes = [each for each in vars(cepbook.errors).values() if inspect.isclass(each)]
    own = [each for each in classes if each.__module__ == "cepbook.errors" and each.__name__[0] != "_"]
    for kind in own:
        if issubclass(kind, Exception) or kind.__name__ in ("Diagnostic", "Span"):
            bases = [base.__name__ for base in kind.__bases__ if base is not object]
            texts = list(described(kind))
            texts.insert(1, f"A kind of {', '.join(f'`{base}`' for base in bases)}.\n" if bases else "")
            yield from filter(None, texts)


def sources() -> Iterator[str]:
    from cepbook.session import inlets

    yield "# Sources of live events\n\n`from cepbook.session import inlets`. Sources for `cep.live`.\n"
    for name in ("lines", "websocket", "tail", "database", "kafka"):
        yield from described(getattr(inlets, name))
    yield from described(class_named("Live"))


def sinks() -> Iterator[str]:
    from cepbook import Workbench

    cep = Workbench()
    cep.run("create schema Any1(n int); @name('q') select n from Any1")
    deltas: list[Any] = []
    cep.on("q", deltas.append)
    cep.send("Any1", n=1)
    yield "# Sinks, streams and deliveries\n\nObjects of `cep.sink`, `cep.stream` and `cep.on`.\n"
    for kind in (class_named("FileSink"), type(cep.stream("q")), type(deltas[0])):
        yield from described(kind)


def session() -> Iterator[str]:
    import cepbook.session

    yield "# Replays, results and selectors\n\n`from cepbook.session import ByKey`.\n"
    for name in sorted(cepbook.session.__all__, key=lambda name: (not name.startswith("Replay"), name)):
        if name != "Workbench":
            yield from described(getattr(cepbook.session, name))


def spark() -> Iterator[str]:
    import cepbook.spark

    yield "# Spark in Python\n\n`import cepbook.spark`. `cep.spark` and `cep.compare` call these functions.\n"
    for name in sorted(cepbook.spark.__all__, key=str.lower):
        if name[0].islower():
            yield from described(getattr(cepbook.spark, name))
    yield from described(class_named("SparkRun"))
    yield from described(cepbook.spark.Comparison)


def charts() -> Iterator[str]:
    from cepbook.widgets import charts as module

    yield "# Charts\n\n`from cepbook.widgets import charts`. Needs the extra `lab`.\n"
    for name in ("line", "stream_chart", "comparison_chart", "enable_offline_renderer"):
        yield from described(getattr(module, name))


class _Caught(Exception):
    pass


def _parser(call: Callable[[], object]) -> argparse.ArgumentParser:
    """Return the parser that a command makes, caught when it is about to parse."""
    caught: list[argparse.ArgumentParser] = []

    def catch(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        caught.append(parser)
        raise _Caught

    before = argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args
    argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_known_args = catch  # type: ignore[assignment]
    try:
        call()
    except _Caught:
        pass
    finally:
        argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args = before  # type: ignore[method-assign]
    return caught[0]


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"{' '.join((parser.description or '').split(chr(10) * 2)[0].replace('``', '`').split())}\n"
    yield "| argument | meaning |\n|---|---|"
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        metavar = action.metavar or ("" if action.nargs == 0 else (action.dest if not action.option_strings else ""))
        if not metavar and action.nargs != 0:
            metavar = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
        argument = f"{', '.join(action.option_strings)} {metavar}".strip()
        meaning = " ".join((action.help or "").replace("%%", "%").split())
        yield f"| `{argument}` | {meaning.replace('|', chr(92) + '|')} |"
    yield ""


def command_line() -> Iterator[str]:
    from cepbook.cli import main
    from cepbook.spark import job

    yield "# Command line\n"
    for name in ("run", "test", "format", "lab"):
        commands = _parser(lambda name=name: main([name]))  # type: ignore[misc]
        (kinds,) = [action for action in commands._actions if isinstance(action, argparse._SubParsersAction)]
        yield f"## cepbook {name}\n"
        yield from _options(kinds.choices[name])
    yield "## python -m cepbook.spark\n"
    yield from _options(_parser(lambda: job.main([])))


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "workbench": workbench,
    "config": config,
    "session": session,
    "sources": sources,
    "sinks": sinks,
    "errors": errors,
    "spark": spark,
    "charts": charts,
    "command_line": command_line,
}
