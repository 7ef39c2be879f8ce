"""What the autoscaler decided and why, from its tables, through Spark SQL, as tables for people.

Reads only; may run beside the job. The session is as small as Spark allows, because an operator waits for it. ``jobs/history.py``
parses the command line.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autoscaler import jars
from autoscaler.adapters.audit.delta_audit import register_views, small_session
from autoscaler.console.words import consumers_text
from autoscaler.errors import SettingsError

_HISTORY = "SELECT * FROM history ORDER BY at DESC, `group` LIMIT {limit}"
_COST = """
SELECT `group`, count(*) AS moves, count(pause_s) AS paused, percentile_approx(pause_s, 0.5, 10000) AS p50_s,
       percentile_approx(pause_s, 0.95, 10000) AS p95_s, max(pause_s) AS max_s
FROM moves GROUP BY `group` ORDER BY `group`
"""


def history(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the view ``history``, oldest first, as a table for people: one line per action and per spell of doing nothing."""
    several = len({r["group"] for r in rows}) > 1
    out = Table(title="Decisions", title_justify="left", box=None, padding=(0, 1), pad_edge=False)
    for name, right in (("at (UTC)", False), ("for", True), ("consumers", True), ("reason", False), ("done", False),
                        ("MB/s", True), ("lag", True), ("why", False)):  # fmt: skip
        out.add_column(name, justify="right" if right else "left", no_wrap=name not in {"reason", "why"})
    for r in rows:
        lag = "?" if r["lag_records"] is None else f"{r['lag_records']:,}"
        why = f"{r['group']}: {r['detail']}" if several else r["detail"]
        out.add_row(
            f"{r['at']:%H:%M:%S}",
            "" if r["acted"] else f"{(r['until'] - r['at']).total_seconds():.0f} s",
            _consumers(r),
            r["reason"] + (f" ({r['limited_by']})" if r["limited_by"] else ""),
            _done(r),
            "?" if r["bytes_per_s"] is None else f"{r['bytes_per_s'] / 1e6:.2f}",
            lag,
            why,
            style="" if r["acted"] else "dim",
        )
    return out


def cost(rows: Sequence[dict[str, Any]]) -> list[Text]:
    """Return a line per group about what its moves cost."""
    lines = []
    for r in rows:
        pauses = (
            f"; a moved partition paused {r['p50_s'] * 1e3:.0f} ms in the middle, {r['p95_s'] * 1e3:.0f} ms at the 95th "
            f"percentile, {r['max_s'] * 1e3:.0f} ms at most"
            if r["paused"]
            else ""
        )
        lines.append(Text(f"{r['group']}: {r['moves']} moves{pauses}"))
    return lines


def answer(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> Table:
    """Return the rows of any query as a table."""
    out = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in columns:
        out.add_column(name, overflow="fold")
    for r in rows:
        out.add_row(*(_cell(r[c]) for c in columns))
    return out


def _consumers(r: dict[str, Any]) -> str:
    if r["mode"] != "advise":
        return consumers_text(r["observed_consumers"], requested=r["requested_consumers"])
    names = ("recommended", "recommended_age_s")
    return consumers_text(r["observed_consumers"], advised=r["advised_consumers"], **{n: r[n] for n in names})


def _done(r: dict[str, Any]) -> str:
    if not r["acted"]:
        return ""
    parts = [f"{sign}{r[key]}" for key, sign in (("added", "+"), ("moved", "⇄"), ("removed", "-")) if r[key]]
    return " ".join(parts) + (" (recovered)" if r["recovered"] else "")


def _cell(value: object) -> Text:
    match value:
        case None:
            return Text("-", style="dim")
        case float():
            return Text(f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}")  # noqa: PLR2004
        case datetime():
            return Text(f"{value.astimezone(UTC) if value.tzinfo else value:%Y-%m-%d %H:%M:%S.%f}"[:-3])
        case list():
            return Text(", ".join(str(v) for v in value))
    return Text(str(value))


def show(root: Path, console: Console, *, sql: str | None, limit: int) -> None:
    """Open the tables below ``root`` and print the history, or the answer to ``sql``.

    Raises:
        AutoscalerError: There are no tables, or the query is wrong.
    """
    if not (root / "decisions" / "_delta_log").is_dir():
        raise SettingsError((f"state_dir: no tables in {root}; the job makes them with its first decision",))
    spark = small_session("history", jars.class_path(jars.DELTA))
    register_views(spark, root)
    if sql is not None:
        found = spark.sql(sql).limit(limit).toArrow()
        console.print(answer(found.to_pylist(), found.column_names))
        return
    rows = spark.sql(_HISTORY.format(limit=limit)).toArrow().to_pylist()
    console.print(history(rows[::-1]))
    for line in cost(spark.sql(_COST).toArrow().to_pylist()):
        console.print(line)
