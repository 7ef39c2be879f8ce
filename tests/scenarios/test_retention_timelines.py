"""Timelines of records that are about to be deleted before they are read: what gives way to that, and what does not."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.scaling_effectiveness import Drained
from autoscaler.model import Decision, PartitionLoad, Reason, Retention, TopicPartition
from autoscaler.model.findings import What
from tests.builders import T0, TOPIC, load, policy, rates, says, tp
from tests.scenarios.world import World, moves, reasons, scalings

EVEN = rates(*[20.0] * 16)  # 320 bytes/s: exactly four consumers of 80
RECORD = 10.0  # bytes
KEPT_S = 1000.0  # so that a hundred seconds before the end records are at risk however fast they are read
LATE = dict.fromkeys(map(tp, range(4)), 920.0)  # seconds behind
KEPT = {TOPIC: Retention(seconds=KEPT_S, bytes=math.inf)}


@dataclass(slots=True, kw_only=True)
class Reading(World):
    """A world in which consumers work off what is there, as fast as they can and what they hold allows.

    Attributes:
        unread: Bytes of every partition that is behind.
        able: Bytes/s that one consumer really reads.
    """

    unread: dict[TopicPartition, float] = field(default_factory=dict)
    able: float = 100.0

    def fall_behind(self, by_s: Mapping[TopicPartition, float]) -> None:
        self.unread |= {p: s * self.traffic(self.t)[p] for p, s in by_s.items()}

    def _consume(self) -> None:
        flows = self.traffic(self.t)
        self.unread = {p: self.unread.get(p, 0.0) + rate for p, rate in flows.items()}
        for worker in self.workers.values():
            left = self.able
            for p in sorted(worker.owned & flows.keys(), key=lambda p: (self.unread[p], p)):
                if p not in self.stuck(self.t):
                    share = left if p == max(worker.owned, key=lambda q: (self.unread.get(q, 0.0), q)) else flows[p]
                    read = min(self.unread[p], share, left)
                    self.unread[p], left = self.unread[p] - read, left - read

    def _fresh(self, partition: TopicPartition, rate: float) -> PartitionLoad:
        left = self.unread.get(partition, 0.0)
        end = int((self.t * rate + 1e6) / RECORD)
        lag = int(left / RECORD)
        return load(
            partition, rate, lag_records=lag, lag_bytes=left, lag_s=left / rate if rate else None, log_end=end,
            committed=end - lag, known=True,
        )  # fmt: skip


def quick(**changes: object) -> Policy:
    return policy(**{"shrink_stabilisation_s": 30, "shrink_cooldown_s": 20, **changes})


def at_rest(rules: Policy, load: Mapping[TopicPartition, float] = EVEN, **changes: object) -> Reading:
    """Return a group that has read everything for a minute."""
    made: dict[str, object] = {"traffic": lambda _: load, "retention": lambda _: KEPT, **changes}
    world = Reading(policy=rules, **made)  # type: ignore[arg-type]
    world.run(60)
    assert not [d for d in world.decisions[20:] if d.actions]
    return world


def late(rules: Policy, **changes: object) -> Reading:
    """Return a group four of whose partitions are so late that records are deleted in 80 s."""
    world = at_rest(rules, EVEN, **changes)
    world.fall_behind(LATE)
    return world


def at_risk(decisions: list[Decision]) -> list[Decision]:
    return [d for d in decisions if d.reason is Reason.RETENTION_AT_RISK]


SLOW = {"grow_stabilisation_s": 1000, "cooldown_s": 1000, "grow_step": 1, "move_payback_s": 0.001, "move_pause_s": 1000}


@pytest.mark.parametrize("changes", [{}, SLOW], ids=["nothing in the way", "every soft guard in the way"])
def test_it_grows_at_once_by_as_many_as_read_it_in_time_whatever_only_prefers_to_wait(changes: Mapping[str, object]) -> None:
    world = late(quick(**changes))
    first = world.step()
    assert (first.reason, first.consumers) == (Reason.RETENTION_AT_RISK, 7), "four times 80 and twelve times 20 of 80 each"
    assert set(first.hot) == set(LATE)
    assert says(first, What.RETENTION_RISK, partitions=tuple(LATE), loss_s=80)
    assert "close_s" not in first.findings[0].numbers
    world.run(120)
    assert all(world.unread[p] < KEPT_S * 20 for p in LATE), "and nothing was deleted"
    assert scalings([first, *world.decisions[61:]]) == [], "in one step"


def test_growth_that_was_in_vain_is_tried_again() -> None:
    world = late(quick(give_up_after=1))
    world.history = replace(world.history, drained=Drained(in_vain=3, level=1e9))
    assert world.step().consumers == 7


def test_what_moves_at_the_same_number_waits_for_no_cool_down() -> None:
    """One consumer holds all that is late; the others have room."""
    world = at_rest(quick(pinned=7, cooldown_s=1000))
    mine = [p for p, slot in world.owner.items() if slot == 0]
    world.history = replace(world.history, last_move_at=T0 + world.t)
    world.fall_behind(dict.fromkeys(mine, 920.0))
    after = world.run(20)
    assert len(mine) > 1
    assert moves(after), "the first of them at once"
    assert {d.reason for d in after if moves([d])} == {Reason.RETENTION_AT_RISK}


def test_when_consumers_do_not_come_the_others_share_it_without_a_cool_down() -> None:
    world = at_rest(quick(cooldown_s=1000, worker_start_timeout_s=5))
    world.never = set(range(4, 16))
    mine = [p for p, slot in world.owner.items() if slot == 0]
    world.fall_behind(dict.fromkeys(mine, 980.0))
    world.history = replace(world.history, last_move_at=T0 + world.t)
    after = world.run(8)
    assert {d.reason for d in after if moves([d])} == {Reason.RETENTION_AT_RISK}


def test_records_that_are_being_deleted_already_are_no_reason_to_stop() -> None:
    """No rate would read them in time."""
    world = at_rest(quick())
    world.fall_behind(dict.fromkeys(LATE, 1100.0))
    first = world.step()
    assert (first.reason, first.consumers) == (Reason.RETENTION_AT_RISK, 7)
    assert says(first, What.RETENTION_RISK, loss_s=0)


def test_it_ends_when_the_backlog_is_gone() -> None:
    world = late(quick())
    after = world.run(700)
    assert after[0].reason is Reason.RETENTION_AT_RISK
    assert max(world.unread.values()) < 20.0 * 5
    assert after[-1].reason is Reason.WITHIN_TARGET
    assert not says(after[-1], What.RETENTION_RISK)
    assert scalings(after) == [6], "and the group comes down to what is calm"
    first, last = (d.at for d in (at_risk(after)[0], at_risk(after)[-1]))
    assert not [d for d in after if d.reason is Reason.UNDERUSED and d.actions and first <= d.at <= last]


def test_a_backlog_that_is_not_gained_on_is_at_risk_long_before_its_last_tenth() -> None:
    """Consumers read no more than arrives: 700 s behind of 1000 s that stays so for ever, unless somebody helps."""
    world = at_rest(quick())
    world.able = 80.0
    world.fall_behind(dict.fromkeys(LATE, 700.0))
    before = world.run(30)
    assert at_risk(before) == [], "nobody knows yet how fast it is read"
    after = world.step()
    assert after.reason is Reason.RETENTION_AT_RISK
    assert says(after, What.RETENTION_RISK, close_s=math.inf)
    assert after.consumers > 4


def test_a_small_lag_that_stays_is_no_risk() -> None:
    world = at_rest(quick())
    world.able = 80.0
    world.fall_behind(dict.fromkeys(LATE, 50.0))
    assert at_risk(world.run(200)) == []
    assert scalings(world.decisions[59:]) == []


NOT_AT_RISK: Mapping[str, tuple[Mapping[str, Retention], Mapping[str, object]]] = {
    "unknown": ({}, {}),
    "of another topic": ({"payments": Retention(seconds=1.0, bytes=1.0)}, {}),
    "without end, or only compacted": ({TOPIC: Retention(seconds=math.inf, bytes=math.inf)}, {}),
    "long enough": ({TOPIC: Retention(seconds=1e6, bytes=1e9)}, {}),
    "not asked for": (KEPT, {"retention_risk_s": None}),
}


@pytest.mark.parametrize("why", NOT_AT_RISK)
def test_without_a_limit_that_is_known_nothing_is_at_risk(why: str) -> None:
    kept, changes = NOT_AT_RISK[why]
    world = late(quick(**changes), retention=lambda _: kept)
    after = world.run(100)
    assert at_risk(after) == []
    assert scalings([world.decisions[59], *after]) == []


def test_retention_by_size_counts_as_well() -> None:
    world = at_rest(quick(), retention=lambda _: {TOPIC: Retention(seconds=math.inf, bytes=20_000.0)})
    world.fall_behind(LATE)  # 18,400 bytes each: 80 s until the first is beyond the rest
    assert (world.step().reason, world.decisions[-1].consumers) == (Reason.RETENTION_AT_RISK, 7)


# --- what does not give way ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "limit", "said", "consumers"),
    [
        ({"max_consumers": 5}, Reason.AT_MAXIMUM, (What.TAKES_MORE, {"wanted": 7, "setting": "max_consumers"}), 5),
        ({"max_consumers": 4}, Reason.AT_MAXIMUM, (What.TAKES_MORE, {"setting": "max_consumers"}), 4),
        ({"paused": "scale_up"}, Reason.PAUSED, (What.PAUSED, {"paused": "scale_up"}), 4),
        ({"pinned": 4}, Reason.PINNED, (What.TAKES_MORE, {"setting": "holds.pinned"}), 4),
        ({"windows": [{"cron": "0 22 * * *", "duration_min": 60, "paused": "scale_up"}]}, Reason.FROZEN, (What.FROZEN, {}), 4),
    ],
)
def test_what_is_hard_holds_and_is_said(
    changes: dict[str, object], limit: Reason, said: tuple[What, dict[str, object]], consumers: int
) -> None:
    world = at_rest(quick())
    world.fall_behind(dict.fromkeys(LATE, 990.0))
    world.policy = quick(**changes)
    after = world.run(20)
    assert {d.consumers for d in after} == {consumers}
    assert {d.reason for d in after} <= {Reason.RETENTION_AT_RISK, Reason.HANDOVER_IN_PROGRESS}
    assert (after[-1].reason, after[-1].limited_by) == (Reason.RETENTION_AT_RISK, limit)
    assert says(after[-1], said[0], **said[1])


def test_a_group_that_is_paused_does_nothing_and_says_what_is_lost() -> None:
    world = late(quick())
    world.policy = quick(paused="all")
    after = world.run(40)
    assert not [d for d in after if d.actions]
    assert {(d.reason, d.limited_by) for d in after} == {(Reason.RETENTION_AT_RISK, Reason.PAUSED)}
    assert says(after[-1], What.RETENTION_RISK)


def test_it_never_asks_for_more_consumers_than_partitions() -> None:
    world = at_rest(quick(), rates(*[75.0] * 3))
    world.fall_behind(dict.fromkeys(map(tp, range(3)), 920.0))
    after = world.run(30)
    assert {d.consumers for d in after} == {3}
    assert {d.reason for d in after} == {Reason.RETENTION_AT_RISK}
    assert says(after[-1], What.BEYOND_ONE_CONSUMER, usable_bytes_per_s=80)


def test_nobody_is_taken_away_meanwhile() -> None:
    """Nearly nothing arrives any more and consumers are slow: one would do for the rate."""
    falls = {p: r * (0.05 if p in LATE else 0.1) for p, r in EVEN.items()}
    world = at_rest(quick(backlog_s=1e6), traffic=lambda t: EVEN if t < 60 else falls)
    world.able = 2.0
    world.unread |= dict.fromkeys(LATE, 920.0)
    after = world.run(60)
    assert scalings([world.decisions[59], *after]) == []
    held = [d for d in after if d.limited_by is Reason.RETENTION_AT_RISK]
    assert [d.reason for d in held[-1:]] == [Reason.UNDERUSED]
    assert says(held[-1], What.MAY_LOSE)
    world.able, world.unread = 100.0, {}
    assert scalings([after[-1], *world.run(100)]) == [1]


def test_a_lowered_maximum_is_come_down_to_all_the_same() -> None:
    world = late(quick())
    world.policy = quick(max_consumers=2)
    assert (world.step().reason, world.decisions[-1].consumers) == (Reason.AT_MAXIMUM, 2)
    assert says(world.decisions[-1], What.RETENTION_RISK)


def test_a_partition_that_stands_still_causes_nothing() -> None:
    world = at_rest(
        quick(stuck_after_s=20), stuck=lambda t: {tp(3)} if t >= 60 else (),
        retention=lambda _: {TOPIC: Retention(seconds=200.0, bytes=math.inf)},
    )  # fmt: skip
    after = world.run(300)
    assert world.unread[tp(3)] > 200 * 20, "its records are deleted"
    assert at_risk(after) == []
    assert reasons(after)[-1] is Reason.STUCK_PARTITION
    assert max(d.consumers for d in after) == 4


def test_what_is_unknown_for_a_moment_is_not_acted_on_and_not_forgotten() -> None:
    world = at_rest(quick(), dark=lambda t: EVEN.keys() if 75 <= t < 77 else ())
    world.able = 80.0
    world.fall_behind(dict.fromkeys(LATE, 700.0))
    assert at_risk(world.run(30)) == []
    assert world.step().reason is Reason.RETENTION_AT_RISK, "half a minute after it fell behind, dark or not"


def test_a_retention_that_cannot_be_read_any_more_is_not_acted_on_and_what_was_asked_for_stays() -> None:
    world = late(quick(max_consumers=5), retention=lambda t: KEPT if t < 65 else {})
    seen, unseen = world.run(5), world.run(60)
    assert {d.reason for d in seen} == {Reason.RETENTION_AT_RISK}
    assert at_risk(unseen) == []
    assert scalings([*seen, *unseen]) == []
    assert not [d for d in unseen if says(d, What.RETENTION_RISK)]


# --- other ways to size ----------------------------------------------------------------------------------------------


def test_a_published_policy_does_as_printed_and_the_decision_says_what_is_lost() -> None:
    rules = quick(sizing="LINEAR", target_utilisation=1.0)
    world = Reading(policy=rules, traffic=lambda _: EVEN, retention=lambda _: KEPT)
    world.run(60)
    world.fall_behind(LATE)
    last = world.run(30)[-1]
    assert last.reason is Reason.RETENTION_AT_RISK
    assert says(last, What.RETENTION_RISK)
    assert scalings(world.decisions[59:]) == []
