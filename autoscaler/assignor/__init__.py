"""For applications that keep Kafka's own membership and want the controller's placement: an assignor that asks for it.

Lives here: ``PlanAssignor``, for ``partition_assignment_strategy`` of kafka-python's consumer, and what reads placements for it.
May not: wait for a broker while a group rebalances. May import: ``handover``, kafka-python.
"""

from autoscaler.assignor.placement_follower import Placements
from autoscaler.assignor.plan_assignor import CooperativePlanAssignor, PlanAssignor

__all__ = ["CooperativePlanAssignor", "Placements", "PlanAssignor"]
