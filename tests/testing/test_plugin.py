"""The pytest plugin, in directories that have nothing but a scenario file."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from cepbook.testing.pytest_items import ENGINES

from .fake_engine import FakeEngine

pytestmark = pytest.mark.histories

pytest_plugins = ["pytester"]

CASES = """# ticks

## passes

```epl
@name('out') from Tick
```

```trace
Count n=1
    out + n=1
```

## fails

tags: a; {facts}

```epl
@name('out') from Tick
```

```trace
Count n=1
    out + n=1
Count n=2
    out + n=3
Count n=4
```
"""
REFUSED = """# refused

refuses: rows — guards are missing

```epl
{epl}
```

```trace
```
"""

# Plugins that other packages bring along cost a second in each of these runs.
OTHERS_OFF = ["-p", "no:hypothesispytest", "-p", "no:nbval", "-p", "no:anyio"]

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest in the test's directory on the fake engine."""
    monkeypatch.setitem(ENGINES, "rows", FakeEngine)  # type: ignore[arg-type]
    return lambda *arguments: pytester.runpytest_inprocess(*_plugin(), *OTHERS_OFF, *arguments)


def _plugin() -> list[str]:
    """Nothing where cepbook is installed; in a bare checkout the plugin must be named."""
    installed = any(found.value == "cepbook.testing.plugin" for found in entry_points(group="pytest11"))
    return [] if installed else ["-p", "cepbook.testing.plugin"]


def write(pytester: pytest.Pytester, name: str, text: str) -> Path:
    path = pytester.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_cases_are_items_named_after_file_and_heading(pytester: pytest.Pytester, run_pytest: Run) -> None:
    write(pytester, "sub/ticks.md", CASES)
    result = run_pytest("-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["sub/ticks.md::passes PASSED*", "sub/ticks.md::fails FAILED*"])
    run_pytest("sub/ticks.md::passes").assert_outcomes(passed=1)


def test_other_markdown_is_left_alone(pytester: pytest.Pytester, run_pytest: Run) -> None:
    write(pytester, "README.md", "# cepbook\n\n```epl\nselect * from A\n```\n\n```python\nx\n```\n")
    write(pytester, "howto.md", f"# how to\n\n````markdown\n{CASES}````\n")
    pytester.path.joinpath("latin1.md").write_bytes("# Ünicode\n```epl\n```\n".encode("latin-1"))
    assert run_pytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_case_without_a_heading_is_an_error_and_not_left_out(pytester: pytest.Pytester, run_pytest: Run) -> None:
    blocks = CASES[CASES.index("```epl") :]
    write(pytester, "ticks.md", f"Some words.\n\n{blocks}")
    result = run_pytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ticks.md:3: a case needs a heading above its blocks, as in '## what happens'*"])
    write(pytester, "ticks.md", "Words.\n\n```epl\nselect * from A\n```\n\n# Trace\n\n```text\n```\n")
    assert run_pytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_failure_shows_both_sides_and_line_numbers(pytester: pytest.Pytester, run_pytest: Run) -> None:
    write(pytester, "ticks.md", CASES)
    run_pytest().stdout.fnmatch_lines(
        [
            "ticks.md:14: fails (engine: rows)",
            "    25   Count n=2",
            "             expected  | actual",
            "           > out + n=3 | out + n=2",
            "    27   Count n=4",
            "           > (nothing) | out + n=4",
            "FAILED ticks.md::fails*",
        ]
    )


def test_a_malformed_case_fails_alone(pytester: pytest.Pytester, run_pytest: Run) -> None:
    write(pytester, "ticks.md", CASES.replace("    out + n=3", "    out * n=3"))
    result = run_pytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*ticks.md:26: expected a reaction*"])


def test_a_declared_refusal_is_skipped_with_its_reason(pytester: pytest.Pytester, run_pytest: Run) -> None:
    write(pytester, "refused.md", REFUSED.format(epl="unsupported"))
    result = run_pytest("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * refused.md:1: refused by the rows engine: guards are missing"])


def test_a_refusal_fails_when_declaration_and_engine_disagree(pytester: pytest.Pytester, run_pytest: Run) -> None:
    write(pytester, "runs.md", REFUSED.format(epl="@name('out') from Tick"))
    write(pytester, "undeclared.md", REFUSED.format(epl="unsupported").replace("refuses:", "Note:"))
    result = run_pytest()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*line 3 says that the rows engine refuses this case, but it passes*", "*the rows engine refuses this case: *"]
    )


def test_recording_rewrites_only_what_differs(pytester: pytest.Pytester, run_pytest: Run) -> None:
    path = write(pytester, "ticks.md", CASES)
    result = run_pytest("--record")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["recorded: *ticks.md"])
    expected = CASES.replace("    out + n=3\nCount n=4\n", "    out + n=2\nCount n=4\n    out + n=4\n")
    assert path.read_text(encoding="utf-8") == expected
    run_pytest().assert_outcomes(passed=2)


def test_recording_never_touches_the_reactions_of_an_oracle(pytester: pytest.Pytester, run_pytest: Run) -> None:
    text = CASES.format(facts="oracle: esper 9.0.0") + "\n```invalid\nwrong\n```\n"
    path = write(pytester, "ticks.md", text)
    result = run_pytest("--record")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["           > out + n=3 | out + n=2", "*recorded from esper 9.0.0*"])
    added = "\n```error\nunknown-word: wrong is unknown-word\n  --> epl:1:1\n1 | wrong\n  | ^^^^^\n```\n"
    assert path.read_text(encoding="utf-8") == text + added


def test_recording_errors_and_reactions_to_a_deployment(pytester: pytest.Pytester, run_pytest: Run) -> None:
    text = (
        "# a\n```epl\n@name('out') from Tick\n```\n```epl late\nannounce\n```\n"
        "```trace\nCount n=1\n    out + n=1\n```\n"
        "```invalid\nvery wrong\n```\n```error\n```\n"
    )
    path = write(pytester, "a.md", text.replace("\n", "\r\n"))
    run_pytest("--record").assert_outcomes(passed=1)
    expected = text.replace("```trace\n", "```trace\ndeployed\n    out + n=1\n").replace(
        "```error\n",
        "```error\nunknown-word: wrong is unknown-word\n  --> epl:1:6\n1 | very wrong\n  |      ^^^^^\n",
    )
    assert path.read_bytes().decode() == expected.replace("\n", "\r\n")
    run_pytest().assert_outcomes(passed=1)


def test_nothing_is_recorded_from_a_broken_run(pytester: pytest.Pytester, run_pytest: Run) -> None:
    text = (
        "# a\n```epl\n@name('out') boom\n```\n```trace\n@5\nCount n=1\n```\n\n# b\n```epl\n```\n```invalid\nok\n```\n"
    )
    path = write(pytester, "a.md", text)
    run_pytest("--record").assert_outcomes(failed=2)
    assert path.read_text(encoding="utf-8") == text


def test_the_plugin_loads_neither_the_engine_nor_pandas(pytester: pytest.Pytester) -> None:
    write(pytester, "README.md", "# nothing to run\n")
    write(
        pytester,
        "conftest.py",
        "import sys\n"
        "def pytest_unconfigure(config):\n"
        "    heavy = {'cepbook.engine', 'cepbook.session', 'pandas', 'lark', 'IPython'} & set(sys.modules)\n"
        "    print('HEAVY', sorted(heavy))\n",
    )
    pytester.runpytest_subprocess(*_plugin()).stdout.fnmatch_lines(["HEAVY []"])


@pytest.mark.histories
def test_the_row_engine_runs_a_case_in_any_directory(pytester: pytest.Pytester) -> None:
    text = """# ticks
```epl
create schema Tick(symbol string, price double);
@name('out') select symbol, price * 2 as twice from Tick(price > 1)
```
```trace
Tick symbol="A" price=10
    out + symbol="A" twice=20.0
Tick symbol="B" price=1
```
```invalid
select nosuch from Tick
```
"""
    write(pytester, "ticks.md", text)
    pytester.runpytest_subprocess(*_plugin()).assert_outcomes(passed=1)
