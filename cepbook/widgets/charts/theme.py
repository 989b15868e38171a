"""The one theme of all charts: the colours of the page that they stand on.

Text and lines have colours of JupyterLab (CSS variables), so that a chart is readable in its light and dark theme and
follows when the theme is switched; other pages use what is written behind the comma. Vega's dark theme, which
JupyterLab would lay over them, has nothing left to say. Pictures (PNG) have no background, and greys that can be read
on white as on black: nobody knows what page they will stand on.
"""

from __future__ import annotations

import re
from typing import Any

INK = "var(--jp-ui-font-color1, #57606a)"  # text
FAINT = "var(--jp-border-color1, #d0d7de)"  # lines that separate
GRID = "var(--jp-border-color3, #eaeef2)"

_GUIDE = {"labelColor": INK, "titleColor": INK}
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "axis": {**_GUIDE, "domainColor": FAINT, "tickColor": FAINT, "gridColor": GRID},
    "header": _GUIDE,
    "legend": _GUIDE,
    "style": {"guide-label": {"fill": INK}, "guide-title": {"fill": INK}, "group-title": {"fill": INK}},
    "text": {"color": INK},
    "title": {"color": INK, "subtitleColor": INK},
    "view": {"stroke": GRID},
}
# A canvas knows no variables of CSS.
EMBED = {"renderer": "svg"}

# In pictures. The contrast of the first is 4.3 with white and with #111; the others are shades of what lies below.
_PRINTED = {INK: "#797979", FAINT: "rgba(121, 121, 121, 0.5)", GRID: "rgba(121, 121, 121, 0.2)"}
_VARIABLE = re.compile(r"var\(--[\w-]+, (#[0-9a-f]+)\)")


def themed(spec: dict[str, Any]) -> dict[str, Any]:
    """A Vega-Lite specification in the colours of the page, but for those that it gives itself."""
    usermeta = spec.get("usermeta", {})
    embed = {**EMBED, **usermeta.get("embedOptions", {})}
    config = _merged(CONFIG, spec.get("config", {}))
    return {**spec, "config": config, "usermeta": {**usermeta, "embedOptions": embed}}


def printed(spec: dict[str, Any]) -> dict[str, Any]:
    """The specification for a picture, which knows no CSS."""
    return {**_plain(spec), "background": "transparent"}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _PRINTED.get(found[0], found[1]), value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for name, value in own.items():
        former = found.get(name)
        found[name] = _merged(former, value) if isinstance(former, dict) and isinstance(value, dict) else value
    return found
