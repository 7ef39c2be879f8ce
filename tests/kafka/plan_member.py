"""A member of a group whose leader asks the controller; says what it holds and what it has processed."""

import json
import os
import signal
import sys
from pathlib import Path

from kafka import KafkaConsumer

from autoscaler.assignor import CooperativePlanAssignor, Placements, PlanAssignor
from tests.until import let_pass

bootstrap, group, topic, name, folder, kind = sys.argv[1:]
name = os.environ.get("AUTOSCALER_WORKER_NAME", name)
goes_on = True


def end(*_: object) -> None:
    """Leave after what is in hand."""
    global goes_on  # noqa: PLW0603
    goes_on = False


signal.signal(signal.SIGTERM, end)
placements = Placements(group, bootstrap_servers=bootstrap)
assignor = (PlanAssignor if kind == "eager" else CooperativePlanAssignor)(name, placements)
consumer = assignor.attach(
    KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, client_id=name, partition_assignment_strategy=[assignor],
        enable_auto_commit=False, auto_offset_reset="earliest", session_timeout_ms=6000, heartbeat_interval_ms=300,
        max_poll_records=50,
    )
)  # fmt: skip
consumer.subscribe([topic])
before: object = None
with (Path(folder) / f"{name}.log").open("a", encoding="utf-8") as out:
    while goes_on:
        records = consumer.poll(100)
        for batch in records.values():
            for record in batch:
                out.write(json.dumps({"p": record.partition, "o": record.offset}) + "\n")
        out.flush()
        if records:
            let_pass(0.02)
            consumer.commit()
        held = sorted(tp.partition for tp in consumer.assignment())
        if (held, assignor.leads) != before:
            out.write(json.dumps({"held": held, "leads": assignor.leads}) + "\n")
            out.flush()
            before = held, assignor.leads
    consumer.close()
placements.close()
