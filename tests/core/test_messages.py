"""The words of every finding, each said at least once: the only tests that assert wording."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from autoscaler.config.policy import Policy
from autoscaler.config.setting_paths import path_of
from autoscaler.core import messages
from autoscaler.core.messages import in_words, text_of
from autoscaler.model import Finding
from autoscaler.model.findings import What
from tests.builders import tp

MANY = [tp(n) for n in range(7)]
ONE = [tp(3)]


def found(what: What, *, partitions: int = 0, consumers: int = 0, **values: float | str | Sequence[str] | None) -> Finding:
    return Finding.of(what, partitions=MANY[:partitions], consumers=list(range(consumers)), numbers={}, **values)


SAID: dict[What, tuple[Finding, str]] = {
    f.what: (f, said)
    for f, said in [
        (found(What.BALANCING, actions=1, before=33.4, after=100.0), "1 action: balancedness 33 → 100 of 100"),
        (found(What.UNDER_REPLICATED, partitions=1), "nothing is begun while replicas are out of sync: 1 partition (orders-0)"),
        (
            found(What.REASSIGNED_ELSEWHERE, partitions=1),
            "another tool reassigns 1 partition (orders-0): nothing is begun meanwhile",
        ),
        (found(What.CONSUMERS_MOVE, partitions=1), "1 partition (orders-0) wait until their consumers have been handed over"),
        (
            found(What.THROTTLE_KEPT, settings=["broker 1 x"]),
            "throttles that another tool has set are left as they are: broker 1 x",
        ),
        (
            found(What.BATCH_WAITS, partitions=1, brokers=["3"], waited_s=600),
            (
                "1 partition (orders-0) have not got on for 10 min, for want of brokers that do not answer or are not in "
                "sync: 3; start them, or end the batch: jobs/balance_brokers.py --cancel"
            ),
        ),
        (
            found(What.BEGUN_BEFORE, partitions=1, throttled=["broker 1", "topic orders"]),
            (
                "a job in mode act has begun and not ended: to move 1 partition (orders-0), and to throttle broker 1, topic "
                "orders; if it no longer runs, jobs/balance_brokers.py --cancel puts back what copies and takes the throttle away"
            ),
        ),
        (
            found(What.THROTTLE_LEFT, brokers=["2", "3"]),
            "the throttle of brokers that do not answer is taken away when they are back: 2, 3",
        ),
        (
            found(What.BALANCE_ESTIMATE, leaderships=2, replicas=3, copied_mb=5000, least_s=100),
            "2 leaderships and 3 replicas move, 5000 MB are copied in 100 s at least",
        ),
        (found(What.BROKERS_BALANCED), "every broker is in its bands"),
        (
            found(What.OUTSIDE_NOT_LONG, goals=["bytes_in", "lag"], brokers=["1", "4"], rounds=2),
            "outside the band or above the limit of bytes_in, lag for 2 cycles so far: brokers 1, 4",
        ),
        (
            found(What.NO_ACTION_HELPS, goals=["lag"], brokers=["1"]),
            "outside the band or above the limit of lag, and no action makes it better: brokers 1",
        ),
        (found(What.BALANCE_REFUSED, worse=["storage"]), "the plan is not carried out, because it would make worse: storage"),
        (
            found(What.REST_BALANCED, brokers=3, counted=1),
            "only 1 of 3 brokers could be judged: none of these is outside its bands",
        ),
        (
            found(What.BROKERS_OFFLINE, brokers=["1", "2"]),
            "too many brokers are offline (1, 2): nothing is moved until they are back",
        ),
        (found(What.BROKERS_AWAY, brokers=["2"]), "no part is taken, because they are offline, by brokers 2"),
        (
            found(What.BROKERS_SLOW, brokers=["2"]),
            "brokers 2 have answered slowly for some looks (slow_after): they may give, and get nothing",
        ),
        (
            found(What.BROKERS_NOT_MEASURED, partitions=1, brokers=["2"]),
            (
                "rates or sizes are unknown or out of date of 1 partition (orders-0): brokers 2, which hold them, take no part; "
                "look whether each has a leader, and at errors of the measurement"
            ),
        ),
        (
            found(What.NO_RATES_YET),
            "nothing is planned, as no rates are measured yet; if this stays, look at errors of the measurement",
        ),
        (found(What.BROKERS_SETTLE, brokers=["2"]), "no part is taken, until what was moved is measured, by brokers 2"),
        (
            found(What.GOAL_LEFT_OUT, goal="storage", lacks=["size_bytes"]),
            "storage is neither balanced nor limited: size_bytes is not known",
        ),
        (
            found(What.BROKER_FULL, goal="storage", broker=3, load_bytes=9e9, most_bytes=8.5e9),
            "broker 3 has no room for replicas: it stores 9 GB, and its disk (disk_ratio) or limits leave it 8.5 GB",
        ),
        (
            found(What.BROKERS_MISSING, missing=2, goals=["storage"]),
            ("all brokers that stay have less room for storage (disk_ratio, limits) than there is: add 2 brokers, or raise them"),
        ),
        (found(What.BROKER_LOADS, broker=3, leaders=3, leaders_mean=3.5), "the loads of broker 3 by goal"),
        (
            found(What.BROKER_NOT_EMPTIED, partitions=1, broker=3, why="away"),
            "broker 3 is not emptied of 1 partition (orders-0): the brokers that could hold them take no part now",
        ),
        (
            found(What.LEAVING_ALL),
            "leaving names every broker, so none is left to move anything to: name those only that shall be emptied",
        ),
        (found(What.NONE_CAN_MOVE), "replicas should move, and none of them can"),
        (
            found(What.HELD_EVERYWHERE),
            "every broker holds a replica of every partition: only leaderships can move until a broker is added",
        ),
        (
            found(What.RACK_EMPTIED, partitions=1, brokers=["2", "5"]),
            "leaving empties a whole rack (brokers 2, 5): replicas share one of the others then, of 1 partition (orders-0)",
        ),
        (
            found(What.RACK_SHARED, partitions=1),
            "replicas of 1 partition (orders-0) share a rack although there are others, and none can be moved to another one",
        ),
        (
            found(What.TARGETS_AWAY, brokers=["4"]),
            "the rest of the plan is planned anew: brokers 4, which were to get something, take no part now",
        ),
        (
            found(What.LIMIT_IN_THE_WAY, goal="storage", broker=3, load_bytes=9e9, most_bytes=8.5e9),
            "the rest of the plan is planned anew: broker 3 would have 9 GB of storage, above the 8.5 GB that are left to it",
        ),
        (
            found(What.PLAN_WORSENS, worse=["lag"]),
            "the rest of the plan is planned anew: by what is measured now it would make worse: lag",
        ),
        (found(What.NAMES_NOTHING, setting="leaving", names=["7", "8"]), "leaving names what the cluster does not have: 7, 8"),
        (
            found(What.LEADERSHIP_MOVED, partitions=1, source=0, target=2, score=0.61, lag_before=0.5, lag_after=0.72),
            "orders-0: broker 2 leads in place of broker 0 (lag 0.5 → 0.72, score 0.61)",
        ),
        (
            found(
                What.LEADERSHIP_MOVED,
                partitions=1,
                source=0,
                target=2,
                score=0.61,
                why="leaders",
                source_load=9,
                target_load=2,
                low=4.5,
                high=5.5,
            ),
            (
                "orders-0: broker 2 leads in place of broker 0, because of leaders: 9 on broker 0, 2 on broker 2, "
                "where 4.5 to 5.5 are wanted (score 0.61)"
            ),
        ),
        (
            found(
                What.REPLICA_MOVED,
                partitions=1,
                source=0,
                target=2,
                score=0.5,
                leads=1,
                why="bytes_in",
                source_load_bytes_per_s=9e6,
                target_load_bytes_per_s=2e6,
                most_bytes_per_s=5e6,
            ),
            (
                "orders-0: the replica that leads moves from broker 0 to broker 2, because of bytes_in: 9 MB/s on broker 0, "
                "2 MB/s on broker 2, where broker 0 may have 5 MB/s (score 0.5)"
            ),
        ),
        (
            found(What.REPLICA_MOVED, partitions=1, source=0, target=2, score=0.48, why="leaving"),
            "orders-0: a replica moves from broker 0 to broker 2, because broker 0 is in leaving (score 0.48)",
        ),
        (
            found(What.REPLICA_MOVED, partitions=1, source=0, target=2, score=0.48, why="racks"),
            "orders-0: a replica moves from broker 0 to broker 2, because two replicas share a rack (score 0.48)",
        ),
        (
            found(What.REPLICA_MOVED, partitions=1, source=0, target=2, score=0.48, why="others"),
            "orders-0: a replica moves from broker 0 to broker 2, together with others (score 0.48)",
        ),
        (
            found(
                What.REPLICA_MOVED, partitions=1, source=0, target=2, score=0.61, next="orders-7", next_target=1, next_ratio=0.9
            ),
            "orders-0: a replica moves from broker 0 to broker 2 (score 0.61); next best orders-7 to broker 1, worth 90% of it",
        ),
        (found(What.FAILED, error="no broker answers"), "no broker answers"),
        (
            found(What.FOREIGN_MEMBERS, members=2, clients=["app"], hosts=["/10.0.0.1", "/10.0.0.2"]),
            "2 members subscribe with this group's id (client ids app; hosts /10.0.0.1, /10.0.0.2)",
        ),
        (found(What.MANAGED_WORKERS, workers=1, epoch=7), "1 managed worker of this group live and follow plan 7"),
        (found(What.MEMBERS_NOT_READ), "the group's members have not been read yet"),
        (found(What.MEMBERS_UNREADABLE, error="broker 3 is away"), "the group's members could not be read: broker 3 is away"),
        (found(What.NO_SUCH_GROUP, group="shop"), "no group 'shop' exists on this cluster: no consumer subscribes"),
        (found(What.REBALANCING, state="ASSIGNING"), "the group is rebalancing (ASSIGNING)"),
        (found(What.NO_PARTITIONS, topics="orders", error="it is gone"), "topics orders have no known partitions: it is gone"),
        (found(What.NOTHING_TO_CONSUME), "all partitions are parked"),
        (found(What.NO_RATES, listed=4), "none of 4 partitions has a rate yet: no read has failed"),
        (
            found(What.STALE, partitions=1, stale=1, listed=16, oldest_s=25, limit_s=10, error="broker 3 is away"),
            "1 of 16 partitions (orders-0) were measured 25 s ago, more than holds.stale_after 10 s: broker 3 is away",
        ),
        (
            found(What.APPLICATION_STILL, partitions=7, patience_s=300),
            "7 partitions (orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more) are held by live consumers",
        ),
        (
            found(
                What.FIRST_PLACEMENT,
                unplaced=8,
                total_bytes_per_s=1.25e6,
                needed=2,
                usable_bytes_per_s=8e5,
                usable_records_per_s=9,
            ),
            "8 partitions with 1.25 MB/s have no consumer yet and need 2 of 800 kB/s and 9 records/s each",
        ),
        (found(What.CONSUMER_LOST, partitions=2), "2 partitions (orders-0, orders-1) lost their consumer"),
        (found(What.PARTITIONS_ADDED, partitions=1), "1 partition (orders-0) are new or released again"),
        (found(What.TAKEN_OVER, consumers=1), "consumer 0 take them, nothing else moves"),
        (found(What.NO_TAKER, consumers=2), "no consumer can take them yet; waiting for consumers 0, 1"),
        (found(What.HANDOVER, partitions=1), "1 partition (orders-0) are changing hands"),
        (
            found(What.WITHIN_TARGET, total_bytes_per_s=300, live=4, hottest=1, load_bytes_per_s=80, usable_bytes_per_s=80),
            "300 B/s on 4 consumers, the hottest (1) with 80 B/s of 80 B/s usable",
        ),
        (
            found(What.OVERSIZED, partitions=1, limit_records_per_s=4, load_records_per_s=10),
            "1 partition (orders-0) are above the 4 records/s of one consumer: orders-0 has 10 records/s",
        ),
        (
            found(
                What.OVERLOADED,
                consumers=3,
                load_bytes_per_s=120,
                limit_bytes_per_s=88,
                total_bytes_per_s=300,
                needed=4,
                usable_bytes_per_s=80,
            ),
            "consumer 0 with 120 B/s and 2 more are above 88 B/s; 300 B/s in all take 4 consumers of 80 B/s",
        ),
        (found(What.TAKES_MORE, wanted=6, setting="max_consumers"), "it would be 6 without max_consumers"),
        (
            found(What.NO_BETTER, most=3, tolerance_ratio=0.1),
            "with 3 consumers at most, no other placement lowers the highest load by 10%",
        ),
        (
            found(What.UNDERUSED, total_bytes_per_s=90, enough=2, now=4, tolerance_ratio=0.1, assignor="range"),
            "90 B/s would fit on 2 of 4 consumers with 10% to spare under assignor range",
        ),
        (
            found(What.BELOW_MINIMUM, setting="min_consumers", least=4, holders=0, now=2),
            "min_consumers asks for 4, 0 hold partitions, 2 are requested",
        ),
        (found(What.ABOVE_MAXIMUM, now=6, setting="holds.pinned", most=4), "6 consumers are requested and holds.pinned is 4"),
        (found(What.AWAITED, consumers=1, waited_s=0, limit_s=30), "waiting for consumer 0 to start (0 s of 30 s)"),
        (
            found(What.NOT_STARTED, consumers=1, waited_s=31, limit_s=30),
            "waited 31 s of 30 s for consumer 0 to start: the others go on",
        ),
        (found(What.NEVER_STARTED, consumers=1, before=3, after=2), "scale down 3 → 2: consumer 0 never started"),
        (found(What.SCALE_DOWN, consumers=3, before=4, after=1), "scale down 4 → 1: drain consumers 0, 1, 2"),
        (found(What.END_IDLE, consumers=2), "consumers 0, 1 hold nothing and are not requested: they end"),
        (found(What.LAST_RATES_TAKE, needed=4), "the last known rates take 4 consumers"),
        (
            found(What.FALLBACK, fallback="static", lasted_s=600, wanted=2, now=4),
            "the load has not been measured for 10 min: fallback.behaviour static asks for 2, 4 are requested",
        ),
        (found(What.PUBLISHED, sizing="LINEAR", action="UP", wanted=2, now=1), "LINEAR says UP: 2 consumers, now 1"),
        (found(What.PUBLISHED_RESTS, rested_s=3, limit_s=60), "the last step is 3 s of 60 s ago"),
        (found(What.PUBLISHED_LIMIT, bound=4), "4 is the limit, and nothing changes"),
        (found(What.NOT_THERE, consumers=1), "consumer 0 are not there"),
        (found(What.PAUSED, paused="all"), "paused: all holds this"),
        (found(What.FROZEN, window="0 22 * * * for 60 min, UTC"), "a window (0 22 * * * for 60 min, UTC) holds this"),
        (found(What.ALLOWS, setting="scale_up.step", count=5), "scale_up.step allows 5"),
        (found(What.KEEPS, setting="min_consumers", least=3, present=3), "min_consumers 3 keeps 3"),
        (found(What.TOPIC_NOT_MEASURED, topic="orders"), "topic orders is not measured right now"),
        (
            found(What.NOT_MEASURED, partitions=2, unknown=2, listed=9),
            "2 of 9 partitions are not measured right now (first orders-0)",
        ),
        (found(What.ENDING, consumers=1), "consumer 0 holds partitions and is about to end"),
        (found(What.MAY_LOSE, partitions=1), "orders-0 may lose records before they are read"),
        (found(What.BEHIND_UNKNOWN, partitions=1), "orders-0 has unread records that are older than what is remembered"),
        (found(What.BEHIND, partitions=1, lag_s=7.25, limit_s=5), "orders-0 is 7.25 s behind, more than scale_down.max_lag 5 s"),
        (found(What.FEWER_FOR, lasted_s=40, limit_s=60), "fewer would do for 40 s of 60 s so far"),
        (found(What.NEEDED_LATELY, needed=3, window_s=60), "3 consumers were needed within the last 60 s"),
        (
            found(What.COOLING_DOWN, ago_s=12, limit_s=60),
            "scale-down cooldown: the number of consumers changed 12 s ago (scale_down.cooldown 60 s)",
        ),
        (
            found(What.FLAPPING, turns=4, limit=4),
            "the number of consumers has turned 4 times in an hour, scale_down.reversals_per_hour allows 4",
        ),
        (
            found(What.IN_VAIN, steps=1, level_records_per_s=33),
            "1 step up drained no more than 33 records/s: the bottleneck is elsewhere",
        ),
        (found(What.DRAINED_AS_MUCH, count=4), "4 consumers drained as much"),
        (found(What.OVERLOADED_FOR, lasted_s=9, limit_s=10), "overloaded for 9 s of 10 s"),
        (
            found(What.MOVES_REST, ago_s=1, limit_s=10),
            "partitions moved 1 s ago; at the same number of consumers they rest for 10 s",
        ),
        (
            found(What.NOT_WORTH_MOVING, partitions=1, rate_bytes_per_s=15, pause_s=41, relieved_bytes_per_s=2, payback_s=60),
            "moving 1 partition (orders-0) with 15 B/s for 41 s costs more than 2 B/s less overload is worth in 60 s",
        ),
        (
            found(What.MEMBERS_DIFFER, requested=2, running=1, members=1, state="STABLE", lasted_s=3),
            "2 consumers asked for, 1 running, 1 member in the group (STABLE) for 3 s",
        ),
        (found(What.UNTIL_COUNT), "the controller waits until they are as many"),
        (found(What.UNTIL_NAMES), "the controller waits until every member is one of them"),
        (found(What.UNTIL_RETURN, consumers=1), "the controller waits until consumer 0 come back to what they held"),
        (found(What.DIFFER_TOO_LONG, limit_s=30), "longer than scale_up.start_timeout 30 s: see their logs"),
        (found(What.STRANGERS, members=2), "2 members consume that this controller did not start: stop them first"),
        (
            found(What.NOT_CONSUMED, listed=8, total_bytes_per_s=90, count=2),
            "no consumer reads 8 partitions with 90 B/s; it takes 2",
        ),
        (found(What.NO_RELIEF, assignor="range"), "more consumers would not relieve it with assignor range"),
        (
            found(What.FORECAST, count=4, assignor="sticky", low_bytes_per_s=60, high_bytes_per_s=75, idle=1),
            "4 consumers with assignor sticky: the hottest gets 60 B/s to 75 B/s, 1 without a partition",
        ),
        (found(What.NOT_FORETOLD), "that cannot be foretold for several that come or go together"),
        (found(What.ALONE_ABOVE, count=2), "2 partitions alone are above it: spread their keys"),
        (
            found(What.REMEDY, count=6, assignor="range", setting="max_consumers"),
            "6 consumers with assignor range would be enough (more than max_consumers allows)",
        ),
        (found(What.HOLD_NOTHING, count=2), "2 consumers hold nothing now"),
        (found(What.STATIC_MEMBERS), "members are static"),
        (found(What.UNHELD, partitions=1, rate_bytes_per_s=60), "1 partition (orders-0) with 60 B/s are held by no member"),
        (found(What.PLACEMENT_PENDING, partitions=1), "1 partition (orders-0) are with other members than the placement says"),
        (
            found(What.PLACEMENT_IGNORED, lasted_s=40, limit_s=30),
            "for 40 s, longer than scale_up.start_timeout 30 s: see the log",
        ),
        (found(What.NOT_CONSUMERS, kind="SHARE"), "it is a share group"),
        (found(What.NO_MEMBERS), "it has no members"),
        (found(What.NO_ASSIGNOR, known="range, sticky"), "let all of them name the same, one of range, sticky"),
        (
            found(What.UNKNOWN_ASSIGNOR, assignor="plan", known="range"),
            "nothing is known of assignor 'plan': it takes one of range",
        ),
        (found(What.SUBSCRIPTION_UNKNOWN), "what its members subscribe to is not known, or a pattern"),
        (found(What.SUBSCRIPTIONS_DIFFER, ways=2), "its members subscribe to different topics (2 ways)"),
        (found(What.SUBSCRIBED_TO_MORE, topics="other"), "its members also subscribe to other, which is not measured"),
        (found(What.SUBSCRIBED_TO_FEWER, topics="other"), "its members do not subscribe to other: remove it from topics"),
        (
            found(What.RACKS, racks=1, assignor="range"),
            "its members name racks (1), and assignor range may place partitions by them",
        ),
        (found(What.HELD_TWICE, partitions=1, holders=2), "its description names 2 holders of orders-0"),
        (found(What.NAMELESS, nameless=1, members=2), "1 of its 2 members have no name to be told by"),
        (found(What.NAME_SHARED, name="'g-0'"), "several of its members call themselves 'g-0'"),
        (found(What.NAME_UNKNOWN, name="'left'"), "no consumer that is started here is called 'left'"),
        (found(What.CONSUMERS_NOT_KNOWN, error="the broker is away"), "its consumers are not known: the broker is away"),
        (found(What.GROUP_NOT_THERE_YET, group="shop"), "no group 'shop' exists on this cluster yet"),
        (found(What.NOW, live=1, load_bytes_per_s=140), "now 1 consumer, the hottest with 140 B/s"),
        (
            found(What.PLACED_BY_LOAD, planned=2, usable_bytes_per_s=80, load_bytes_per_s=74, moved=1),
            "placed by load: 2 consumers of 80 B/s, the hottest with 74 B/s, 1 partition moved",
        ),
        (
            found(What.PARKED, partitions=1, offset=2**40, owners=3),
            "1 partition (orders-0) parked, orders-0 at offset 1099511627776 after 3 consumers in a row were lost there",
        ),
        (found(What.STALLED, partitions=1), "held by a live consumer and not advancing, counted as no load: orders-0"),
        (found(What.STOPPED, partitions=1), "not advancing, and held by no consumer: orders-0"),
        (found(What.SET_BACK, partitions=1), "committed offset was set back: orders-0"),
        (found(What.OPEN_TRANSACTION, partitions=1), "read up to a transaction that stays open: orders-0"),
        (
            found(What.OFFSET_RESET, partitions=1, offset=50, start=60, policy="earliest"),
            "orders-0 is out of range at 50 and goes on at 60 (earliest)",
        ),
        (found(What.MORE_OFFSETS_RESET, count=2), "and 2 more partitions with an offset out of range"),
        (
            found(What.NOTHING_MEASURED, listed=9, error="broker 1 does not answer"),
            "none of 9 partitions is measured right now: broker 1 does not answer",
        ),
        (found(What.TOPICS_NOT_MEASURED, topics="orders", error="denied"), "topics orders are not measured: denied"),
        (found(What.TOPICS_UNMATCHED, patterns="^refunds-"), "no topic that this user may describe matches ^refunds- yet"),
        (
            found(What.CATCHING_UP, partitions=1, unread_bytes=2.5e9, within_s=600, lag_s=300),
            "2.5 GB of 1 partition (orders-0) are to be worked off in 10 min (scale_up.catch_up), the oldest of it is 5 min old",
        ),
        (
            found(What.RETENTION_RISK, partitions=4, loss_s=79),
            "orders-0 (and 3 more) may lose its first unread record in 79 s, and it is not known yet",
        ),
        (
            found(What.BEYOND_ONE_CONSUMER, partitions=1, usable_bytes_per_s=80),
            "orders-0 would take more than the 80 B/s of one consumer",
        ),
        (
            found(What.CAPACITY_LOOKS_HIGH, capacity_bytes_per_s=100, drained_bytes_per_s=40, times=4),
            "capacity.bytes_per_s 100 B/s looks too high: consumers that are behind drain at most 40 B/s (in 4 half minutes",
        ),
        (
            found(What.CAPACITY_LOOKS_LOW, capacity_bytes_per_s=100, drained_bytes_per_s=181, times=4),
            "capacity.bytes_per_s 100 B/s looks too low: a consumer drains 181 B/s",
        ),
        (found(What.CAPACITY_ASSUMED, capacity_bytes_per_s=1e6), "capacity 1 MB/s per consumer (assumed; not measured yet)"),
        (
            found(What.PROMISED, share="99 %", within_s=5, target_ratio=0.52, late="0.3 %"),
            "for 99 % within 5 s consumers are filled to 52% (0.3 % of the records were later)",
        ),
        (
            found(What.PROMISE_BROKEN, late="3 %", allowed="1 %", within_s=5, target_ratio=0.5),
            "3 % of the records took longer than 5 s, and 1 % may (promise.within): consumers are filled to 50%",
        ),
        (
            found(What.PROMISE_HOPELESS, late="90 %", within_s=5, target_ratio=0.1),
            "90 % of the records took longer than 5 s (promise.within) however idle their consumers are: more",
        ),
        (
            found(
                What.PROMISE_UNSEEN, why="its workers have told of too few records", behind_s=2.5, within_s=5, target_ratio=0.8
            ),
            "are filled to 80% (capacity.target_utilisation), and what is more than 2.5 s behind is worked off within 5 s",
        ),
        (found(What.CAPACITY_KEPT, capacity_bytes_per_s=1e6), "capacity 1 MB/s per consumer (as measured before the restart)"),
        (
            found(What.CAPACITY_BOUND, capacity_bytes_per_s=500, measured_bytes_per_s=100, samples=4, ago_s=7),
            "capacity 500 B/s per consumer is the bound: measured 100 B/s (in 4 windows, the last 7 s ago)",
        ),
        (
            found(What.CAPACITY_MEASURED, capacity_bytes_per_s=1e6, samples=1, ago_s=7),
            "capacity 1 MB/s per consumer (measured in 1 window, the last 7 s ago)",
        ),
        (
            found(What.OWN_CAPACITY, consumers=1, own_bytes_per_s=50, capacity_bytes_per_s=100),
            "consumer 0 does 50 B/s, the group's 100 B/s",
        ),
        (found(What.WORKER_RESTARTED, consumers=1, after_s=5), "worker 0 ended and is started again in 5 s: see worker-0.log"),
        (
            found(What.WORKER_HINDERED, consumers=2, why="unschedulable", said="0/3 nodes are available"),
            "no machine takes consumers 0, 1: 0/3 nodes are available",
        ),
        (found(What.WORKER_HINDERED, consumers=1, why="unready"), "not ready: consumer 0"),
        (found(What.NO_SUCH_SLOT, workers=["x"]), "ignored workers x: no slot of this group has that name"),
        (found(What.NOT_CARRIED_OUT, error="the broker is away"), "not carried out: the broker is away"),
        (
            found(What.CANNOT_HOLD, count=2, needed=3, total_bytes_per_s=210, usable_bytes_per_s=80, room_bytes_per_s=160),
            "no placement on 2 consumers keeps each within 80 B/s: 210 B/s in all for 160 B/s, it takes 3 consumers at least",
        ),
        (
            found(What.NONE_FOUND_TO_HOLD, count=2, high_bytes_per_s=90, usable_bytes_per_s=80, moved=3),
            "the best placement found on 2 consumers gives the hottest 90 B/s, above 80 B/s usable",
        ),
        (
            found(What.WOULD_HOLD, count=1, high_bytes_per_s=70, usable_bytes_per_s=80, moved=1),
            "1 consumer would hold it: the hottest would get 70 B/s of 80 B/s usable, 1 partition would move",
        ),
        (
            found(What.NOTHING_TO_SPARE, limit_bytes_per_s=72),
            "that is above the 72 B/s which fewer must do with, a tolerance (capacity.tolerance_ratio) kept free",
        ),
        (
            found(What.WOULD_LEAVE_ROOM, count=4, high_bytes_per_s=50, usable_bytes_per_s=80, moved=2),
            "4 consumers are not needed for it: the hottest would get 50 B/s of 80 B/s usable, 2 partitions would move",
        ),
        (
            found(What.ONE_PARTITION_ABOVE, partitions=1, count=4, load_bytes_per_s=90, usable_bytes_per_s=80),
            "orders-0 alone has 90 B/s, above 80 B/s usable: 4 consumers do not change that",
        ),
        (
            found(What.MORE_THAN_PARTITIONS, count=4, idle=1, listed=3),
            "3 partitions are all there are: 1 of 4 consumers would hold nothing",
        ),
        (
            found(What.ASSIGNOR_NOT_RECORDED, count=2, room_bytes_per_s=160, total_bytes_per_s=90),
            "2 consumers have room for 160 B/s, and 90 B/s flow; what the group's own assignor would give each of them",
        ),
        (
            found(What.DEALT_OUT_ABOVE, count=1, assignor="range", high_bytes_per_s=90, limit_bytes_per_s=72),
            "of 1 consumer the group's own assignor (range) gives the hottest 90 B/s, above 72 B/s",
        ),
        (
            found(What.DEALT_OUT_WITHIN, count=2, assignor="range", high_bytes_per_s=60, limit_bytes_per_s=72),
            "2 consumers would hold it: the group's own assignor (range) gives the hottest 60 B/s, of 72 B/s at most",
        ),
        (
            found(What.DEALT_OUT_SPARE, count=4, assignor="range", high_bytes_per_s=40, limit_bytes_per_s=80),
            "4 consumers are not needed for it: the group's own assignor (range) gives the hottest 40 B/s, of 80 B/s at most",
        ),
        (
            found(What.ASSIGNOR_NOT_FOLLOWED, count=4, assignor="sticky"),
            "what the group's own assignor (sticky) makes of 4 consumers cannot be foretold",
        ),
        (
            found(What.PLACED_BY_NOT_RECORDED, count=2, room_bytes_per_s=160, total_bytes_per_s=90),
            "whether a plan or an assignor places them is not recorded: autoscaler explain --config FILE",
        ),
        (found(What.NOT_WORKED_OUT, algorithm="LINEAR"), "is not worked out again where LINEAR sizes or places"),
        (found(What.LOADS_NOT_RECORDED), "what each partition had then is not recorded"),
        (found(What.LOADS_LEFT_OUT), "some partitions did not count then (parked, or standing still)"),
    ]
}


def test_every_kind_of_finding_has_words() -> None:
    assert set(SAID) == set(What)


@pytest.mark.parametrize("what", What)
def test_a_finding_is_said_with_its_numbers(what: What) -> None:
    finding, said = SAID[what]
    assert said in in_words(finding)
    assert "{" not in in_words(finding)


def test_what_is_not_known_of_a_finding_is_left_out() -> None:
    assert in_words(found(What.NO_TAKER)) == "no consumer can take them yet"
    assert in_words(found(What.REMEDY, count=2)) == "2 consumers placed by load (assignment managed) would be enough"
    assert in_words(found(What.CONSUMERS_NOT_KNOWN)).endswith("they have not been read yet")
    assert in_words(found(What.CONSUMERS_NOT_KNOWN, state="ASSIGNING")).endswith("they join anew")
    assert in_words(found(What.NO_PARTITIONS, topics=["orders"])).endswith("the measurement lists none yet")
    assert in_words(found(What.TOPICS_NOT_MEASURED, topics=["orders"])).endswith("nothing is known of them yet")
    assert in_words(found(What.OFFSET_RESET, partitions=1, policy="latest")) == (
        "orders-0 has no committed offset any more and waits for a measurement"
    )
    assert in_words(found(What.RETENTION_RISK, partitions=1, loss_s=9, close_s=math.inf)).endswith("the backlog is not shrinking")


def test_a_consumer_that_has_no_slot_is_told_by_what_people_know_it_by() -> None:
    above = found(What.OVERLOADED, consumers=2, load_bytes_per_s=90, limit_bytes_per_s=80, member="app-1 (10.0.0.3)")
    assert in_words(above) == "consumer app-1 (10.0.0.3) with 90 B/s and 1 more are above 80 B/s"
    rest = found(
        What.WITHIN_TARGET, total_bytes_per_s=90, live=1, hottest=7, load_bytes_per_s=84, usable_bytes_per_s=80,
        limit_bytes_per_s=88, member="app-1 (10.0.0.3)",
    )  # fmt: skip
    assert in_words(rest).endswith("the hottest (app-1 (10.0.0.3)) with 84 B/s of 80 B/s usable, tolerated up to 88 B/s")


def test_of_a_long_list_the_first_few_are_named_and_the_others_counted() -> None:
    topics = [f"t{n}" for n in range(7)]
    said = in_words(found(What.TOPICS_UNMATCHED, patterns=topics))
    assert said == "no topic that this user may describe matches t0, t1, t2, t3, t4 and 2 more yet"


def test_findings_are_said_one_after_the_other() -> None:
    first, second = found(What.DRAINED_AS_MUCH, count=4), found(What.STATIC_MEMBERS)
    assert text_of((first, second)) == f"{in_words(first)}; {in_words(second)}"


def test_a_text_with_braces_is_said_as_it_is() -> None:
    odd = replace(found(What.FAILED), texts={"error": "{partitions} {0}"})
    assert in_words(odd) == "{partitions} {0}"


def test_settings_are_those_of_a_policy_and_named_as_in_the_file() -> None:
    words = " ".join(str(w) for w in messages._WORDS.values())
    named = set(re.findall(r"\{s\[(\w+)\]\}", words))
    assert named <= set(Policy.model_fields)
    assert path_of("shrink_cooldown_s") == "scale_down.cooldown"
