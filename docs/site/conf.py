"""Settings of Sphinx for the site; `tools/site.py` prepares its sources and starts it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cepbook  # noqa: E402

project = "cepbook"
author = "The cepbook authors"
version = release = cepbook.__version__
copyright = f"The cepbook authors, Apache License 2.0. These pages describe cepbook {release}"
language = "en"

extensions = ["myst_nb", "try_it"]
root_doc = "index"
exclude_patterns: list[str] = []
nitpicky = True

# The notebooks are pages with their stored outputs. `make test` executes them and compares.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # no page loads a script of another site
nb_render_markdown_format = "myst"
nb_merge_streams = True
nb_mime_priority_overrides = [
    ("html", "image/svg+xml", 1),
    ("html", "image/png", 2),
    ("html", "text/html", 3),
    ("html", "text/plain", 9),
    ("html", "application/vnd.jupyter.widget-view+json", None),
    ("html", "application/javascript", None),
]
myst_heading_anchors = 4
myst_enable_extensions = ["html_image", "attrs_inline"]
suppress_warnings = [
    "mystnb.unknown_mime_type",  # Vega-Lite beside its picture, widgets beside their words
    "myst.header",  # a cell of a notebook may begin below the first level
    "misc.highlighting_failure",  # EPL with a mistake, on the pages that show mistakes
]
highlight_language = "text"

html_theme = "pydata_sphinx_theme"
html_title = "cepbook"
templates_path = [str(HERE / "templates")]
html_static_path = [str(HERE / "static")]
html_favicon = str(HERE / "static" / "favicon.svg")
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "static" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": [], "search": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_end": ["playground", "theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# One version of several (`tools/site.py --publish`): the list of all stands beside the folder of this one.
if site_version := os.environ.get("CEPBOOK_SITE_VERSION"):
    html_theme_options |= {
        "navbar_end": ["version-switcher", *html_theme_options["navbar_end"]],
        "switcher": {"json_url": "../versions.json", "version_match": site_version},
        "check_switcher": False,
        "show_version_warning_banner": True,
    }
