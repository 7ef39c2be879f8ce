"""``autoscaler import``: shapes of ScaledObjects and HPAs that are in use, and what of each becomes a group here."""

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from autoscaler.cli.importing import imported
from autoscaler.config.settings import load
from autoscaler.errors import SettingsError
from tests.cli import commands

PLAIN: dict[str, Any] = {
    "topics": ["orders"],
    "mode": "advise",
    "assignment": "native",
    "auto_offset_reset": "latest",
    "min_consumers": 1,
    "max_consumers": 100,
    "scale_up": {"stabilisation": "0s"},
    "scale_down": {"stabilisation": "300s"},
}
TRIGGER = "{bootstrapServers: 'kafka:9092', consumerGroup: billing, topic: orders, lagThreshold: '50'}"


def scaled(spec: str, *triggers: str, annotations: str = "{}") -> str:
    listed = "".join(f"    - {t}\n" for t in triggers or (f"{{type: kafka, metadata: {TRIGGER}}}",))
    return (
        f"apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {{name: app, annotations: {annotations}}}\n"
        f"spec:\n  scaleTargetRef: {{name: billing-app}}\n{indent(spec, '  ')}\n  triggers:\n{listed}"
    )


def kafka(**more: str) -> str:
    data = yaml.safe_load(TRIGGER) | more
    return f"{{type: kafka, metadata: {yaml.safe_dump(data, default_flow_style=True, width=1000).strip()}}}"


SHAPES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "nothing but a trigger": (scaled(""), {}, ["spec.maxReplicaCount", "spec.minReplicaCount", "lagThreshold 50"]),
    "bounds, and times of KEDA": (
        scaled("minReplicaCount: 2\nmaxReplicaCount: 12\npollingInterval: 15\ncooldownPeriod: 60"),
        {"min_consumers": 2, "max_consumers": 12},
        ["pollingInterval 15", "cooldownPeriod 60"],
    ),
    "to none and back": (
        scaled("minReplicaCount: 0\nidleReplicaCount: 0\nmaxReplicaCount: 5", kafka(activationLagThreshold="3")),
        {"max_consumers": 5},
        ["idleReplicaCount 0", "spec.minReplicaCount", "activationLagThreshold 3"],
    ),
    "beside a calendar and a processor": (
        scaled(
            "maxReplicaCount: 20",
            "{type: cron, metadata: {timezone: Asia/Tokyo, start: '55 11 * * 5', end: '0 18 * * 5', desiredReplicas: '10'}}",
            kafka(offsetResetPolicy="earliest"),
            "{type: cpu, metricType: Utilization, metadata: {value: '70'}}",
        ),
        {"max_consumers": 20, "auto_offset_reset": "earliest"},
        ["triggers[0] of type cron", "triggers[2] of type cpu"],
    ),
    "names of topics in one": (
        scaled("minReplicaCount: 2\nmaxReplicaCount: 10", kafka(topic="trains, weather,buses")),
        {"min_consumers": 2, "max_consumers": 10, "topics": ["trains", "weather", "buses"]},
        ["taken for 3 topics"],
    ),
    "several topics of one group": (
        scaled("maxReplicaCount: 8", kafka(limitToPartitionsWithLag="true"), kafka(topic="refunds"), kafka(topic="orders")),
        {"max_consumers": 8, "topics": ["orders", "refunds"]},
        ["limitToPartitionsWithLag true"],
    ),
    "flags of every kind": (
        scaled(
            "maxReplicaCount: 8",
            kafka(allowIdleConsumers="false", scaleToZeroOnInvalidOffset="false", excludePersistentLag="true", version="1.0.0",
                  partitionLimitation="1,2,10-20", thing="x"),
        ),
        {"max_consumers": 8},
        ["allowIdleConsumers", "scaleToZeroOnInvalidOffset", "excludePersistentLag", "version", "partitionLim", "thing: not"],
    ),
    "a step at a time": (
        scaled(
            "maxReplicaCount: 30\nadvanced:\n  restoreToOriginalReplicaCount: true\n"
            "  horizontalPodAutoscalerConfig:\n    behavior:\n"
            "      scaleDown: {stabilizationWindowSeconds: 600, policies: [{type: Pods, value: 1, periodSeconds: 120}]}\n"
            "      scaleUp: {stabilizationWindowSeconds: 15, policies: [{type: Percent, value: 50, periodSeconds: 60}]}"
        ),
        {
            "max_consumers": 30,
            "scale_up": {"stabilisation": "15s", "step": "50%"},
            "scale_down": {"stabilisation": "600s", "step": 1, "cooldown": "120s"},
        },
        ["restoreToOriginalReplicaCount", "scaleUp.policies[0].periodSeconds 60"],
    ),
    "never down, and several ways up": (
        scaled(
            "maxReplicaCount: 30\nadvanced:\n  horizontalPodAutoscalerConfig:\n    name: its-hpa\n    behavior:\n"
            "      scaleDown: {selectPolicy: Disabled}\n"
            "      scaleUp: {policies: [{type: Pods, value: 4, periodSeconds: 15}, {type: Percent, value: 9, periodSeconds: 15}]}"
        ),
        {"max_consumers": 30, "holds": {"paused": "scale_down"}},
        ["2 policies cannot be said", "horizontalPodAutoscalerConfig.name"],
    ),
    "what to do when nothing is measured": (
        scaled("minReplicaCount: 2\nmaxReplicaCount: 9\npollingInterval: 20\nfallback: {failureThreshold: 3, replicas: 6}"),
        {"min_consumers": 2, "max_consumers": 9, "fallback": {"behaviour": "static", "consumers": 6, "after": "60s"}},
        ["pollingInterval 20"],
    ),
    "the present number, if that is higher": (
        scaled("maxReplicaCount: 9\nfallback: {failureThreshold: 4, replicas: 6, behavior: currentReplicasIfHigher}"),
        {"max_consumers": 9, "fallback": {"behaviour": "current_if_higher", "consumers": 6, "after": "120s"}},
        [],
    ),
    "a number for failures out of bounds": (
        scaled("maxReplicaCount: 5\nfallback: {failureThreshold: 3, replicas: 6}"),
        {"max_consumers": 5},
        ["spec.fallback.replicas 6"],
    ),
    "paused": (scaled("maxReplicaCount: 9", annotations="{autoscaling.keda.sh/paused: 'true'}"),
               {"max_consumers": 9, "holds": {"paused": "all"}}, []),
    "paused at a number": (scaled("maxReplicaCount: 9", annotations="{autoscaling.keda.sh/paused-replicas: '4'}"),
                           {"max_consumers": 9, "holds": {"pinned": 4}}, []),
    "paused at none": (scaled("maxReplicaCount: 9", annotations="{autoscaling.keda.sh/paused-replicas: '0'}"),
                       {"max_consumers": 9}, ["paused-replicas 0"]),
    "the other scaler, and flags that are none": (
        scaled("maxReplicaCount: 9", "{type: apache-kafka, metadata: {bootstrapServers: 'kafka:9092', consumerGroup: billing, "
               "topic: 'orders,refunds', lagThreshold: 5, allowIdleConsumers: false}}"),
        {"max_consumers": 9, "topics": ["orders", "refunds"]},
        ["allowIdleConsumers False", "lagThreshold 5"],
    ),
}  # fmt: skip


def put(root: Path, text: str) -> Path:
    file = root / "object.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("shape", SHAPES)
def test_each_number_is_the_one_that_holds_and_what_is_left_is_said(tmp_path: Path, shape: str) -> None:
    text, changes, said = SHAPES[shape]
    found = imported(put(tmp_path, text))
    assert found.groups == [{"group": "billing"} | PLAIN | changes]
    assert found.clusters == [{"name": "kafka", "connection": {"bootstrap.servers": "kafka:9092"}}]
    for part in [*said, "spec.scaleTargetRef billing-app"]:
        assert sum(part in line for line in found.said) == 1, (part, found.said)


@pytest.mark.parametrize(
    ("given", "connection"),
    [
        ({"tls": "enable"}, {"security.protocol": "SSL"}),
        ({"sasl": "plaintext", "tls": "enable"}, {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}),
        ({"sasl": "scram_sha512"}, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}),
        ({"sasl": "scram_sha256", "tls": "disable"}, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}),
        ({"sasl": "none", "tls": "disable"}, {}),
    ],
)
def test_a_login_becomes_a_connection_without_its_secrets(
    tmp_path: Path, given: dict[str, str], connection: dict[str, str]
) -> None:
    found = imported(put(tmp_path, scaled("", kafka(**given))))
    logged_in = {"sasl.username": "env:KAFKA_USERNAME", "sasl.password": "env:KAFKA_PASSWORD"} if len(connection) > 1 else {}
    assert found.clusters[0]["connection"] == {"bootstrap.servers": "kafka:9092"} | connection | logged_in


def test_brokers_from_the_environment_stay_there(tmp_path: Path) -> None:
    trigger = "{type: kafka, metadata: {bootstrapServersFromEnv: BROKERS, consumerGroup: billing, topic: orders}}"
    found = imported(put(tmp_path, scaled("", trigger)))
    assert found.clusters[0]["connection"] == {"bootstrap.servers": "env:BROKERS"}


def test_groups_and_clusters_of_several_objects_stand_side_by_side(tmp_path: Path) -> None:
    items = [
        scaled("", kafka(), kafka(consumerGroup="audit")),
        scaled("", kafka(consumerGroup="mail", bootstrapServers="b:1, c:2")),
    ]
    found = imported(put(tmp_path, "---\n".join(["kind: Deployment\n", *items])))
    assert [(g["group"], g["cluster"]) for g in found.groups] == [("billing", "kafka"), ("audit", "kafka"), ("mail", "kafka-2")]
    assert found.clusters[1] == {"name": "kafka-2", "connection": {"bootstrap.servers": "b:1,c:2"}}
    assert sum("share one Deployment" in line for line in found.said) == 1
    listed = yaml.safe_dump({"kind": "List", "items": [yaml.safe_load(x) for x in items]})
    assert imported(put(tmp_path, listed)).groups == found.groups


def test_an_hpa_on_a_lag_becomes_a_group(tmp_path: Path) -> None:
    text = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: documents}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: documents}
  minReplicas: 2
  maxReplicas: 12
  metrics:
    - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}
    - type: External
      external:
        metric: {name: kafka_consumergroup_lag_sum, selector: {matchLabels: {topic: events, group: documents, job: exporter}}}
        target: {type: AverageValue, averageValue: "500"}
  behavior:
    scaleDown: {policies: [{type: Percent, value: 10, periodSeconds: 60}]}
"""
    found = imported(put(tmp_path, text))
    assert found.groups == [
        {
            "group": "documents",
            "topics": ["events"],
            "mode": "advise",
            "assignment": "native",
            "min_consumers": 2,
            "max_consumers": 12,
            "scale_up": {"stabilisation": "0s"},
            "scale_down": {"stabilisation": "300s", "step": "10%", "cooldown": "60s"},
        }
    ]
    for part in ("metrics[0] of type Resource", "external.target", "matchLabels.job", "auto_offset_reset", "names no brokers"):
        assert sum(part in line for line in found.said) == 1, part


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (scaled("", "{type: prometheus, metadata: {query: kafka_lag, threshold: '5'}}"), "no trigger of type kafka"),
        (scaled("", "{type: kakfa, metadata: {}}"), "no trigger of type kafka"),
        (scaled("", "{type: kafka, metadata: {bootstrapServers: 'k:1', topic: a}}"), "[0].metadata.consumerGroup: is missing"),
        (scaled("", "{type: kafka, metadata: {bootstrapServers: 'k:1', consumerGroup: a}}"), "topic: is missing"),
        (scaled("", "{type: kafka, metadata: {consumerGroup: a, topic: a}}"), "bootstrapServers: is missing"),
        (scaled("", "{type: kafka, metadata: {consumerGroup: a, topicFromEnv: T}}"), "topicFromEnv: its value stands in the"),
        (scaled("", kafka(consumerGroup="${GROUP}")), "'${GROUP}' is a variable"),
        (scaled("", kafka(sasl="oauthbearer")), "'oauthbearer' is no login"),
        (scaled("", kafka(offsetResetPolicy="none")), "must be latest or earliest, not 'none'"),
        (scaled("", kafka(), kafka(topic="b", offsetResetPolicy="earliest")), "differ in offsetResetPolicy"),
        (scaled("minReplicaCount: 9\nmaxReplicaCount: 3"), "min_consumers 9 is above max_consumers 3"),
        (scaled("maxReplicaCount: 0"), "0 replicas"),
        (scaled("minReplicaCount: '{{ n }}'"), "must be a whole number, not '{{ n }}'"),
        (scaled("advanced: {scalingModifiers: {formula: a + b}}"), "a formula over triggers"),
        (scaled("").replace("ScaledObject", "ScaledJob"), "a ScaledJob starts a job"),
        ("kind: ScaledObject\nspec: {{ toYaml .Values }}\n", "a template must be rendered first"),
        ("kind: Deployment\n", "no ScaledObject and no HorizontalPodAutoscaler in it"),
        ("kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v1\nspec: {maxReplicas: 3}\n", "autoscaling/v1 is not read"),
        ("", "no ScaledObject"),
        ("kind: ScaledObject\n", "no trigger of type kafka"),
        ("[1, 2]", "no ScaledObject"),
    ],
)  # fmt: skip
def test_what_cannot_become_a_group_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        imported(put(tmp_path, text))
    assert any(said in problem for problem in refused.value.problems), refused.value.problems


def test_the_command_writes_a_configuration_that_is_valid_and_says_the_rest_apart(tmp_path: Path) -> None:
    done = commands.run("import", put(tmp_path, scaled("maxReplicaCount: 9")))
    assert done.returncode == 0
    made = tmp_path / "made.yaml"
    made.write_text(done.stdout)
    assert [g.max_consumers for g in load(made).groups] == [9]
    assert "lagThreshold 50: not carried over" in done.stderr
    refused = commands.run("import", put(tmp_path, "kind: Deployment\n"))
    assert (refused.returncode, refused.stdout) == (78, "")
    assert refused.stderr == f"{tmp_path / 'object.yaml'}: no ScaledObject and no HorizontalPodAutoscaler in it\n"
