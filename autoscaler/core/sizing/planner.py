"""*plan*: the policy's algorithm and what it is asked each cycle: the best placement, how few would do, the best within bounds.

Here stands what the algorithms have not in common. PACE weighs consumers against moves, so that a bound is a price to it; EXACT
takes the fewest beyond those that are paid for; the others know their own number, and a bound scales the capacity. Where
consumers are not alike, or a limit of records/s holds beside that of bytes/s, none is asked: ``packing.heterogeneous`` places.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from autoscaler.config.policy import PRICED, Policy
from autoscaler.core.group.history import History
from autoscaler.model import TopicPartition
from autoscaler.packing import (
    BEYOND_PRICE,
    KNOWS_PAID_FOR,
    Assignment,
    Fitted,
    Gauge,
    Given,
    Uneven,
    assign,
    best_uneven,
    fewer_uneven,
    fewest_by_size,
    fit_count,
    fit_uneven,
    lower_bound,
    place_unowned,
    place_unowned_uneven,
)

_EXACT_LIMIT_S = 1.0  # it is asked two or three times in a cycle

Rates = Mapping[TopicPartition, float]
Owners = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """One group's algorithm with its options; capacities are bytes per second that one consumer may be given.

    Attributes:
        gauge: How full consumers are where bytes per second do not say it; where it is empty, as it mostly is, they do.
        there: Consumers that are used before new ones, best first, where it is not; those that hold something come first anyway.
    """

    algorithm: str
    options: Given
    gauge: Gauge = field(default_factory=Gauge)
    there: tuple[int, ...] = ()

    @classmethod
    def of(cls, policy: Policy, history: History) -> "Planner":
        """Return the planner that a policy asks for.

        Its horizon is ``cooldown_s``: so long partitions rest at the same number of consumers, and a placement has to hold.
        """
        if policy.algorithm == "EXACT":
            return cls(algorithm=policy.algorithm, options={"time_limit_s": _EXACT_LIMIT_S})
        if policy.algorithm not in PRICED:
            return cls(algorithm=policy.algorithm, options={})
        horizon = history.measurements_in(policy.cooldown_s)
        options: Given = {"preset": policy.preset, "drift": history.drift, "horizon": horizon}
        if policy.consumer_price is not None:
            options["consumer_price"] = policy.consumer_price
        return cls(algorithm=policy.algorithm, options=options)

    @property
    def knows_paid_for(self) -> bool:
        """Say whether the algorithm can be told how many consumers run in any case."""
        return self.algorithm in KNOWS_PAID_FOR

    def judging(self, gauge: Gauge, there: Collection[int]) -> "Planner":
        """Return the planner of a group whose consumers are as full as a gauge says."""
        return replace(self, gauge=gauge, there=tuple(there))

    def best(self, rates: Rates, capacity: float, owner: Owners) -> Assignment:
        """Return the placement that the algorithm prefers when nothing bounds it."""
        if self.gauge:
            return best_uneven(self._uneven(rates, owner), capacity)
        return assign(rates, capacity, owner, self.algorithm, **self.options)

    def fewest(self, rates: Rates, capacity: float, owner: Owners) -> int:
        """Return how few consumers would do.

        A consumer that is taken away is saved for long, because the group shrinks only after the whole stabilisation window:
        what moving costs once does not count against that, so a price of consumers is left out of it. The number is then that
        of best-fit decreasing, which PACE and EXACT reach from any placement, and which does not depend on who holds what now.
        """
        if self.gauge:
            return self._uneven(rates, owner).fewest(capacity)
        if self.knows_paid_for:
            return fewest_by_size(rates.values(), capacity)
        return assign(rates, capacity, owner, self.algorithm).consumers

    def relieving(self, rates: Rates, capacity: float, owner: Owners, *, paid_for: int, at_most: int) -> Fitted:
        """Return the placement that relieves overloaded consumers; those that are paid for cost nothing and stay."""
        if self.gauge:
            return fit_uneven(self._uneven(rates, owner), capacity, at_least=1, at_most=at_most)
        if not self.knows_paid_for:
            return fit_count(rates, capacity, owner, self.algorithm, at_least=paid_for, at_most=at_most)
        return fit_count(rates, capacity, owner, self.algorithm, at_least=1, at_most=at_most, **self._paid_for(paid_for))

    def reducing(self, rates: Rates, capacity: float, owner: Owners, *, keep: int) -> Fitted:
        """Return the placement on fewer consumers that moves least; a consumer less is worth any move, see ``fewest``."""
        if not self.knows_paid_for:
            return fit_count(rates, capacity, owner, self.algorithm, at_least=keep, at_most=keep)
        options = self._paid_for(keep)
        if self.algorithm in PRICED:
            options["consumer_price"] = BEYOND_PRICE
        return fit_count(rates, capacity, owner, self.algorithm, at_least=1, at_most=keep, **options)

    def within(self, rates: Rates, capacity: float, owner: Owners, *, at_least: int, at_most: int) -> Fitted:
        """Return the best placement with a number of consumers within bounds."""
        if self.gauge:
            return fit_uneven(self._uneven(rates, owner), capacity, at_least=at_least, at_most=at_most)
        return fit_count(rates, capacity, owner, self.algorithm, at_least=at_least, at_most=at_most, **self.options)

    def fewer(self, rates: Rates, capacity: float, owner: Owners, there: Collection[int], keep: int) -> Fitted:
        """Return the placement on ``keep`` of those that are there, where a gauge says how full they are."""
        ask = Uneven(rates=rates, gauge=self.gauge, previous=owner, consumers=sorted(there))
        return fewer_uneven(ask, capacity, keep)

    def unowned(self, rates: Rates, capacity: float, owner: Owners, receivers: Collection[int]) -> dict[TopicPartition, int]:
        """Return the placement in which partitions without an owner go to those that may receive; nothing else moves."""
        if self.gauge:
            ask = Uneven(rates=rates, gauge=self.gauge, previous=owner, consumers=sorted(receivers))
            return place_unowned_uneven(ask, capacity)
        return place_unowned(rates, capacity, owner, receivers)

    def lower_bound(self, rates: Rates, capacity: float, owner: Owners) -> int:
        """Return the number of consumers that no placement can go below."""
        return self._uneven(rates, owner).least(capacity) if self.gauge else lower_bound(rates.values(), capacity)

    def _uneven(self, rates: Rates, owner: Owners) -> Uneven:
        holders = sorted(frozenset(owner.values()), key=lambda c: (-self.gauge.speed(c), c))
        there = [c for c in self.there if c not in holders]
        return Uneven(rates=rates, gauge=self.gauge, previous=owner, consumers=(*holders, *there))

    def _paid_for(self, consumers: int) -> Given:
        options: Given = {**self.options}
        if self.knows_paid_for:
            options["paid_for"] = consumers
        return options
