"""What ``autoscaler check`` makes of what a cluster shows: the page's example, and a cluster without any permissions."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autoscaler.adapters.kafka.membership import operations_on
from autoscaler.adapters.kafka.permissions import Seen, SeenGroup, SeenTopic
from autoscaler.cli.checking import judged, lines
from autoscaler.config.clusters import Cluster
from autoscaler.config.settings import Group
from autoscaler.errors import TransientError
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC
from autoscaler.model import GroupMembers, Member

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "permissions.md"
OWN = SeenTopic(partitions=8, allowed=frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"}))
CLUSTER = Cluster.model_validate({
    "name": "main",
    "connection": {
        "bootstrap.servers": "broker-1:9092", "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "autoscaler", "sasl.password": "env:PASSWORD",
    },
})  # fmt: skip
ORDERS = Group.model_validate({
    "group": "orders", "topics": ["orders"], "mode": "act", "workers": {"kind": "processes", "command": ["true"]},
    "capacity_bytes_per_s": 1e6,
})  # fmt: skip


def seen(*, members: int = 0, topic: frozenset[str], group: frozenset[str], cluster: frozenset[str], ids: bool) -> Seen:
    joined = [
        Member(member_id=f"m{n}", client_id="orders-app", host="/10.0.0.7", assigned=frozenset(), place=n, topics=None)
        for n in range(members)
    ]
    how = {"kind": "CLASSIC", "state": "STABLE", "assignor": "range"} if members else {"kind": "UNKNOWN", "state": "DEAD"}
    found = GroupMembers(**{"assignor": "", **how}, members=tuple(joined), at=0.0)
    topics = {"orders": SeenTopic(partitions=12, allowed=topic), CONTROL_TOPIC: OWN, HEARTBEAT_TOPIC: OWN}
    return Seen(cluster=cluster, topics=topics, groups={"orders": SeenGroup(members=found, allowed=group)}, ids=ids)


def test_the_page_shows_what_is_printed() -> None:
    reads, describes = frozenset({"READ", "DESCRIBE"}), frozenset({"DESCRIBE"})
    checked = judged(CLUSTER, ORDERS, seen(members=3, topic=reads, group=reads, cluster=describes, ids=False))
    assert not checked.fine
    printed = "\n".join(lines([checked], {}))
    assert f"$ autoscaler check --config conf/autoscaler.yaml\n{printed}\n```" in PAGE.read_text(encoding="utf-8"), printed


def test_what_only_makes_it_better_leaves_it_fine() -> None:
    describe = frozenset({"DESCRIBE"})
    checked = judged(CLUSTER, ORDERS, seen(ids=True, topic=describe, group=describe, cluster=frozenset()))
    assert checked.fine
    said = list(lines([checked], {}))
    assert said[0] == "orders: fine"
    assert sum(line.startswith("  without: ") for line in said) == 4
    assert len(checked.commands) == 3, "one for each resource"


def test_a_pattern_does_not_mean_a_topic_that_only_another_group_names() -> None:
    describe = frozenset({"DESCRIBE"})
    shown = seen(ids=True, topic=describe, group=describe, cluster=frozenset())
    absent = {**shown.topics, "orders-late": SeenTopic(partitions=None, allowed=None)}
    pattern = ORDERS.model_copy(update={"topics": ("^orders",)})
    checked = judged(CLUSTER, pattern, replace(shown, topics=absent))
    assert checked.fine, checked.refused
    named = judged(CLUSTER, ORDERS.model_copy(update={"topics": ("orders", "orders-late")}), replace(shown, topics=absent))
    assert named.refused == ("topic orders-late is not there",)


@pytest.mark.parametrize("at", ["coordinator", "description"])
def test_a_coordinator_that_does_not_answer_is_not_read_as_a_missing_permission(at: str) -> None:
    found = SimpleNamespace(error_code=14 * (at == "coordinator"), node_id=1)
    described = SimpleNamespace(error_code=14, authorized_operations=set())
    answers = iter([SimpleNamespace(coordinators=[found]), SimpleNamespace(groups=[described])])
    admin = SimpleNamespace(_manager=SimpleNamespace(run=lambda _: next(answers)))
    with pytest.raises(TransientError, match="group orders: CoordinatorLoadInProgressError"):
        operations_on(admin, "orders")
