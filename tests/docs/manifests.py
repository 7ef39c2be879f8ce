"""The plain manifests of conf/kubernetes, rendered from docker/chart, and the schema of its values, made of the settings' models.

``python -m tests.docs.manifests`` writes them; tests compare them with what is there.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from autoscaler.config.json_schema import schema as settings_schema

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "docker" / "chart"
SCHEMA = CHART / "values.schema.json"
PLACE = ROOT / "conf" / "kubernetes"
BUILD = ROOT / ".ci" / "helm"
HEAD = "# Rendered from docker/chart: python -m tests.docs.manifests\n"
CLUSTERS = [{"name": "kafka", "connection": {"bootstrap.servers": "kafka:9092"}}]
PLAIN: Mapping[str, Any] = {
    "configuration": {
        "clusters": CLUSTERS,
        "groups": [
            {"group": "orders", "topics": ["orders"], "mode": "advise", "workers": {"kind": "deployment", "deployment": "orders"}}
        ],
    },
    "consumerGroups": "none",
    "restartOnChange": False,
}
DECLARED: Mapping[str, Any] = {"configuration": {"clusters": CLUSTERS}, "restartOnChange": False}
FILES = {  # of conf/kubernetes: the template, and what it is given
    "configuration.yaml": ("configuration", PLAIN),
    "rights.yaml": ("rights", PLAIN),
    "job.yaml": ("job", PLAIN),
    "consumer-groups/rights.yaml": ("consumer-groups", DECLARED),
}


def helm(*arguments: str | Path, binary: Path, values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run Helm with these values."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(dict(values), file)
        file.flush()
        return subprocess.run([binary, *arguments, "-f", file.name], capture_output=True, text=True, check=False)


def rendered(values: Mapping[str, Any], *arguments: str, binary: Path, namespace: str = "shop") -> str:
    """Return what the chart makes of values."""
    done = helm("template", "autoscaler", CHART, "-n", namespace, *arguments, binary=binary, values=values)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def plain(binary: Path) -> dict[Path, str]:
    """Return what the files of conf/kubernetes are to be."""
    found = {}
    for name, (template, values) in FILES.items():
        text = rendered(values, "--show-only", f"templates/{template}.yaml", binary=binary)
        bare = re.sub(r"^# Source: .*\n", "", text, flags=re.MULTILINE).removeprefix("---\n")
        found[PLACE / name] = HEAD + bare.rstrip("\n") + "\n"
    return found


def schema_text() -> str:
    """Return the schema of the values as the file holds it."""
    return json.dumps(values_schema(), indent=2, ensure_ascii=False) + "\n"


def values_schema() -> dict[str, Any]:
    """Return what the chart's values must be: its own, and the settings of the configuration file that it does not set."""
    file = settings_schema()
    given = {k: v for k, v in file["properties"].items() if k not in {"state_dir", "kubernetes"}}
    text, flag, anything = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
    name = {**text, "minLength": 1}
    optional, many = {"type": ["string", "null"]}, {"type": "array", "items": anything}

    def block(properties: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": False, "properties": dict(properties), "required": list(required)}

    configuration = block(given, ("clusters", "groups"))
    declared = {"properties": {"configuration": {"properties": {"groups": {"minItems": 1}}}}}
    secret = block({"name": name, "mountPath": name}, ("name", "mountPath"))
    return {
        "$schema": file["$schema"],
        "title": "values of the chart",
        **block({
            "image": block({"repository": name, "tag": text, "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]}}),
            "imagePullSecrets": many,
            "configuration": configuration,
            "consumerGroups": name,
            "consumerGroupRules": many,
            "lease": name,
            "env": many,
            "secrets": {"type": "array", "items": secret},
            "state": block({"size": {"type": ["string", "integer"]}, "storageClassName": optional, "existingClaim": optional}),
            "resources": anything,
            "serviceAccount": block({"annotations": anything}),
            "podAnnotations": anything,
            "nodeSelector": anything,
            "tolerations": many,
            "affinity": anything,
            "restartOnChange": flag,
            "networkPolicy": block({"enabled": flag, "from": many}),
            "podMonitor": block({"enabled": flag, "interval": name, "labels": anything}),
            "global": anything,  # Helm's own
        }, ("image", "configuration")),
        "if": {"properties": {"consumerGroups": {"const": "none"}}},
        "then": declared,
        "$defs": file["$defs"],
    }  # fmt: skip


def main() -> None:
    """Write all of it."""
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    binary = Path(subprocess.run([BUILD], capture_output=True, text=True, check=True).stdout.strip())
    for file, text in plain(binary).items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
