"""Diagnostics for the place where the parser of EPL stops: the fact, the place, and a hint for typical mistakes.

A remedy is a function in `REMEDIES` that looks at the tokens around the place and returns a hint or None. The first
hint wins, so special cases stand before general ones.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from lark import Lark
from lark.exceptions import UnexpectedToken

from cepbook.errors import Diagnostic, Span, alternatives, nearest_name
from cepbook.lang.registry.foreign_words import foreign_word
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax.reader.context_hints import context_hint
from cepbook.lang.syntax.reader.foreign_syntax import foreign_syntax_hint
from cepbook.lang.syntax.reader.hint_rows import keyword_hint
from cepbook.lang.syntax.reader.lexer import NAME_BEFORE, RESERVED_WORDS, SOFT_KEYWORDS, TIME_UNITS, StatementTokens
from cepbook.lang.syntax.reader.parse_failure import BRACKETS, CLAUSE_KEYWORDS, ParseFailure

CLAUSE_TEXT = "select, from, where, group by, having, output, order by, limit"
CLOSING_TERMINALS = {")": "RPAR", "]": "RSQB", "}": "RBRACE"}
OPERATORS = {
    "==": "compare with a single =",
    "=>": "write >= for at least; => goes after the parameter of a lambda",
    "!==": "write != for unequal",
    "&&": "write and",
    "!": "write not",
    "**": "EPL has no power operator; use Math.pow(x, y)",
    "++": "EPL has no ++; in a set clause write v = v + 1",
    "~": "EPL has no ~ operator",
    "?": "a parameter ? replaces a value",
    "\\": "a backslash is allowed only inside strings and before a dot in a name",
    ";": "a semicolon ends a statement",
    "%": "* and / and % go between two values",
}
REVERSED_OPERATORS = {"<": "write <= for at most", "!": "write != for unequal"}  # by the sign after =
STATEMENTS = frozenset(("select", "insert", "create", "update", "delete", "on"))
COMPARISONS = frozenset(("=", "!=", "<>", "<", "<=", ">", ">=", "is"))
BITWISE = frozenset("&|^")
SIGNS_AFTER_A_VALUE = COMPARISONS | BITWISE | {"/", "%", "||", "."}
ANNOTATIONS = frozenset(("name", "priority", "drop", "hint", "description", "tag", "audit"))
SELECTORS = frozenset(("istream", "rstream", "irstream"))
VALUE_TERMINALS = frozenset(("IDENT", "NUMBER", "STRING", "LPAR"))
TERMINAL_TEXTS = {"NUMBER": "a number", "STRING": "a string", "UNIT": "a time unit", "SCRIPT": "a script in brackets"}
TERMINAL_TEXTS |= {"OR_TERMINATED": "`or terminated`"}
VALUE_ENDS = ("word", "tick", "NUMBER", "STRING", ")", "]")


def diagnose(error: UnexpectedToken, piece: StatementTokens, parser: Lark) -> Diagnostic:
    """Return the diagnostic of a parse that stopped in `piece`."""
    spelled = {t.name: t.pattern.value for t in parser.terminals}
    stop = ParseFailure.of(error, piece.tokens, spelled)
    if stop.ended:
        span, fact = Span(piece.tokens[-1].end, piece.tokens[-1].end), "the statement ends too early"
    else:
        span, fact = Span(stop.tokens[stop.at].start, stop.tokens[stop.at].end), f"`{stop.found}` is not allowed here"
    expected = expected_text(stop.accepted, spelled)
    message = f"{fact}, expected {expected}" if expected else fact
    hint = next((hint for remedy in REMEDIES if (hint := remedy(stop)) is not None), None)
    return Diagnostic("syntax", message, span, hint)


def expected_text(accepted: frozenset[str], spelled: dict[str, str]) -> str:
    """Return the accepted terminals in words, or an empty text if there are too many to help."""
    texts: list[str] = []
    rest = set(accepted)
    if accepted >= VALUE_TERMINALS:
        return "an expression"
    if "IDENT" in rest:
        texts.append("a name")
    if "UNIT" in rest and "EVENTS" in rest:
        texts.append("`events`")
    rest -= {"IDENT", "SOFT", "EVENTS", "_AND_WHEN", "_COMMA_CONTEXT", "NAMED", "DOT_NS", "QUANTIFIER"}
    if "$END" in rest:
        texts.append("the end of the statement")
        rest.discard("$END")
    texts += sorted(
        TERMINAL_TEXTS[name] if name in TERMINAL_TEXTS else f"`{spelled[name]}`"
        for name in rest
        if name in TERMINAL_TEXTS or name in spelled
    )
    return alternatives(texts) if len(texts) <= 5 else ""


def foreign_operator(stop: ParseFailure) -> str | None:
    if stop.ended:
        return None
    if stop.kind() == "?":
        return None
    if stop.kind() == "=" and stop.kind(-1) == "=":
        return OPERATORS["=="]
    if stop.kind() == "*" and stop.kind(-1) == "*":
        return OPERATORS["**"]
    if stop.kind() in ("<", ">") and stop.kind(-1) == stop.kind():
        return f"write one {stop.kind()}; EPL does not shift bits"
    if stop.kind(-1) == "=" and stop.kind() in REVERSED_OPERATORS:
        return REVERSED_OPERATORS[stop.kind()]
    return OPERATORS.get(stop.kind()) if stop.kind() != ";" else None


def comment(stop: ParseFailure) -> str | None:
    """A comment that is not closed, or one in the form of SQL."""
    signs = [a.kind + b.kind for a, b in pairwise(stop.tokens[: stop.at + 2]) if a.end == b.start]
    if "/*" in signs:
        return "close the comment with */"
    return "a comment begins with //, or is enclosed in /* and */" if "--" in signs else None


def not_yet(stop: ParseFailure) -> str | None:
    """Parts of Esper's language that have no grammar here."""
    around = (stop.text(-1), stop.text(), stop.text(1))
    if "inlined_class" in around or ("class" in around and "create" in (stop.text(-1), stop.text(-2))):
        return "not supported yet: classes in EPL; register a Python function instead"
    return None


# Parts of the clause in the SQL standard that EPL does not have, by the words at which the parser stops
RECOGNIZE = {
    ("one", "row"): "there is always one row for a match: leave it out",
    ("all", "rows"): "there is always one row for a match: leave it out; take the rows of a variable with window(A.x)",
    ("order", "by"): "rows count in the order in which they come: leave it out",
    ("to", "first"): "the search goes on past last row, to next row or to current row",
    ("to", "last"): "the search goes on past last row, to next row or to current row",
    ("within", ""): "put a data window before it: Tick#time(1 hour) match_recognize (…)",
    ("subset", ""): "write the measure for each of its variables",
    ("^", ""): "a pattern has no anchors",
}


def recognize_of_sql(stop: ParseFailure) -> str | None:
    words = stop.words_before()
    if "match_recognize" not in words:
        return None
    if "permute" in words and "pattern" in words and stop.text() in (",", ")"):
        return "write match_recognize_permute(A, B)"
    for (first, second), hint in RECOGNIZE.items():
        at_first = stop.text() == first and second in ("", stop.text(1))
        if at_first and first == "order" and "measures" in words:
            return None  # the order by clause, with a bracket still open
        if at_first or (stop.text(-1), stop.text()) == (first, second):
            return hint
    return None


def declaration(stop: ParseFailure) -> str | None:
    """The body of a declared expression without braces, or a missing name before it."""
    words = stop.words_before()
    start = 2 if words[:2] == ["create", "expression"] else 1
    if words[start - 1 : start] != ["expression"]:
        return None
    if "{" in words:
        return f"write a parameter before =>: {{{stop.text(-1)} => …}}" if stop.kind() == ":" else None
    if stop.at == start:
        return "write a name before the body: expression f {x => x + 1}" if stop.kind() == "{" else None
    name = stop.tokens[start].text.rstrip(": ")
    if "alias" in (*words[start:], stop.text()):
        return f"write expression {name} alias for {{…}}"
    return f"write the body in braces: expression {name} {{x => x + 1}}"


def trailing_comma(stop: ParseFailure) -> str | None:
    if stop.kind(-1) != ",":
        return None
    if stop.ended or stop.kind() in BRACKETS.values() or stop.opens_clause():
        return "remove the comma before it"
    return "remove one comma" if stop.kind() == "," else None


def clause_out_of_order(stop: ParseFailure) -> str | None:
    word = stop.text()
    if not stop.opens_clause() or stop.open_brackets():
        return None
    if "select" not in (word, *stop.clauses_before()):
        return None  # the parts of `create context` have these words, too
    rank = CLAUSE_KEYWORDS.index(word)
    later = [clause for clause in stop.clauses_before() if CLAUSE_KEYWORDS.index(clause) > rank]
    if word in stop.clauses_before() and not later:
        return f"a statement has one {clause_name(word)} clause" if word != "select" else None
    if not later:
        return None
    return f"put {clause_name(word)} before {clause_name(later[0])}; the order is {CLAUSE_TEXT}"


def clause_name(word: str) -> str:
    return f"{word} by" if word in ("group", "order") else word


# Hints for a word or sign that is followed by the next clause or the end of the statement
MISSING_AFTER = {
    "from": "name an event type after from",
    "into": "name a stream after into",
    "where": "write a condition after where",
    "having": "write a condition after having",
    "by": "write an expression after by",
    "as": "write a name after as",
    "#": "name a data window after #, for example #length(10)",
    "every": "say how often, for example every 5 seconds or every 10 events",
    "limit": "write a number of rows after limit",
    "case": "write when … then … after case",
    "when": "write a condition after when",
    "then": "write a value after then",
    "else": "write a value after else",
}
UNIT_LETTERS = {
    "s": "sec",
    "m": "min",
    "mn": "min",
    "h": "hours",
    "d": "days",
    "w": "weeks",
    "ms": "msec",
    "us": "usec",
}
NEED_A_VALUE = frozenset("and or not = < > + - * / || <= >= != like between in is".split())


def missing_part(stop: ParseFailure) -> str | None:
    """A part is missing between the previous word and a clause that begins, or the end."""
    if not (stop.ended or stop.opens_clause() or stop.text() == "end" or stop.kind() in BRACKETS.values()):
        return None
    before = stop.text(-1)
    if (before, stop.text()) == ("as", "end"):
        return None  # a name like any keyword
    if before == "(" and stop.text(-2) == "in":
        return "write at least one value in the list"
    if before == "select" or (before == "distinct" and stop.text(-2) == "select"):
        return "say what to select, for example * or the names of properties"
    if before in MISSING_AFTER:
        return MISSING_AFTER[before]
    if before in NEED_A_VALUE:
        return f"write a value after {before}" if "from" in stop.clauses_before() or before != "*" else None
    return None


def missing_operand(stop: ParseFailure) -> str | None:
    """A value is missing before a word or sign that follows a value, or a type after a name."""
    before, word = stop.text(-1), stop.text()
    if stop.accepted & {"IDENT", "NULL", "NUMBER"} == {"IDENT", "NULL"} and stop.kind() in (",", ")"):
        return f"write a type after {stop.tokens[stop.at - 1].text}, for example int"
    if not stop.accepted >= VALUE_TERMINALS:
        return None
    if word == "and" and before in TIME_UNITS and stop.kind(1) == "NUMBER":
        return "the parts of a time period go next to each other: 2 minutes 5 seconds"
    names = stop.kind(1) in ("word", "tick") and not (word == "as" and stop.text(1) in CLAUSE_KEYWORDS)
    if (
        (word == "as" and names)
        or word in ("and", "or")
        or stop.kind() in SIGNS_AFTER_A_VALUE
        or (word in TIME_UNITS and before in ("(", ",", "every") and _wants_period(stop))
    ):
        return f"write a value before {stop.found}"
    if stop.kind() == "," and before in ("(", "select", "by", "distinct", *SELECTORS):
        return "remove the comma, or write a value before it"
    return None


def _wants_period(stop: ParseFailure) -> bool:
    """Return whether a time unit lacks its number: in parameters of a window or timer, or after ``every``."""
    brackets = stop.open_brackets()
    if stop.text(-1) == "every" or not brackets:
        return stop.text(-1) == "every"
    at = next(i for i, token in enumerate(stop.tokens) if token is brackets[-1])
    before = [token.text for token in stop.tokens[max(0, at - 2) : at]]
    window = WINDOWS.get(before[-1]) if before else None
    if window is None or before[0] not in ("#", ":") or not window.parameters:
        return before[:1] in (["#"], [":"], ["."])
    place = sum(token.text == "," for token in stop.tokens[at : stop.at])
    kind = window.parameters[min(place, len(window.parameters) - 1)].kind
    return kind not in ("key", "sort", "timestamp", "condition")  # a property is meant for these


def missing_end(stop: ParseFailure) -> str | None:
    """The previous statement has no semicolon."""
    if "$END" not in stop.accepted or stop.at == 0 or stop.ended or stop.open_brackets():
        return None
    begins = stop.text(-1) if stop.text() == "into" else stop.text()
    first = [token.text.lower() for token in stop.tokens[:4]]
    nested = first[:2] == ["create", "context"] and first[3:] == ["context"]
    into_table = (stop.text(), stop.text(1)) == ("into", "table")
    if not (begins in {"@"} | STATEMENTS or into_table or (begins == "context" and not nested)):
        return None
    return "end the statement before it with a semicolon"


def unclosed_bracket(stop: ParseFailure) -> str | None:
    brackets = stop.open_brackets()
    if stop.kind() in BRACKETS.values() and not brackets:
        return f"no {next(k for k, v in BRACKETS.items() if v == stop.kind())} is open here"
    if not brackets:
        return None
    closing = BRACKETS[brackets[-1].kind]
    if stop.kind() in BRACKETS.values() and stop.kind() != closing and closing in ")]}":
        range_end = brackets[-1].kind in "([" and stop.kind() in ")]"
        return (
            None
            if range_end and len(brackets) == 1 and "RSQB" in stop.accepted
            else f"close {brackets[-1].kind} with {closing}"
        )
    in_subquery = stop.text() == "select" and stop.kind(-1) in BRACKETS
    would_close = CLOSING_TERMINALS[closing] in stop.accepted and not stop.accepted >= VALUE_TERMINALS
    goes_on = stop.kind() == "word" and stop.text() in {"as", "end"} | STATEMENTS and not in_subquery
    if (
        (would_close and goes_on)
        or stop.ended
        or stop.kind() == "->"
        or (stop.opens_clause() and not in_subquery and stop.text() != "order")
    ):
        i = stop.tokens.index(brackets[-1])
        after = f" after {stop.tokens[i - 1].text}" if i else ""
        return f"close the bracket {brackets[-1].kind}{after} with {closing}"
    return None


def time_unit(stop: ParseFailure) -> str | None:
    if stop.kind() != "word" or "UNIT" not in stop.accepted:
        return None
    candidates = [*TIME_UNITS, "events"] if "EVENTS" in stop.accepted else list(TIME_UNITS)
    close = UNIT_LETTERS.get(stop.text()) or nearest_name(stop.text(), candidates)
    if not close and stop.kind(-1) != "NUMBER":
        return None
    if close:
        return f"did you mean {close}?"
    return "the time units are year, month, week, day, hour, minute, second, millisecond and microsecond"


def rate_without_unit(stop: ParseFailure) -> str | None:
    if "UNIT" in stop.accepted and "EVENTS" in stop.accepted:
        return f"add a unit: every {stop.text(-1)} seconds, or every {stop.text(-1)} events"
    if stop.accepted == {"UNIT"}:
        return f"add a time unit: {stop.text(-1)} seconds"
    return None


def keyword_typo(stop: ParseFailure) -> str | None:
    """The word here, or the previous word that was read as a name, is nearly a keyword."""
    if stop.kind() == "word" and stop.text() not in stop.words:
        close = nearest_name(stop.text(), stop.words)
        if close is not None and stop.text() not in RESERVED_WORDS:
            return f"did you mean {close}?"
    for offset in (-1, -2):
        before = stop.text(offset)
        if stop.kind(offset) != "word" or before in RESERVED_WORDS | SOFT_KEYWORDS or stop.at + offset < 1:
            continue
        words = (*CLAUSE_KEYWORDS, "schema", "context", "unidirectional", "inner")
        close = nearest_name(before, words)
        if close is not None and close != before:
            return f"did you mean {close} instead of {stop.tokens[stop.at + offset].text}?"
    return None


def second_selector(stop: ParseFailure) -> str | None:
    behind = 2 if stop.text(-1) == "," else 1
    if stop.text(1 if stop.kind() == "," else 0) in SELECTORS and stop.text(-behind) in SELECTORS:
        return "only one of istream, rstream and irstream is allowed here"
    return None


def missing_from(stop: ParseFailure) -> str | None:
    clauses = stop.clauses_before()
    if "select" not in clauses or stop.open_brackets() or any(t.text.lower() == "from" for t in stop.tokens):
        return None
    if (
        stop.kind() in ("word", "tick")
        and (stop.kind(-1) == "*" or stop.kind(-1) == "word")
        and stop.text() not in CLAUSE_KEYWORDS
    ):
        return f"write from before the event type: from {stop.found}"
    return None


def window_notation(stop: ParseFailure) -> str | None:
    if stop.text() == "window" and "HASH" in stop.accepted | {"HASH"} and "from" in stop.clauses_before():
        return "write the window after the event type with a #, for example Tick#length(10)"
    if stop.kind(-2) == "#" and stop.kind() == "NUMBER":
        return f"write parameters in parentheses: #{stop.text(-1)}({stop.found})"
    if stop.kind(-2) == "#" and stop.kind() == "[":
        return f"write parameters in parentheses: #{stop.text(-1)}(…)"
    if stop.kind(-2) == "#" and stop.kind() == "." and stop.text(1) in WINDOWS:
        return f"a namespace ends with a colon: #{WINDOWS[stop.text(1)].namespace}:{stop.text(1)}"
    if stop.kind(-1) == "#" and stop.kind() == "#":
        return "one # is enough"
    if stop.kind(-2) == "#" and stop.kind() == "." and (row := foreign_word(stop.text(1), "window")) is not None:
        return row.doc
    if stop.kind() == "." and stop.text(1) in WINDOWS and "HASH" in stop.accepted:
        return f"write #{stop.text(1)}"
    if stop.kind() == "(" and stop.text(-1) in WINDOWS and stop.kind(-2) in (")", "word"):
        return f"is a # missing before {stop.text(-1)}?"
    return None


def missing_by(stop: ParseFailure) -> str | None:
    if stop.text(-1) in ("group", "order") and "BY" in stop.accepted:
        return f"write {stop.text(-1)} by"
    by = next((offset for offset in (0, 1) if stop.text(offset) == "by"), None)
    if by is None or stop.kind(by - 1) != "word" or stop.text(by - 1) in ("group", "order"):
        return None
    if stop.text(by - 1) == "partition":
        return "group by makes groups; partition by belongs to create context and match_recognize"
    close = nearest_name(stop.text(by - 1), ("group", "order"))  # misspelt, or an alias
    return f"did you mean {close} by?" if close else None


def comparison_chain(stop: ParseFailure) -> str | None:
    if stop.text() in COMPARISONS and not COMPARISONS.isdisjoint(stop.words_before()):
        return "comparisons do not chain: join two of them with and, or use parentheses"
    if stop.kind() in BITWISE and any(t.kind in BITWISE for t in stop.tokens[: stop.at]):
        return "different bitwise operators need parentheses"
    return None


def needs_parentheses(stop: ParseFailure) -> str | None:
    if stop.kind() == "(" and stop.kind(-1) in ("-", "+") and "NUMBER" in stop.accepted:
        return "a sign goes before a number or a name: write -1 * (…)"
    pair = (stop.text(-1), stop.text())
    if pair in (("every", "not"), ("every", "every"), ("not", "every")):
        return f"{pair[0]} applies to one part of a pattern: {pair[0]} ({pair[1]} …)"
    if stop.text() == "not" and stop.text(-1) == "not":
        return "write not once: use parentheses for not (not …)"
    if stop.text() == "case":
        return "put case … end in parentheses"
    if stop.text(-1) == "end" and "case" in stop.words_before():
        return "put case … end in parentheses"
    return None


def limit_value(stop: ParseFailure) -> str | None:
    if "limit" not in [t.text.lower() for t in stop.tokens[max(0, stop.at - 3) : stop.at]]:
        return None
    return "limit takes a number or a variable: limit 10 offset 5"


def nested_context(stop: ParseFailure) -> str | None:
    if stop.text() == "context" and stop.text(-1) != ",":
        return "separate nested contexts with commas"
    if stop.kind() == "," and "_COMMA_CONTEXT" in stop.accepted:
        return "a comma is allowed here only before the next nested context: , context NAME …"
    return None


def subquery(stop: ParseFailure) -> str | None:
    brackets = stop.open_brackets()
    if not brackets or stop.text() not in (",", "order", "limit", "output", "inner", "left", "join", "pattern"):
        return None
    inside = [token.text.lower() for token in stop.tokens[stop.tokens.index(brackets[-1]) + 1 : stop.at]]
    if inside[:1] != ["select"] or "from" not in inside:
        return None
    return "a subquery reads one event type, named window or table and has only where, group by and having"


def missing_word(stop: ParseFailure) -> str | None:
    """A keyword that this place needs."""
    if "END" in stop.accepted and stop.opens_clause():
        return "a case ends with end"
    if stop.text(-1) == "insert" and "INTO" in stop.accepted:
        return "write insert into"
    if stop.text() == "then" and "merge" in stop.words_before():
        return "write when matched then … or when not matched then …"
    if stop.at == 0 and stop.text() in ANNOTATIONS and stop.kind(1) == "(":
        return f"an annotation begins with @: @{stop.found}(…)"
    if stop.text(-2) == "create" and stop.kind() == "(" and stop.words == ("schema",):
        return f"say what is created, for example create schema {stop.tokens[stop.at - 1].text} (…)"
    if stop.at == 0 and not nearest_name(stop.text(), stop.words):
        return "a statement begins with select, insert into, create, on, update, delete, context or an annotation"
    return None


def missing_comma(stop: ParseFailure) -> str | None:
    """A call, or a name with a dot, directly after a value."""
    if "COMMA" not in stop.accepted:
        return None
    if stop.kind() == "word" and stop.text(1) == "(" and _ends_a_value(stop, -1):
        return "is a comma missing before it?"
    if stop.kind() == "." and _ends_a_value(stop, -1) and _ends_a_value(stop, -2):
        return keyword_typo(stop) or f"is a comma missing before `{stop.tokens[stop.at - 1].text}`?"
    return None


def _ends_a_value(stop: ParseFailure, offset: int) -> bool:
    return stop.kind(offset) in VALUE_ENDS and stop.text(offset) not in RESERVED_WORDS


def missing_separator(stop: ParseFailure) -> str | None:
    """Two values or names without a sign between them."""
    if stop.kind() not in ("word", "tick", "NUMBER", "STRING") or stop.text() in RESERVED_WORDS:
        return None
    if "pattern" in stop.words_before():
        return "join parts of a pattern with ->, and, or" if "UNTIL" in stop.accepted else None
    if "COMMA" in stop.accepted and stop.kind(-1) in VALUE_ENDS:
        return "is a comma missing before it?"
    return None


def join_kind(stop: ParseFailure) -> str | None:
    if stop.text() in ("outer", "join") and stop.text(-1) != "outer" and stop.accepted & {"LEFT", "OUTER", "JOIN"}:
        return "write left outer join, right outer join, full outer join or inner join"
    return None


def keyword_as_name(stop: ParseFailure) -> str | None:
    word = stop.text()
    keyword = word in RESERVED_WORDS | SOFT_KEYWORDS | NAME_BEFORE.keys()
    if stop.kind() != "word" or not keyword or "IDENT" not in stop.accepted:
        return None
    named_before = stop.text(-1) in ("as", "(", ",") and "NUMBER" not in stop.accepted
    if not named_before and (stop.opens_clause() or word in STATEMENTS):
        return None
    return keyword_hint(stop.found)


def time_unit_as_name(stop: ParseFailure) -> str | None:
    if stop.text() in TIME_UNITS and stop.text() in RESERVED_WORDS and stop.kind(-1) != "NUMBER":
        return keyword_hint(stop.found)
    return None


REMEDIES: tuple[Callable[[ParseFailure], str | None], ...] = (
    comment,
    not_yet,
    recognize_of_sql,
    declaration,
    context_hint,
    foreign_syntax_hint,
    foreign_operator,
    second_selector,
    window_notation,
    missing_end,
    trailing_comma,
    clause_out_of_order,
    missing_part,
    missing_operand,
    time_unit,
    rate_without_unit,
    missing_by,
    comparison_chain,
    needs_parentheses,
    limit_value,
    nested_context,
    subquery,
    missing_word,
    join_kind,
    unclosed_bracket,
    missing_comma,
    keyword_as_name,
    time_unit_as_name,
    keyword_typo,
    missing_from,
    missing_separator,
)
