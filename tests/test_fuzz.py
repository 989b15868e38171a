"""What `make fuzz` does beside libFuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mutations
from tools import fuzz

SCHEMA = mutations.Text("epl", "", "create schema E(x int);\n")
QUERY = mutations.Text("epl", "", "select 'a\"b' from E where x > 12")
APAMA = mutations.Text("apama", "q", "query q { }")


def test_first_texts_are_modules_of_the_corpus_and_words_a_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "BUILD", tmp_path)
    long = mutations.Text("epl", "", f"select {'x, ' * fuzz.LONGEST}x from E")
    monkeypatch.setattr(mutations, "cases", lambda: {"epl": ((SCHEMA,), (SCHEMA, APAMA, QUERY), (long,))})
    fuzz.prepare()
    texts = {file.read_text() for file in (tmp_path / "corpus").iterdir()}
    assert texts == {"create schema E(x int)", f"create schema E(x int);\n{QUERY.text}"}
    entries = (tmp_path / "words.dict").read_text().splitlines()
    assert {'"select"', '"schema"', '"12"', '"\'a\\"b\'"'} <= set(entries) and '"x"' not in entries


def test_findings_of_one_cause_have_the_same_innermost_line() -> None:
    def outcome(value: object) -> str:
        finding = mutations.guarded(lambda: [].index(value))  # type: ignore[arg-type]
        assert finding is not None
        return finding

    assert outcome(1) != outcome(2) and fuzz.cause(outcome(1)) == fuzz.cause(outcome(2))
    other = mutations.guarded(lambda: {}["x"])
    assert other is not None and fuzz.cause(other) != fuzz.cause(outcome(1))
    slow = "took 2.5 s of the processor (None)"
    assert fuzz.cause(slow) == fuzz.cause("took 3.1 s of the processor (None)") != fuzz.cause(other)
