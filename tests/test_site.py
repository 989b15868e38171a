"""The documentation site: it is built without a warning, all links lead somewhere, and its pages can be read by all."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, sync_playwright

from tests import documents
from tests.browser.lab import CHROMIUM_FLAGS, find_chromium

site: Any = documents.tool("site")
try_it = runpy.run_path(str(documents.DOCS / "site" / "try_it.py"))
# A page of each kind
KINDS = (
    "index.html", "tutorial/3_fraud_rule.html", "how-to/patterns.html", "concepts/windows.html",
    "reference/windows.html", "coming_from/sql.html", "notebooks/08_card_fraud.html", "performance.html",
    "internals/architecture.html",
)  # fmt: skip
FINDINGS = """async () => {
    const { violations } = await axe.run(document, {resultTypes: ['violations']});
    return violations.filter(finding => ['serious', 'critical'].includes(finding.impact)).flatMap(
        finding => finding.nodes.map(node => `${finding.id}: ${node.html.slice(0, 120)}`));
}"""
PAGE = 3_500_000  # bytes, of the largest notebook


def look_at(page: Page, address: str) -> list[str]:
    """The findings of axe-core, and whether something is wider than the page."""
    page.goto(address)
    page.evaluate(AXE_SCRIPT)
    findings: list[str] = page.evaluate(FINDINGS)
    width = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    return findings + ([f"{width[0]} pixels wide"] if width[0] > width[1] else [])


@pytest.mark.histories  # it builds the site
def test_the_site_is_built_and_can_be_read(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="Sphinx is not installed (group `docs`)")
    out = tmp_path / "site"
    assert site.build(out, tmp_path / "sources") == []
    pages = list(out.rglob("*.html"))
    assert len(pages) > 100 and max(path.stat().st_size for path in pages) <= PAGE
    assert "marble-dark.png" in (windows := (out / "concepts" / "windows.html").read_text(encoding="utf-8"))
    assert windows.count("only-light") == windows.count("only-dark") >= 1 and "version-switcher" not in windows
    assert "#14181e" in (out / "_images" / "keepall-dark.svg").read_text(encoding="utf-8")
    linked = [path for path in pages if "playground/index.html#module=" in path.read_text(encoding="utf-8")]
    assert len(linked) > 20
    chromium = find_chromium()
    if chromium is None:
        return
    findings: dict[tuple[str, str, int], list[str]] = {}
    outside: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        for theme in ("light", "dark"):
            page = browser.new_page(color_scheme=theme)
            page.on("request", lambda request: outside.append(request.url))
            for width in (1440, 420):
                page.set_viewport_size({"width": width, "height": 1000})
                for name in KINDS:
                    findings[name, theme, width] = look_at(page, (out / name).as_uri())
            page.close()
        page = browser.new_page()
        page.goto(f"{(out / 'search.html').as_uri()}?q=missing+row")
        page.locator("#search-results li a").first.wait_for()
        browser.close()
    assert {key: problems for key, problems in findings.items() if problems} == {}
    assert [url for url in outside if not re.match("file:|data:|blob:", url)] == []


def test_versions_are_listed_beside_each_other(tmp_path: Path) -> None:
    built, folder = tmp_path / "site", tmp_path / "versions"
    built.mkdir()
    (built / "searchindex.js").write_text("", encoding="utf-8")
    for version in ("0.9.1", "dev", "0.10.0", "dev"):
        site.publish(built, folder, "https://docs.example/cepbook/", version)
    versions = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
    assert [(entry["version"], entry["preferred"]) for entry in versions] == [
        ("0.10.0", True), ("0.9.1", False), ("dev", False)
    ]  # fmt: skip
    assert versions[0]["url"] == "https://docs.example/cepbook/0.10.0/"
    assert 'url=0.10.0/index.html"' in (folder / "index.html").read_text(encoding="utf-8")


def test_try_it_opens_a_module_that_deploys() -> None:
    texts = ["create schema A(x int)", "%%epl\nselect x from A", "select y from A", "select * from Tick#length(2)"]
    schema, named = "create schema A(x int)", "@name('example')\n"
    found = list(try_it["modules"](texts))
    assert found[:3] == [schema, f"{schema};\n{named}select x from A", None]
    assert found[3] == f"{try_it['EXAMPLE_SCHEMA']};\n{named}{texts[3]}"


def test_try_it_brings_a_scenario() -> None:
    module = "create schema A(x int); @name('q') select x from A"
    scenario = try_it["scenario"]
    assert scenario(module, "cep.send('A', x=1)\ncep.advance(by='1 sec')") == "A x=1\n    q + x=1\n@1000\n"
    assert scenario(module, "cep.send('A', x=1)\ncep.save('a.cep')") == scenario(module, "cep.send('B')") == ""
