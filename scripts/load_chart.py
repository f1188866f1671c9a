"""Draws curves of latency by percentile as an SVG that is readable on light and on dark ground.

In: curves as points (1/(1-quantile), ms). Out: the SVG's text. Both axes are logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 784, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 44, 44, 50
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #3b4350 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #d7dce3; stroke-width: 1 } .curve { fill: none; stroke-width: 2.5; stroke-linejoin: round }
.open { stroke: #c8500a } .closed { stroke: #0072b2 } .service { stroke: #008a66; stroke-dasharray: 3 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #c3cad4 } .grid { stroke: #333b46 }
  .open { stroke: #f0783c } .closed { stroke: #4ba3e3 } .service { stroke: #2fc199 }
}
"""

Curve = tuple[str, str, Sequence[tuple[float, float]]]


def percentile_svg(curves: Sequence[Curve], title: str) -> str:
    """Return the chart of ``curves``, each a name, a class of the style, and points."""
    points = [point for _, _, own in curves for point in own]
    last = max(1, math.ceil(math.log10(max(x for x, _ in points))))
    low = math.floor(math.log10(min(y for _, y in points)))
    high = math.ceil(math.log10(max(y for _, y in points)))

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + math.log10(x) / last * (WIDTH - LEFT - RIGHT)
        down = TOP + (high - math.log10(y)) / (high - low) * (HEIGHT - TOP - BOTTOM)
        return across, down

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(title)}"><style>{STYLE}</style>',
        f'<text x="{LEFT}" y="22" class="title">{escape(title)}</text>',
    ]
    parts += _grid(at, last, low, high)
    for number, (name, style, own) in enumerate(curves):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (at(*point) for point in own))
        parts.append(f'<path d="M{path}" class="curve {style}"/>')
        top = TOP + 16 + 20 * number
        parts.append(f'<path d="M{LEFT + 14} {top - 4}h26" class="curve {style}"/>')
        parts.append(f'<text x="{LEFT + 48}" y="{top}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _grid(at, last: int, low: int, high: int) -> list[str]:  # type: ignore[no-untyped-def]
    parts = []
    for power in range(low, high + 1):
        x, y = at(1, 10.0**power)
        label = f"{10.0**power:g} ms" if power < 3 else f"{10.0 ** (power - 3):g} s"
        parts.append(f'<path d="M{x} {y}H{WIDTH - RIGHT}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{label}</text>')
    for power in range(last + 1):
        x, y = at(10.0**power, 10.0**low)
        share = "0 %" if power == 0 else f"{100 * (1 - 10.0**-power):.{max(0, power - 2)}f} %"
        parts.append(f'<path d="M{x} {TOP}V{y}" class="grid"/>')
        parts.append(f'<text x="{x}" y="{y + 20}" text-anchor="middle">{share}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">of the requests are faster</text>'
    )
    return parts
