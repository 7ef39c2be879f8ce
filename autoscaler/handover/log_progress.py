"""How far logs have been read, and whether to the end that they had at first: decided here for all who follow one.

How far is a position, not the offset of a last record: markers of transactions, what was aborted and what compaction has removed
have no record. The end that a log had when it began to be read is reached by position, because a client tells an end only after
a fetch that has brought nothing, and of a log into which many write it may never do so. Where it is told, that counts as well: a
position does not pass what was removed at the very end.
"""

Log = tuple[str, int]  # topic and partition


class LogProgress:
    """What has been read of each log, by what its reader says in the order in which the client has said it."""

    def __init__(self) -> None:
        self._offsets: dict[Log, int] = {}
        self._ends: dict[Log, int] = {}  # at first, of logs of which these have not been reached yet

    def begin(self, log: Log, start: int, end: int) -> None:
        """Note that a log is read from ``start`` on, for the first time or anew, and that it ends at ``end`` now."""
        self._ends[log] = end
        self._reach(log, start)

    def record(self, log: Log, offset: int) -> None:
        """Note that a record was read; one before the position is of a log that has lost its end and is read anew."""
        self._reach(log, offset + 1)

    def position(self, log: Log, offset: int) -> None:
        """Note what the client calls its position: less than 0 before it has read anything, and never too far."""
        self._reach(log, max(offset, self.offset(log)))

    def end(self, log: Log, offset: int) -> None:
        """Note that the client has told the present end."""
        self.begin(log, offset, offset)

    def offset(self, log: Log) -> int:
        """Return the offset before which everything has been read."""
        return self._offsets.get(log, 0)

    def caught_up(self, log: Log) -> bool:
        """Say whether everything has been read once that was there when the log began to be read, or all that is left of it."""
        return log in self._offsets and log not in self._ends

    def _reach(self, log: Log, offset: int) -> None:
        self._offsets[log] = offset
        if offset >= self._ends.get(log, offset):
            self._ends.pop(log, None)
