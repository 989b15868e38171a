"""Format EPL: one clause per line and uniform spacing. Only blanks and line breaks change; comments stay.

The layout follows the tokens, and every formatted statement is checked to have the tokens of the original. A statement
for which that fails stays as it was written.

A short statement stays on one line. Otherwise every clause begins a line, lists and conditions that are too long are
split at commas, ``and``, ``or`` and ``->``, and brackets are opened. Annotations stand on lines of their own. A blank
line between statements stays; several become one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import pairwise

from cepbook.lang.syntax.reader import parser
from cepbook.lang.syntax.reader.lexer import StatementTokens, tokenize
from cepbook.lang.syntax.reader.parse_failure import BRACKETS

WIDTH = 100  # characters of a line, where the text allows it
SHORT = 60  # characters up to which a statement of several clauses stays in one line
STEP = "    "

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# Words behind which a value begins, so that a sign is its own and a bracket stands apart.
_LEADING = frozenset(
    """and or not in where having when then else case set by as between like regexp is from distinct on select pattern
    measures define match_recognize every until while values key sets start end initiated terminated at output limit
    offset delete using return escape skip after interval""".split()
)
_SELECT = frozenset("context into insert select from where group having output order limit expression".split())
_MERGE = frozenset("merge where when then".split())
_ON = _SELECT | frozenset("delete update set".split())
_RECOGNIZE = frozenset("partition measures all after interval pattern define".split())
_JOIN = frozenset("left right full inner join".split())


@dataclass(slots=True)
class LayoutToken:
    """A token or comment. `glued`: no blank before it in the source; `space`: a blank before it in the result.

    `kind` is that of the token, or ``comment`` within a line, ``tail`` up to the end of a line, ``own`` on lines of its
    own.
    """

    text: str
    kind: str
    glued: bool = False
    space: bool = False

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""


@dataclass(slots=True)
class LayoutGroup:
    """The content of brackets, or of ``case … end``."""

    open: LayoutToken
    items: list[LayoutItem] = field(default_factory=list)
    close: LayoutToken | None = None
    opener: str = ""  # the word before it


LayoutItem = LayoutToken | LayoutGroup


def format_epl(text: str) -> str:
    """Format `text`; the result ends with a line break, and formatting it again changes nothing. Raises ParseError."""
    parser.parse_epl(text)
    pieces, _ = tokenize(text)
    lines: list[str] = []
    gap, at = "", 0
    for number, piece in enumerate(pieces):
        tokens = piece.tokens
        gap += text[at : tokens[0].start if tokens else piece.end]
        if tokens:
            _between(gap, lines)
            lines += _checked(piece, text)
            gap = text[tokens[-1].end : piece.end]
            if number < len(pieces) - 1:
                lines[-1] += ";"
        at = piece.end + 1
    _between(gap + text[at:], lines)
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


def _between(gap: str, lines: list[str]) -> None:
    """Add what stands between two statements: a comment at the end of a line, other comments, blank lines."""
    at = 0
    for comment in _COMMENT.finditer(gap):
        blank, at = gap[at : comment.start()], comment.end()
        text = [line.rstrip() for line in comment.group().split("\n")]
        if lines and comment.start() == len(blank) and "\n" not in blank and len(text) == 1:
            lines[-1] += f"  {text[0]}"
            continue
        _blank_line(blank, lines)
        lines += text
    _blank_line(gap[at:], lines)


def _blank_line(gap: str, lines: list[str]) -> None:
    if gap.count("\n") > 1 and lines and lines[-1]:
        lines.append("")


def _checked(piece: StatementTokens, text: str) -> list[str]:
    """Format a statement; return its original lines if the tokens would differ or it is nested too deeply."""
    written = text[piece.tokens[0].start : piece.tokens[-1].end].split("\n")
    try:
        lines = _statement(_atoms(piece, text))
    except RecursionError:
        return written
    tokens = [(token.kind, token.text) for token in piece.tokens]
    again, wrong = tokenize("\n".join(lines))
    if not wrong and len(again) == 1 and [(token.kind, token.text) for token in again[0].tokens] == tokens:
        return lines
    return written


# ---- tokens


def _atoms(piece: StatementTokens, text: str) -> list[LayoutToken]:
    """Tokens and the comments between them, spaced."""
    atoms: list[LayoutToken] = []
    end = piece.tokens[0].start
    for token in piece.tokens:
        gap = text[end : token.start]
        at = 0
        for comment in _COMMENT.finditer(gap):
            alone = "\n" in gap[at : comment.start()]
            kind = "tail" if comment.group().startswith("//") else "comment"
            at = comment.end()
            words = comment.group().rstrip()
            if "\n" in words or (alone and ("\n" in gap[at:].split("/")[0] or kind == "tail")):
                kind = "own"
            atoms.append(LayoutToken(words, kind, space=True))
        atoms.append(LayoutToken(token.text, token.kind, glued=not gap))
        end = token.end
    _space(atoms)
    return atoms


def _space(atoms: list[LayoutToken]) -> None:
    """Set `space` of all tokens."""
    tokens = [atom for atom in atoms if atom.kind not in _COMMENTS]
    last: LayoutToken | None = None  # a sign that belongs to the value behind it
    shape = 0  # depth within the pattern of match_recognize, where signs are quantifiers
    tags = [False]  # of each open bracket: whether `=` in it gives an event of a pattern its tag
    for i, atom in enumerate(tokens):
        before = tokens[i - 1] if i else None
        if before is None:
            continue
        if shape or (before.word == "pattern" and atom.text == "(" and _recognizes(tokens, i)):
            shape += (atom.text in "([") - (atom.text in ")]")
        earlier = tokens[i - 2] if i > 1 else None
        if before.text in ("(", "["):
            pattern = earlier is not None and earlier.word == "pattern" and not shape
            grouped = earlier is not None and not _is_operand(earlier, tokens[i - 3] if i > 2 else None)
            tags.append(pattern or (tags[-1] and grouped))
        elif before.text in (")", "]") and len(tags) > 1:
            tags.pop()
        tagged = tags[-1] and "=" in (before.text, atom.text)
        atom.space = before is not last and not tagged and _blank(earlier, before, atom, bool(shape))
        if atom.text in "+-*" and not _is_operand(before, earlier):
            last = atom if atom.text != "*" else last
            if atom.text == "*":
                atom.kind = "star"
    for comment, atom in pairwise(atoms):
        if comment.kind in _COMMENTS and atom.text not in (",", ")", "]"):
            atom.space = True


_COMMENTS = ("comment", "tail", "own")


def _recognizes(tokens: Sequence[LayoutToken], i: int) -> bool:
    return any(token.word == "match_recognize" for token in tokens[:i])


def _is_operand(atom: LayoutToken, before: LayoutToken | None) -> bool:
    """Return whether a value ends at `atom`, so that a sign behind it is binary."""
    if atom.kind == "word":
        member = before is not None and before.text == "."
        return member or atom.word not in _LEADING
    return atom.kind in ("NUMBER", "STRING", "tick", "star") or atom.text in (")", "]", "}", "?")


def _blank(earlier: LayoutToken | None, before: LayoutToken, atom: LayoutToken, shape: bool) -> bool:
    b, a = before.text, atom.text
    if shape and "," in (a, b):
        return not atom.glued
    if a in (",", ")", "]") or b in (".", "@", "#", "(", "[") or a in (".", "#"):
        return False
    if b == ",":
        return True
    if shape or ":" in (a, b) or {"?", "!", "~", "\\", "{", "}"} & {a, b}:
        return not atom.glued
    hyphened = earlier if b == "-" else before if a == "-" else None
    if hyphened is not None and hyphened.word in ("every", "event"):
        return hyphened.word == "event" and not atom.glued  # every-distinct, event-precedence
    if (before.kind == "star" and a == "/") or (b == "/" and earlier is not None and earlier.kind == "star"):
        return False  # */5 of a crontab
    if a in ("(", "["):
        if before.kind in ("word", "tick"):
            named = earlier is not None and earlier.text in (".", "@", "#", ":", "-")
            return not named and before.word in _LEADING
        return b not in (")", "]") and before.kind != "NUMBER"
    return True


# ---- layout


def _tree(atoms: Sequence[LayoutToken]) -> list[LayoutItem]:
    top: list[LayoutItem] = []
    stack: list[LayoutGroup] = []
    before: LayoutToken | None = None
    for atom in atoms:
        into = stack[-1].items if stack else top
        member = before is not None and before.text in (".", "@")
        if atom.kind in BRACKETS or (atom.word == "case" and not member):
            group = LayoutGroup(atom, opener=before.word if before is not None else "")
            into.append(group)
            stack.append(group)
        elif stack and (atom.kind in (")", "]", "}") or (atom.word == "end" and stack[-1].open.word == "case")):
            stack.pop().close = atom
        else:
            into.append(atom)
        if atom.kind not in _COMMENTS:
            before = atom
    return top


def _flat(nodes: Sequence[LayoutItem]) -> str | None:
    """One line, or None if a comment before the end forbids it."""
    parts: list[str] = []
    last = len(nodes) - 1
    for i, node in enumerate(nodes):
        if isinstance(node, LayoutToken):
            if node.kind == "own" or (node.kind == "tail" and i < last):
                return None
            parts.append(f"  {node.text}" if node.kind == "tail" else f" {node.text}" if node.space else node.text)
            continue
        inner = _flat([node.open, *node.items, *([node.close] if node.close is not None else [])])
        if inner is None:
            return None
        parts.append((" " if node.open.space else "") + inner)
    return "".join(parts).lstrip()


def _statement(atoms: list[LayoutToken]) -> list[str]:
    nodes = _tree(atoms)
    annotations, nodes = _annotations(nodes)
    one_by_one = _line(annotations, "") is None and _flat(annotations) is not None  # with comments: all together
    lines = [
        line for some in (_cut_before("@")(annotations) if one_by_one else [annotations]) for line in _spread(some, "")
    ]
    if not nodes:
        return lines
    words = _clause_words(nodes)
    flat = _flat(nodes)
    creates = isinstance(nodes[0], LayoutToken) and nodes[0].word == "create"
    limit = SHORT if not creates and len(_clauses(nodes, words)) > 2 else WIDTH
    if flat is not None and "\n" not in flat and len(flat) <= limit:
        return [*lines, flat]
    return [*lines, *_block(nodes, "", words)]


def _annotations(nodes: list[LayoutItem]) -> tuple[list[LayoutItem], list[LayoutItem]]:
    """Split off the annotations at the beginning."""
    at = 0
    while (
        at < len(nodes)
        and isinstance(first := nodes[at], LayoutToken)
        and (first.text == "@" or first.kind in _COMMENTS)
    ):
        if first.kind in _COMMENTS and not _more_annotations(nodes, at):
            break
        at += 1
        if first.kind in _COMMENTS:
            continue
        at += 1  # its name
        while at + 1 < len(nodes) and isinstance(dot := nodes[at], LayoutToken) and dot.text == ".":
            at += 2
        if at < len(nodes) and isinstance(body := nodes[at], LayoutGroup) and body.open.text == "(":
            at += 1
    return nodes[:at], nodes[at:]


def _more_annotations(nodes: list[LayoutItem], at: int) -> bool:
    rest = next((n for n in nodes[at:] if isinstance(n, LayoutGroup) or n.kind not in _COMMENTS), None)
    return isinstance(rest, LayoutToken) and rest.text == "@"


def _clause_words(nodes: Sequence[LayoutItem]) -> frozenset[str]:
    words = [node.word for node in nodes if isinstance(node, LayoutToken) and node.kind not in _COMMENTS]
    first, second = (*words, "", "")[:2]
    if first == "create":
        if second == "context":
            return frozenset(("start", "initiated", "terminated", "end", "context"))
        return frozenset(("as", "insert", "where")) if second == "window" else frozenset()
    if first == "on":
        return _MERGE if "merge" in words else _ON
    if first == "update":
        return frozenset(("set", "where"))
    return _SELECT if first in ("select", "insert", "context", "expression", "delete") else frozenset()


@cache
def _keyword_pairs() -> frozenset[tuple[str, str]]:
    """Return keywords that stand side by side in the grammar: the second one begins no clause there."""
    grammar = (files("cepbook.lang.syntax") / "grammar" / "epl.lark").read_text(encoding="utf-8")
    return frozenset(re.findall(r'"(\w+)"(?= "(\w+)")', grammar))


def _clauses(nodes: Sequence[LayoutItem], words: frozenset[str]) -> list[list[LayoutItem]]:
    """Split before the words that begin a clause."""
    pairs = _keyword_pairs()
    parts: list[list[LayoutItem]] = [[]]
    before = ""
    for i, node in enumerate(nodes):
        word = node.word if isinstance(node, LayoutToken) else ""
        following = nodes[i + 1] if i + 1 < len(nodes) else None
        called = isinstance(following, LayoutToken) and following.text in (".", "=")
        same = (before, word) in pairs or (before == "insert" and word in ("into", "select"))
        if word in words and parts[-1] and not same and not called and before not in (".", "=", "@", ":"):
            comments = _own_comments(parts[-1])
            parts.append(comments)
        parts[-1].append(node)
        if isinstance(node, LayoutGroup):
            before = ")"
        elif node.kind not in _COMMENTS:
            before = node.word or node.text
    return [clause for clause in parts if clause]


def _own_comments(part: list[LayoutItem]) -> list[LayoutItem]:
    """Split off trailing comments on lines of their own: they belong to what follows."""
    at = len(part)
    while at and isinstance(last := part[at - 1], LayoutToken) and last.kind == "own":
        at -= 1
    taken, part[at:] = part[at:], []
    return taken


def _block(nodes: Sequence[LayoutItem], indent: str, words: frozenset[str], within: bool = False) -> list[str]:
    """One clause after the other; within brackets (`within`) list items are aligned."""
    lines: list[str] = []
    if not nodes:
        return lines
    for clause in _clauses(nodes, words) if words else [list(nodes)]:
        deeper = isinstance(clause[0], LayoutToken) and clause[0].word == "then"
        lines += _spread(clause, indent + STEP if deeper else indent, within)
    return lines


def _spread(nodes: Sequence[LayoutItem], indent: str, within: bool = False) -> list[str]:
    """One clause: one line if it fits, else split."""
    nodes = list(nodes)
    if nodes and isinstance(first := nodes[0], LayoutToken) and first.kind in ("own", "tail"):
        return [*_comment_lines(first, indent), *_spread(nodes[1:], indent, within)]
    if not nodes:
        return []
    line = _line(nodes, indent)
    if line is not None:
        return [line]
    for cut in (_commas, _joins, *_CUTS):
        parts = cut(nodes)
        if len(parts) > 1:
            return _parts(parts, indent, cut is _commas, within)
    return _opened(nodes, indent)


def _line(nodes: Sequence[LayoutItem], indent: str) -> str | None:
    """Return the nodes as one line; None if they do not fit."""
    flat = _flat(nodes)
    return indent + flat if flat is not None and ("\n" in flat or len(indent) + len(flat) <= WIDTH) else None


def _comment_lines(comment: LayoutToken, indent: str) -> list[str]:
    first, *rest = comment.text.split("\n")
    return [indent + first, *(line.rstrip() for line in rest)]


def _parts(parts: list[list[LayoutItem]], indent: str, listed: bool, within: bool) -> list[str]:
    """Items on lines of their own, indented; comments stay at the ends of lines."""
    for before, after in pairwise(parts):
        while after and isinstance(first := after[0], LayoutToken) and first.kind == "tail":
            before.append(after.pop(0))
    head = _head(parts[0]) if listed else 0
    lines = []
    if head:
        flat = _flat(parts[0][:head])
        lines = _spread(parts[0][:head], indent) if flat is None else [indent + flat]
        parts[0] = parts[0][head:]
    for i, items in enumerate(parts):
        if items:
            lines += _spread(items, indent + STEP if head or (i and not (listed and within)) else indent)
    return lines


def _head(part: Sequence[LayoutItem]) -> int:
    """Count the leading words of the clause: ``select istream``, ``group by``."""
    words = ("select", "irstream", "istream", "rstream", "distinct", "from", "group", "order", "by", "set", "measures")
    count = 0
    while count < len(part) and isinstance(node := part[count], LayoutToken) and node.word in (*words, "define"):
        count += 1
    return count


def _commas(nodes: list[LayoutItem]) -> list[list[LayoutItem]]:
    parts: list[list[LayoutItem]] = [[]]
    ended = False
    for node in nodes:
        if ended and not (
            isinstance(node, LayoutToken) and node.kind == "tail"
        ):  # a comment behind the comma stays there
            parts.append([])
            ended = False
        parts[-1].append(node)
        ended = ended or (isinstance(node, LayoutToken) and node.text == ",")
    return parts


def _joins(nodes: list[LayoutItem]) -> list[list[LayoutItem]]:
    parts: list[list[LayoutItem]] = [[]]
    before = ""
    for i, node in enumerate(nodes):
        word = node.word if isinstance(node, LayoutToken) else ""
        joins = any(isinstance(n, LayoutToken) and n.word == "join" for n in nodes[i : i + 3])
        if word in _JOIN and joins and before not in (*_JOIN, "outer", ".") and parts[-1]:
            parts.append([])
        parts[-1].append(node)
        before = node.word or node.text if isinstance(node, LayoutToken) else ""
    return parts


def _cut_before(*words: str) -> Callable[[list[LayoutItem]], list[list[LayoutItem]]]:
    def cut(nodes: list[LayoutItem]) -> list[list[LayoutItem]]:
        parts: list[list[LayoutItem]] = [[]]
        between = False
        for node in nodes:
            present = node.word or node.text if isinstance(node, LayoutToken) else ""
            if present in words and parts[-1] and not (between and present == "and"):
                parts.append([])
            between = present == "between" or (between and present != "and")
            parts[-1].append(node)
        return parts

    return cut


def _opened(nodes: list[LayoutItem], indent: str) -> list[str]:
    """Put the content of the longest brackets on lines of its own, then that of the longest ones behind them …"""
    widths = [_width(node) for node in nodes]
    longest = list(range(len(nodes)))  # at each node, the first of the longest brackets from there on
    for i in reversed(range(len(nodes) - 1)):
        if widths[longest[i + 1]] > widths[i]:
            longest[i] = longest[i + 1]
    lines: list[str] = []
    close: list[LayoutItem] = []  # of the brackets before `start`
    start = 0
    while start < len(nodes) and isinstance(group := nodes[at := longest[start]], LayoutGroup) and group.items:
        comments = 0  # behind the bracket
        while comments < len(group.items) and isinstance(c := group.items[comments], LayoutToken) and c.kind == "tail":
            comments += 1
        lines += _spread([*close, *nodes[start:at], group.open, *group.items[:comments]], indent)
        lines += _block(group.items[comments:], indent + STEP, _inner_words(group), within=True)
        close, start = [] if group.close is None else [group.close], at + 1
        if len(nodes) - start < WIDTH and _line([*close, *nodes[start:]], indent) is not None:
            break
    return lines + _spread([*close, *nodes[start:]], indent) if start else _broken(nodes, indent)


def _width(node: LayoutItem) -> int:
    """Return the length of brackets and their content in one line, 0 for a token and for empty brackets."""
    return len(_flat([node]) or "x" * WIDTH * 9) if isinstance(node, LayoutGroup) and node.items else 0


def _inner_words(group: LayoutGroup) -> frozenset[str]:
    if group.opener == "match_recognize":
        return _RECOGNIZE
    first = next((n for n in group.items if isinstance(n, LayoutGroup) or n.kind not in _COMMENTS), None)
    return _SELECT if isinstance(first, LayoutToken) and first.word == "select" else frozenset()


def _broken(nodes: list[LayoutItem], indent: str) -> list[str]:
    """One line, broken only behind comments that need it."""
    lines = [indent]
    for node in nodes:
        if isinstance(node, LayoutGroup):
            lines[-1] += (" " if node.open.space and lines[-1].strip() else "") + (_flat([node]) or "")
            continue
        if node.kind == "own":
            lines += [*_comment_lines(node, indent + STEP), indent + STEP]
            continue
        if node.kind == "tail":
            lines[-1] += f"  {node.text}"
            lines.append(indent + STEP)
            continue
        lines[-1] += (" " if node.space and lines[-1].strip() else "") + node.text
    return [line for line in lines if line.strip()]


_CUTS = [_cut_before(*words) for words in (["or"], ["and"], ["->"], ["when", "else"])]
