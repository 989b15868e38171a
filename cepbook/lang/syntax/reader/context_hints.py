"""Hints for mistakes in ``create context`` and in statements that refer to contexts."""

from __future__ import annotations

from itertools import pairwise

from cepbook.lang.syntax.reader.lexer import TIME_UNITS
from cepbook.lang.syntax.reader.parse_failure import BRACKETS, ParseFailure

CONTEXT_KINDS = ("partition", "coalesce", "group", "start", "initiated")
CONDITION_FORMS = "an event type, a pattern [ … ], a crontab (0, 9, *, *, *) or after 5 minutes"
CONTEXT_KINDS_HINT = (
    "say how it divides events: partition by, coalesce by, group by, start … end or initiated by … terminated by"
)
CONTEXT_FIRST_HINT = "write context first: context NAME select …"


def context_hint(stop: ParseFailure) -> str | None:
    """Return a hint for a declaration of a context or a statement in a context, or None."""
    outside = _unbracketed_words(stop)
    if ("create", "context") in pairwise(outside):
        return _declaration_hint(stop, outside[outside.index("create") + 2 :])
    if stop.text() == "context" and stop.text(-2) == "create":
        return f"write create context {stop.tokens[stop.at - 1].text}"
    return _statement_hint(stop) or _termination_hint(stop)


def _unbracketed_words(stop: ParseFailure) -> list[str]:
    depth, words = 0, []
    for token in stop.tokens[: stop.at]:
        depth -= token.kind in BRACKETS.values()
        if depth == 0:
            words.append(token.text.lower())
        depth += token.kind in BRACKETS
    return words


def _declaration_hint(stop: ParseFailure, words: list[str]) -> str | None:
    """Return a hint for a declaration; `words` are the words after ``create context``."""
    levels = [i for i, word in enumerate(words) if word == "context" and i in (1, 2)] or [0]
    level = max([*levels, *(i for i in range(1, len(words)) if words[i] == "context" and words[i - 1] == ",")])
    own = words[level:]
    kind = next((word for word in reversed(own) if word in CONTEXT_KINDS), "")
    if stop.open_brackets():
        return None
    if not kind:
        return _before_kind_hint(stop, own if level else words, nested=level > 0)
    return _condition_hint(stop, kind, own) or _kind_hint(stop, kind, own)


def _before_kind_hint(stop: ParseFailure, own: list[str], *, nested: bool) -> str | None:
    if stop.text() == "distinct":
        return "distinct goes after initiated by: initiated by distinct(o.id) Order as o"
    if stop.text() == "," and len(own) == 1 and stop.text(1) == "context":
        return "write no comma before the first level"
    if stop.text() == "," and nested:
        return "a level is declared as a whole: context NAME partition by id from Tick"
    return CONTEXT_KINDS_HINT if stop.ended and own else None


def _condition_hint(stop: ParseFailure, kind: str, own: list[str]) -> str | None:
    word, before = stop.text(), stop.text(-1)
    if word == "by" and before in ("start", "end"):
        return f"leave by out: {before} EVENT"
    if word == "end" and kind == "initiated" and before not in ("initiated", "by"):
        return "write terminated: end goes with start"
    if word in ("terminated", "initiated") and kind == "start" and before not in ("start", "end"):
        return f"write end: {word} goes with {'initiated' if word == 'terminated' else 'terminated'} by"
    if word == "and" and before == "now" and kind == "start":
        return "@now and goes after initiated by"
    behind = own[-2:] if own[-1:] == ["by"] else own[-1:]
    begins, ends = behind[0] in ("start", "initiated"), behind[0] in ("end", "terminated")
    if not (begins or ends):
        return None
    if word == "pattern":
        return "write the pattern in brackets: pattern [ … ]"
    if stop.kind() == "NUMBER" and (stop.text(1) in TIME_UNITS or stop.text(2) in TIME_UNITS):
        return f"write after before the time: {' '.join(behind)} after {stop.found} {stop.tokens[stop.at + 1].text}"
    if word in ("in", "within"):
        return f"write {' '.join(behind)} after …"
    if stop.kind() == "NUMBER" and stop.text(1) == ",":
        return "write a crontab in parentheses: (0, 9, *, *, *)"
    if stop.ended or word in ("end", "terminated", ","):
        return f"say when partitions {'begin' if begins else 'end'}: {CONDITION_FORMS}"
    return None


def _kind_hint(stop: ParseFailure, kind: str, own: list[str]) -> str | None:
    word = stop.text()
    if "FROM" in stop.accepted and (stop.ended or word in ("granularity", "initiated", "terminated")):
        examples = {"partition": "partition by id from Tick", "coalesce": "hash_code(id) from Tick granularity 16"}
        return f"say of which events: {examples.get(kind, 'from Tick')}"
    if kind == "partition" and "FROM" in stop.accepted and word not in ("", "from"):
        return "a key is a property: name it, and those of a composite key with and between them"
    if "GRANULARITY" in stop.accepted and (stop.ended or stop.kind() == "NUMBER" or word == "preallocate"):
        return "say how many partitions there are at most: granularity 16"
    if kind == "group" and stop.accepted == {"AS"} and own:
        return "name the category: group by v > 1 as NAME"
    return None


def _statement_hint(stop: ParseFailure) -> str | None:
    first = next((i for i, token in enumerate(stop.tokens) if token.text.lower() == "context"), stop.at)
    words = stop.words_before()
    if first == 0 and stop.at == 1 and stop.text() in ("select", "insert", "on", "create"):
        return "name a context: context NAME select …"
    if first == 0 and stop.at == 2:
        if stop.text() == ",":
            return "a statement has one context; combine them in one nested context"
        return "write a statement after it" if stop.ended else None
    if stop.text() == "context" and stop.at == first and words:
        alone = stop.at + 2 >= len(stop.tokens)  # else it may be the next statement
        return CONTEXT_FIRST_HINT if words[-2:-1] == ["into"] or (alone and "from" in words) else None
    return CONTEXT_FIRST_HINT if (stop.text(), stop.text(1)) == ("in", "context") and "from" in words else None


def _termination_hint(stop: ParseFailure) -> str | None:
    """Return a hint for ``output … when terminated``."""
    words = stop.words_before()
    if "output" not in words:
        return None
    since = words[len(words) - words[::-1].index("output") :]
    if (stop.text(), stop.text(1)) == ("when", "terminated") and since:
        return "write and when terminated"
    if stop.text() == "every" and since[-2:] == ["when", "terminated"]:
        return "write it the other way round: output every … and when terminated"
    if "terminat" in stop.text() or (stop.text() == "on" and stop.text(1).startswith("terminat")):
        return "write output when terminated"
    if stop.accepted == {"SET"} and stop.text(-1) == "then":
        return "write then set"
    return None
