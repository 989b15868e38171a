"""The one theme of all charts: the colours of the page around them.

Text and lines have colours of JupyterLab (CSS variables), so a chart is readable in the light and the dark theme and
follows a switch; other pages use the colour behind the comma. Vega's dark theme, which JupyterLab would add, has no
effect left. Pictures (PNG) have no background, and greys that are readable on white and on black.
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
_PNG_COLORS = {INK: "#797979", FAINT: "rgba(121, 121, 121, 0.5)", GRID: "rgba(121, 121, 121, 0.2)"}
_VARIABLE = re.compile(r"var\(--[\w-]+, (#[0-9a-f]+)\)")


def themed(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a Vega-Lite specification in the colours of the page, except where it sets its own."""
    usermeta = spec.get("usermeta", {})
    embed = {**EMBED, **usermeta.get("embedOptions", {})}
    config = _merged(CONFIG, spec.get("config", {}))
    return {**spec, "config": config, "usermeta": {**usermeta, "embedOptions": embed}}


def printed(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the specification for a picture, which knows no CSS."""
    return {**_without_variables(spec), "background": "transparent"}


def _without_variables(value: Any) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _PNG_COLORS.get(match[0], match[1]), value)
    if isinstance(value, dict):
        return {name: _without_variables(element) for name, element in value.items()}
    return [_without_variables(element) for element in value] if isinstance(value, list | tuple) else value


def _merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in override.items():
        former = merged.get(name)
        merged[name] = _merged(former, value) if isinstance(former, dict) and isinstance(value, dict) else value
    return merged
