"""*plan*: the policy's algorithm and what it is asked each cycle: the best placement, how few would do, the best within bounds.

Here stands what the algorithms have not in common. PACE weighs consumers against moves, so that a bound is a price to it; EXACT
takes the fewest beyond those that are paid for; the others know their own number, and a bound scales the capacity.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.core.history import History
from autoscaler.model import TopicPartition
from autoscaler.packing import BEYOND_PRICE, KNOWS_PAID_FOR, Assignment, Fitted, Given, assign, fewest_by_size, fit_count
from autoscaler.policy import PRICED, Policy

_EXACT_LIMIT_S = 1.0  # it is asked two or three times in a cycle

Rates = Mapping[TopicPartition, float]
Owners = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """One group's algorithm with its options; capacities are bytes per second that one consumer may be given."""

    algorithm: str
    options: Given

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

    def best(self, rates: Rates, capacity: float, owner: Owners) -> Assignment:
        """Return the placement that the algorithm prefers when nothing bounds it."""
        return assign(rates, capacity, owner, self.algorithm, **self.options)

    def fewest(self, rates: Rates, capacity: float, owner: Owners) -> int:
        """Return how few consumers would do.

        A consumer that is taken away is saved for long, because the group shrinks only after the whole stabilisation window:
        what moving costs once does not count against that, so a price of consumers is left out of it. The number is then that
        of best-fit decreasing, which PACE and EXACT reach from any placement, and which does not depend on who holds what now.
        """
        if self.knows_paid_for:
            return fewest_by_size(rates.values(), capacity)
        return assign(rates, capacity, owner, self.algorithm).consumers

    def relieving(self, rates: Rates, capacity: float, owner: Owners, *, paid_for: int, at_most: int) -> Fitted:
        """Return the placement that relieves overloaded consumers; those that are paid for cost nothing and stay."""
        if not self.knows_paid_for:
            return fit_count(rates, capacity, owner, self.algorithm, at_least=paid_for, at_most=at_most)
        return fit_count(rates, capacity, owner, self.algorithm, at_least=1, at_most=at_most, **self._paid_for(paid_for))

    def among(self, rates: Rates, capacity: float, owner: Owners, *, at_most: int) -> Fitted:
        """Return the best placement on so many consumers at most, all of which are there."""
        options = self._paid_for(at_most)
        return fit_count(rates, capacity, owner, self.algorithm, at_least=1, at_most=at_most, **options)

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
        return fit_count(rates, capacity, owner, self.algorithm, at_least=at_least, at_most=at_most, **self.options)

    def _paid_for(self, consumers: int) -> Given:
        options: Given = {**self.options}
        if self.knows_paid_for:
            options["paid_for"] = consumers
        return options
