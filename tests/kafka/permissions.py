"""Permissions on the guarded broker, given and taken away."""

from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from autoscaler.devtools.broker import Broker
from tests.until import until

TOPIC, GROUP, CLUSTER, TRANSACTION = (
    ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER, ResourceType.TRANSACTIONAL_ID,
)  # fmt: skip
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
Grant = tuple[ResourceType, str, AclOperation]
_ANY: Any = None  # the client's way to say so; its types know nothing of it


def pattern(kind: ResourceType) -> ResourcePatternType:
    return ResourcePatternType.PREFIXED if kind is TRANSACTION else ResourcePatternType.LITERAL


class Permissions:
    """Who may do what on the guarded broker, which has been told and knows it when a call returns."""

    def __init__(self, broker: Broker) -> None:
        self._admin = AdminClient({**broker.connection(), "log_level": 0})

    def grant(self, user: str, *grants: Grant) -> None:
        acls = [AclBinding(k, name, pattern(k), f"User:{user}", "*", what, AclPermissionType.ALLOW) for k, name, what in grants]
        for future in self._admin.create_acls(acls).values():
            future.result(30)
        until(f"the broker knows what {user} may", lambda: self._known(user), lambda known: known >= set(grants))

    def revoke(self, user: str, *grants: Grant) -> None:
        """Take some permissions away, or all."""
        whats = [AclBindingFilter(k, n, pattern(k), f"User:{user}", "*", w, AclPermissionType.ALLOW) for k, n, w in grants]
        for future in self._admin.delete_acls(whats or [_of(user)]).values():
            future.result(30)
        gone = set(grants)
        until(
            f"the broker knows what {user} may not",
            lambda: self._known(user),
            lambda known: not (known & gone if gone else known),
        )

    def _known(self, user: str) -> set[Grant]:
        """Return what the broker lets a user do: by its own copy, which is a moment behind the controller's that has answered."""
        return {(acl.restype, acl.name, acl.operation) for acl in self._admin.describe_acls(_of(user)).result(30)}


def _of(user: str) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY, _ANY, ResourcePatternType.ANY, f"User:{user}", _ANY, AclOperation.ANY, AclPermissionType.ANY
    )
