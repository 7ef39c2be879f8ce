"""How fast pods follow a decision, and what that asks of the API server: ``python -m tests.bench.pods``.

On a real control plane with nodes made for tests, so a pod's process starts at once: the figures are the control plane's part and
the pool's, without images, containers and a consumer's own start. One cycle takes a second, as in a job.
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from autoscaler.errors import TransientError
from autoscaler.ports import PoolState
from tests.contracts.pool_contract import NOBODY, look, slots
from tests.kubernetes.control_plane import BUILD, ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespace import IMAGES, Namespace
from tests.kubernetes.pool_world import PodWorld
from tests.until import let_pass, until

CYCLE_S = 1.0
DRAINS = "trap 'sleep 2; exit 0' TERM; while :; do sleep 0.1; done"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--quiet-s", type=float, default=60.0, help="how long the quiet loop is watched")
    given = parser.parse_args()
    binary = Path(subprocess.run([BUILD], capture_output=True, text=True, check=True).stdout.strip())
    with ExitStack() as running, tempfile.TemporaryDirectory() as at:
        place = Path(at)
        plane = running.enter_context(ControlPlane(binary, place / "control-plane"))
        api = plane.connect()
        nodes = tuple(running.enter_context(Kubelet(api, n, place / f"node-{n}", IMAGES)) for n in range(2))
        world = PodWorld(plane, nodes, Namespace(plane.connect()), place)
        world.deployment(image="shell", args=[DRAINS])
        _measure(world, given.pods, given.quiet_s)
        world.close()


def _measure(world: PodWorld, pods: int, quiet_s: float) -> None:
    _cycles(world, lambda s: len(s.running) == 1, 1)
    began = time.monotonic()
    world.pool.apply(slots(*range(pods)), expected=frozenset(world.pool.observe().running), releasable=NOBODY)
    asked = time.monotonic() - began
    until("processes", lambda: sum(len([p for p in n._pods.values() if p.pid]) for n in world.nodes), lambda found: found == pods)
    print(f"1 to {pods} pods: asked for in {1000 * asked:.0f} ms, all processes started after {time.monotonic() - began:.2f} s")
    _cycles(world, lambda s: len(s.running) == pods and not s.hindered, pods)
    print(f"  every pod with its slot, ready, in cycles of {CYCLE_S:g} s: {time.monotonic() - began:.2f} s")
    before = len(world.asked())
    until_s = time.monotonic() + quiet_s
    _cycles(world, lambda _: time.monotonic() > until_s, pods)
    asked_for = len(world.asked()) - before
    print(f"quiet loop: {asked_for} requests in {quiet_s:.0f} s; each of two watches is begun anew every 5 min, 24 times an hour")
    began = time.monotonic()
    _cycles(world, lambda s: len(s.running) == pods - 1, pods - 1, releasable=slots(pods - 1))
    print(f"shrink by one that drains for 2 s: seen to have ended after {time.monotonic() - began:.2f} s")


def _cycles(world: PodWorld, holds: Callable[[PoolState], bool], count: int, releasable: frozenset[int] = NOBODY) -> None:
    while True:
        state = look(world)
        if holds(state):
            return
        try:
            world.pool.apply(slots(*range(count)), expected=frozenset(state.running), releasable=releasable)
        except TransientError as e:
            print(f"  {e}")
        limit = time.monotonic() + CYCLE_S
        while time.monotonic() < limit and not holds(world.pool.observe()):
            let_pass(0.02)


if __name__ == "__main__":
    main()
