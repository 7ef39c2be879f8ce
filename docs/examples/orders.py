"""Keeps the newest state of every order in SQLite; docs/tasks/consumer.md explains it.

Settings come from the environment that starts it: AUTOSCALER_BOOTSTRAP, AUTOSCALER_GROUP and so on, and ORDERS_DB.
"""

# ruff: noqa: INP001

import json
import logging
import os
import sqlite3
import threading

import exporter
from confluent_kafka import Message

from autoscaler.worker import Batch, DeadLetter, ManagedConsumer, RefusedError, process

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS owner (topic TEXT, partition INT, token INT, PRIMARY KEY (topic, partition));
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, state TEXT, topic TEXT, partition INT, position INT);
"""
CLAIM = """
INSERT INTO owner VALUES (?, ?, ?)
ON CONFLICT (topic, partition) DO UPDATE SET token = excluded.token WHERE excluded.token >= token
"""
db = sqlite3.connect(os.environ.get("ORDERS_DB", "orders.db"), timeout=30, check_same_thread=False)
db.executescript(SCHEMA)
writing = threading.Lock()  # SQLite has one writer; a connection from a pool needs no lock


def store(message: Message, batch: Batch) -> None:
    """Write one order, if no other worker has taken its partition over; the same again changes nothing."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    order = json.loads(message.value() or b"")  # what is no order raises, and becomes a dead letter
    if not isinstance(order["id"], str) or not isinstance(order["state"], str):
        raise TypeError(f"id and state must be text: {order!r:.100}")
    with writing, db:  # token and order in one transaction
        if not db.execute(CLAIM, (topic, partition, batch.token(topic, partition))).rowcount:
            raise RefusedError(f"{topic}-{partition} has a newer owner")
        row = (order["id"], order["state"], topic, partition, offset)
        db.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?, ?)", row)


def main() -> None:
    """Process orders until told to end."""
    exporter.serve(int(os.environ.get("METRICS_PORT", "0")))
    with ManagedConsumer() as consumer:
        dead = DeadLetter(topic="orders.dead", errors=(ValueError, KeyError, TypeError, RecursionError), retries=2)
        process(consumer, store, threads=8, on_error=dead, metrics=exporter.count)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
