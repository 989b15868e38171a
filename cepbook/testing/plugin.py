"""The pytest plugin: collects the cases of scenario files as test items, one per case, named ``file.md::case``.

pytest imports this module in every run in an environment with cepbook, so it imports only pytest at first. The reader
of scenario files, and with it the languages, is imported with the first Markdown file that may be one; the engine with
the first case.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--record``."""
    parser.getgroup("cepbook", "cepbook scenario files").addoption(
        "--record",
        action="store_true",
        default=False,
        help="rewrite the reactions in scenario files that differ from what happens, and their 'error' blocks; "
        "cases with an 'oracle:' line keep their reactions",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to record from several processes, which would overwrite each other's files."""
    if config.getoption("record") and config.getoption("numprocesses", default=None):
        raise pytest.UsageError("--record works in one process only; run it without -n")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for a Markdown file that holds scenario cases; None for other files."""
    if file_path.suffix != ".md":
        return None
    from cepbook.testing.markdown import may_check

    try:
        source = file_path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
    if not may_check(source):
        return None
    from cepbook.testing.scenario import is_scenario

    if not is_scenario(source):
        return None
    from cepbook.testing.pytest_items import ScenarioFile

    return ScenarioFile.from_parent(parent, path=file_path)


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> Generator[None]:
    """Write recorded files and list those that changed."""
    if config.getoption("record"):
        from cepbook.testing.pytest_items import write_recorded

        for path in write_recorded(config):
            terminalreporter.write_line(f"recorded: {path}")
    yield
