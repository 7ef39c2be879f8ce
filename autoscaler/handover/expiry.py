"""Expiry by the heartbeat log alone (rule 8b): when is a silent worker over, for ever, without comparing clocks.

An incarnation W with lease L is over when its last record lies at offset h and one other writer S, within one boot, wrote a
record b whose ``acked`` is above h, and later a record c with ``stamp(c) >= stamp(b) + L + m``. S stamped b after one of its
records behind h was acknowledged, so after W stamped h; W's lease, counted from there, ended before c was stamped. Only
differences of one machine's own stamps are used; broker clocks and this machine's clock play no part, so a restarted controller
does not start over: what other workers wrote counts.

Pure, standard library only. Used by ``controller_state``; knows no group, plan or client.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

_KEPT_LEASES = 4.0  # evidence older than this many longest leases proves nothing that newer evidence does not
_MIN_KEPT_S = 60.0


def margin_s(lease_s: float) -> float:
    """Return the margin m for a lease, in seconds: .5 s and a tenth, for clocks whose rates differ."""
    return 0.5 + 0.1 * lease_s


@dataclass(slots=True)
class _Source:
    """What one writer stamped within one boot, oldest first; ``stamps`` and ``acked`` never fall."""

    boot_id: str
    stamps: list[float] = field(default_factory=list)
    acked: list[int] = field(default_factory=list)
    last_offset: int = -1

    def horizon(self, span_s: float) -> int:
        """Return the largest ``acked`` that this writer stamped at least ``span_s`` before its latest record; -1 if none."""
        if not self.stamps:
            return -1
        # Tested as the rule is written, stamp(c) >= stamp(b) + span: not rearranged, floats would differ by a hair.
        n = bisect_right(self.stamps, self.stamps[-1], key=lambda stamp: stamp + span_s)
        return self.acked[n - 1] if n else -1


class HeartbeatLog:
    """The heartbeat log as evidence of time passed: feed it every record in log order, then ask for the horizon.

    Memory is bounded: per writer, evidence is kept for a few of the longest leases asked about.
    """

    def __init__(self, lease_s: float) -> None:
        self._sources: dict[str, _Source] = {}
        self._floor = -1  # offset before which nothing was read, or after which something may have been missed
        self._longest_s = lease_s

    @property
    def floor(self) -> int:
        """Return the offset that stands for the last record of a worker that has none: log start - 1."""
        return self._floor

    def started(self, log_start: int) -> None:
        """Say where reading begins; also after a gap (out of range), which makes all earlier evidence void."""
        self._sources.clear()
        self._floor = log_start - 1

    def add(self, writer: str, *, boot_id: str, stamp: float, acked: int | None, offset: int) -> None:
        """Take one record of a worker's or a controller's incarnation (``writer`` is its uuid), in log order.

        A record before the writer's first acknowledgement is no evidence. A stamp or ``acked`` that falls, or another boot, is
        not one clock any more: the writer starts over.
        """
        source = self._sources.get(writer)
        if source is None or source.boot_id != boot_id:
            source = self._sources[writer] = _Source(boot_id)
        source.last_offset = offset
        if acked is None or acked >= offset:  # nothing behind its own offset can have been acknowledged when it was sent
            return
        if source.stamps and (stamp < source.stamps[-1] or acked < source.acked[-1]):
            source.stamps, source.acked = [], []
        source.stamps.append(stamp)
        source.acked.append(acked)
        self._trim(source)

    def horizon(self, lease_s: float) -> int:
        """Return the offset before which an incarnation with this lease, by its last record, is over; -1: none can be told."""
        self._longest_s = max(self._longest_s, lease_s)
        span_s = lease_s + margin_s(lease_s)
        best = max((s.horizon(span_s) for s in self._sources.values()), default=-1)
        return best if best > self._floor else -1

    def forget_before(self, log_start: int) -> None:
        """Drop writers whose last record has left the log."""
        for writer in [w for w, s in self._sources.items() if s.last_offset < log_start]:
            del self._sources[writer]

    def _trim(self, source: _Source) -> None:
        keep_from = source.stamps[-1] - max(_MIN_KEPT_S, _KEPT_LEASES * self._longest_s)
        n = bisect_right(source.stamps, keep_from)
        if n > len(source.stamps) // 2:  # seldom, so that trimming costs nothing per record
            del source.stamps[:n], source.acked[:n]
