"""``%%apama`` and ``%%cruncher``: cells that run, replace themselves, complete and explain."""

from __future__ import annotations

import pytest

from cepbook.errors import BindError, UsageError
from cepbook.magics import _ATTRIBUTE
from cepbook.magics.complete import complete
from cepbook.magics.host import Host
from cepbook.magics.inspect import describe
from tests.magics.conftest import Notebook

APAMA = "%%apama big\nfrom t in all Trade(volume > 100) within 5.0 select sum(t.price)"


def _host(notebook: Notebook) -> Host:
    found = getattr(notebook.shell, _ATTRIBUTE)._host
    assert isinstance(found, Host)
    return found


def offered(notebook: Notebook, code: str) -> list[str]:
    """What completion offers at the ``|`` of a cell."""
    cursor = code.index("|")
    found = complete(_host(notebook), code.replace("|", ""), cursor)
    return [each.text for each in found["completions"]]


def test_a_cell_runs_and_replaces_itself(trades: Notebook) -> None:
    assert trades.run(APAMA).startswith("deployed big")
    assert trades.run(APAMA, "c1").startswith("replaced big")
    assert trades.run(APAMA.replace("big", "huge"), "c1").startswith("replaced huge")
    assert "big" not in trades.deployed()["statements"]
    assert trades.run("%%apama --quiet\nfrom t in all Trade() select t.price") == ""


def test_errors_show_no_traceback(trades: Notebook) -> None:
    with pytest.raises(BindError, match="`Trade` has no field `prise`"):
        trades.run("%%apama x\nfrom t in all Trade() select t.prise")
    with pytest.raises(UsageError, match="unknown option `--weights`"):
        trades.run("%%apama x --weights 1\nfrom t in all Trade() select t.price")


def test_stages(trades: Notebook) -> None:
    trades.run(APAMA)
    assert "#time(5 sec)" in trades.run("%epl show epl big")
    assert "time(5 sec)" in trades.run("%epl show plan big")


def test_settings_are_options(trades: Notebook) -> None:
    cell = "%%cruncher c --weights '{\"Trade\": 0.5}'\nselect symbol from Trade (partition store last 3) as p"
    assert trades.run(cell).startswith("deployed c")


def test_completion(trades: Notebook) -> None:
    assert "Trade" in offered(trades, "%%apama x\nfrom t in all |")
    assert offered(trades, "%%apama x\nfrom t in all Trade() select t.|")[:2] == ["symbol", "price"]
    assert {"within", "wavg"} <= set(offered(trades, "%%apama x\nfrom t in all Trade() w|"))
    assert "lots" in offered(
        trades, "%%apama x\nstream<float> lots := from t in all Trade() select t.price; from x in |"
    )
    assert "--quiet" in offered(trades, "%%apama x --|")
    assert "--weights" in offered(trades, "%%cruncher x --|")


def test_help(trades: Notebook) -> None:
    code = "%%apama x\nfrom t in all Trade() within 5.0 select t.price"
    assert "last d seconds" in (describe(_host(trades), code, code.index("within") + 2) or "")
    assert "wavg" in trades.run("%epl help dialects")
    assert "%%apama" in trades.run("%epl help apama")
