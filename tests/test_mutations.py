"""A test of the tests: each of these faults, put into a module of the package, is noticed by the test that its row names.

The rules of the handover have a table of their own (``handover/mutations.py``), which needs no process for each.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutant import NOT_IMPORTED, ROOT, outcome


@dataclass(frozen=True, slots=True)
class Mutation:
    """What is replaced in one module, and the test that is to notice."""

    module: str
    old: str
    new: str
    noticed_by: str

    def __str__(self) -> str:
        return f"{Path(self.module).stem}: {self.new}"


ALL = [
    Mutation(
        "core/load/partition_progress.py", "rewound_at < patience_s", "rewound_at > patience_s",
        "core/test_partition_progress.py::test_how_a_partition_gets_on",
    ),
    Mutation(
        "core/guards/conditions.py", "cycle.now - last >= rest", "cycle.now - last <= rest",
        "scenarios/test_guard_timelines.py::test_shrinking_takes_its_step_and_the_next_after_the_cool_down",
    ),
    Mutation(
        "core/sizing/size.py", "if load > limit * (1 + _ROUNDING)", "if load < limit * (1 + _ROUNDING)",
        "core/test_decide.py::test_managed_group",
    ),
    Mutation(
        "core/capacity/worker_speed.py", "x.lag_s > _BEHIND_S", "x.lag_s < _BEHIND_S",
        "core/test_worker_speed.py::test_who_has_less_to_do_than_its_peers",
    ),
    Mutation(
        "core/diff.py",
        "return (*parkings, *sorted(resets, key=lambda r: r.partition), *add, *moves, *remove)",
        "return (*parkings, *sorted(resets, key=lambda r: r.partition), *moves, *add, *remove)",
        "core/test_decide.py::test_managed_group",
    ),
    Mutation(
        "streaming/interval_bytes.py", '(facts.size >= was["size"])', "(facts.size >= 0)",
        "streaming/test_counters.py::test_a_segment_that_is_deleted_while_nothing_arrives_teaches_no_record_size",
    ),
    Mutation(
        "streaming/lag.py", 'now - rows["ts"] <= rules.known_for_s', 'now - rows["ts"] <= 1e9',
        "streaming/test_counters.py::test_known_needs_fresh_sample_rate_and_commit",
    ),
    Mutation(
        "worker/offsets.py", "r not in unbegun", "True",
        "worker/test_offsets.py::test_before_a_release_everything_fetched_is_committed_again_and_what_never_began_is_not",
    ),
    Mutation(
        "worker/processing.py", "raise error", "pass",
        "worker/test_processing.py::test_only_what_has_ended_is_counted_whatever_happens_at_a_record",
    ),
    Mutation(
        "topic_selection.py", "not topic.startswith(_INTERNAL) and", "",
        "test_topic_selection.py::test_a_topic_is_meant_by_its_name_or_by_a_pattern_that_does_not_leave_it_out",
    ),
    Mutation(
        "config/windows.py", "< timedelta(minutes=duration_min)", "> timedelta(minutes=duration_min)",
        "config/test_windows.py::test_when_a_window_is_open",
    ),
    Mutation(
        "config/hot_reload.py", "stamp == self._read and not again", "stamp == self._read",
        "config/test_hot_reload.py::test_a_file_that_refers_to_what_is_not_there_yet_holds_once_it_is",
    ),
    Mutation(
        "adapters/audit/flusher.py", "self._all_due = now + self._flush_s", "self._all_due = now",
        "adapters/audit/test_audit_flush.py::test_a_table_has_one_commit_per_flush_s_however_many_cycles_there_are",
    ),
    Mutation(
        "adapters/workers/process_pool.py", "or now >= self._slots[slot].not_before", "or True",
        "adapters/test_processes.py::test_one_that_keeps_dying_is_started_ever_more_seldom_and_not_beyond_the_limit",
    ),
    Mutation(
        "adapters/workers/pods/steps.py", "p.rank < max(v.rank for v in rest)", "False",
        "adapters/test_pods.py::test_nothing_goes_while_one_that_stays_would_be_taken_first",
    ),
    Mutation(
        "adapters/workers/pods/steps.py", "if unmarked := tuple(p for p in rest if not p.doomed)", "if unmarked := ()",
        "adapters/test_pods.py::test_a_victim_is_marked_first_and_goes_once_the_mark_is_seen",
    ),
    Mutation(
        "packing/incremental.py", "after[c] <= max(limit_of(capacity), before[c])", "True",
        "packing/test_repair.py::test_draining_moves_only_what_the_emptied_ones_held",
    ),
    Mutation(
        "packing/problem/lower_bounds.py", "share > 0.5 + ROUNDING", "share > 1.5",
        "packing/test_lower_bounds.py::test_the_second_bound_sees_what_does_not_go_together",
    ),
    Mutation(
        "console/cycle_reader.py", "if size < self._at:", "if size < 0:",
        "console/test_report.py::test_a_tail_follows_a_rotated_file_and_can_start_near_the_end",
    ),
    Mutation(
        "assignor/plan_assignor.py", "if now != held:", "if now == held:",
        "assignor/test_assignor.py::test_what_was_withheld_is_asked_for_if_no_member_does",
    ),
    Mutation(
        "controller/cluster_executor.py", "in work.keys() - busy:", "in work.keys():",
        "controller/test_cluster_executor.py::test_a_lane_that_waits_keeps_no_other_waiting_and_is_left_out_until_it_is_done",
    ),
    Mutation(
        "concurrency.py", "if not wait([future], timeout_s).done:", "if not wait([future]).done:",
        "test_bounded_call.py::test_a_call_that_does_not_return_is_left_behind",
    ),
    Mutation(
        "cli/preflight.py", 'group.get("mode") == "act" and', "",
        "cli/test_cli.py::test_what_starts_the_workers_of_an_acting_group_is_looked_for",
    ),
    Mutation(
        "console/job_state.py", "age_s <= quiet_s and", "",
        "console/test_job_state.py::test_a_job_that_spark_submit_started_itself_is_judged_by_its_cycles",
    ),
    Mutation(
        "core/sizing/other_counts.py", "if needed > count:", "if needed > count + 1:",
        "core/test_other_counts.py::test_what_another_number_would_have_meant",
    ),
]  # fmt: skip


@pytest.mark.parametrize("mutation", ALL, ids=str)
def test_a_fault_is_noticed(mutation: Mutation, tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    ended = outcome(mutation.module, _mutated(mutation), mutation.noticed_by, said)
    assert ended == 1, said.read_text(encoding="utf-8")[-3000:]


def test_a_fault_in_a_module_that_is_not_imported_is_told_from_one_that_is_not_noticed(tmp_path: Path) -> None:
    said, untouched = tmp_path / "said.txt", (ROOT / "autoscaler" / "errors.py").read_text(encoding="utf-8")
    assert outcome("errors.py", untouched, "test_bounded_call.py", said) == 0
    assert outcome("cli/preflight.py", "", "test_bounded_call.py", said) == NOT_IMPORTED


def _mutated(mutation: Mutation) -> str:
    text = (ROOT / "autoscaler" / mutation.module).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1
    return text.replace(mutation.old, mutation.new)
