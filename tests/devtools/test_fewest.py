"""The check's own count of the fewest consumers, against every possible placement of a few partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.devtools.verify.fewest import fewest


def tried(rates: list[int], capacity: int) -> int:
    """Return the fewest consumers by trying every placement."""
    best = len(rates)

    def place(at: int, bins: list[int]) -> None:
        nonlocal best
        if len(bins) >= best and at < len(rates):
            return
        if at == len(rates):
            best = min(best, len(bins))
            return
        for i in range(len(bins)):
            if bins[i] + rates[at] <= capacity:
                bins[i] += rates[at]
                place(at + 1, bins)
                bins[i] -= rates[at]
        place(at + 1, [*bins, rates[at]])

    place(0, [])
    return best


@given(st.lists(st.integers(1, 120), max_size=8))
def test_it_is_the_fewest_of_all_placements(rates: list[int]) -> None:
    assert fewest(rates, 100) == (tried(rates, 100), True)


@pytest.mark.parametrize(
    ("rates", "consumers", "why"),
    [
        ([], 0, "nothing to carry"),
        ([0, 0], 0, "partitions without load fit anywhere"),
        ([150], 1, "above one consumer's capacity: alone, and no more than one"),
        ([150, 50, 50], 2, "nothing fits beside the one above capacity"),
        ([51] * 5, 5, "two halves and a bit never fit together"),
        ([60, 60, 40, 40], 2, "exactly full"),
        ([34] * 6, 3, "three do not fit although the sum says 2.04"),
        ([40, 40, 30, 30, 30, 30], 2, "best fit decreasing needs 3: 40+40, 30+30+30, 30"),
    ],
)
def test_cases_that_a_simple_bound_gets_wrong(rates: list[float], consumers: int, why: str) -> None:
    assert fewest(rates, 100) == (consumers, True), why


def test_sixty_four_partitions_are_counted_or_bounded_within_its_steps() -> None:
    rates = [(i * 7919) % 61 + 10.5 for i in range(64)]
    consumers, _ = fewest(rates, 100)
    assert sum(rates) / 100 <= consumers <= 64
