"""The solvers behind one door: an optional library, one worker, a fixed seed, a limit of time. Part of *pack*."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from autoscaler.errors import PermanentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ortools.linear_solver.pywraplp import Solver
    from ortools.sat.python.cp_model import CpModel, IntVar

_SECONDS_OF_WORK = 0.2  # the solver's own measure of work for each second of the limit: reached in about half of it


class Solved(NamedTuple):
    """What a search found."""

    true: "frozenset[int] | None"  # the variables that are 1, or ``None`` if the search found nothing
    bound: float  # no solution costs less
    proven: bool  # nothing better exists; without a solution: none exists
    seconds: float  # how long it took


def _of_solver(module: str) -> ModuleType:
    """Return a module of OR-Tools, an extra that is loaded when an optimum is asked for.

    Raises:
        PermanentError: OR-Tools is not installed; the message says how to get it.
    """
    try:
        return import_module(f"ortools.{module}")
    except ImportError as error:
        msg = "an exact plan needs OR-Tools, which is not installed: pip install 'kafka-group-autoscaler[exact]'"
        raise PermanentError(msg) from error


def new_model() -> "CpModel":
    """Return an empty model for CP-SAT; errors as of ``_of_solver``."""
    model: CpModel = _of_solver("sat.python.cp_model").CpModel()
    return model


def new_integer_program() -> "Solver":
    """Return an empty program for SCIP, which chooses among columns better than CP-SAT; errors as of ``_of_solver``."""
    return _of_solver("linear_solver.pywraplp").Solver.CreateSolver("SCIP")


def solve(model: "CpModel", hint: "Mapping[IntVar, bool]", seconds: float) -> Solved:
    """Search from a hint, a solution or a part of one, which the model is given, until the optimum is proven or time is over.

    One worker and a fixed seed, and the limit is first of all one of work done: equal input gives an equal answer, unless the
    machine is so slow that the time runs out before.
    """
    cp_model = _of_solver("sat.python.cp_model")
    for variable, value in hint.items():
        model.add_hint(variable, value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.max_deterministic_time = seconds * _SECONDS_OF_WORK
    status = solver.solve(model)
    found = status in {cp_model.OPTIMAL, cp_model.FEASIBLE}
    return Solved(
        true=frozenset(i for i, value in enumerate(solver.response_proto.solution) if value == 1) if found else None,
        bound=solver.best_objective_bound,
        proven=status in {cp_model.OPTIMAL, cp_model.INFEASIBLE},
        seconds=solver.wall_time,
    )
