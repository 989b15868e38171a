"""A renderer for altair charts that needs no network and that JupyterLab understands.

JupyterLab bundles Vega-Lite 5 and knows no newer mime type, while altair 6 writes Vega-Lite 6 or HTML that loads remote
scripts. The renderer writes the same specification as Vega-Lite 5 and, if the package `vl-convert-python` is installed,
a PNG for viewers that run no scripts. altair, which takes a second to load, is imported when a chart is first made; the
types at the top of this module are for annotations, which are never evaluated.
"""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from cepbook.charts.theme import printed, themed
from cepbook.errors import UsageError

MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # an identifier; nothing is loaded from there
RENDERER = "cepbook"


def enable_offline_renderer() -> None:
    """Make altair charts in this session draw offline. A second call changes nothing."""
    offline_altair()


def offline_altair() -> ModuleType:
    """Return the module altair, with the renderer enabled. Raises UsageError if it is not installed."""
    try:
        import altair
    except ImportError as error:
        raise UsageError("charts need the package altair: pip install 'cepbook[lab]'") from error
    if RENDERER not in altair.renderers.names():
        altair.renderers.register(RENDERER, render)
    if altair.renderers.active != RENDERER:
        altair.renderers.enable(RENDERER)
    return altair


def show_as_chart(shell: Any, kind: type, chart: Callable[[Any], Any]) -> Callable[[], None]:
    """Make an IPython shell display objects of `kind` as their chart. Returns the function that undoes this."""
    formatter = shell.display_formatter.mimebundle_formatter

    def show(obj: Any, include: Any = None, exclude: Any = None) -> Any:
        try:
            return chart(obj)._repr_mimebundle_(include, exclude)
        except UsageError as missing:  # altair is not installed: the words are something, too
            return {"text/plain": f"{obj!r}\n  {missing}"}

    formatter.for_type(kind, show)

    def undo() -> None:
        formatter.pop(kind, None)

    return undo


def render(spec: dict[str, Any], **_: object) -> dict[str, Any]:
    """Return the mime bundle of a Vega-Lite specification: Vega-Lite 5, plain text, and a PNG if one can be made."""
    as_v5 = themed(drawable(_with_single_domains({**spec, "$schema": SCHEMA})))
    bundle: dict[str, Any] = {MIME: as_v5, "text/plain": describe(as_v5)}
    png = vega_png(as_v5)
    if png is not None:
        bundle["image/png"] = png
    return bundle


def _with_single_domains(spec: dict[str, Any]) -> dict[str, Any]:
    """Return `spec` with a domain that layers share in one of them only: Vega warns of each other one.

    It warns, too, of a layer that has the second end of the channel (``x2``).
    """
    resolved, layers = spec.get("resolve", {}).get("scale", {}), spec.get("layer", [])
    domains: dict[str, list[tuple[bool, int, Any]]] = {}
    for at, layer in enumerate(layers):
        for name, channel in layer.get("encoding", {}).items():
            match channel:
                case {"scale": {"domain": domain}} if resolved.get(name) != "independent":
                    domains.setdefault(name, []).append((f"{name}2" in layer["encoding"], at, domain))
    layers = [{**layer, "encoding": dict(layer["encoding"])} if "encoding" in layer else layer for layer in layers]
    for name, entries in domains.items():
        _, keeper, shared = min(entries, key=lambda entry: entry[:2])
        for _, at, domain in entries:
            if at != keeper and domain == shared:
                channel = layers[at]["encoding"][name]
                scale = {key: value for key, value in channel["scale"].items() if key != "domain"}
                layers[at]["encoding"][name] = {**channel, "scale": scale}
    single = {**spec, "layer": layers} if layers else dict(spec)
    for name in ("layer", "vconcat", "hconcat"):
        if name in single:
            single[name] = [_with_single_domains(one) for one in single[name]]
    return single


def vega_png(spec: dict[str, Any]) -> str | None:
    """Return a specification as a PNG in base64; None if it cannot be drawn, or nothing is installed that draws it."""
    try:
        import vl_convert
    except ImportError:
        return None
    try:
        png = vl_convert.vegalite_to_png(printed(spec), vl_version="5.21", scale=1)
    except ValueError:  # what vl_convert raises for a specification that it cannot draw; the live chart remains
        return None
    return b64encode(_compressed_png(png)).decode("ascii")


# What XML 1.0 has no place for. The picture is drawn by way of SVG, and on such text the renderer ends the process.
# Marks of direction would turn the labels.
_UNDRAWABLE = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
LONGEST = 2_000  # characters of a text; longer ones only come from events


def drawable(spec: Any) -> Any:
    """Return `spec` with texts that a chart can display: U+FFFD replaces the other characters."""
    if isinstance(spec, str):
        return _UNDRAWABLE.sub("\ufffd", spec if len(spec) <= LONGEST else spec[: LONGEST - 1] + "…")
    if isinstance(spec, dict):
        return {drawable(name): drawable(value) for name, value in spec.items()}
    return [drawable(value) for value in spec] if isinstance(spec, list | tuple) else spec


def _compressed_png(png: bytes) -> bytes:
    """Return the same picture in a tenth of the bytes: vl_convert hardly compresses, and notebooks store the result."""
    pixels, chunks, at = b"", [], 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if kind == b"IDAT":
            pixels += data
        else:
            chunks.append((kind, data))
        at += 12 + length
    (_, header), *others = chunks
    chunks = [*_palette_chunks(header, others[:-1], zlib.decompress(pixels)), others[-1]]  # the last chunk is IEND
    return png[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _palette_chunks(header: bytes, others: list[tuple[bytes, bytes]], filtered: bytes) -> list[tuple[bytes, bytes]]:
    """Return the chunks up to the pixels; in an RGBA picture of at most 256 colours these become palette indices."""
    width, height, *form = struct.unpack(">IIBBBBB", header)
    same = [(b"IHDR", header), *others, (b"IDAT", zlib.compress(filtered, 9))]
    if form != [8, 6, 0, 0, 0]:
        return same
    lines = np.frombuffer(filtered, dtype=np.uint8).reshape(height, 1 + 4 * width)
    if (lines[:, 0] != 1).any():  # each pixel less the one at its left: the only filter that vl_convert uses
        return same
    pixels = np.cumsum(lines[:, 1:].reshape(height, width, 4), axis=1, dtype=np.uint8)
    colours, numbers = np.unique(pixels.reshape(-1, 4).view(np.uint32), return_inverse=True)
    if len(colours) > 256:
        return same
    palette = colours.view(np.uint8).reshape(-1, 4)
    indexed = np.zeros((height, 1 + width), dtype=np.uint8)
    indexed[:, 1:] = numbers.reshape(height, width)
    return [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        *others,
        (b"PLTE", palette[:, :3].tobytes()),
        (b"tRNS", palette[:, 3].tobytes()),
        (b"IDAT", zlib.compress(indexed.tobytes(), 9)),
    ]


def describe(spec: dict[str, Any]) -> str:
    """Return a chart in words, for viewers of text: its description, or its mark, axes and number of rows."""
    if "description" in spec:
        return str(spec["description"])
    layers: list[dict[str, Any]] = [spec, *spec.get("layer", ())]
    mark = next((one["mark"] for one in layers if "mark" in one), "layered")
    kind = mark.get("type", "") if isinstance(mark, dict) else str(mark)
    encoding: dict[str, Any] = next((one["encoding"] for one in layers if one.get("encoding")), {})
    fields = {name: encoding.get(name, {}).get("field") for name in ("x", "y", "color")}
    axes = [f"{name}: {field}" for name, field in fields.items() if field]
    rows = sum(len(values) for values in spec.get("datasets", {}).values())
    title = spec.get("title")
    heading = title.get("text") if isinstance(title, dict) else title
    parts = [f"{kind} chart" + (f" '{heading}'" if heading else ""), *axes, f"{rows:,} rows"]
    return ", ".join(parts)
