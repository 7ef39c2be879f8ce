"""Balance by goals: which broker leads and stores which partition, action by action, each with its score.

Lives here: ``score`` (the published formula), ``snapshot`` (a cluster as arrays), ``goal`` (what to balance by), ``settings``,
``problem`` (loads and bands), ``kernels``, ``best_fit`` and ``trim`` (the model, the default choice, a last look; compiled),
``greedy`` (the published choice), ``statistics`` (the check), ``plan``, ``actions`` (the difference of two states), ``cycle``
(what is remembered), ``stuck`` (why something stays), ``rightsizing``, ``explain``, ``recheck`` (of what is
left of a plan). May not: know Kafka, time, guards or groups,
or do what it has planned. May import: ``model``, numpy, and of ``packing.kernels`` only how a function is compiled. The names
below are the public interface.
"""

from autoscaler.goals.actions import (
    Action,
    Estimate,
    MoveLeadership,
    MoveReplica,
    applied,
    batches,
    difference,
    estimate,
    fitting,
    target_replicas,
)
from autoscaler.goals.cycle import Cycle, Memory, Outcome, Seen, decide, see
from autoscaler.goals.explain import actions_explained, explained, loads_explained
from autoscaler.goals.goal import CATALOGUE, GOALS, HARD, Goal, Name, ranked
from autoscaler.goals.plan import Plan, RunnerUp, balance
from autoscaler.goals.problem import Problem, problem_of
from autoscaler.goals.recheck import obstacles
from autoscaler.goals.rightsizing import Provision, provision
from autoscaler.goals.score import Band, Tail, weighted
from autoscaler.goals.settings import Settings, Strategy
from autoscaler.goals.snapshot import Snapshot, State, of_owners
from autoscaler.goals.statistics import Spread, Statistics, loads_of, statistics, worse

__all__ = [
    "CATALOGUE",
    "GOALS",
    "HARD",
    "Action",
    "Band",
    "Cycle",
    "Estimate",
    "Goal",
    "Memory",
    "MoveLeadership",
    "MoveReplica",
    "Name",
    "Outcome",
    "Plan",
    "Problem",
    "Provision",
    "RunnerUp",
    "Seen",
    "Settings",
    "Snapshot",
    "Spread",
    "State",
    "Statistics",
    "Strategy",
    "Tail",
    "actions_explained",
    "applied",
    "balance",
    "batches",
    "decide",
    "difference",
    "estimate",
    "explained",
    "fitting",
    "loads_explained",
    "loads_of",
    "obstacles",
    "of_owners",
    "problem_of",
    "provision",
    "ranked",
    "see",
    "statistics",
    "target_replicas",
    "weighted",
    "worse",
]
