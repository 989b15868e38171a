"""Values and names that want to be more than text: shown as text, short and in their place, wherever they appear."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import NotebookPage, write_notebook
from tests.browser.test_saved_views import _WITHOUT_KERNEL, OF_IPYWIDGETS

SETUP = r'''
%load_ext cepbook
html = "<img src=x class=hostile onerror=alert(1)><script class=hostile>alert(2)</script>"
turned = "\u202ertl\u2066iso\u200f"
values = [html, "bell\x07esc\x1b[31mred\x00nul", "x" * 1_000_000, turned]
column = f"<b class=hostile>{turned}\x07"
line, cell = get_ipython().run_line_magic, get_ipython().run_cell_magic
cell("epl", "", f"""
create schema Tick(symbol string, `{column}` string, price double);
create variable string note = 'none';
create variable double least = -1;
create context PerSymbol partition by symbol from Tick;
create table Known(k string primary key, n long);
on Tick as t merge Known where k = t.symbol when not matched then insert select t.symbol as k, 1L as n;
@name("{html}") context PerSymbol select symbol, `{column}`, sum(price) as total from Tick(price > least)#length(3);
@name('means') context PerSymbol select symbol as `{html}`, avg(price) as mean from Tick#length(3);
@name('waits') select a, b from pattern [every a=Tick -> b=Tick(symbol = a.symbol and price < 0)];
@name('all') select * from Tick#length(20);
@name('fails') select cast(symbol, int) as n from Tick(price = 7)
""")'''
SEND = """
ticks = [{"time": i, "symbol": v, column: v, "price": float(i)} for i, v in enumerate(values * 3)]
ticks.append({"time": 12, "symbol": html, column: turned, "price": -1.0})
replay = cep.replay(ticks, type="Tick", time="time", keep=5)
display(replay)
await replay"""
# Each place: its cell, and what of the hostile texts must be there to read.
HTML, TURNED, LONG, CONTROL = "<img src=x class=hostile", r"\u202ertl\u2066iso\u200f", "x" * 20, r"bell\x07esc\x1b["
PLACES = {
    "deployed": ("", (HTML, TURNED)),
    "replay": (SEND, (HTML,)),
    "stream and statement": ("line('view', f'\"{html}\"')", (HTML, TURNED, LONG, CONTROL)),
    "window": ("line('view', 'all')", (HTML, TURNED, LONG, CONTROL)),
    "partitions": ("line('view', 'means')", (HTML, TURNED, LONG, CONTROL)),
    "partial matches": ("line('view', 'waits')", (HTML, TURNED, LONG, CONTROL)),
    "panel": ("cep.set('note', turned + html)\nline('cep', '')", (HTML, TURNED[:20])),
    "map": ("line('epl', 'map')", (HTML,)),
    "why": ("line('epl', f'why \"{html}\"')", (HTML, TURNED)),
    "why not": ("line('epl', 'why means --event 1')", (HTML, TURNED)),
    "events": ("cell('events', '', f\"Tick = {{symbol='{turned}{html}', price=1.0}}\")", (HTML, TURNED)),
    "scenario": (
        "cell('scenario', '', f\"Tick = {{symbol='{values[2]}', price=1.0}}\\nTick = {{symbol='{html}', price=1.0}}\")",
        (HTML, LONG),
    ),
    "expectation": (
        "cell('expect', '', f'means + `{html}`=\"{turned}\" mean=1.0\\nwaits + a=\"' + values[2] + '\"')",
        (HTML,),
    ),
    "tune": ("line('epl', f'tune \"{html}\"')", (HTML,)),
    "marble": ("line('epl', 'marble all --rows')", (HTML, TURNED, LONG, CONTROL)),
    "chart": ("from cepbook.widgets.charts import stream_chart\nstream_chart(cep, html)", (HTML, LONG)),
    "chart that follows": ("line('view', f'--chart \"{html}\"')", (HTML, LONG)),
    "store": ("line('view', 'Known')", (HTML,)),
    "format": ("line('epl', f'format \"{html}\"')", (HTML,)),
    "report": ("line('epl', f'report hostile.html \"{html}\" means all waits')", ("written to hostile.html",)),
    "query": ("line('query', 'select * from Known')", (HTML,)),
    "bad event": ("cep.send('Tick', symbol='a', price=html)", ("property `price`",)),
    "failure": ("cep.send('Tick', symbol='b' * 1_000_000 + html, price=7.0)", ("fails", "bbbb")),
    "live source": (
        "async def failing():\n    yield {'symbol': html}\n    raise OSError(turned + html)\n"
        "cep.live({'Tick': failing()}, time='time')",
        (HTML, TURNED),
    ),
    "bad text": ("cell('epl', '', f'select `{turned}{html}` from Tick')", (HTML, TURNED)),
    "statements": ("line('epl', 'list')", (HTML, TURNED)),
    "variables": ("line('epl', 'variables')", (HTML, TURNED)),
    "context partitions": ("line('epl', 'partitions PerSymbol')", (HTML, TURNED, LONG, CONTROL)),
    "timeline": ("line('epl', 'timeline PerSymbol')", (HTML,)),
}
TABS = {"window": "Window", "store": "Rows", "partitions": "Partitions", "partial matches": "Waiting"}
PANE = "[role=tabpanel]:not([hidden])"
LONGEST = 60_000  # characters of an output, whatever it shows
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# All that a reader can come by: text, and what hides in attributes.
_TEXTS = """(cell, within) => {
    const area = cell.querySelector(within);
    const attributes = [...area.querySelectorAll('*')].flatMap(node =>
        ['title', 'aria-label', 'alt', 'data-opens', 'value'].map(name => node.getAttribute(name) || '')
    ).filter(text => text);
    return [area.textContent, attributes.join('\\n'), area.querySelectorAll('.hostile, script').length];
}"""


@pytest.fixture(scope="module")
def notebook(open_lab: OpenNotebook, lab_root: Path) -> Iterator[NotebookPage]:
    """A notebook that has shown all of it, one cell for each place."""
    write_notebook(lab_root / "hostile.ipynb", [code or SETUP for code, _ in PLACES.values()])
    with open_lab("hostile.ipynb") as lab:
        lab.run_cell(*range(len(PLACES)))
        yield lab
        assert (lab.external, lab.page_errors, lab.dialogs) == ([], [], []), "a script of an event has run"


def test_a_report_of_hostile_texts_is_text(notebook: NotebookPage, lab_root: Path) -> None:
    """A page of its own, which no sanitizer has seen."""
    page = notebook.page.context.new_page()
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto((lab_root / "hostile.html").as_uri())
    content, attributes, elements = page.locator("html").evaluate(_TEXTS, "body")
    assert HTML in content and TURNED in content and CONTROL in content
    assert elements == 0 and dialogs == [] and BAD.findall(content + attributes) == []
    assert "default-src 'none'" in page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert page.locator("body").evaluate("node => getComputedStyle(node).maxWidth") != "none"  # its styles apply
    pictures = page.locator("img").evaluate_all("nodes => nodes.map(node => node.naturalWidth)")
    assert pictures and 0 not in pictures
    page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.ran = true';
        document.body.append(script);
    }""")
    assert page.evaluate("window.ran") is None, "the policy lets scripts run"
    page.close()


@pytest.mark.parametrize("place", PLACES)
def test_hostile_texts_are_shown_as_text(notebook: NotebookPage, place: str) -> None:
    cell = notebook.cell(list(PLACES).index(place))
    within = PANE if place in TABS else ".jp-OutputArea"
    if place in TABS:
        cell.get_by_role("tab", name=TABS[place], exact=True).click()
        cell.locator(f"{PANE} .cv-row:not([hidden])").nth(1).wait_for()
    expected = PLACES[place][1]
    for _ in range(50):
        content, attributes, elements = cell.evaluate(_TEXTS, within)
        if all(text in content + attributes for text in expected):
            break
        notebook.page.wait_for_timeout(100)
    assert [text for text in expected if text not in content + attributes] == [], content[:3_000]
    assert elements == 0
    assert len(content) + len(attributes) < LONGEST
    if place != "query":  # a DataFrame, which pandas shows; each cell of its table is a paragraph of its own
        assert BAD.findall(content + attributes) == []


def test_saved_and_exported_hostile_texts_are_text(notebook: NotebookPage, lab_root: Path) -> None:
    """As nbconvert writes the page, which nothing sanitizes; and without its kernel, as a picture. The last test."""
    exporter = pytest.importorskip("nbconvert", reason="nbconvert comes with JupyterLab (extra `lab`)").HTMLExporter
    notebook.page.evaluate("() => window.cepbookPanel.context.save()")
    path = lab_root / "hostile.ipynb"
    for theme in ("light", "dark"):
        html, _ = exporter(theme=theme).from_filename(str(path))
        exported = lab_root / f"hostile-{theme}.html"
        exported.write_text(html, encoding="utf-8")
        browser = notebook.page.context.browser
        assert browser is not None
        page = browser.new_page()
        page.route(re.compile("^https?:"), lambda route: route.abort())
        dialogs: list[str] = []
        page.on("dialog", lambda dialog, messages=dialogs: (messages.append(dialog.message), dialog.dismiss()))
        page.goto(exported.as_uri())
        content, attributes, elements = page.locator("html").evaluate(_TEXTS.replace(", script", ""), "main")
        assert HTML in content and TURNED in content and LONG in content and CONTROL in content
        assert (elements, dialogs) == (0, []) and len(content) < LONGEST * 2
        page.close()
    notebook.page.evaluate(_WITHOUT_KERNEL, "hostile.ipynb")
    for place in ("stream and statement", "partitions", "panel", "map", "store"):
        cell = notebook.cell(list(PLACES).index(place))
        cell.locator(".cepbook-saved").first.wait_for()
        content, attributes, elements = cell.evaluate(_TEXTS, ".jp-OutputArea")
        texts = attributes if place == "map" else content  # the map is an image
        assert HTML in texts and elements == 0 and BAD.findall(content + attributes) == [], place
    assert set(notebook.page_errors) <= {OF_IPYWIDGETS}
    notebook.page_errors.clear()
