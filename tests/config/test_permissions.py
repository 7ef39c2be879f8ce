"""What the job needs on a cluster, by what a group asks of it; the page of permissions says the same."""

from pathlib import Path

import pytest

from autoscaler.config.permissions import EVERY, Need, needed, needed_to_balance
from autoscaler.config.settings import Group

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "permissions.md"


def group(**more: object) -> Group:
    workers = {"workers": {"kind": "processes", "command": ["true"]}} if more.get("mode") == "act" else {}
    return Group.model_validate({"group": "orders", "topics": ["a", "^b"], "capacity_bytes_per_s": 1e6, **workers, **more})


def said(needs: tuple[Need, ...], *, required: bool) -> set[str]:
    return {f"{n.operation} {n.on} {n.name}" for n in needs if n.required is required}


READS = {"Describe topic a", "Describe topic b1", "Describe group orders"}
PUBLISHES = {
    *(f"{o} topic {t}" for t in ("__autoscaler_control", "__autoscaler_heartbeats")
      for o in ("Create", "Read", "Write", "Describe", "DescribeConfigs")),
    "Write transactional-id __autoscaler_control/",
}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "placed", "writes"),
    [
        ({"mode": "advise"}, False, False),
        ({"mode": "act"}, False, True),
        ({"mode": "advise", "assignment": "native"}, True, False),
        ({"mode": "act", "assignment": "native"}, False, False),
        ({"mode": "act", "assignment": "native"}, True, True),
    ],
)
def test_only_who_publishes_plans_or_placements_must_write(settings: dict[str, str], *, placed: bool, writes: bool) -> None:
    needs = needed(group(**settings), ["a", "b1"], placed=placed)
    assert said(needs, required=True) == (READS | PUBLISHES if writes else READS)
    optional = said(needs, required=False)
    assert {"Describe cluster kafka-cluster", "Read topic a", "DescribeConfigs topic b1"} <= optional
    assert ("Read topic __autoscaler_control" in optional) is not writes
    assert ("Read group orders" in optional) is writes


def test_the_page_names_every_operation_of_every_resource() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| job")]
    words = {"topic": "topics", "group": "groups", "cluster": "the cluster", "transactional-id": "transactional ids"}
    for need in needed(group(mode="act"), ["a"], placed=False):
        where = need.name if need.name.startswith("__") and need.on == "topic" else words[need.on]
        assert any(need.operation in row and where in row for row in rows), need


@pytest.mark.parametrize("acts", [False, True])
def test_the_page_names_what_the_job_that_balances_brokers_needs(*, acts: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| job that balances brokers")]
    words = {"cluster": "the cluster", "transactional-id": "transactional ids"}
    for need in needed_to_balance(acts=acts):
        where = "all topics" if need.name == EVERY else words.get(need.on, need.name)
        assert any(need.operation in row and where in row for row in rows if acts or "always" in row), need
