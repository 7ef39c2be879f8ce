"""Hundreds of histories with both machines, and proof that the checks would notice a broken rule."""

import pytest

from tests.handover.simulation import CALM, ROUGH, Mutation, Violation, World


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_one_owner_nothing_lost_and_progress_through_crashes_pauses_and_losses(first: int) -> None:
    for seed in range(first, first + 25):
        World(seed, ROUGH).run()


def test_planned_moves_cost_no_duplicate() -> None:
    for seed in range(60):
        World(seed, CALM).run()


def test_equal_seeds_give_equal_histories() -> None:
    one, other = World(7, ROUGH), World(7, ROUGH)
    one.run()
    other.run()
    assert (one.control, one.heartbeats, one.processed) == (other.control, other.heartbeats, other.processed)


@pytest.mark.parametrize("mutation", [m for m in Mutation if m is not Mutation.NONE])
def test_a_broken_rule_is_noticed(mutation: Mutation) -> None:
    def histories() -> None:
        for seed in range(200):
            World(seed, ROUGH, mutation).run()

    with pytest.raises(Violation):
        histories()
