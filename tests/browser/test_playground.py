"""The playground in headless Chromium: answers, keyboard, themes, widths, no request outside; the corpus in Pyodide."""

from __future__ import annotations

import shutil
import subprocess
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, expect

from tools import playground

CASES = 60  # of the corpus, drawn at random; `make pyodide` runs all
LOADS = 90_000  # ms: on a machine that is busy with other tests
FINDINGS = """async () => {
    const { violations } = await axe.run(document, {resultTypes: ['violations']});
    return violations.filter(finding => ['serious', 'critical'].includes(finding.impact)).flatMap(
        finding => finding.nodes.map(node => `${finding.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
}"""
RUNAWAY = """create schema E(x long);
insert into E select x + 1 as x from E;
"""


@pytest.fixture(scope="module")
def built() -> Path:
    """The page, built when its sources have changed."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        untested("node and npm were not found")
    try:
        playground.build(playground.OUTPUT)
    except subprocess.CalledProcessError as error:
        if "npm" not in error.cmd[0]:
            raise
        untested("npm could not take the packages of the page")
    return playground.OUTPUT


def untested(reason: str) -> None:
    """Skip, and say so where nobody overlooks it."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.warn(f"THE PLAYGROUND WAS NOT TESTED: {reason}", stacklevel=2)
    pytest.skip(f"THE PLAYGROUND WAS NOT TESTED: {reason}")


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    handler = partial(playground.PageHandler, directory=str(built))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


@pytest.fixture(scope="module")
def page(chromium: Browser, address: str) -> Iterator[Page]:
    """One page for all tests, which fails every request to another site."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    outside: list[str] = []
    own = urlsplit(address).netloc

    def route(request: object) -> None:
        url = request.request.url  # type: ignore[attr-defined]
        if urlsplit(url).netloc == own or url.startswith(("data:", "blob:")):
            request.continue_()  # type: ignore[attr-defined]
        else:
            outside.append(url)
            request.abort()  # type: ignore[attr-defined]

    context.route("**/*", route)
    page.goto(address)
    runs(page, 1)
    yield page
    context.close()
    assert outside == []


def runs(page: Page, count: int) -> None:
    """Wait for the end of so many runs."""
    page.wait_for_function(f"Number(document.body.dataset.runs ?? 0) >= {count}", timeout=LOADS)


def opened(page: Page, address: str, fragment: str) -> None:
    """Open an address in the loaded page, and wait for the run that follows."""
    before = int(page.evaluate("document.body.dataset.runs ?? 0"))
    page.evaluate("fragment => { location.hash = fragment }", f"{fragment}&visit={before}")
    runs(page, before + 1)


def texts(module: str, scenario: str) -> str:
    return f"module={quote(module)}&scenario={quote(scenario)}"


def test_the_first_example_answers(page: Page, address: str) -> None:
    opened(page, address, "example=three-failures-in-ten-minutes")
    expect(page.locator("#reactions .verdict")).to_have_text("✓ all reactions are as expected")
    expect(page.locator("#reactions td.insert.sign")).to_have_count(2)


def test_the_slider_goes_through_the_windows(page: Page, address: str) -> None:
    opened(page, address, "example=the-last-two-events")
    slider = page.locator("#step")
    slider.focus()
    slider.press("Home")
    expect(page.locator("#panel tr.insert")).to_have_count(1)
    expect(page.locator("#panel h3")).to_contain_text("1 event")
    slider.press("End")
    expect(page.locator("#panel h3")).to_contain_text("2 events")
    expect(page.locator("#panel tr.gone")).to_have_count(1)


def test_why_and_fate_at_a_click(page: Page, address: str) -> None:
    opened(page, address, "example=three-failures-in-ten-minutes")
    page.locator("#reactions td.insert button").first.click()
    expect(page.locator("#panel h3").first).to_contain_text("why trouble delivered +")
    expect(page.locator("#panel")).to_contain_text("provenance: 3 events")
    page.locator("#reactions td.stimulus button").nth(1).click()
    expect(page.locator("#panel")).to_contain_text("trouble: kept")


def test_a_marble_diagram_is_drawn(page: Page, address: str) -> None:
    opened(page, address, "example=the-last-ten-seconds")
    page.locator("#tab-marble").click()
    expect(page.locator("svg.marble .stay")).to_have_count(2)
    expect(page.locator("svg.marble .inserted")).to_have_count(2)
    page.locator("#tab-state").click()


def test_an_error_has_a_caret_and_an_underline(page: Page, address: str) -> None:
    opened(page, address, texts("create schema E(x long);\nselect y from E;", "E x=1"))
    expect(page.locator("#problems")).to_contain_text("2 | select y from E;\n  |        ^")
    expect(page.locator("#module .cm-lintRange-error")).to_have_count(1)


def test_what_is_nested_too_deeply_is_refused(page: Page, address: str) -> None:
    nested = f"create schema E(x long);\nselect {'(' * 3_000}x{')' * 3_000} as y from E;"
    opened(page, address, texts(nested, "E x=1"))
    expect(page.locator("#problems")).to_contain_text("nested")
    opened(page, address, "example=the-last-two-events")
    expect(page.locator("#reactions .verdict")).to_have_text("✓ all reactions are as expected")


def test_three_dialects(page: Page, address: str) -> None:
    module = (
        "create schema Tick(symbol string, price double);\n@name('epl') select price from Tick;\n"
        "%%apama smooth\nfrom t in all Tick() retain 2 select mean(t.price)\n"
        "%%cruncher latest\nselect symbol, price from Tick (partition store latest 2) as r where r.$row_status is new\n"
    )
    opened(page, address, texts(module, 'Tick symbol="A" price=1.5'))
    names = page.locator("#reactions td.insert:nth-child(2)").all_inner_texts()
    assert sorted(names) == ["epl", "latest", "smooth"]


def test_a_runaway_statement_is_stopped_and_the_text_stays(page: Page, address: str) -> None:
    before = int(page.evaluate("document.body.dataset.runs"))
    page.evaluate("fragment => { location.hash = fragment }", texts(RUNAWAY, "E x=1"))
    expect(page.locator("#run")).to_have_text("Stop", timeout=LOADS)
    page.locator("#run").click()
    runs(page, before + 1)
    expect(page.locator("#status")).to_contain_text("The run was stopped")
    expect(page.locator("#module .cm-content")).to_contain_text("insert into E select x + 1 as x from E;")
    opened(page, address, "example=batches-of-two-events")
    expect(page.locator("#reactions .verdict")).to_have_text("✓ all reactions are as expected")


def test_a_shared_address_opens_the_text(page: Page, address: str) -> None:
    module = "create schema Größe(x long);\n" + "\n".join(
        f"@name('s{i}') select x + {i} as y from Größe;" for i in range(9)
    )
    opened(page, address, texts(module, "`Größe` x=1"))
    page.locator("#share").click()
    page.wait_for_function("location.hash.startsWith('#z=')")
    shared = page.evaluate("location.hash.slice(1)")
    opened(page, address, "example=the-two-highest-prices")
    opened(page, address, shared)
    expect(page.locator("#reactions td.insert.sign")).to_have_count(9)


def test_a_csv_file_becomes_events(page: Page, address: str) -> None:
    before = int(page.evaluate("document.body.dataset.runs"))
    rows = "\n".join(f"2024-01-01 09:{n // 60:02}:{n % 60:02},{'AB'[n % 2]},{n}.5" for n in range(3_000))
    file = {"name": "ticks.csv", "mimeType": "text/csv", "buffer": f"time,symbol,price\n{rows}\n".encode()}
    page.locator("#file").set_input_files([file])  # type: ignore[list-item]
    runs(page, before + 1)
    expect(page.locator("#reactions h3")).to_contain_text("3,000 rows")
    expect(page.locator("svg.chart")).to_have_count(1)


def test_ten_examples_by_keyboard_alone(page: Page, address: str) -> None:
    page.locator("#examples").focus()
    page.keyboard.press("Home")
    for _ in range(10):
        before = int(page.evaluate("document.body.dataset.runs"))
        page.keyboard.press("ArrowDown")
        runs(page, before + 1)
        expect(page.locator("#reactions .verdict")).to_have_text("✓ all reactions are as expected")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 900, 2000])
def test_every_width_and_theme(page: Page, address: str, scheme: str, width: int, screenshot_dir: Path) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    opened(page, address, "example=price-against-its-moving-average")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE_SCRIPT)
    for tab in ("why", "marble", "state"):
        page.locator(f"#tab-{tab}").click()
        assert page.evaluate(FINDINGS) == [], tab
    page.screenshot(path=screenshot_dir / f"playground, {scheme}, {width}.png")
    page.set_viewport_size({"width": 1400, "height": 900})


def test_the_page_works_without_a_network_once_it_was_loaded(chromium: Browser, built: Path) -> None:
    handler = partial(playground.PageHandler, directory=str(built))
    context = chromium.new_context()
    page = context.new_page()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        runs(page, 1)
        page.wait_for_function("navigator.serviceWorker.ready.then(() => true)", timeout=LOADS)
        server.shutdown()
    page.reload()
    runs(page, 1)
    expect(page.locator("#reactions .verdict")).to_have_text("✓ all reactions are as expected")
    context.close()


def test_the_corpus_agrees_under_pyodide(built: Path) -> None:
    answer = playground.corpus(built, CASES)
    assert answer["cases"] == CASES
    assert answer["wrong"] == []
