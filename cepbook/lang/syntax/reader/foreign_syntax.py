"""Hints for constructs of other languages and for small slips, by the words at which the parser stops."""

from __future__ import annotations

from difflib import get_close_matches

from cepbook.lang.syntax.reader.parse_failure import BRACKETS, ParseFailure

CREATABLE_KINDS = ("schema", "window", "table", "variable", "context", "index", "expression")
CASE_HINT = "write case when … then … else … end"
OUTPUT_SELECTORS = ("snapshot", "last", "first", "all")


def foreign_syntax_hint(stop: ParseFailure) -> str | None:
    """Return a hint where SQL, Java or Python would continue, or None."""
    return (
        _create_hint(stop)
        or _annotation_hint(stop)
        or _pattern_hint(stop)
        or _from_hint(stop)
        or _output_hint(stop)
        or _value_hint(stop)
    )


def _create_hint(stop: ParseFailure) -> str | None:
    before = stop.text(-1)
    if stop.text(-2) == "create" and stop.words == ("schema",) and stop.kind() in ("word", "tick"):
        close = get_close_matches(before, CREATABLE_KINDS, n=1, cutoff=0.6)
        if close or before == "var":
            return f"did you mean create {close[0] if close else 'variable'}?"
        if stop.text(1) in ("(", "as"):
            return f"an event type is a schema: create schema {stop.found} (…)"
        return f"create makes a {', '.join(CREATABLE_KINDS[:-1])} or {CREATABLE_KINDS[-1]}"
    if stop.kind() == "{" and stop.text(-2) == "schema":
        return f"write properties in parentheses: create schema {stop.tokens[stop.at - 1].text} (x int)"
    words = [token.text.lower() for token in stop.tokens]
    if stop.ended and words[:2] == ["create", "window"]:
        return "say which events it holds: as Tick"
    if words[: stop.at] == ["create", "index"] and stop.text() == "on":
        return "name the index: create index NAME on …"
    return None


def _annotation_hint(stop: ParseFailure) -> str | None:
    if stop.text(-2) == "@" and stop.kind() in ("STRING", "="):
        return f"write @{stop.tokens[stop.at - 1].text}('…')"
    first = stop.tokens[0].kind == "@" and not stop.open_brackets()
    if first and stop.kind() == "," and all(t.text.lower() != "select" for t in stop.tokens[: stop.at]):
        return "write no comma after an annotation" if stop.text(-1) == ")" or stop.text(-2) == "@" else None
    return None


def _pattern_hint(stop: ParseFailure) -> str | None:
    if stop.text(-1) == "pattern" and stop.kind() != "[" and "from" in stop.clauses_before():
        return "write the pattern in brackets: pattern [ … ]"
    words = [token.text.lower() for token in stop.tokens[: stop.at]]
    opened = next((i for i, word in enumerate(words) if word == "pattern" and words[i + 1 : i + 2] == ["["]), None)
    if opened is None or "[" not in [bracket.kind for bracket in stop.open_brackets()]:
        return None
    if stop.kind() == "," and len(stop.open_brackets()) == 1:
        return "join parts of a pattern with ->, and, or"
    if stop.text(-2) == ":" and stop.text(-3) == "timer" and stop.kind() in ("NUMBER", "word"):
        return f"write parameters in parentheses: timer:{stop.text(-1)}({stop.found} …)"
    place = len(words) - words[::-1].index("timer") if "timer" in words else 0
    if place and words[place : place + 1] == ["."]:
        return f"write timer:{words[place + 1]}" if place + 1 < len(words) else None
    return None


def _from_hint(stop: ParseFailure) -> str | None:
    if stop.text() == "(" and stop.text(-1) == "using":
        return "write on a.x = b.x"
    if stop.text() == "(" and stop.text(-1) == "from":
        return "a from-clause names streams: insert into X select …, then select … from X"
    if stop.text() == "(" and get_close_matches(stop.text(-1), ["match_recognize"], n=1, cutoff=0.8):
        return "did you mean match_recognize?"
    if stop.text() == "pattern" and "measures" in [t.text.lower() for t in stop.tokens[: stop.at]]:
        return "name the measure: A.x as NAME" if stop.text(-1) not in ("measures", ",") else None
    return None


def _output_hint(stop: ParseFailure) -> str | None:
    words = [token.text.lower() for token in stop.tokens[: stop.at]]
    if "output" not in words or stop.open_brackets():
        return None
    since = words[len(words) - words[::-1].index("output") :]
    if stop.text() in OUTPUT_SELECTORS and since[:1] == ["every"]:
        return f"write output {stop.text()} every …"
    if stop.text() == "each" and since in ([], *([rate] for rate in OUTPUT_SELECTORS)):
        return "write every"
    if stop.kind() == "NUMBER" and len(since) == 1 and since[0] in OUTPUT_SELECTORS:
        return f"write output {since[0]} every {stop.found} {stop.text(1) or 'events'}"
    return None


def _value_hint(stop: ParseFailure) -> str | None:
    word, before = stop.text(), stop.text(-1)
    if stop.at == 0 and word == "with":
        return "EPL has no with: insert into X select … makes a stream X, which other statements read"
    if stop.kind() == "NUMBER" and before == "top" and stop.text(-2) == "select":
        return f"write limit {stop.found} after the other clauses"
    if word == "(" and before == "filter" and stop.text(-2) == ")":
        return "write the filter as an argument: count(*, filter: x > 1), sum(x, filter: x > 1)"
    if before == "?" and word not in (".", "?"):
        return CASE_HINT
    if word == "instanceof":
        return "write instanceof(x, string)"
    if word == ":" and ":" in (before, stop.text(1)):
        return "write cast(x, long)"
    if word == ":" and stop.text(1) == "=":
        return "write ="
    if word == "over" or (word == "(" and before == "over" and stop.text(-2) == ")"):
        return "EPL has no over: group by makes groups, avg(x, group_by: y) one for a single aggregate"
    if before == "in" and stop.kind() in ("NUMBER", "STRING") and stop.text(1) == ",":
        return "write the values in parentheses: in (1, 2)"
    if word == "," and ":" in stop.words + tuple(_open_range(stop)):
        return "write a range with a colon, [1:5], or a list in parentheses, (1, 5)"
    return None


def _open_range(stop: ParseFailure) -> list[str]:
    """Return a colon if a range after ``in`` is open and has no upper bound yet."""
    brackets = stop.open_brackets()
    if not brackets or brackets[-1].kind not in BRACKETS:
        return []
    at = stop.tokens.index(brackets[-1])
    behind = at > 0 and stop.tokens[at - 1].text.lower() == "in"
    return [":"] if behind and brackets[-1].kind == "[" and stop.at == at + 2 else []
