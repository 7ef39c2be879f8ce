"""The group's committed offsets: what a worker writes of its partitions, and reads of those that it takes.

Waited for, so that no older commit can follow a release, and only as long as the lease is valid; exactly once, in the
transaction of the outputs. Which partitions, and when, is ``effect_loop.py``'s business.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from autoscaler.errors import PermanentError
from autoscaler.handover.commit_metadata import commit_metadata, is_of_topic
from autoscaler.handover.records import Tp
from autoscaler.worker.clock import Elapsed
from autoscaler.worker.commit_client import CommitClient
from autoscaler.worker.delivery import Lease, Run
from autoscaler.worker.transactions import Outcome, Output, Transactions

_METADATA_S = 2.0
_HOPELESS_S = 10.0  # a topic may be unknown to a broker for a moment after it has started
_REFUSALS = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})
_log = logging.getLogger(__name__)


class Offsets:
    """Commits of one incarnation, as long as its lease is valid on ``now``'s clock; exactly once in ``transactions``.

    ``over`` is told why, when the transactions are over.
    """

    def __init__(  # noqa: PLR0917  (what commits depend on)
        self,
        client: CommitClient,
        uuid: str,
        lease: Lease,
        now: Elapsed,
        transactions: Transactions | None,
        over: Callable[[str], None],
    ) -> None:
        self._client, self._uuid, self._lease, self._now = client, uuid, lease, now
        self._transactions, self._over = transactions, over
        self._committing = threading.Lock()  # what to commit is looked up inside, or an older offset could follow a newer
        self._refused_since: dict[Tp, float] = {}  # since when commits of a partition are refused for what it is

    # --- writing ---

    def commit(self, runs: Iterable[Run]) -> bool:
        """Commit what is processed and not committed; return whether all of it is."""
        return self._commit(lambda: {r: r.processed for r in runs if r.processed > r.committed})

    def commit_last(self, runs: Sequence[Run], unbegun: Collection[Run]) -> bool:
        """Commit before a release, also what has been committed before: a late commit of an earlier owner may have set it back.

        Not so exactly once: there it is fenced. Nor of those that were never fetched.
        """
        if self._transactions is not None:
            return self.commit(runs)
        return self._commit(lambda: {r: r.processed for r in runs if r.processed >= 0 and r not in unbegun})

    def commit_again(self, runs: Iterable[Run], older_than: float) -> bool:
        """Rule 10: commit again what stands still since then, or the broker forgets it; also soon after taking, see ``Run``."""
        return self._commit(lambda: {r: r.committed for r in runs if r.committed >= 0 and r.committed_at <= older_than})

    def commit_with(self, outputs: Sequence[Output], reached: Mapping[Run, int]) -> Outcome:
        """Write outputs and the offsets that they came from in one transaction.

        Raises:
            PermanentError: An output is refused; nothing was written.
        """
        with self._committing:
            return self._transact(outputs, reached)

    def is_hopeless(self, run: Run) -> bool:
        """Give a partition up without its last commit when brokers refuse that for good: its topic is gone, or not allowed.

        Nothing is lost by it: the next owner begins at what is committed. Waiting would keep the others waiting, too.
        """
        since = self._refused_since.get(run.tp)
        if since is None or self._now() - since < _HOPELESS_S or self._now() >= self._lease.until:
            return False
        _log.error("%s-%s is released without its last commit, which is refused", run.topic, run.tp.partition)
        return True

    def forget(self, tp: Tp) -> None:
        """Take it that a partition is released."""
        self._refused_since.pop(tp, None)

    def _commit(self, look: Callable[[], Mapping[Run, int]]) -> bool:
        with self._committing:
            wanted = look()
            if not wanted:
                return True
            if self._now() >= self._lease.until:
                return False
            if self._transactions is None:
                return self._commit_plainly(wanted)
            return self._transact_offsets(wanted)

    def _commit_plainly(self, wanted: Mapping[Run, int]) -> bool:
        try:
            done = self._client.commit(self._named(wanted), lambda: self._now() < self._lease.until)
        except KafkaException as e:
            if e.args[0].code() not in _REFUSALS:
                _log.warning("%s", e)
                return False
            if len(parts := _by_topic(wanted)) > 1:  # raised instead of said of each where all of them are refused: ask for each
                done_each = [self._commit_plainly(part) for part in parts]
                return all(done_each)
            for run in wanted:
                self._note_refusal(run, e.args[0])
            return False
        if done is None:
            return False
        bad = {(t.topic, t.partition): t.error for t in done if t.error is not None}
        for run, offset in wanted.items():
            error = bad.get((run.topic, run.tp.partition))
            if error is None:
                self._note_commit(run, offset)
            else:
                self._note_refusal(run, error)
        return not bad

    def _transact_offsets(self, wanted: Mapping[Run, int]) -> bool:
        """Commit in a transaction; a topic that takes no offsets would abort it for all others, and is left out while it does."""
        closed = {t for t in {r.topic for r in wanted if r.tp in self._refused_since} if self._topic_error(t) is not None}
        taken = {r: o for r, o in wanted.items() if r.topic not in closed}
        outcome = self._transact((), taken)
        if outcome is Outcome.ABORTED and self._refused_by() is not None:
            for part in _by_topic(taken):
                error = self._topic_error(next(iter(part)).topic)
                if error is None and self._transact((), part) is Outcome.ABORTED:
                    error = self._refused_by()
                if error is not None:
                    for run in part:
                        self._note_refusal(run, error)
        return outcome is Outcome.COMMITTED and len(taken) == len(wanted)

    def _transact(self, outputs: Sequence[Output], wanted: Mapping[Run, int]) -> Outcome:
        if self._transactions is None or not (outputs or wanted):
            return Outcome.COMMITTED
        try:
            outcome = self._transactions.write(outputs, self._named(wanted), lambda: self._now() < self._lease.until)
            if outcome is Outcome.COMMITTED:
                for run, offset in wanted.items():
                    self._note_commit(run, offset)
        except PermanentError:
            raise
        except BaseException:  # of a signal's handler: what became of it is known once the id has been taken
            self._over("an exception was raised in the middle of a transaction")
            raise
        if outcome is Outcome.OVER or self._transactions.over:
            self._over(self._transactions.why)
        return outcome

    def _refused_by(self) -> KafkaError | None:
        failure = None if self._transactions is None else self._transactions.failure
        return failure if failure is not None and failure.code() in _REFUSALS else None

    def _topic_error(self, topic: str) -> KafkaError | None:
        """Return why a topic is refused, by its metadata: a coordinator is asked again and again before it says so."""
        try:
            found = self._client.client.list_topics(topic, _METADATA_S).topics
        except KafkaException as e:
            _log.warning("%s", e)
            return None
        return next((t.error for t in found.values() if t.error is not None and t.error.code() in _REFUSALS), None)

    def _note_commit(self, run: Run, offset: int) -> None:
        run.committed, run.committed_at = offset, self._now()
        self._refused_since.pop(run.tp, None)

    def _note_refusal(self, run: Run, error: KafkaError) -> None:
        """Remember since when commits of a partition are refused for what it is, and say it then; other errors pass."""
        refused = error.code() in _REFUSALS
        if not (refused and run.tp in self._refused_since):
            _log.warning("commit of %s-%s: %s", run.topic, run.tp.partition, error)
        if refused:
            self._refused_since.setdefault(run.tp, self._now())
        else:
            self._refused_since.pop(run.tp, None)

    def _named(self, wanted: Mapping[Run, int]) -> list[TopicPartition]:
        return [
            TopicPartition(r.topic, r.tp.partition, o, metadata=commit_metadata(r.tp.topic_id, r.epoch, self._uuid))
            for r, o in wanted.items()
        ]

    # --- reading ---

    def warm_up(self, topic: str, timeout_s: float) -> None:
        """Find the coordinator.

        Raises:
            KafkaException: It is not there.
        """
        self._client.client.committed([TopicPartition(topic, 0)], timeout_s)

    def end(self, run: Run, timeout_s: float) -> int | None:
        """Return where a partition's log ends, asked with the client of commits; ``None`` if that is not known."""
        try:
            return int(self._client.client.get_watermark_offsets(TopicPartition(run.topic, run.tp.partition), timeout_s)[1])
        except KafkaException:
            return None

    def read(self, asked: Mapping[tuple[str, int], Tp], timeout_s: float) -> dict[Tp, int | None]:
        """Return what is committed, ``None`` where nothing is; a partition that cannot be read is absent, and said.

        Partitions are asked for by topic name and number; ``timeout_s`` is for all of them.
        """
        try:
            found = self._client.client.committed([TopicPartition(*name) for name in asked], timeout_s)
        except KafkaException as e:
            _log.warning("%s", e)
            return {}
        for failure in (t for t in found if t.error is not None):
            _log.warning("the offset of %s-%s cannot be read: %s", failure.topic, failure.partition, failure.error)
        good = ((t, asked[t.topic, t.partition]) for t in found if t.error is None)
        return {tp: _offset(t, tp) for t, tp in good}


def _offset(found: TopicPartition, tp: Tp) -> int | None:
    """Return the offset, unless nothing is committed or it belongs to another topic of the same name (rule 14)."""
    if found.offset < 0:
        return None
    if not is_of_topic(found.metadata, tp.topic_id):
        _log.warning("%s-%s: the offset %s belongs to another topic of this name", found.topic, found.partition, found.offset)
        return None
    return int(found.offset)


def _by_topic(wanted: Mapping[Run, int]) -> list[dict[Run, int]]:
    return [{r: o for r, o in wanted.items() if r.topic == topic} for topic in sorted({r.topic for r in wanted})]
