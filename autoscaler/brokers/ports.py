"""What the job needs of the world: two ports, one contract suite each, and the rows of its audit. Part of *brokers*."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from autoscaler.brokers.journal import Journal
from autoscaler.brokers.view import Command, View
from autoscaler.model import Finding, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the audit: an action that is planned or begun, what became of a partition, or what a look has found.

    Attributes:
        kind: look | action | outcome.
        plan: Id of the plan or batch that it belongs to.
        partition: What it is about; ``None`` of a look.
        status: Of an action planned or advised; of an outcome as in ``brokers.carry_out``, or begun or refused; of a look empty.
        findings: An action's, with its scores, or a look's.
        replicas: Of an outcome: where the partition was to be, the leader first.
    """

    kind: str
    plan: str
    at: float
    status: str = ""
    partition: TopicPartition | None = None
    findings: tuple[Finding, ...] = ()
    replicas: tuple[int, ...] = ()


class ClusterAdmin(Protocol):
    """Reads a cluster's replicas and changes them; each call takes seconds at most."""

    def observe(self, topics: Collection[str]) -> View:
        """Return what is there now, with the throttles of these topics.

        Raises:
            TransientError: The brokers do not answer right now.
            PermanentError: They refuse; says which permission is missing.
        """
        ...

    def execute(self, command: Command) -> Mapping[TopicPartition, str]:
        """Do it, and return what was refused of single partitions, and why. Doing it twice is no error.

        Raises:
            TransientError: It is not known what was done.
            PermanentError: The brokers refuse; says which permission is missing.
        """
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class JournalLog(Protocol):
    """The journal of a cluster, which the latest job to take it alone can write."""

    def take(self) -> Journal:
        """Take it from whichever job had it, and return what that one had begun.

        Raises:
            TransientError: The brokers do not answer right now.
            PermanentError: They refuse, or it cannot be read.
        """
        ...

    def read(self) -> Journal:
        """Return what is begun, and leave the journal to the job that has it.

        Raises:
            TransientError: The brokers do not answer right now.
            PermanentError: It cannot be read.
            SettingsError: They refuse; says which permission is missing.
        """
        ...

    def write(self, journal: Journal) -> None:
        """Write what is begun from now on.

        Raises:
            FencedError: Another job has taken it; nothing was written.
            TransientError: It is not known whether it was written.
        """
        ...

    def close(self) -> None:
        """Release connections; what was written stays."""
        ...
