"""Drawing live memory over the instructions of a forward and a backward: SVG as text, PNG by matplotlib."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TypeAlias

from ...runtime.memory.ledger import KINDS
from ...runtime.memory.report import Instant, Report
from ...runtime.values.text_tables import UNITS, bytes_text
from .loading import CliError

COLOURS = {
    "inputs": "#c9ced6",
    "outputs": "#8d99ae",
    "saved": "#3a6ea5",
    "gradients": "#e9a23b",
    "temporaries": "#d1495b",
}
"""By what a buffer is there for, from the bottom of the stack to its top."""
LABELS = {"inputs": "arguments", "saved": "saved for the backward"}
WIDTH, HEIGHT = 960, 420
LEFT, RIGHT, TOP, BOTTOM = 84, 20, 56, 48
MAX_POINTS = WIDTH - LEFT - RIGHT
FONT = 'font-family="system-ui, sans-serif" font-size="12"'

Layer: TypeAlias = list[tuple[int, int]]
"""Bottom and top of a layer in bytes, at each point."""


def save_plot(report: Report, path: str) -> None:
    """Draw the timeline to a .svg or .png file. CliError for another suffix, a file that cannot be written, and
    for a .png without matplotlib."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".svg", ".png"):
        raise CliError(f"--plot draws .svg and .png files, not '{path}'")
    try:
        if suffix == ".svg":
            Path(path).write_text(svg(report), encoding="utf-8")
        else:
            _save_png(report, path)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror or error}") from error


def title(report: Report) -> str:
    saved, peak = bytes_text(report.saved_bytes), bytes_text(report.peak_bytes)
    return f"{report.function}, {report.policy}: saved {saved}, peak {peak}"


def points(timeline: Sequence[Instant]) -> list[Instant]:
    """At most MAX_POINTS instants: of neighbours that share a point, the one with the most alive."""
    per_point = -(-len(timeline) // MAX_POINTS)
    groups = (timeline[i : i + per_point] for i in range(0, len(timeline), per_point))
    return [max(group, key=lambda instant: instant.live) for group in groups]


def layers(timeline: Sequence[Instant]) -> dict[str, Layer]:
    """The stack, by kind; a kind that never occurs is left out."""
    floors = [0] * len(timeline)
    found: dict[str, Layer] = {}
    for kind in KINDS:
        sizes = [getattr(instant, kind) for instant in timeline]
        if any(sizes):
            tops = [floor + size for floor, size in zip(floors, sizes, strict=True)]
            found[kind] = list(zip(floors, tops, strict=True))
            floors = tops
    return found


# --- SVG ---


def svg(report: Report, top: int = 1) -> str:
    """The timeline as an SVG document, on a scale for `top` bytes at least. Of the same report it is the same text."""
    shown = points(report.timeline)
    scale = _Scale(len(shown), max(report.peak_bytes, top))
    boundary = next((i for i, instant in enumerate(shown) if instant.phase == "backward"), len(shown))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT} role="img">',
        f"<title>{escape(title(report))}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="600">{escape(title(report))}</text>',
        *_grid(scale),
    ]
    stack = layers(shown)
    for kind, layer in stack.items():
        lines.append(f'<path fill="{COLOURS[kind]}" d="{scale.area(layer)}"/>')
    lines += [*_boundary(scale, boundary), *_legend(stack), "</svg>"]
    return "\n".join(lines) + "\n"


class _Scale:
    """From points and bytes to places on the page."""

    def __init__(self, count: int, peak: int) -> None:
        self.count = count
        self.unit = min((peak.bit_length() - 1) // 10, len(UNITS) - 1)
        step = _round_step(peak / 1024**self.unit / 4)
        self.ticks = [step * i for i in range(int(peak / 1024**self.unit / step) + 2)]
        self.top = self.ticks[-1] * 1024**self.unit

    def x(self, point: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * point / self.count

    def y(self, count: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / self.top

    def area(self, layer: Layer) -> str:
        """The outline of a layer, in steps: along its top, and back along its bottom."""
        tops = self._steps([top for _, top in layer])
        floors = self._steps([floor for floor, _ in layer])
        return f"M{' '.join([*tops, *reversed(floors)])}Z"

    def _steps(self, heights: Sequence[int]) -> list[str]:
        """The corners of a line in steps, left to right."""
        corners = [f"{self.x(0):.1f},{self.y(heights[0]):.1f}"]
        for point, (before, after) in enumerate(itertools.pairwise(heights), 1):
            if before != after:
                corners += [f"{self.x(point):.1f},{self.y(height):.1f}" for height in (before, after)]
        return [*corners, f"{self.x(len(heights)):.1f},{self.y(heights[-1]):.1f}"]


def _round_step(rough: float) -> float:
    """The first of 1, 2, 5, 10, 20, 50, … (or 0.1, 0.2, …) that is no less."""
    power = 0.01
    while True:
        for factor in (1, 2, 5):
            if factor * power >= rough:
                return factor * power
        power *= 10


def _grid(scale: _Scale) -> Iterator[str]:
    for tick in scale.ticks:
        y = scale.y(tick * 1024**scale.unit)
        yield f'<path stroke="#e3e6ea" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        label = f"{tick:g} {UNITS[scale.unit]}"
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{label}</text>'
    y = HEIGHT - 12
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{y}" text-anchor="middle" fill="#555">instructions run</text>'


def _boundary(scale: _Scale, point: int) -> Iterator[str]:
    x = scale.x(point)
    yield f'<path stroke="#222" stroke-dasharray="4 3" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
    y = HEIGHT - BOTTOM + 16
    if point:
        yield f'<text x="{x - 6:.1f}" y="{y}" text-anchor="end">forward</text>'
    if point < scale.count:
        yield f'<text x="{x + 6:.1f}" y="{y}">backward</text>'


def _legend(stack: dict[str, Layer]) -> Iterator[str]:
    x = LEFT
    for kind in stack:
        label = LABELS.get(kind, kind)
        yield f'<rect x="{x}" y="32" width="12" height="12" fill="{COLOURS[kind]}"/>'
        yield f'<text x="{x + 17}" y="42">{label}</text>'
        x += 36 + 7 * len(label)


# --- PNG ---


def _save_png(report: Report, path: str) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise CliError("a .png needs matplotlib: pip install matplotlib, or draw a .svg") from None

    shown = points(report.timeline)
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    scale = _Scale(len(shown), max(report.peak_bytes, 1))
    unit = 1024**scale.unit
    places = range(len(shown))
    for kind, layer in layers(shown).items():
        floors, tops = ([part / unit for part in parts] for parts in zip(*layer, strict=True))
        label = LABELS.get(kind, kind)
        axes.fill_between(places, floors, tops, step="post", color=COLOURS[kind], linewidth=0, label=label)
    boundary = next((i for i, instant in enumerate(shown) if instant.phase == "backward"), len(shown))
    axes.axvline(boundary, color="#222222", linestyle="--", linewidth=1, label="forward | backward")
    axes.set(title=title(report), xlabel="instructions run", ylabel=UNITS[scale.unit], ylim=(0, scale.ticks[-1]))
    figure.legend(loc="outside lower center", ncols=6, fontsize="small")
    figure.savefig(path)
