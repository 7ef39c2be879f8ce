"""What is compared: every algorithm of ``packing`` on arrays, as it was published or as this project runs it."""

from collections.abc import Sequence

from autoscaler.evaluation.planner_runs import Contender
from autoscaler.packing import PRESETS
from autoscaler.packing.problem.options import AS_GIVEN, PUBLISHED

OWN = ("MMR", "HFD", "GOALS")
_OPENED_FIRST = frozenset({"NF", "NFD"})  # in the published runs consumer 0 is open before the first partition


def published() -> list[Contender]:
    """Return the twelve published algorithms as their authors ran them."""
    return [
        Contender(
            name=name, algorithm=name, options={"open_first": True} if name in _OPENED_FIRST else {}, as_listed=name in AS_GIVEN
        )
        for name in PUBLISHED
    ]


def own() -> list[Contender]:
    """Return this project's algorithms, PACE once per preset."""
    presets = [Contender(name=f"PACE {preset}", algorithm="PACE", options={"preset": preset}) for preset in PRESETS]
    return [*(Contender(name=name, algorithm=name, options={}) for name in OWN), *presets]


def contenders() -> Sequence[Contender]:
    """Return all that are compared, the published ones first."""
    return (*published(), *own())


def contender(name: str) -> Contender:
    """Return the contender of this name.

    Raises:
        ValueError: No contender has this name.
    """
    found = {c.name: c for c in contenders()}
    if name not in found:
        raise ValueError(f"no contender is called {name!r}; there are {', '.join(found)}")
    return found[name]
