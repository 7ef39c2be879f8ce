"""Says which transaction has been open for so long that no coordinator will end it: readers of committed records wait for ever.

A broker may skip the marker of a transaction (docs/decisions/0030); nothing but an operator's command ends it then. It asks with
kafka-python for the reason that ``membership`` does, and needs Read on the topic.
"""

import time
from collections.abc import Iterable

from kafka import TopicPartition as KafkaPartition

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka.control_topics import Connection, client_log
from autoscaler.clients.kafka_python import ClientError, connect, named
from autoscaler.errors import AutoscalerError
from autoscaler.model import TopicPartition

LONGEST_S = 900.0  # that brokers let a transaction be open, unless they are told otherwise (transaction.max.timeout.ms)
_CALL_S = 5.0


def open_transactions(connection: Connection, partitions: Iterable[TopicPartition], *, older_than_s: float) -> tuple[str, ...]:
    """Return a line, with the command that ends it, for each transaction to which nothing has been written for so many seconds.

    What cannot be asked for is logged and left out. Times are compared with the time stamps of records.
    """
    asked = [KafkaPartition(p.topic, p.partition) for p in partitions]
    try:
        admin = connect(connection, time.monotonic() + _CALL_S)
        try:
            found = admin.describe_producers(asked)
        finally:
            admin.close()
    except (AutoscalerError, ClientError, OSError, TimeoutError) as e:
        client_log.info("open transactions of %d partitions could not be asked for: %s", len(asked), named(e))
        return ()
    end = f"kafka-transactions.sh --bootstrap-server {connection['bootstrap.servers']} abort"
    before_ms = 1000 * (SystemClock().now() - older_than_s)
    return tuple(
        f"{p.topic}-{p.partition}: a transaction of producer {x.producer_id}, open since {time.ctime(x.last_timestamp / 1000)}, "
        f"hides what follows offset {start} from readers of committed records until it is ended: {end} --topic {p.topic} "
        f"--partition {p.partition} --start-offset {start}"
        for p, state in sorted(found.items())
        for x in state.active_producers
        if (start := x.current_transaction_start_offset) >= 0 and x.last_timestamp < before_ms
    )
