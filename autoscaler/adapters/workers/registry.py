"""Which pool a group's ``workers`` mean, by their kind: the one place that names pools.

Asked by the job and by ``autoscaler workers stop``. A pool's module, and the client that it needs, is loaded only where a group
is configured for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from autoscaler.config.settings import CommandWorkers, DeploymentWorkers, ProcessWorkers, ScaleWorkers, Workers
from autoscaler.errors import PermanentError
from autoscaler.ports import Clock, MayAct, WorkerPool, unlimited

if TYPE_CHECKING:
    from autoscaler.adapters.workers.process_pool import ProcessPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a group's workers belong.

    Attributes:
        group: The group's id.
        directory: Of this group's pool alone, on a local disk; made by a pool that needs it.
        environment: What a worker is told that is started from here.
        may_act: Asked before anything is changed.
    """

    group: str
    directory: Path
    environment: Mapping[str, str]
    clock: Clock
    may_act: MayAct = unlimited


def pool_of(workers: Workers, place: Place) -> WorkerPool:
    """Return the pool of a group.

    Raises:
        PermanentError: What it needs is not installed.
    """
    match workers.chosen:
        case ProcessWorkers() as settings:
            return _processes(settings, place)
        case DeploymentWorkers() as settings:
            try:
                from autoscaler.adapters.workers.pods.deployment_pool import DeploymentPool  # noqa: PLC0415  another client
            except ModuleNotFoundError as e:
                raise PermanentError(f"workers of kind deployment need the extra 'kubernetes': {e}") from e
            return DeploymentPool(group=place.group, settings=settings, clock=place.clock, may_act=place.may_act)
        case ScaleWorkers() as settings:
            return _scaled(settings, place)
        case CommandWorkers() as settings:
            from autoscaler.adapters.workers.command_number import CommandNumber  # noqa: PLC0415  loaded only where configured
            from autoscaler.adapters.workers.counted_pool import CountedPool  # noqa: PLC0415

            told = {"AUTOSCALER_GROUP": place.group}
            number = CommandNumber(settings=settings, environment=told, clock=place.clock, may_act=place.may_act)
            return CountedPool(group=place.group, number=number, clock=place.clock)
        case _ as unknown:
            assert_never(unknown)


def stop(workers: Workers, place: Place) -> str:
    """End the workers that run on this machine, and return what became of the group's.

    Raises:
        TransientError: A running job looks after them.
    """
    match workers.chosen:
        case ProcessWorkers() as settings:
            _processes(settings, place).stop_all()
            return "no local consumer runs any more"
        case DeploymentWorkers() as settings:
            return f"its consumers do not run here: kubectl scale deployment/{settings.deployment} --replicas=0 ends them"
        case ScaleWorkers() as settings:
            _, kind, name = settings.target.rsplit("/", 2)
            return f"its consumers do not run here: kubectl scale {kind.lower()}/{name} --replicas=0 ends them"
        case CommandWorkers() as settings:
            return f"its consumers do not run here: {settings.set_count[0]} ends them"
        case _ as unknown:
            assert_never(unknown)


def names_of(workers: Workers | None, place: Place) -> WorkerPool:
    """Return a pool that is only asked for the slots of its workers' names, of a group that is only advised."""
    if workers is not None and workers.kind == "deployment":
        return pool_of(workers, place)
    return _processes(ProcessWorkers(command=("",)), place)  # its names follow from the group's


def _scaled(settings: ScaleWorkers, place: Place) -> WorkerPool:
    try:
        from autoscaler.adapters.workers.pods.scale_number import ScaleNumber  # noqa: PLC0415  needs another client
    except ModuleNotFoundError as e:
        raise PermanentError(f"workers of kind scale need the extra 'kubernetes': {e}") from e
    from autoscaler.adapters.workers.counted_pool import CountedPool  # noqa: PLC0415  loaded only where it is configured

    number = ScaleNumber(group=place.group, settings=settings, clock=place.clock, may_act=place.may_act)
    return CountedPool(group=place.group, number=number, clock=place.clock)


def _processes(workers: ProcessWorkers, place: Place) -> "ProcessPool":
    from autoscaler.adapters.workers.process_pool import ProcessPool  # noqa: PLC0415  loaded only where it is configured

    return ProcessPool(
        group=place.group,
        settings=workers,
        directory=place.directory,
        environment=place.environment,
        clock=place.clock,
        may_act=place.may_act,
    )
