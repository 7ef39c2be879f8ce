"""The evaluation's page in Chromium: wide, middling and narrow, light and dark."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from autoscaler.evaluation.page import page
from autoscaler.evaluation.report import placement_report
from autoscaler.evaluation.sizing import POLICIES, Run
from autoscaler.evaluation.sizing_report import sizing_report
from tests.evaluation.small import small_results

pytestmark = pytest.mark.browser

WIDTHS = (1400, 768, 375)
READABLE_PX = 12
READABLE_CONTRAST = 4.5  # WCAG 2, level AA

# The contrast of every text with what lies behind it: 1 for equal colours, 21 for black on white.
CONTRASTS = """
() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const texts = [...document.querySelectorAll("h1, h2, h3, p, td, th, figcaption, nav a, .looks li, .plot text")];
  return texts.filter((e) => e.textContent.trim()).map((e) => {
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(e instanceof SVGElement ? style.fill : style.color)), light(behind(e))].sort((x, y) => y - x);
    return { text: e.textContent.slice(0, 40), contrast: (a + 0.05) / (b + 0.05), size: parseFloat(style.fontSize) };
  });
}
"""

# What sticks out of the page, and of the figure it belongs to.
OVERFLOWS = """
() => {
  const inner = document.documentElement.clientWidth + 0.5;
  const wide = [...document.querySelectorAll("main *")]
    .filter((e) => !e.closest(".scroll > table, svg") && e.getBoundingClientRect().right > inner)
    .map((e) => e.outerHTML.slice(0, 80));
  const cut = [...document.querySelectorAll(".plot")].flatMap((plot) => {
    const room = plot.getBoundingClientRect();
    return [...plot.querySelectorAll("text")].filter((t) => t.textContent.trim()).filter((t) => {
      const box = t.getBoundingClientRect();
      return box.left < room.left - 1 || box.right > room.right + 1 || box.top < room.top - 1 || box.bottom > room.bottom + 1;
    }).map((t) => `${plot.id}: ${t.textContent}`);
  });
  return { page: document.documentElement.scrollWidth - document.documentElement.clientWidth, wide, cut };
}
"""

FIGURES = """
() => [...document.querySelectorAll(".plot")].map((plot) => {
  const box = plot.querySelector("svg.main-svg").getBoundingClientRect();
  const area = plot.querySelector(".nsewdrag").getBoundingClientRect();
  const marks = plot.querySelectorAll(".points path, .js-line, .bars path").length;
  return { id: plot.id, width: box.width, height: box.height, area: [area.width, area.height], marks };
})
"""

TABLES = """
() => [...document.querySelectorAll(".scroll")].map((scroll) => {
  scroll.scrollLeft = 1e6;
  const view = scroll.getBoundingClientRect();
  const last = [...scroll.querySelectorAll("tr > :last-child")].map((c) => c.getBoundingClientRect());
  const first = scroll.querySelector("tbody th").getBoundingClientRect();
  const cells = [...scroll.querySelectorAll("tbody td")];
  return {
    label: scroll.getAttribute("aria-label"),
    rows: scroll.querySelectorAll("tbody tr").length,
    reached: last.every((c) => c.right <= view.right + 1 && c.left >= first.right - 1),
    named: first.left >= view.left - 1 && first.right <= view.right,
    cut: cells.filter((c) => c.scrollWidth > c.clientWidth + 1).map((c) => c.textContent),
  };
})
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("page") / "evaluation.html"
    place.write_text(page(placement_report(small_results())), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def sizing_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("page") / "sizing.html"
    runs = [
        Run(workload, "Something that arrives", 17.6, policy, "" if n else "threshold 5", 1 - 0.1 / (n + 1), 20.0 + n, 4, 3, 9)
        for workload in ("W-skew", "table 2, t_r 2 s")
        for n, policy in enumerate(POLICIES)
    ]
    place.write_text(page(sizing_report(runs, "make evaluate ARGS='--part sizing'", "Made here.")), encoding="utf-8")
    return place


@contextmanager
def opened(browser: Browser, file: Path, width: int, scheme: Any = "light") -> Iterator[tuple[Page, list[str]]]:  # noqa: ANN401
    """Open the page and wait until all is drawn; say what it complained of and whom it asked for anything."""
    said: list[str] = []
    window = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    window.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    window.on("pageerror", lambda error: said.append(f"error: {error}"))
    window.on("request", lambda request: said.append(f"asks for {request.url}"))
    try:
        window.goto(file.as_uri())
        window.wait_for_selector("html[data-drawn]", state="attached", timeout=60_000)
        yield window, said
    finally:
        window.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_it_shows_everything_and_asks_nobody(browser: Browser, file: Path, width: int) -> None:
    with opened(browser, file, width) as (window, said):
        found = window.evaluate(FIGURES)
        assert window.evaluate("document.documentElement.dataset.drawn") == str(len(found))
    assert [line for line in said if not line.startswith(("asks for file:", "asks for data:"))] == []
    assert len(found) == 9
    for figure in found:
        assert figure["width"] >= min(300, width - 80), figure
        assert figure["height"] >= 300, figure
        assert min(figure["area"]) >= 180, figure
        assert figure["marks"] >= 5, figure


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out(browser: Browser, file: Path, width: int) -> None:
    with opened(browser, file, width) as (window, _):
        assert window.evaluate(OVERFLOWS) == {"page": 0, "wide": [], "cut": []}


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_of_sizing_shows_a_curve_for_each_workload(browser: Browser, sizing_file: Path, width: int) -> None:
    with opened(browser, sizing_file, width) as (window, said):
        found, tables = window.evaluate(FIGURES), window.evaluate(TABLES)
        assert window.evaluate(OVERFLOWS) == {"page": 0, "wide": [], "cut": []}
    assert [line for line in said if not line.startswith(("asks for file:", "asks for data:"))] == []
    assert [f["marks"] >= len(POLICIES) and min(f["area"]) >= 150 for f in found] == [True, True]
    assert [(t["rows"], t["reached"], t["cut"]) for t in tables] == [(2, True, []), *[(len(POLICIES), True, [])] * 2]


def test_it_fits_again_after_the_window_has_become_narrow(browser: Browser, file: Path) -> None:
    with opened(browser, file, 1400) as (window, _):
        window.set_viewport_size({"width": 375, "height": 800})
        window.wait_for_function("[...document.querySelectorAll('.plot svg.main-svg')].every((s) => s.clientWidth < 350)")
        assert window.evaluate(OVERFLOWS)["page"] == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_every_cell_of_every_table_can_be_read(browser: Browser, file: Path, width: int) -> None:
    with opened(browser, file, width) as (window, _):
        found = window.evaluate(TABLES)
    assert len(found) >= 8
    for table in found:
        assert table["rows"] >= 2, table
        assert table["reached"], table  # the last column comes into view beside the names
        assert table["named"], table
        assert table["cut"] == [], table


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_large_enough_and_stands_out(browser: Browser, file: Path, scheme: str) -> None:
    with opened(browser, file, 375, scheme) as (window, _):
        texts = window.evaluate(CONTRASTS)
    assert len(texts) > 300
    assert [t for t in texts if t["contrast"] < READABLE_CONTRAST] == []
    assert [t for t in texts if t["size"] < READABLE_PX - 1] == []  # the names beside points are 11 px


def test_it_follows_when_the_system_turns_dark(browser: Browser, file: Path) -> None:
    with opened(browser, file, 768) as (window, _):
        window.emulate_media(color_scheme="dark")
        window.wait_for_function("getComputedStyle(document.querySelector('.xtick text')).fill === 'rgb(230, 233, 238)'")
        assert [t for t in window.evaluate(CONTRASTS) if t["contrast"] < READABLE_CONTRAST] == []
