"""Rules of a native group whose members take their partitions from a placement: when what Kafka says can be decided by.

What is then decided, and by which rules, is as in a managed group: see ``decide``.
"""

from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.rules.native import hold, settle, waited
from autoscaler.model import Finding, Reason
from autoscaler.model.findings import What


def settle_members(cycle: Cycle) -> Step | None:
    """Wait until members and the consumers that run here are the same ones, and those whom the placement names are there.

    One that is gone comes back under its name and gets what it held, in the same rebalance in which it joins. After
    ``worker_start_timeout_s`` the others go on without it; a member too many is waited for as long as it stays.
    """
    started = cycle.kind.started
    if started is None or started.requested is None:
        return settle(cycle)
    here = [started.slots.get(m.member_id) for m in cycle.kind.listed]
    if len(here) == len(started.running) and cycle.outlook is not None and cycle.outlook.group is not None:
        return None  # no member comes or goes: what is wrong with their names or subscriptions is said by another rule
    if len(set(here)) < len(here) or not set(here) <= started.running or started.leaving:
        return hold(cycle, Finding.of(What.UNTIL_NAMES))
    if not cycle.present.orphans or waited(cycle) > cycle.policy.worker_start_timeout_s:
        return None
    orphans = frozenset(cycle.present.orphans)
    away = sorted({slot for p, slot in (started.placement or {}).items() if p in orphans})
    return hold(cycle, Finding.of(What.UNTIL_RETURN, consumers=away))


def follow(cycle: Cycle) -> Step | None:
    """Let members take what they were told to before they are told anything else: one rebalance per decision."""
    pending = cycle.present.pending
    if not pending:
        return None
    lasted, limit_s = waited(cycle), cycle.policy.worker_start_timeout_s
    waits = Step(
        reason=Reason.HANDOVER_IN_PROGRESS,
        findings=(Finding.of(What.PLACEMENT_PENDING, partitions=pending),),
        waiting=True,
        inert=True,
    )
    if lasted <= limit_s:
        return waits
    ignored = Finding.of(What.PLACEMENT_IGNORED, lasted_s=lasted, limit_s=limit_s)
    return replace(waits.saying(ignored), reason=Reason.GROUP_DIFFERS)
