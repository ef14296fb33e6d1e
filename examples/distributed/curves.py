"""Two curves of losses as a picture."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 52, 704, 40, 316


def picture(formulas: Sequence[float], torch: Sequence[float]) -> str:
    """The text of an SVG: torch's losses as a wide band, those of the formulas as a line in it."""
    low, high = 0.0, max(*formulas, *torch) * 1.05
    last = max(len(formulas) - 1, 1)

    def across(step: float) -> float:
        return LEFT + (RIGHT - LEFT) * step / last

    def down(loss: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (loss - low) / (high - low)

    def line(losses: Sequence[float]) -> str:
        return " ".join(f"{across(i):.1f},{down(loss):.1f}" for i, loss in enumerate(losses))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">',
        "<title>Losses of a transformer on four processes: formulas beside torch</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for tick in range(int(high) + 1):
        y = down(tick)
        parts.append(f'<path stroke="#e3e6ea" d="M{LEFT} {y:.1f}H{RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{tick}</text>')
    for step in range(0, last + 1, max(1, last // 6)):
        parts.append(f'<text x="{across(step):.1f}" y="{BOTTOM + 18}" text-anchor="middle" fill="#555">{step}</text>')
    parts += [
        f'<text x="{RIGHT}" y="{BOTTOM + 36}" text-anchor="end" fill="#555">step</text>',
        f'<polyline fill="none" stroke="#f4b183" stroke-width="7" points="{line(torch)}"/>',
        f'<polyline fill="none" stroke="#1f4e79" stroke-width="2" points="{line(formulas)}"/>',
        f'<path stroke="#f4b183" stroke-width="7" d="M{LEFT} 18h24"/>',
        f'<text x="{LEFT + 32}" y="22">torch\'s own parts</text>',
        f'<path stroke="#1f4e79" stroke-width="2" d="M{LEFT + 180} 18h24"/>',
        f'<text x="{LEFT + 212}" y="22">formulas</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
