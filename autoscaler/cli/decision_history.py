"""What the autoscaler decided and why, from its tables, as tables for people and as JSON.

Reads only; may run beside the job. ``autoscaler history`` reads without Spark. ``show`` asks through Spark SQL, for clusters and
for queries of one's own; its session is as small as Spark allows, because an operator waits for it. ``jobs/history.py`` parses
the command line of that.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autoscaler.cli.times import zone_name
from autoscaler.console.words import consumers_text, lasted, rate
from autoscaler.errors import SettingsError

if TYPE_CHECKING:
    from autoscaler.adapters.audit.decision_reader import Spell
    from autoscaler.console.job_state import Health

_HISTORY = "SELECT * FROM history ORDER BY at DESC, `group` LIMIT {limit}"
_COST = """
SELECT `group`, count(*) AS moves, count(pause_s) AS paused, percentile_approx(pause_s, 0.5, 10000) AS p50_s,
       percentile_approx(pause_s, 0.95, 10000) AS p95_s, max(pause_s) AS max_s
FROM moves GROUP BY `group` ORDER BY `group`
"""
_RIGHT = frozenset({"for", "consumers", "rate", "lag"})


def narrow_history(rows: Sequence[Mapping[str, Any]], zone: tzinfo | None) -> Lines:
    """Return the same for a narrow terminal: each sentence stands below its row, in all of its columns."""
    table = history(rows, zone, sentences=False)
    cells = [[str(c.header) for c in table.columns], *zip(*([str(x) for x in c.cells] for c in table.columns), strict=True)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(_aligned(x, w, c.justify) for x, w, c in zip(row, widths, table.columns, strict=True)) for row in cells]
    parts: list[RenderableType] = [Text(lines[0], style="bold")]
    for r, line in zip(rows, lines[1:], strict=True):
        style = "" if r["acted"] else "dim"
        parts += [Text(line, style=style), Padding(Text(r["detail"], style=style), (0, 0, 0, widths[0] + 2))]
    return Lines(*parts)


def _aligned(text: str, width: int, justify: str) -> str:
    return text.rjust(width) if justify == "right" else text.ljust(width)


def history(rows: Sequence[Mapping[str, Any]], zone: tzinfo | None = UTC, *, sentences: bool = True) -> Table:
    """Return the rows of the view ``history``, oldest first, as a table: one line per action and per spell of doing nothing.

    Times are those of ``zone``, ``None``: of this machine.
    """
    several = len({r["group"] for r in rows}) > 1
    times = [r["at"].astimezone(zone) for r in rows]
    days = len({t.date() for t in times}) > 1
    out = Table(title="Decisions", title_justify="left", box=None, padding=(0, 1), pad_edge=False)
    zones = "/".join(dict.fromkeys(zone_name(t) for t in times)) or "UTC"
    narrow = (f"at ({zones})", "for", "consumers", "rate", "lag", "done", "reason")  # the longest last, where it can go on below
    wide = (*narrow[:3], "reason", "done", "rate", "lag", "why")
    for name in wide if sentences else narrow:
        out.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=name not in {"reason", "why"})
    for r, at in zip(rows, times, strict=True):
        why = f"{r['group']}: {r['detail']}" if several else r["detail"]
        reason = r["reason"] + (f" ({r['limited_by']})" if r["limited_by"] else "")
        when = f"{at:%m-%d %H:%M:%S}" if days else f"{at:%H:%M:%S}"
        spell = "" if r["acted"] else lasted((r["until"] - r["at"]).total_seconds())
        load = (rate(r["bytes_per_s"]), "?" if r["lag_records"] is None else f"{r['lag_records']:,}")
        done = (reason, _done(r), *load, why) if sentences else (*load, _done(r), reason)
        out.add_row(when, spell, _consumers(r), *done, style="" if r["acted"] else "dim")
    return out


def as_json(group: str, since: datetime, until: datetime, spells: Sequence["Spell"], health: "Health") -> str:
    """Return a group's spells, and how its job is, as JSON, with times in UTC."""
    times = {"since": since.isoformat(), "until": until.isoformat()}
    values = {"group": group, **times, "job": health.as_values(), "decisions": [asdict(s) for s in spells]}
    return json.dumps(values, indent=2, ensure_ascii=False, default=written) + "\n"


def written(value: object) -> object:
    """Return a value as JSON has it that is none of its own: a time in UTC, anything else as text."""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


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


def _consumers(r: Mapping[str, Any]) -> str:
    if r["mode"] != "advise":
        return consumers_text(r["observed_consumers"], requested=r["requested_consumers"])
    names = ("recommended", "recommended_age_s")
    return consumers_text(r["observed_consumers"], advised=r["advised_consumers"], **{n: r[n] for n in names})


def _done(r: Mapping[str, Any]) -> str:
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


def show(where: str, console: Console, *, sql: str | None, limit: int) -> None:
    """Open the tables in a place (``config.places``) with Spark and print the history, or the answer to ``sql``.

    Raises:
        AutoscalerError: There are no tables, or the query is wrong.
    """
    from autoscaler.adapters.audit.delta_audit import is_table, register_views, small_session  # noqa: PLC0415  loads Spark
    from autoscaler.adapters.audit.place import TablesPlace  # noqa: PLC0415

    place = TablesPlace.of(where)
    absent = SettingsError((f"tables: no tables in {where}; the job makes them with its first decision",))
    if place.local is not None and not place.local.is_dir():
        raise absent  # without waiting for Spark
    spark = small_session("history", where)
    if not is_table(spark, place, "decisions"):
        raise absent
    register_views(spark, where)
    if sql is not None:
        found = spark.sql(sql).limit(limit).toArrow()
        console.print(answer(found.to_pylist(), found.column_names))
        return
    rows = spark.sql(_HISTORY.format(limit=limit)).toArrow().to_pylist()
    console.print(history(rows[::-1]))
    for line in cost(spark.sql(_COST).toArrow().to_pylist()):
        console.print(line)
