from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.testing import sweep
from cepbook.testing.runner import Outcome

from .fake_engine import FakeEngine

FILE = """# windows: all

Prose of the file.

## good

tags: a

```epl
@name('out') from Tick
```

```trace
Count n=1
    out + n=1
```

## bad

```epl
@name('out') from Tick
```

```trace
Count n=1
    out + n=2
```

## later

tags: a

```epl
unsupported
```

```trace
```
"""


@pytest.fixture(autouse=True)
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sweep.ENGINES, "rows", FakeEngine)  # type: ignore[arg-type]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus" / "windows" / "all.md"
    path.parent.mkdir(parents=True)
    path.write_text(FILE, encoding="utf-8")
    (tmp_path / "corpus" / "README.md").write_text("# no cases\n", encoding="utf-8")
    return tmp_path / "corpus"


def test_cases_are_counted_by_outcome(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main([str(corpus), "-v"]) == 1
    shown = capsys.readouterr().out
    assert "   1 passed     1 failed     1 not covered" in shown
    assert "FAIL bad: line 25: Count n=1  expected out + n=2 | got out + n=1" in shown
    assert "nc later: unsupported is not-supported-yet" in shown


def test_passing_cases_are_listed(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep.main([str(corpus), "--list-passing"])
    assert capsys.readouterr().out == f"{corpus}/windows/all.md::good\n"


def test_passing_cases_are_copied_exactly(corpus: Path, tmp_path: Path) -> None:
    sweep.main([str(corpus), "--copy-passing", str(tmp_path / "out")])
    copied = (tmp_path / "out" / "windows" / "all.md").read_text(encoding="utf-8")
    assert copied == FILE[: FILE.index("## bad")].rstrip() + "\n"
    sweep.main([str(corpus / "windows"), "--copy-passing", str(tmp_path / "again")])
    assert (tmp_path / "again" / "windows" / "all.md").read_text(encoding="utf-8") == copied


def test_copying_keeps_what_the_target_holds(corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "windows" / "all.md"
    target.parent.mkdir(parents=True)
    bad = "## bad\n\nown text\n\n```trace\n```\n"
    good = "## good\n\nrefuses: rows — no\n\n```trace\n```\n"
    own = f"# own header\n\n## own\n\n```trace\n```\n\n{bad}\n{good}"
    target.write_text(own, encoding="utf-8")
    sweep.main([str(corpus), "--copy-passing", str(tmp_path / "out"), "--with-refused"])
    copied = target.read_text(encoding="utf-8")
    now_good = FILE[FILE.index("## good") : FILE.index("## bad")]
    later = "## later\n\ntags: a\n\nrefuses: rows — unsupported is not-supported-yet\n\n```epl\nunsupported"
    assert copied.startswith(f"# own header\n\n{now_good}## bad\n\nown text\n\n```trace\n```\n\n{later}")
    assert copied.endswith("\n\n## own\n\n```trace\n```\n")


def test_a_case_that_does_not_end_is_stopped(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(engine: FakeEngine, event_type: str, event: object) -> None:
        while True:
            pass

    monkeypatch.setattr(FakeEngine, "send", never)
    (summary,) = sweep.sweep(corpus, timeout=0.05)
    assert summary.cases[0].outcome is Outcome.FAILED
    assert summary.cases[0].note == "still running after 0.05 seconds"
