"""How the data client fetches: enough for throughput, little enough that a partition that arrives need not wait.

Only defaults: what the application sets itself wins. Figures: ``docs/decisions/0007-how-much-is-fetched-ahead.md``.
"""

from autoscaler.worker.settings import Setting

_LEAST_AHEAD = 32_768
_SMALL = 65_536  # batches from which on throughput counts more than a short queue
_MOST_BATCHES = 4
_MANY_PARTITIONS = 256


def fetching(batch_size_bytes: int, partitions: int) -> dict[str, Setting]:
    """Return librdkafka settings for batches of this size out of topics that have so many partitions together.

    A client has one queue for all its partitions: what lies in it is worked off before the first record of a partition that has
    just arrived. An application that wants short pauses takes small batches: then one lies ready, and one more may come while it
    does. With large ones it is up to four, so that a fast application need not wait for the network.

    A fetch names every partition of the client, and the broker looks at each. Where there are many, it answers less often.
    """
    batches = min(_MOST_BATCHES, max(1.0, batch_size_bytes / _SMALL))
    ahead = max(_LEAST_AHEAD, round(batch_size_bytes * batches))
    many = partitions > _MANY_PARTITIONS
    return {
        "queued.max.messages.kbytes": ahead // 1024,
        "message.max.bytes": ahead,  # the least that fetch.max.bytes can be; a larger batch of records comes nevertheless
        "max.partition.fetch.bytes": max(_LEAST_AHEAD // 2, ahead // 4),
        "fetch.queue.backoff.ms": 2,
        "fetch.min.bytes": min(ahead, _SMALL) // 8 if many else 1,
        "fetch.wait.max.ms": 50 if many else 100,
    }
