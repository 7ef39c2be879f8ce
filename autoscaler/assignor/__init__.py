"""For applications that keep Kafka's own membership and want the controller's placement: an assignor that asks for it.

``PlanAssignor`` goes into ``partition_assignment_strategy`` of kafka-python's consumer; the rest of the application stays.
May import: ``handover``, kafka-python, because it runs in the application.
"""

from autoscaler.assignor.placement_follower import Placements
from autoscaler.assignor.plan_assignor import CooperativePlanAssignor, PlanAssignor

__all__ = ["CooperativePlanAssignor", "Placements", "PlanAssignor"]
