"""One HTML page that shows the evaluation and asks the network for nothing: Plotly's script is inside."""

import html
import json

from plotly.offline import get_plotlyjs

from autoscaler.evaluation.figures import LOOKS
from autoscaler.evaluation.report import Report, Section, Shown

_STYLE = """
:root {
  color-scheme: light dark;
  --text: #1c2430; --soft: #5b6675; --back: #ffffff; --card: #f6f7f9; --line: #d9dde3; --grid: #e3e6eb;
}
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e9ee; --soft: #9aa5b4; --back: #14181e; --card: #1c222a; --line: #343c48; --grid: #2c333d; }
}
* { box-sizing: border-box; }
body {
  margin: 0; color: var(--text); background: var(--back);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1160px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 8px; }
h2 { font-size: 1.3rem; margin: 48px 0 8px; padding-top: 16px; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 28px 0 4px; }
p { max-width: 76ch; margin: 0 0 12px; }
.soft, figcaption { color: var(--soft); font-size: 0.875rem; }
nav { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 16px 0; font-size: 0.9375rem; }
a { color: inherit; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.875em; overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 330px), 1fr)); gap: 16px; margin: 16px 0; }
.figures.wide { grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
figure { margin: 0; padding: 12px; background: var(--card); border: 1px solid var(--line); border-radius: 8px; min-width: 0; }
figcaption { margin-top: 8px; }
.looks { display: flex; flex-wrap: wrap; gap: 4px 20px; padding: 0; margin: 12px 0 0; list-style: none; font-size: 0.875rem; }
.looks i { display: inline-block; width: 10px; height: 10px; margin-right: 6px; }
.looks .circle { border-radius: 50%; }
.looks .diamond { transform: rotate(45deg) scale(0.85); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 12px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); font-weight: 400; }
thead th { font-weight: 600; background: var(--card); white-space: normal; vertical-align: bottom; min-width: 5.5em; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--back); }
thead th:first-child { background: var(--card); }
tbody tr:last-child > * { border-bottom: 0; }
@media (max-width: 600px) { tbody th { white-space: normal; min-width: 6.5em; } th, td { padding: 5px 8px; } }
"""

_SCRIPT = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const specs = JSON.parse(document.getElementById("specs").textContent);
function theme() {
  const read = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = (name) => ({ [`${name}.gridcolor`]: read("--grid"), [`${name}.linecolor`]: read("--line") });
  const font = { "font.color": read("--text"), "font.family": getComputedStyle(document.body).fontFamily };
  return { ...font, ...axis("xaxis"), ...axis("yaxis") };
}
const config = { responsive: true, displayModeBar: false, scrollZoom: false };
const drawn = Object.entries(specs).map(([id, spec]) =>
  Plotly.newPlot(id, spec.data, spec.layout, config).then(() => Plotly.relayout(id, theme())));
dark.addEventListener("change", () => Object.keys(specs).forEach((id) => Plotly.relayout(id, theme())));
Promise.all(drawn).then(() => document.documentElement.setAttribute("data-drawn", String(drawn.length)));
"""


def page(report: Report) -> str:
    """Return the page."""
    parts = report.sections
    specs: dict[str, object] = {}
    body = "".join(_section(number, section, specs) for number, section in enumerate(parts))
    links = "".join(f'<a href="#part-{number}">{html.escape(section.title)}</a>' for number, section in enumerate(parts))
    drawn = json.dumps(specs).replace("</", "<\\/")  # cannot end the element that it stands in
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{html.escape(report.title)}</title><link rel="icon" href="data:,"><style>{_STYLE}</style></head><body><main>'
        f"<h1>{html.escape(report.title)}</h1><p>{html.escape(report.about)}</p>"
        f'<p class="soft">Made by <code>{html.escape(report.command)}</code>. {html.escape(report.made)}</p>'
        f"<nav>{links}</nav>{body}</main>"
        f'<script type="application/json" id="specs">{drawn}</script>'
        f"<script>{get_plotlyjs()}</script><script>{_SCRIPT}</script></body></html>\n"
    )


def _section(number: int, section: Section, specs: dict[str, object]) -> str:
    figures = "".join(_figure(f"figure-{number}-{at}", shown, specs) for at, shown in enumerate(section.figures))
    wide = "" if section.legend else " wide"
    tables = "".join(
        f'<h3>{html.escape(table.title)}</h3><p class="soft">{html.escape(table.note)}</p>{table.html()}'
        for table in section.tables
    )
    return (
        f'<section id="part-{number}"><h2>{html.escape(section.title)}</h2><p>{html.escape(section.text)}</p>'
        f'{_looks() if section.legend else ""}<div class="figures{wide}">{figures}</div>{tables}</section>'
    )


def _figure(name: str, shown: Shown, specs: dict[str, object]) -> str:
    specs[name] = json.loads(shown.figure.to_json(validate=False))
    caption = html.escape(shown.caption)
    return (
        f'<figure><div class="plot" id="{name}" role="img" aria-label="{caption}" '
        f'style="height:{shown.figure.layout.height}px"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _looks() -> str:
    items = "".join(
        f'<li><i class="{family.symbol}" style="background:{family.colour}"></i>{html.escape(family.name)}</li>'
        for family in LOOKS
    )
    return f'<ul class="looks">{items}</ul>'
