"""A job's life as far as the audit sees it, to be killed: ``python audit_victim.py TABLES PUBLISHED LIFE [COUNT]``.

The file PUBLISHED stands for Kafka's control log: a decision that acts is appended to it before it is recorded, as a plan is
published before. With COUNT the life ends in order after as many cycles; without it goes on until it is killed.
"""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from autoscaler import jars
from autoscaler.adapters.audit.decision_json import summarise
from autoscaler.adapters.audit.delta_audit import DeltaAudit
from autoscaler.adapters.clock import SystemClock
from tests.adapters.audit import audit_cases as cases
from tests.conftest import ROOT, properties
from tests.until import let_pass

LIFE = 10_000  # seconds from one life to the next, on the clock of the decisions


def session() -> SparkSession:
    own = {
        "spark.master": "local[2]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraClassPath": jars.class_path(jars.DELTA),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.appName("victim")
    for key, value in {**properties(ROOT / "conf" / "spark.conf"), **own}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def live(tables: Path, published: Path, life: int, count: int | None) -> None:
    audit = DeltaAudit(
        session(), tables, flush_s=0.5, clock=SystemClock(), journal=tables / "journal", cluster_of={}, close_timeout_s=150.0
    )
    if published.exists():
        audit.complete(published.read_text(encoding="utf-8").splitlines()[-1])
    with published.open("a", encoding="utf-8") as plans:
        for n in itertools.count() if count is None else range(count):
            at = cases.T0 + life * LIFE + n
            if n % 3:
                decision, snapshot, state = cases.calm(at)
                done = tuple(cases.handover(p, at=at, epoch=int(at - cases.T0)) for p in (1, 2)) if n % 3 == 1 else ()
                audit.record(decision, snapshot, (), done, state.owner)
            else:
                decision, snapshot, state = cases.hot(at)
                decision = replace(decision, epoch=int(at - cases.T0))
                plans.write(summarise(decision) + "\n")
                plans.flush()
                audit.record(decision, snapshot, cases.outcomes(decision, epoch=decision.epoch + 1), (), state.owner)
            let_pass(0.1)
    audit.close()


if __name__ == "__main__":
    live(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else None)
