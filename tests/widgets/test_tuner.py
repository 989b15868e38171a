"""Sliders of variables: their kinds and ends, pictures that follow, mistakes that are told beside them."""

from __future__ import annotations

from typing import Any

import ipywidgets
import pytest

from cepbook.errors import UsageError
from cepbook.session import Workbench
from cepbook.session.explain.marble import Marble
from cepbook.widgets.cell_outputs import WIDGET_MIME
from cepbook.widgets.charts import describe
from cepbook.widgets.tuner import Tuner

EPL = """create schema A(x int);
create variable int low = 2; create variable double factor = 0; create variable boolean loud = true;
create variable string word = 'a'; create constant variable int fixed = 3; create variable long[] many;
@name('big') select x * factor as y from A(x > low and loud)#length(2)"""


class Handle:
    def __init__(self, shown: object) -> None:
        self.shown = [shown]

    def update(self, shown: object) -> None:
        self.shown.append(shown)


@pytest.fixture
def cep() -> Workbench:
    made = Workbench()
    made.run(EPL)
    for x in (1, 2, 3, 4):
        made.send("A", x=x)
    return made


def show(tuner: Tuner) -> list[Handle]:
    handles: list[Handle] = []

    def display(shown: object, display_id: bool = False, raw: bool = False) -> Handle:
        handles.append(Handle(shown))
        return handles[-1]

    tuner.show(display)
    return handles


def test_controls(cep: Workbench) -> None:
    controls = Tuner(cep, ["big"], {"factor": (-1, 1)}).controls
    assert {name: type(c) for name, c in controls.items()} == {
        "low": ipywidgets.IntSlider, "factor": ipywidgets.FloatSlider, "loud": ipywidgets.Checkbox,
        "word": ipywidgets.Text,
    }  # fmt: skip
    assert (controls["low"].min, controls["low"].max, controls["low"].value) == (0, 4, 2)
    assert (controls["factor"].min, controls["factor"].max) == (-1, 1)


def test_pictures_follow_over_the_same_events(cep: Workbench) -> None:
    tuner = Tuner(cep, ["big"])
    sliders, told, marble, chart = show(tuner)
    cep.send("A", x=9)
    tuner.controls["low"].value = 3
    tuner.controls["loud"].value = False
    marbles: list[Any] = marble.shown
    assert [isinstance(each, Marble) for each in marbles] == [True] * 3
    assert [len(each.deliveries) for each in marbles] == [2, 1, 0]
    assert len(chart.shown) == 3
    assert repr(chart.shown[-1]) == "big: no rows with these values"
    assert "low = 3" in str(told.shown[-1])
    assert len(sliders.shown) == 1, "shown anew, a slider that is moved would lose the focus"
    assert isinstance(sliders.shown[0], dict) and {"text/html", WIDGET_MIME} <= sliders.shown[0].keys()
    assert str(told.shown[-1]) == "tuned: low = 3, factor = 0.0, loud = false, word = a, over the last 4 events"
    assert cep.get("low") == 2, "the running variable is another matter"
    tuner.apply.click()
    assert (cep.get("low"), cep.get("loud")) == (3, False)
    assigned = tuner.note.value
    assert assigned.startswith("assigned: low = 3, ")
    tuner.controls["low"].value = 4
    assert tuner.note.value == assigned, "a picture that is drawn after the click leaves the answer to it"


def test_a_variable_that_is_gone_is_told(cep: Workbench) -> None:
    tuner = Tuner(cep, ["big"])
    pictures = show(tuner)
    cep.run("@name('other') select 1 as one from A")
    cep.drop("big")
    tuner.controls["low"].value = 4
    assert "`big`" in str(pictures[1].shown[-1])


def test_a_pattern_is_drawn_by_its_rows(cep: Workbench) -> None:
    cep.run("@name('pairs') select a.x as x, b.x as y from pattern [every a=A(x > low) -> b=A]")
    for x in (1, 5, 6, 7):
        cep.send("A", x=x)
    tuner = Tuner(cep, ["pairs"])
    _, _, rows, _ = show(tuner)
    tuner.controls["low"].value = 4
    assert [str(picture).split("\n")[0] for picture in rows.shown] == ["pairs: 4 rows", "pairs: 2 rows"]


def test_nothing_to_tune() -> None:
    cep = Workbench()
    cep.run("create schema A(x int); @name('q') select * from A")
    with pytest.raises(UsageError, match="no variable to tune"):
        Tuner(cep, ["q"])
    with pytest.raises(UsageError, match="no statement `r`"):
        Tuner(cep, ["r"])
    cep.run("create variable int low = 2")
    with pytest.raises(UsageError, match="did you mean `low`"):
        Tuner(cep, ["q"], {"lov": (0, 1)})


def test_values_under_which_nothing_is_delivered() -> None:
    cep = Workbench()
    cep.run("create variable double least = 2; create schema T(s string, p double)")
    cep.run("@name('q') select * from T(p > least)")
    for price in (1.0, 3.0):
        cep.send("T", s="A", p=price)
    tuner = Tuner(cep, ["q"])
    chart = show(tuner)[-1]
    tuner.controls["least"].value = 4.0
    with_row, without = chart.shown
    assert "1 rows" in describe(with_row.to_dict())  # type: ignore[attr-defined]
    assert repr(without) == "q: no rows with these values"
