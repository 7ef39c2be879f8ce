"""What Prometheus is told: the figures of a cycle, nothing for what is not known, and a recommendation that stays."""

import logging
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from autoscaler.adapters.http.metrics import Cycle, JobMetrics
from autoscaler.model import HandoverDone
from tests import builders as b
from tests.adapters.audit import audit_cases as cases
from tests.adapters.http.served import cycle
from tests.fakes import FakeClock

ROOT = Path(__file__).resolve().parents[3]
ORDERS = {"cluster": "east", "group": "g"}


def told(
    *cycles: Cycle,
    now: float = cases.T0 + 1.0,
    handovers: Iterable[HandoverDone] = (),
    waiting: tuple[int, float | None] = (0, None),
    partitions: bool = False,
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the samples as Prometheus reads them, by name and labels."""
    from prometheus_client import generate_latest  # noqa: PLC0415  its name says nothing beside the others

    metrics = JobMetrics(FakeClock(wall=now), lambda: waiting, partitions=partitions)
    for one in cycles:
        metrics.take(one, handovers)
    text = generate_latest(metrics.registry).decode()
    return {(s.name, frozenset(s.labels.items())): s.value for f in text_string_to_metric_families(text) for s in f.samples}


def one(samples: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float | None:
    """Return the value of the only sample of this name that has these labels."""
    found = [v for (n, of), v in samples.items() if n == name and set(labels.items()) <= of]
    assert len(found) <= 1, found
    return found[0] if found else None


def test_the_figures_of_a_cycle_are_told_with_cluster_and_group() -> None:
    name = cycle().name
    seen = told(cycle(recommended=4, recommended_age_s=2.0))
    group = {"cluster": "east", "group": name}
    expected = {
        "consumers": 2, "consumers_recommended": 4, "bytes_per_second": 90.0, "partitions": 2, "partitions_unknown": 0,
        "known": 1, "utilisation_max_ratio": 0.5, "cycle_age_seconds": 0.75, "advice_age_seconds": 2.75,
        "sample_age_seconds": 1.0, "cycles_total": 1,
    }  # fmt: skip
    assert {k: one(seen, f"autoscaler_{k}", **group) for k in expected} == pytest.approx(expected)
    assert one(seen, "autoscaler_decision_info", **group, reason="WITHIN_TARGET", limited_by="", mode="act") == 1


def test_what_is_not_known_has_no_sample_and_the_recommendation_stays() -> None:
    seen = told(cycle(cases.blind, recommended=4, recommended_age_s=30.0, consumers_now=None, total_bytes_per_s=None))
    assert one(seen, "autoscaler_consumers") is None
    assert one(seen, "autoscaler_bytes_per_second") is None
    assert one(seen, "autoscaler_known") == 0
    assert one(seen, "autoscaler_partitions_unknown") == 1
    assert one(seen, "autoscaler_consumers_recommended") == 4
    assert one(seen, "autoscaler_advice_age_seconds") == pytest.approx(30.75)
    never = told(cycle(cases.blind, recommended=None, recommended_age_s=None))
    assert one(never, "autoscaler_consumers_recommended") is None
    assert one(never, "autoscaler_advice_age_seconds") is None


def test_the_sum_of_a_group_is_not_told_where_a_part_of_it_is_missing() -> None:
    whole = cycle()
    parts = Cycle(line=whole.line, loads=(*whole.loads[:-1], b.load(whole.loads[-1].partition, None, lag_records=None)))
    assert one(told(whole), "autoscaler_records_per_second") is not None
    assert one(told(parts), "autoscaler_records_per_second") is None
    assert one(told(parts), "autoscaler_lag_records_max") == whole.loads[0].lag_records


def test_steps_cycles_and_pauses_are_counted_over_the_cycles() -> None:
    done = (cases.handover(1, pause_s=0.04), cases.handover(2, pause_s=None))
    seen = told(cycle(cases.hot), cycle(cases.hot, at=cases.T0 + 1), now=cases.T0 + 2, handovers=done)
    assert one(seen, "autoscaler_cycles_total") == 2
    assert one(seen, "autoscaler_actions_total", kind="move") == 4
    assert one(seen, "autoscaler_actions_total", kind="remove") == 0
    assert one(seen, "autoscaler_handover_pause_seconds_count") == 2, "one without a former owner paused no consumer"
    assert one(seen, "autoscaler_cycle_stage_seconds_sum", stage="decide") == pytest.approx(0.008)


def test_partitions_are_told_only_where_they_are_asked_for() -> None:
    assert one(told(cycle()), "autoscaler_partition_bytes_per_second", partition="1") is None
    assert one(told(cycle(), partitions=True), "autoscaler_partition_bytes_per_second", partition="1") == 40.0


def test_what_waits_for_the_tables_and_what_the_log_warns_of_is_told() -> None:
    seen = told(now=cases.T0 + 100, waiting=(3, cases.T0))
    assert (one(seen, "autoscaler_audit_waiting_cycles"), one(seen, "autoscaler_audit_waiting_seconds")) == (3, 100.0)
    metrics = JobMetrics(FakeClock(), lambda: (0, None))
    log = logging.getLogger("a test of the metrics")
    log.addHandler(metrics.handler)
    log.info("well")
    log.warning("not so well")
    log.removeHandler(metrics.handler)
    (messages,) = (m for m in metrics.registry.collect() if m.name == "autoscaler_log_messages")
    assert {s.labels["level"]: s.value for s in messages.samples} == {"warning": 1, "error": 0, "critical": 0}


def test_labels_do_not_grow_with_time() -> None:
    cycles = [cycle(cases.hot, at=cases.T0 + n, reason=f"R{n}") for n in range(5)]
    assert len(told(*cycles)) == len(told(cycles[0])), "of a group there is one latest decision"


def test_the_page_names_every_metric_and_no_other() -> None:
    seen = {
        re.sub(r"_(total|bucket|count|sum|created)$", "", n)
        for n, _ in told(cycle(), handovers=(cases.handover(1),), partitions=True)
    }
    ours = {n for n in seen if n.startswith("autoscaler_")}
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    named = {re.sub(r"_total$", "", n) for n in re.findall(r"`(autoscaler_[a-z_]+)`", page)}
    assert named == ours
