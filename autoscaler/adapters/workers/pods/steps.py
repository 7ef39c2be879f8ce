"""Which pod fills which slot, which ones go, and how many there should be: values in, the next steps out.

A Deployment's pods are alike, and who goes when it becomes smaller is the ReplicaSet's choice: pods without a node, pending and
unready ones first, the lowest deletion cost among equals. So the victims are marked with the lowest cost, and the number is
lowered only while that decides. Pure; the pool carries the steps out.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from autoscaler.adapters.workers.pods.pod import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What is to be done next.

    Attributes:
        slots: Slots to be written to pods, by uid; ``None``: the pod fills none any more.
        doom: Pods that get the lowest deletion cost; the number is lowered once the API shows it.
        spare: Pods that lose it again.
        replicas: The number of pods to be set; ``None``: it stays.
        leaving: Pods that go when the number is lowered so.
        kept: Why the number is not lowered yet, in words; empty if it need not be or is.
    """

    slots: Mapping[str, int | None] = field(default_factory=dict)
    doom: tuple[Pod, ...] = ()
    spare: tuple[Pod, ...] = ()
    replicas: int | None = None
    leaving: tuple[Pod, ...] = ()
    kept: str = ""


def filled(pods: Iterable[Pod]) -> dict[int, Pod]:
    """Return the pod that fills each slot: of several with one slot the oldest."""
    found: dict[int, Pod] = {}
    for pod in _in_order(pods):
        if pod.slot is not None:
            found.setdefault(pod.slot, pod)
    return found


def next_steps(
    pods: Collection[Pod], *, replicas: int, requested: frozenset[int], releasable: frozenset[int], updating: bool = False
) -> Steps:
    """Return what leads from these pods to the requested slots.

    A pod is free that fills no slot, or one that is not requested and holds nothing or does not run. Free pods fill missing slots
    before others are made, and take over from pods that do not run; the rest of them goes.

    Args:
        pods: The living pods, without those that are known to go.
        replicas: The number that the Deployment has.
        requested: Slots that should run.
        releasable: Slots that hold nothing and may be ended.
        updating: A rollout is under way: which pods go is not decided by their cost then.
    """
    there = filled(pods)
    staying = {s: p for s, p in there.items() if s in requested or (s not in releasable and p.runs)}
    kept = {p.uid for p in staying.values()}
    free = sorted((p for p in _in_order(pods) if p.uid not in kept), key=lambda p: (not p.ready, not p.runs))
    missing = sorted(requested - staying.keys())
    given = dict(zip(missing, free, strict=False))
    rest = free[len(given) :]
    swapped = _swaps(staying, requested, rest)
    rest = [swapped.get(p.uid, p) for p in rest]
    staying = {**{s: swapped.get(p.uid, p) for s, p in staying.items()}, **given}
    wanted = len(staying) + len(missing) - len(given)
    steps = Steps(
        slots=_written(pods, staying),
        spare=tuple(p for p in staying.values() if p.doomed),
        replicas=wanted if wanted > replicas else None,
    )
    return steps if wanted >= replicas else _fewer(steps, rest, tuple(staying.values()), wanted, updating=updating)


def _in_order(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda p: (p.created, p.name))


def _written(pods: Iterable[Pod], staying: Mapping[int, Pod]) -> dict[str, int | None]:
    """Return what annotations change; who goes keeps its slot for as long as no other pod fills it."""
    holding = {p.uid: s for s, p in staying.items()}
    now = {p.uid: holding.get(p.uid, None if p.slot in staying else p.slot) for p in pods}
    return {p.uid: now[p.uid] for p in pods if now[p.uid] != p.slot}


def _swaps(staying: Mapping[int, Pod], requested: frozenset[int], rest: Iterable[Pod]) -> dict[str, Pod]:
    """Return pods that change places, both ways by uid: one that is ready and would go takes over from one that does not run."""
    idle = [p for s, p in sorted(staying.items()) if s in requested and not p.runs]
    pairs = list(zip(idle, [p for p in rest if p.ready], strict=False))
    return {a.uid: b for a, b in pairs} | {b.uid: a for a, b in pairs}


def _fewer(steps: Steps, rest: list[Pod], staying: tuple[Pod, ...], wanted: int, *, updating: bool) -> Steps:
    """Add how the number is lowered, or why it is not yet."""
    made_from = {p.template for p in (*rest, *staying)}
    if updating or len(made_from) > 1:
        kept = "its Deployment is being updated"
    elif ahead := [p.name for p in staying if rest and p.rank < max(v.rank for v in rest)]:
        kept = f"pod {ahead[0]} is not ready and would be taken first"
    elif unmarked := tuple(p for p in rest if not p.doomed):
        return Steps(slots=steps.slots, doom=unmarked, spare=steps.spare)
    elif steps.slots or steps.spare:
        return steps  # first these are written
    else:
        return Steps(replicas=wanted, leaving=tuple(rest))
    return Steps(slots=steps.slots, spare=steps.spare, kept=kept)
