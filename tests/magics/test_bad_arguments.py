"""Bad arguments of every magic: one clear error of the project's kind, and nothing has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cepbook.errors import CepbookError, printable
from cepbook.magics import COMMANDS
from cepbook.magics.epl.command import SUBCOMMANDS
from tests.lang.recorded import cases, check
from tests.magics.conftest import Notebook, new_shell

RECORDED = Path(__file__).parent / "bad_arguments.md"
DEPLOYED = """%%epl --name decl
create schema Trade(symbol string, price double, volume int);
create context PerSymbol partition by symbol from Trade;
create variable double least = 3;
create constant variable int fixed = 7;
create variable string words = 'x';
create table T(k string primary key, n long);
create window W#keepall as Trade;
@name('into') insert into W select * from Trade;
@name('all') select * from Trade;
@name('kept') select * from Trade#length(3);
@name('mean') context PerSymbol select symbol, avg(price) as mean from Trade#length(2);
@name('pat') select a.price as p from pattern [every a=Trade(price > 2) -> b=Trade(price > a.price)]"""
SENT = '%%events --quiet\nTrade symbol="a" price=3.0 volume=1\n@1000\nTrade symbol="b" price=4.0 volume=2'
FRAME = pd.DataFrame({"at": [10_000, 20_000], "symbol": ["a", "b"], "price": [1.0, 2.0], "volume": [1, 2]})
LONG = "x" * 3_000
# nothing, open quotes, unknown and hostile names, options and numbers that there are not, too many words
JUNK = ("", "''", "'", "nosuch", "all nosuch", "--nosuch", "all --nosuch=1", "9" * 5_000, "²", "-1", "--5", "=", LONG)
JUNK += ("\x07\u202e\x1b[31m", "{x} $HOME", "1 2 3 4 5", "\x00", "`all`", "all;kept", "[" * 3_000)
STATES = ("nothing deployed", "deployed", "a replay is paused", "after reset")
CELLS = ("", "nonsense", "'", "(" * 3_000, "\x07\u202e", LONG, "// nothing", "Trade price=" + "[" * 3_000)


def opened(state: str, patch: pytest.MonkeyPatch) -> Notebook:
    """A new notebook in a state, in the present folder; its shell is the current one until `patch` ends."""
    notebook = Notebook(new_shell(patch))
    notebook.shell.run_line_magic("load_ext", "cepbook")
    notebook.shell.user_ns.update(frame=FRAME, frames={"all": FRAME}, number=5)
    if state != "nothing deployed":
        notebook.run(DEPLOYED)
        notebook.run(SENT)
    if state == "a replay is paused":
        notebook.run("going = cep.replay(frame, type='Trade', time='at', paused=True); going.step()")
    if state == "after reset":
        notebook.run("%epl reset")
    return notebook


def picture(notebook: Notebook) -> tuple[Any, ...]:
    """All that a bad argument must leave alone."""
    cep = notebook.cep
    replay = cep.replaying
    return (
        notebook.deployed(),
        cep.clock,
        {name: cep.get(name) for name in cep.runtime.variables},
        {name: cep.feed(name).deliveries for name in cep.runtime.statements},
        cep.event_counts(),
        replay and (replay.state, replay.progress.events),
        {name for name in notebook.shell.user_ns if not name.startswith("_")},
        sorted(os.listdir()),
    )


@pytest.fixture(autouse=True, scope="module")
def patch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    """For tests in a folder with things that are no files of the kind that magics read or write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("bad"))
        for name in ("folder.md", "folder.csv"):
            Path(name).mkdir()
        Path("binary.md").write_bytes(bytes(range(256)))
        yield patch


@pytest.fixture(scope="module")
def deployed(patch: pytest.MonkeyPatch) -> Notebook:
    return opened("deployed", patch)


@pytest.mark.filterwarnings("ignore:.*keeps no rows")
@pytest.mark.parametrize(("cell", "error"), cases(RECORDED))
def test_an_error_is_as_recorded(cell: str, error: str, deployed: Notebook, request: pytest.FixtureRequest) -> None:
    before = picture(deployed)
    with pytest.raises(CepbookError) as caught:
        deployed.run(cell.rstrip("\n"))
    assert picture(deployed) == before
    check(RECORDED, cell, error, caught.value, request)


def test_every_magic_has_a_recorded_error() -> None:
    first = [cell.split() for cell, _ in cases(RECORDED)]
    assert {f"%{'%' * (c.line is None)}{c.name}" for c in COMMANDS} <= {words[0] for words in first}
    assert set(SUBCOMMANDS) <= {words[1] for words in first if words[0] == "%epl" and len(words) > 1}


LINES = [f"%epl {name} {junk}".rstrip(" ") for name, junk in product((*SUBCOMMANDS, ""), JUNK)]
LINES += [f"%{c.name} {junk}".rstrip(" ") for c, junk in product(COMMANDS, JUNK) if c.line is not None]
LINES += [f"%%{c.name} {junk}\nnonsense" for c, junk in product(COMMANDS, JUNK) if c.cell is not None]
LINES += [f"%%{c.name}\n  {cell}" for c, cell in product(COMMANDS, CELLS) if c.cell is not None]


@pytest.mark.parametrize("state", STATES)
def test_nothing_but_an_error_of_ours(state: str, patch: pytest.MonkeyPatch) -> None:
    notebook = opened(state, patch)
    before, failed = picture(notebook), []
    for line in LINES:
        result, _ = notebook.try_run(line)
        error: Any = result.error_before_exec or result.error_in_exec
        if error is None:
            notebook, before = (notebook, before) if picture(notebook) == before else (opened(state, patch), None)
            before = before or picture(notebook)
            continue
        shown = "\n".join(error._render_traceback_()) if isinstance(error, CepbookError) else ""
        harmless = shown == printable(shown) and len(shown) < 4_000
        if not shown or not harmless or picture(notebook) != before:
            failed.append((line[:60], type(error).__name__, shown[:100]))
    assert not failed
