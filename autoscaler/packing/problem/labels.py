"""Consumer indices, which a caller chooses, as labels, which kernels count with, and back. Part of *pack*."""

import numpy as np

from autoscaler.packing.problem.options import Labels


def near(previous: Labels) -> tuple[Labels, Labels | None]:
    """Return indices with those above the number of partitions moved together, in their order; -1 stays.

    No more consumers than partitions are ever open, so that the lowest index that is not open is not above their number: rules
    that open "the lowest index" see no difference. The labels, below twice the number of partitions and one more, come with the
    index of each label; ``None`` if they are the same.
    """
    n = previous.shape[0]
    if not n or previous.max() <= n:
        return previous, None
    far = np.unique(previous[previous > n])
    return np.where(previous > n, n + 1 + np.searchsorted(far, previous), previous), np.concatenate((np.arange(n + 1), far))


def dense(previous: Labels) -> tuple[Labels, Labels]:
    """Return labels 0 … k-1 in the order of the indices, -1 for none, and the index of each label."""
    known, label = np.unique(previous, return_inverse=True)
    missing = int(known.size > 0 and known[0] < 0)
    return label.astype(np.int64) - missing, known[missing:]


def indices_of(labels: Labels, known: Labels) -> Labels:
    """Return consumer indices for labels: the old ones theirs, each new one the lowest that is free."""
    used, at = np.unique(labels, return_inverse=True)
    kept = known[used[used < known.shape[0]]]
    free = np.setdiff1d(np.arange(used.shape[0]), kept)
    return np.concatenate((kept, free[: used.shape[0] - kept.shape[0]]))[at]
