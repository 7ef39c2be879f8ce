"""The hottest consumer of native groups, predicted against real: ``python -m tests.bench.assignors --topologies 50``.

A topology is a group of real clients on some random topics with random rates, which then becomes larger or smaller. Rates are
only numbers here: what is compared is who holds what.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from autoscaler.adapters.kafka.control_topics import describe
from autoscaler.core.assignors.forecast import Forecast, forecast
from autoscaler.core.assignors.group_model import NativeGroup
from autoscaler.core.assignors.group_reader import read_group
from autoscaler.devtools.broker import Broker
from autoscaler.model import TopicPartition
from tests.conftest import create_topic
from tests.kafka.native_members import KINDS, Kind, members
from tests.kafka.test_native_assignors import real

_CLOSE = 0.02
_SIZES = (1, 3, 4, 6, 8, 12, 16, 24)
_QUICK = {"group.consumer.heartbeat.interval.ms": "300", "group.consumer.min.heartbeat.interval.ms": "300"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was foretold of one topology, and what came."""

    told: Forecast
    real: float

    @property
    def off(self) -> float:
        """Return how far the expected load is from the real one, of the real one."""
        return abs(self.told.expected - self.real) / self.real

    @property
    def within(self) -> bool:
        """Say whether the real load is within the span that was foretold."""
        return self.told.low * (1 - 1e-9) <= self.real <= self.told.high * (1 + 1e-9)


def run(broker: Broker, kind: Kind, topics: dict[str, int], rnd: random.Random, largest: int) -> Outcome:
    """Let a random group change its size once."""
    chosen = {t: topics[t] for t in rnd.sample(sorted(topics), rnd.choice([1, 1, 2, 3]))}
    partitions = [TopicPartition(t, n) for t, count in chosen.items() for n in range(count)]
    rates = {p: rnd.paretovariate(1.5) for p in partitions}
    before = rnd.randint(1, largest)
    after = rnd.choice([n for n in range(max(1, before - 3), min(largest, before + 3) + 1) if n != before])
    ids = {t: f.topic_id for t, f in describe(AdminClient(broker.connection()), tuple(chosen)).items()}
    with members(broker, kind, tuple(chosen)) as (_, settled):
        found = settled(before, len(partitions))
        newest_first = tuple(m.member_id for m in sorted(found.members, key=lambda m: m.client_id, reverse=True))
        group = read_group(found, partitions, ids, newest_first)
        assert isinstance(group, NativeGroup), group
        told = forecast(group, rates, after)
        assert told is not None
        return Outcome(told=told, real=real(settled(after, len(partitions)), rates))


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line per assignor and client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topologies", type=int, default=50, help="of each kind (default 50)")
    parser.add_argument("--members", type=int, default=8, help="of a group at most (default 8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="kinds whose name begins with this")
    args = parser.parse_args(argv)
    with Broker(heap_mb=256, settings=_QUICK) as broker:
        topics = {create_topic(broker, f"t{i}-{n}", n): n for i in range(2) for n in _SIZES}
        for kind in KINDS:
            if not str(kind).startswith(args.only):
                continue
            rnd = random.Random(f"{args.seed}/{kind}")
            found = [run(broker, kind, topics, rnd, args.members) for _ in range(args.topologies)]
            offs = sorted(o.off for o in found)
            sure = [o for o in found if o.told.sure]
            print(
                f"{kind}: within 2 % of the expected {sum(o <= _CLOSE for o in offs)} of {len(found)}"
                f"; p50 {offs[len(offs) // 2]:.1%}, max {offs[-1]:.1%}"
                f"; within the span foretold {sum(o.within for o in found)}"
                f"; foretold as sure {len(sure)}, of those within 2 % {sum(o.off <= _CLOSE for o in sure)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
