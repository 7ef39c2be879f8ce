"""Every broken rule is noticed: by a schedule that breaks a promise under it, or by the directed check that names the rule."""

import inspect
from pathlib import Path

import pytest

from tests.handover import directed
from tests.handover.mutants import Copy, Edit, copy_of
from tests.handover.mutations import ALL, Mutation
from tests.handover.simulation.violation import Violation

_SEEDS = 400  # looked through if a schedule named in the table is not what it was
_BY_CHANCE = [m for m in ALL if m.seed is not None]
_DIRECTED = [m for m in ALL if m.directed is not None]


def _break_a_promise(copy: Copy, seed: int) -> bool:
    world, schedule = (copy.module(f"tests.handover.simulation.{name}") for name in ("world", "schedule"))
    try:
        world.World(schedule.draw(seed)).run()
    except Violation:
        return True
    return False


@pytest.mark.parametrize("mutation", _BY_CHANCE, ids=lambda m: m.name)
def test_a_schedule_breaks_a_promise_under(mutation: Mutation) -> None:
    with copy_of(mutation.edits) as copy:
        assert any(_break_a_promise(copy, seed) for seed in (mutation.seed or 0, *range(_SEEDS)))


@pytest.mark.parametrize("mutation", _DIRECTED, ids=lambda m: m.name)
def test_a_directed_check_fails_under(mutation: Mutation) -> None:
    assert mutation.directed is not None
    with copy_of(mutation.edits) as copy, pytest.raises(AssertionError):
        mutation.directed(copy)


def test_directed_checks_pass_as_the_modules_are() -> None:
    with copy_of() as copy:
        for check in {m.directed for m in _DIRECTED if m.directed}:
            check(copy)


def test_every_mutation_is_noticed_and_every_check_needed() -> None:
    assert [m.name for m in ALL if m.seed is None and m.directed is None] == []
    checks = {f for n, f in vars(directed).items() if inspect.isfunction(f) and not n.startswith("_")}
    assert checks - {m.directed for m in _DIRECTED} == set()


def test_the_page_names_every_mutation() -> None:
    page = Path(__file__).resolve().parents[2].joinpath("docs/design/mutations.md").read_text(encoding="utf-8")
    assert [m.name for m in ALL if f"| {m.name}" not in page] == []


def test_a_mutation_that_has_gone_stale_is_an_error() -> None:
    with pytest.raises(AssertionError, match="0 times"), copy_of([Edit("handover.expiry", "what is not there", "")]):
        pass
