"""Who commits in transactions is fenced before it is said to be over, whoever remembers it; and lapses once it is fenced."""

from dataclasses import dataclass

import pytest

from autoscaler.errors import SettingsError
from autoscaler.handover.commit_metadata import transactional_id
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.records import Left, Released, Tp
from autoscaler.handover.worker_events import GivenUp, Lapse
from autoscaler.handover.worker_state import WorkerState, given_back
from autoscaler.worker.delivery import Batch, Intake, Lease, Run
from autoscaler.worker.settings import WorkerSettings, worker_settings
from tests.handover.controller_driver import CONTROL, LEASE, P0, A, B, C, G, Log, alive
from tests.handover.worker_driver import Driven, L


def two_over() -> Log:
    """Return a group in which the platform saw a worker of either kind end; C goes on."""
    log = alive(C)
    log.beat(A, instance="i-a", exactly_once=True)
    log.beat(B, instance="i-b")
    log.state.ended(["i-a", "i-b"])
    return log


def test_who_commits_in_transactions_is_over_only_once_it_is_fenced() -> None:
    log = two_over()
    assert log.state.overdue() == {A: "platform", B: "platform"}
    assert log.state.to_fence() == (A,)
    assert log.state.to_expire() == {B: "platform"}, "nobody else waits for it"
    log.state.fenced(A)
    assert log.state.to_fence() == ()
    assert log.state.to_expire() == {A: "platform", B: "platform"}


def test_a_silent_one_is_fenced_first_too() -> None:
    log = alive(C)
    log.beat(A, exactly_once=True)
    log.tick(0.0, log.offset - 1)
    log.tick(0.0, log.offset - 1)
    log.tick(LEASE + 0.5 + LEASE / 10, log.offset - 1)
    assert A in log.state.to_fence()
    assert A not in log.state.to_expire()


def test_the_plan_remembers_who_has_to_be_fenced_when_its_heartbeats_are_gone() -> None:
    log = alive(C)
    log.beat(A, instance="i-a", exactly_once=True)
    plan = log.plan({P0: A})
    assert plan.exactly_once == {A}
    assert log.plan({P0: C}).exactly_once == {A}, "as long as somebody has to wait for it"
    fresh = ControllerState(G, CONTROL, LEASE)
    fresh.fold(plan, offset=0, at=0.0)
    assert fresh.exactly_once(A)
    assert not fresh.exactly_once(C)


def test_another_controller_fences_again() -> None:
    """What one has fenced and not written down, its successor does not know; fencing twice does no harm."""
    one, other = two_over(), two_over()
    one.state.fenced(A)
    assert other.state.to_fence() == (A,)


def test_a_fenced_worker_lapses() -> None:
    w = Driven().joined().holding()
    assert w.feed(GivenUp(why="fenced")) == [Lapse(why="fenced")]
    assert w.state.valid_until == float("-inf")


def test_heartbeats_say_which_kind_a_worker_is() -> None:
    for kind in (True, False):
        w = Driven(state=WorkerState(group=G, me=A, control_id="control-id", lease_s=L, exactly_once=kind)).joined()
        assert w.beats[-1].exactly_once is kind


def test_every_incarnation_has_a_transactional_id_of_its_own() -> None:
    assert transactional_id("g/h", "u") == "wk/g/h/u"


@dataclass
class Message:
    """Stands for the client's."""

    number: int

    def offset(self) -> int:
        return self.number

    def __len__(self) -> int:
        return 1


def intake(*runs: Run) -> tuple[Intake, Batch]:
    """Return an intake whose application has a batch of one record of each of these."""
    made = Intake(None, lambda: 0.0, batch_size_bytes=2, wait_time_s=0.0, idle_s=1.0, exactly_once=True)  # type: ignore[arg-type]
    entries = [(Message(n), run) for n, run in enumerate(runs)]
    batch = Batch(entries, Lease(until=float("inf")), lambda: 0.0, exactly_once=True)  # type: ignore[arg-type]
    made._batch = batch
    return made, batch


def run(partition: int) -> Run:
    return Run(tp=Tp("id", partition), topic="t", epoch=1, position=10, processed=0, committed=0)


def test_what_a_batch_produces_is_kept_until_it_ends() -> None:
    _, batch = intake(run(0))
    batch.produce("out", "1", key="k", partition=3, headers={"h": "x"})
    batch.produce("out", b"2")
    assert [(o.topic, o.value, o.key, o.partition) for o in batch.end()] == [("out", "1", "k", 3), ("out", b"2", None, None)]
    with pytest.raises(RuntimeError, match="has not ended"):
        batch.produce("out", "3")
    assert len(batch.end()) == 2, "asked for again after it was refused: the same"


def test_without_the_option_nothing_can_be_produced() -> None:
    with pytest.raises(RuntimeError, match="exactly_once=True"):
        Batch([], Lease(), lambda: 0.0).produce("out", "1")


def test_only_what_was_handed_out_goes_into_the_transaction() -> None:
    one, other = run(0), run(1)
    _, batch = intake(one, one, other)
    for number, _ in enumerate(batch):
        if number == 1:
            break
    assert batch.reached() == {one: 2}


def test_nothing_of_a_batch_that_does_not_count_is_kept() -> None:
    kept, lost = run(0), run(1)
    made, batch = intake(kept, lost, kept)
    list(batch)
    lost.stopping = True
    assert made.finish(processed=False), "a worker waits for it"
    assert (kept.processed, lost.processed, kept.handed, lost.handed) == (0, 0, False, False)
    assert made._carry == []


def test_an_incarnation_that_is_over_gives_back_all_that_it_holds() -> None:
    w = Driven().joined().holding()
    (released,) = given_back(w.state)
    assert (released.tp, released.epoch, released.failed) == (next(iter(w.state.active)), w.state.epoch, False)
    w.feed(GivenUp(why="fenced"))
    assert given_back(w.state) == ()


def test_what_an_incarnation_gives_back_it_has_not_lost() -> None:
    """Owner after owner may end because a topic takes no outputs: none of them parks a partition (rule 9)."""
    for gives_back in (False, True):
        log = alive(B)
        log.beat(A)
        plan = log.plan({P0: A})
        log.beat(A, owned={P0: plan.epoch.number}, epoch=plan.epoch.number)
        if gives_back:
            log.say(Released(group=G, tp=P0, worker=A, control_id=CONTROL, epoch=plan.epoch.number, offset=-1))
        log.say(Left(group=G, worker=A, control_id=CONTROL))
        assert (log.state.lost() == {}) is gives_back
        assert log.state.orphans() == {P0}


@pytest.mark.parametrize(
    ("given", "said", "expected"), [(None, "true", True), (None, "", False), (False, "true", False), (True, "", True)]
)
def test_an_argument_wins_over_the_environment(*, given: bool | None, said: str, expected: bool) -> None:
    where = {"AUTOSCALER_BOOTSTRAP": "b:1", "AUTOSCALER_GROUP": "g", "AUTOSCALER_EXACTLY_ONCE": said}
    assert settings(where, exactly_once=given).exactly_once is expected


def test_an_unclear_environment_is_an_error() -> None:
    with pytest.raises(SettingsError, match="AUTOSCALER_EXACTLY_ONCE must be true or false, not 'perhaps'"):
        settings({"AUTOSCALER_BOOTSTRAP": "b:1", "AUTOSCALER_GROUP": "g", "AUTOSCALER_EXACTLY_ONCE": "perhaps"})


def settings(environment: dict[str, str], *, exactly_once: bool | None = None) -> WorkerSettings:
    return worker_settings(
        None,
        group=None,
        topics=None,
        name=None,
        instance=None,
        lease_s=None,
        limits={},
        exactly_once=exactly_once,
        environment=environment,
    )
