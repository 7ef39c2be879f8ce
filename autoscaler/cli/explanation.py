"""Why a group had the number of consumers that it had at a time, and what speaks against one fewer and one more.

``autoscaler explain``: reads the record of one decision and says what was measured, wanted, decided and done. The other numbers
are judged by the recorded loads with the planner itself (``core.why_not``); where the record does not say enough,
that is said. Every sentence about the decision is one of ``core.messages``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from rich.console import Group as Lines
from rich.table import Table
from rich.text import Text

from autoscaler.adapters.audit.decision_reader import Row
from autoscaler.adapters.audit.inputs import unpack_inputs
from autoscaler.adapters.audit.rows import snapshot_of
from autoscaler.adapters.decided import decided_of
from autoscaler.cli.decision_history import written
from autoscaler.cli.times import shown
from autoscaler.console.cycle_reader import Step
from autoscaler.console.group_view import health_text, reason_style, short_steps
from autoscaler.console.words import count, lasted, rate
from autoscaler.core.assignors.group_model import NativeGroup
from autoscaler.core.assignors.group_reader import Unpredictable, read_group
from autoscaler.core.load.backlog import backlog_told, needed_of
from autoscaler.core.messages import many, text_of
from autoscaler.core.sizing.native_outlook import leaving
from autoscaler.core.why_not import Decided, WhyNot, why_not
from autoscaler.model import Finding, Observation, PartitionLoad, TopicPartition
from autoscaler.model.names import client_of
from autoscaler.model.reasons import RateSource

if TYPE_CHECKING:
    from autoscaler.config.policy import Policy
    from autoscaler.console.job_state import Health

_LATE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One decision, explained.

    Attributes:
        row: Its row of ``decisions``.
        outcomes: What it set out to do and what became of it, as rows of ``actions``.
        asked_at: The time that was asked for.
        why_not: What one consumer fewer and one more would have meant.
        settings: What the configuration says of the record: ``same``, ``changed`` since, or ``unknown``.
    """

    row: Row
    outcomes: tuple[Row, ...]
    asked_at: datetime
    why_not: WhyNot
    settings: str

    @property
    def consumers(self) -> int | None:
        """Return the number that others are compared with: asked for, advised, or there."""
        return self.why_not.decided.consumers

    @property
    def hottest(self) -> Mapping[str, Any] | None:
        """Return the member with the highest rate, as its row has it."""
        known = [m for m in self.row["members"] or () if m["bytes_per_s"] is not None]
        return max(known, key=lambda m: m["bytes_per_s"], default=None)

    @property
    def outcome(self) -> Row | None:
        """Return what became of it; ``None`` where nothing was done, or that is not recorded."""
        return next((o for o in reversed(self.outcomes) if o["phase"] == "outcome"), None)


def explained(
    row: Row, outcomes: tuple[Row, ...], asked_at: datetime, policy: "Policy | None", measured: Row | None = None
) -> Explanation:
    """Return a decision explained.

    Args:
        row: Of ``decisions``.
        outcomes: Of ``actions``.
        asked_at: The time that was asked for.
        policy: What the group's settings are now; ``None``: not known.
        measured: Of ``loads``; ``None``: there is none.
    """
    same = policy is not None and policy.fingerprint == row["policy_fingerprint"]
    settings = "unknown" if policy is None else "same" if same else "changed"
    found = why_not(row_decided(row, policy if same else None, measured))
    return Explanation(row=row, outcomes=outcomes, asked_at=asked_at, why_not=found, settings=settings)


def row_decided(row: Row, policy: "Policy | None", measured: Row | None = None) -> Decided:
    """Return what a whole row of ``decisions`` has of its decision.

    Args:
        row: It.
        policy: The settings that it was made with, if known.
        measured: The row of ``loads`` of the same cycle, if it is there: it has the members of a group on Kafka's own membership.
    """
    loads = row["loads"] or ()
    by_assignor = _by_assignor(row, policy)
    told = backlog_told((f["what"], dict(f["numbers"])) for f in row["findings"] or ())
    return decided_of(
        row,
        {TopicPartition(topic=x["topic"], partition=x["partition"]): x["bytes_per_s"] for x in loads},
        {TopicPartition(topic=x["topic"], partition=x["partition"]): x["owner"] for x in row["assignment_before"] or ()},
        by_assignor=by_assignor,
        tolerance_ratio=None if policy is None else policy.tolerance_ratio,
        needed=needed_of(told, map(load_of, loads)),
        group=_dealt_out(row, measured) if by_assignor else None,
    )


def load_of(x: Mapping[str, Any]) -> PartitionLoad:
    """Return a partition of a row of ``decisions`` as it was measured, as far as the row has it."""
    names = ("bytes_per_s", "records_per_s", "lag_records", "lag_bytes", "lag_s", "known", "age_s", "error")
    return PartitionLoad(
        **{name: x[name] for name in names},
        partition=TopicPartition(topic=x["topic"], partition=x["partition"]),
        topic_id="", committed=None, log_start=None, log_end=None, window_s=0.0, rate_source=RateSource(x["rate_source"]),
    )  # fmt: skip


def _dealt_out(row: Row, measured: Row | None) -> NativeGroup | Unpredictable | None:
    """Return the group as its assignor saw it; ``None`` where that was not recorded, or by another release."""
    seen = observed(measured)
    if seen is None or seen.members is None:
        return None
    ids = {x.partition.topic: x.topic_id for x in seen.snapshot.loads if x.topic_id}
    return read_group(seen.members, [x.partition for x in seen.snapshot.loads], ids, leaving(seen.members, row["group"]))


def observed(measured: Row | None) -> Observation | None:
    """Return what a cycle was decided from, by its row of ``loads``; ``None``: not recorded, or in a way of another release."""
    if measured is None or measured["inputs"] is None:
        return None
    try:
        return unpack_inputs(measured["inputs"], snapshot_of(measured)).observation
    except ValueError:
        return None


def _by_assignor(row: Row, policy: "Policy | None") -> bool | None:
    """Say whether an assignor of Kafka's places the group, as far as the record and the settings of then tell."""
    if policy is not None and policy.assignment == "managed":
        return False
    holders = {x["owner"] for x in row["assignment_before"] or ()}
    if holders and all(x.isdecimal() for x in holders):
        return False  # a slot is given to what takes its partitions from here
    named = any("assignor" in dict(f["texts"] or ()) for f in row["findings"] or ())
    return True if policy is not None or named else None


def drawn(e: Explanation, zone: tzinfo | None, health: "Health") -> Lines:
    """Return an explanation for people."""
    row = e.row
    late_s = (e.asked_at - row["at"]).total_seconds()
    late = f", {lasted(late_s)} before the time asked for" if late_s >= _LATE_S else ""
    title = Text.assemble((row["group"], "bold"), (f" ({row['mode']})", "cyan"), f", decided at {shown(row['at'], zone)}{late}")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1)
    for name, text in _lines(e):
        table.add_row(name, text)
    return Lines(*([health_text(health)] if health.text else []), title, Text(), table)


def _lines(e: Explanation) -> list[tuple[str, Text | str]]:
    row = e.row
    reason = Text.assemble((row["reason"], reason_style(row["reason"])), f"  {row['detail'] or ''}")
    lines: list[tuple[str, Text | str]] = [("measured", _measured(row)), ("consumers", _consumers(row))]
    if (hottest := e.hottest) is not None:
        lines.append(("hottest", f"{called(row, hottest['member'])} with {_filled(row, hottest)}"))
    lines.append(("decided", reason))
    if row["limited_by"]:
        lines.append(("limited by", Text(row["limited_by"], style="yellow")))
    lines += [("done", _done(e)), ("what to do", _help(row))]
    if e.consumers is None:
        return [*lines, ("other numbers", "how many were asked for is not known: there is none to compare with")]
    against = {which: e.why_not.said(which, _UNJUDGED.get(e.settings, "")) or "" for which in ("fewer", "more")}
    if against["fewer"]:
        lines.append((f"why not {e.consumers - 1}", against["fewer"]))
    return [*lines, (f"why not {e.consumers + 1}", against["more"])]


def _help(row: Row) -> str:
    """Return where the documentation says what the reasons mean and what an operator can do."""
    anchors = dict.fromkeys(x.lower() for x in (row["limited_by"], row["reason"]) if x)
    return f"docs/reference/reasons.md: {', '.join(f'#{a}' for a in anchors)}"


def _measured(row: Row) -> str:
    if row["recovered"]:
        return "not recorded: the job ended before it wrote this row, which was made from the plan"
    loads = row["loads"] or ()
    unknown = sum(not x["known"] for x in loads)
    partly = f", {unknown} of them not known" if unknown else ""
    failed = f"; {row['error']}" if row["error"] else ""
    lag = row["total_lag_records"]
    behind = f"{count(lag)} record{'' if lag == 1 else 's'} behind"
    return f"{rate(row['total_bytes_per_s'])} on {many(len(loads), 'partition')}{partly}, {behind}{failed}"


def _consumers(row: Row) -> str:
    asked = "advised" if row["mode"] == "advise" else "asked for"
    takes = f"the load takes {count(row['recommended'])}, no placement fewer than {count(row['lower_bound'])}"
    return f"{count(row['consumers_now'])} there, {count(row['consumers'])} {asked}; {takes}"


def called(row: Row, member: str) -> str:
    """Return what people know a consumer by: its slot, or its client id and host, as far as the record has them."""
    if member.isdecimal():
        return member
    said = (dict(f["texts"] or ()).get("member") for f in row["findings"] or ())
    return next((x for x in said if x), client_of(member))


def _filled(row: Row, hottest: Mapping[str, Any]) -> str:
    share = row["usable_bytes_per_s"] / row["capacity_bytes_per_s"] if row["capacity_bytes_per_s"] else 0.0
    can = hottest["capacity_bytes_per_s"] or row["capacity_bytes_per_s"]
    source = (row["capacity_source"] or "").lower()
    usable = f"{rate(can * share)} usable ({share:.0%} of {rate(can)}{', ' + source if source else ''})"
    return f"{rate(hottest['bytes_per_s'])} of {usable}, {many(len(hottest['partitions']), 'partition')}"


def _done(e: Explanation) -> str:
    row = e.row
    steps = short_steps([Step.model_validate(s) for s in row["steps"] or ()])
    if not row["acted"]:
        return f"nothing; it would be: {steps}" if steps else "nothing"
    outcome = e.outcome
    if outcome is None:
        return f"{steps or 'a new plan'}; what became of it is not recorded"
    plan = f", plan {outcome['epoch']}" if outcome["epoch"] is not None else ""
    failed = f": {outcome['error']}" if outcome["error"] else ""
    return f"{steps or 'a new plan'}: {outcome['status']}{plan}{failed}"


_UNJUDGED = {"unknown": "give the configuration (--config)", "changed": "the group's settings have changed since"}


def unjudged(policy: "Policy | None") -> str:
    """Return why the settings that a decision was made with are not known; ``policy``: as they are now, if that is known."""
    return _UNJUDGED["unknown" if policy is None else "changed"]


def as_json(e: Explanation, health: "Health") -> str:
    """Return an explanation as JSON: the recorded row, and what was found of the two other numbers."""
    values = {
        "job": health.as_values(),
        "asked_at": e.asked_at,
        "decision": {k: v for k, v in e.row.items() if k != "date"},
        "outcomes": e.outcomes,
        "settings": e.settings,
        "compared_with": e.consumers,
        "fewer": _as_values(e.why_not.fewer, None if e.consumers is None else e.consumers - 1),
        "more": _as_values(e.why_not.more, None if e.consumers is None else e.consumers + 1),
    }
    return json.dumps(values, indent=2, ensure_ascii=False, default=written) + "\n"


def _as_values(findings: Sequence[Finding], consumers: int | None) -> Mapping[str, object]:
    found = [{"what": f.what.value, "numbers": dict(f.numbers), "partitions": [str(p) for p in f.partitions]} for f in findings]
    return {"consumers": consumers, "findings": found, "text": text_of(tuple(findings))}
