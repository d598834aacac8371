"""Draws the panels of the dashboards, one SVG for each dashboard, from what a real Prometheus holds; docs/dashboards.md shows
them.

usage: draw_panels.py CLUSTER JOB SECONDS FOLDER
"""

import html
import json
import sys
import time
import urllib.parse
from pathlib import Path

from installation import ROOT, Installation

COLUMNS, WIDTH, HEIGHT, MARGIN = 3, 380, 190, 44
COLOURS = ["#3b6fb6", "#d9822b", "#3a9a5b", "#b64a4a", "#7d5fb2", "#8a6d3b", "#c25fa0", "#6b7785"]


def query_range(operator, expression, seconds):
    end = int(time.time())
    arguments = urllib.parse.urlencode({"query": expression, "start": end - seconds, "end": end, "step": max(1, seconds // 120)})
    path = f"/api/v1/namespaces/monitoring/pods/prometheus:9090/proxy/api/v1/query_range?{arguments}"
    return json.loads(operator.kubectl("get", "--raw", path))["data"]["result"]


def legend(template, labels):
    for name, value in labels.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def readable(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {suffix}"
    return f"{value:.3g}"


def draw(panel, series, unit):
    """One panel as SVG: axes, lines, legend of at most eight lines."""
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff" stroke="#d5d9e0"/>',
             f'<text x="10" y="18" font-weight="600">{html.escape(panel["title"])}</text>']
    points = [(t, float(v)) for _, values in series for t, v in values if v not in ("NaN", "+Inf", "-Inf")]
    if not points:
        return [*parts, '<text x="10" y="60" fill="#888">no data</text>']
    t0, t1 = min(t for t, _ in points), max(t for t, _ in points)
    low, high = min(0.0, *(v for _, v in points)), max(v for _, v in points)
    high = high if high > low else low + 1
    left, right, top, bottom = MARGIN, WIDTH - 10, 30, HEIGHT - 46
    for step in range(3):
        value = low + (high - low) * step / 2
        y = bottom - (bottom - top) * step / 2
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.0f}" y2="{y:.0f}" stroke="#eceff3"/>')
        parts.append(f'<text x="{left - 4}" y="{y + 4:.0f}" text-anchor="end" fill="#555">{readable(value, unit)}</text>')
    for index, (name, values) in enumerate(series[: len(COLOURS)]):
        line = " ".join(
            f"{left + (right - left) * (t - t0) / max(1, t1 - t0):.1f},{bottom - (bottom - top) * (float(v) - low) / (high - low):.1f}"
            for t, v in values if v not in ("NaN", "+Inf", "-Inf")
        )
        colour = COLOURS[index]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        x, y = 10 + (index % 4) * 92, HEIGHT - 26 + (index // 4) * 14
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{html.escape(name[:17])}</text>')
    return parts


def draw_table(panel, series):
    """One panel as SVG: a row of text for each series."""
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff" stroke="#d5d9e0"/>',
             f'<text x="10" y="18" font-weight="600">{html.escape(panel["title"])}</text>']
    for row, (name, _) in enumerate(sorted(series)[:10]):
        parts.append(f'<text x="14" y="{40 + 15 * row}">{html.escape(name[:60])}</text>')
    return parts


def expanded(expression, job, seconds):
    for variable, value in (("$__rate_interval", "15s"), ("$__range", f"{seconds}s"), ("$namespace", ".+"), ("$job", job),
                            ("$instance", ".+")):
        expression = expression.replace(variable, value)
    return expression


def draw_dashboard(operator, dashboard, job, seconds):
    panels = dashboard["panels"]
    rows = -(-len(panels) // COLUMNS)
    size = f'width="{COLUMNS * (WIDTH + 8)}" height="{rows * (HEIGHT + 8)}"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">']
    for number, panel in enumerate(panels):
        series = []
        for target in panel["targets"]:
            for item in query_range(operator, expanded(target["expr"], job, seconds), seconds):
                name = legend(target["legendFormat"], item["metric"])
                series.append((name or panel["title"], item["values"]))
        x, y = (number % COLUMNS) * (WIDTH + 8), (number // COLUMNS) * (HEIGHT + 8)
        out.append(f'<g transform="translate({x},{y})">')
        if panel["type"] == "table":
            out += draw_table(panel, series)
        else:
            out += draw(panel, series, panel["fieldConfig"]["defaults"]["unit"])
        out.append("</g>")
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    operator, job, seconds, folder = Installation(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted((ROOT / "charts/gnn-operator/dashboards").glob("*.json")):
        dashboard = json.loads(file.read_text(encoding="utf-8"))
        # In the operator's dashboard `job` is Prometheus' own label.
        text = draw_dashboard(operator, dashboard, ".+" if file.stem == "operator" else job, seconds)
        (folder / f"{file.stem}.svg").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
