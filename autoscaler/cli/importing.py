"""``autoscaler import``: a KEDA ScaledObject with a kafka trigger, or an HPA on a lag, as a configuration of ours.

Composes a file from a file and connects to nothing. What means the same is carried over with the number that holds, also where it
is a default of KEDA or Kubernetes; what does not is said, line by line. Sources: KEDA's documentation of ``ScaledObject`` and of
the scalers ``kafka`` and ``apache-kafka``, Kubernetes' of ``HorizontalPodAutoscaler`` (autoscaling/v2).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from autoscaler.config.grouping import flattened
from autoscaler.config.refusals import refusals
from autoscaler.config.settings import Settings
from autoscaler.errors import SettingsError

_KAFKA = ("kafka", "apache-kafka")
_KEDA_MOST, _KEDA_POLL_S, _HPA_CALM_S = 100, 30, 300  # defaults of KEDA and, the last, of Kubernetes
_BEHAVIOURS = {
    "static": "static",
    "currentReplicas": "hold",
    "currentReplicasIfHigher": "current_if_higher",
    "currentReplicasIfLower": "current_if_lower",
}
_SASL = {"plaintext": "PLAIN", "scram_sha256": "SCRAM-SHA-256", "scram_sha512": "SCRAM-SHA-512", "gssapi": "GSSAPI"}
_GROUP_LABELS = ("consumergroup", "consumer_group", "consumerGroup", "consumer_group_id", "group_id", "group")
_BY_LOAD = "here the load in bytes/s sizes the group, and scale_down.max_lag says how many seconds of backlog keep consumers"
_NO_ZERO = "a group here keeps one consumer at least"
_NEXT = "docs/tasks/feed.md lets KEDA or an HPA follow the advice, docs/tasks/kubernetes.md hands the Deployment over"
# Of a kafka trigger, what means nothing here
_NOT_CARRIED = {
    "lagThreshold": _BY_LOAD,
    "activationLagThreshold": _NO_ZERO,
    "scaleToZeroOnInvalidOffset": _NO_ZERO,
    "allowIdleConsumers": "there are never more consumers than partitions here",
    "limitToPartitionsWithLag": "every partition counts by its load here",
    "excludePersistentLag": "a partition that stands still for holds.stuck_after counts as no load here, always",
    "ensureEvenDistributionOfPartitions": "partitions are counted by their load here",
    "partitionLimitation": "all partitions of the topic count here: split the topic, or leave the group where it is",
    "version": "the brokers tell it",
    "awsRegion": "logins by AWS IAM are not supported here",
    "awsEndpoint": "logins by AWS IAM are not supported here",
}
_SCALED_OBJECT = {
    "scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval", "cooldownPeriod", "initialCooldownPeriod",
    "idleReplicaCount", "fallback", "advanced", "triggers",
}  # fmt: skip
_CONNECTION = {"sasl", "tls", "unsafeSsl", "saslTokenProvider", "keytabPath", "realm", "kerberosConfigPath"}
_NAMED = {"bootstrapServers", "bootstrapServersFromEnv", "consumerGroup", "consumerGroupFromEnv", "topic", "topicFromEnv"}


@dataclass(slots=True)
class Imported:
    """What becomes of a file.

    Attributes:
        config: Ours, as it is written.
        said: What was not carried over, or assumed, one line each.
    """

    clusters: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the configuration as YAML."""
        data = {"clusters": self.clusters, "state_dir": "/var/lib/autoscaler", "groups": self.groups}
        return yaml.safe_dump(data, sort_keys=False, default_flow_style=False)


def imported(path: str | Path) -> Imported:
    """Return a file's ScaledObjects and HPAs as a configuration.

    Raises:
        SettingsError: It cannot be read, holds nothing that can become a group, or what would come out is no configuration.
    """
    objects = list(_objects(path))
    result, wrong = Imported(), list[str]()
    for kind, item in objects:
        name = f"{kind} {_text(item.get('metadata'), 'name') or 'without a name'}"
        try:
            _Object(name, item, result).add(kind)
        except SettingsError as e:
            wrong += e.problems
    if not objects:
        wrong.append("no ScaledObject and no HorizontalPodAutoscaler in it")
    if wrong:
        raise SettingsError(tuple(wrong))
    if len(result.clusters) == 1:
        for group in result.groups:
            del group["cluster"]
    _check(result)
    return result


def _check(result: Imported) -> None:
    """Refuse what this release would not take, such as a minimum above the maximum."""
    data, problems = flattened(yaml.safe_load(result.text()), Settings)
    try:
        Settings.model_validate(data)
    except ValidationError as e:
        problems += refusals(e.errors())
    if problems:
        raise SettingsError(tuple(problems))


def _objects(path: str | Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        documents = list(yaml.safe_load_all(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as e:
        raise SettingsError((f"cannot be read ({(e.strerror if isinstance(e, OSError) else None) or e})",)) from e
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise SettingsError((f"no YAML{where}; a template must be rendered first, as with helm template",)) from e
    for document in documents:
        items = document.get("items") if isinstance(document, Mapping) and document.get("kind") == "List" else [document]
        for item in items if isinstance(items, list) else []:
            kind = _text(item, "kind")
            if kind == "ScaledJob":
                msg = "a ScaledJob starts a job for each piece of work, and no consumers: there is nothing like it here"
                raise SettingsError((msg,))
            if kind in {"ScaledObject", "HorizontalPodAutoscaler"}:
                yield str(kind), item


def _text(block: object, name: str) -> str | None:
    value = block.get(name) if isinstance(block, Mapping) else None
    return None if value is None else str(value)


def _block(block: object, *names: str) -> Mapping[str, Any]:
    for name in names:
        block = block.get(name) if isinstance(block, Mapping) else None
    return block if isinstance(block, Mapping) else {}


@dataclass(slots=True)
class _Object:
    """One ScaledObject or HPA on its way."""

    name: str
    item: Mapping[str, Any]
    result: Imported

    def add(self, kind: str) -> None:
        spec = _block(self.item, "spec")
        if kind == "ScaledObject":
            limits = self._scaled_object(spec)
            found = list(self._triggers(spec.get("triggers")))
        else:
            limits = self._hpa(spec)
            found = list(self._metrics(spec.get("metrics")))
        if not found:
            raise self._refused(at="no trigger of type kafka", text="this can only follow the load of a consumer group")
        for cluster, group in self._merged(found):
            self.result.groups.append({**group, "cluster": self._cluster(cluster), **limits})
        target = _text(spec.get("scaleTargetRef"), "name")
        self._say(f"spec.scaleTargetRef {target}", f"goes on being scaled from outside, and the group is only advised: {_NEXT}")

    # --- what is said ------------------------------------------------------------------------------------------------

    def _say(self, path: str, text: str) -> None:
        self.result.said.append(f"{self.name}: {path}: {text}")

    def _refused(self, at: str, text: str) -> SettingsError:
        return SettingsError((f"{self.name}: {at}: {text}",))

    def _number(self, block: Mapping[str, Any], name: str, at: str, default: int) -> int:
        value = block.get(name, default)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._refused(f"{at}{name}", f"must be a whole number, not {value!r}")
        return value

    def _literal(self, block: Mapping[str, Any], name: str, at: str) -> str | None:
        value = _text(block, name)
        if value is not None and re.search(r"\$\{|\$\(|\{\{", value):
            raise self._refused(f"{at}{name}", f"{value!r} is a variable: write what it stands for")
        return value.strip() if value else None

    # --- ScaledObject ------------------------------------------------------------------------------------------------

    def _scaled_object(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        least, most = (
            self._number(spec, "minReplicaCount", "spec.", 0),
            self._number(spec, "maxReplicaCount", "spec.", _KEDA_MOST),
        )
        if spec.get("maxReplicaCount") is None:
            self._say("spec.maxReplicaCount", f"left out, which for KEDA is {_KEDA_MOST}: max_consumers is that")
        limits = self._bounds(least, most, "spec.minReplicaCount")
        advanced = _block(spec, "advanced")
        hpa = _block(advanced, "horizontalPodAutoscalerConfig")
        limits |= self._behaviour(_block(hpa, "behavior"), "spec.advanced.horizontalPodAutoscalerConfig.behavior.")
        limits |= self._fallback(spec, limits)
        self._annotated(limits)
        for name, text in (
            ("pollingInterval", "load is measured every measure.trigger, one second by default"),
            ("cooldownPeriod", "it is KEDA's for the way to no replicas; " + _NO_ZERO),
            ("initialCooldownPeriod", "it is KEDA's for the way to no replicas; " + _NO_ZERO),
            ("idleReplicaCount", _NO_ZERO),
        ):
            if spec.get(name) is not None:
                self._say(f"spec.{name} {spec[name]}", f"not carried over: {text}")
        if advanced.get("scalingModifiers"):
            raise self._refused(at="spec.advanced.scalingModifiers", text="a formula over triggers cannot be carried over")
        self._others(spec, _SCALED_OBJECT, "spec.")
        self._others(advanced, {"horizontalPodAutoscalerConfig", "scalingModifiers"}, "spec.advanced.")
        self._others(hpa, {"behavior"}, "spec.advanced.horizontalPodAutoscalerConfig.")
        return limits

    def _others(self, block: Mapping[str, Any], known: set[str], at: str) -> None:
        for name in block.keys() - known:
            self._say(f"{at}{name}", "not carried over: there is nothing like it here")

    def _bounds(self, least: int, most: int, path: str) -> dict[str, Any]:
        if least == 0:
            self._say(path, f"0, or left out, is not carried over: {_NO_ZERO}")
        if most == 0:
            raise self._refused(at="spec.maxReplicaCount", text=f"0 replicas: {_NO_ZERO}")
        return {"min_consumers": max(1, least), "max_consumers": most}

    def _annotated(self, limits: dict[str, Any]) -> None:
        annotations = _block(self.item, "metadata", "annotations")
        count = _text(annotations, "autoscaling.keda.sh/paused-replicas")
        holds = limits.setdefault("holds", {})
        if count is not None and count.isdecimal() and limits["min_consumers"] <= int(count) <= limits["max_consumers"]:
            holds["pinned"] = int(count)
        elif count is not None:
            self._say(
                f"metadata.annotations.paused-replicas {count}", "not carried over: holds.pinned must lie within the bounds"
            )
        if (_text(annotations, "autoscaling.keda.sh/paused") or "").lower() == "true" and count is None:
            holds["paused"] = "all"
        if not holds:
            del limits["holds"]

    def _fallback(self, spec: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
        if not (asked := _block(spec, "fallback")):
            return {}
        behaviour = _text(asked, "behavior") or "static"
        if behaviour not in _BEHAVIOURS:
            self._say(f"spec.fallback.behavior {behaviour}", "not carried over: there is nothing like it here")
            return {}
        ours = _BEHAVIOURS[behaviour]
        if ours == "hold":
            return {"fallback": {"behaviour": ours}}
        count = self._number(asked, "replicas", "spec.fallback.", 0)
        if not limits["min_consumers"] <= count <= limits["max_consumers"]:
            self._say(f"spec.fallback.replicas {count}", "not carried over: fallback.consumers must lie within the bounds")
            return {}
        failures = self._number(asked, "failureThreshold", "spec.fallback.", 3)
        after = max(1, failures * self._number(spec, "pollingInterval", "spec.", _KEDA_POLL_S))
        return {"fallback": {"behaviour": ours, "consumers": count, "after": f"{after}s"}}

    def _triggers(self, triggers: object) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        for i, trigger in enumerate(triggers if isinstance(triggers, list) else []):
            at, kind = f"spec.triggers[{i}]", _text(trigger, "type")
            if kind not in _KAFKA:
                self._say(f"{at} of type {kind}", "not carried over: " + _other_trigger(kind))
                continue
            yield self._trigger(trigger, kind, f"{at}.metadata.")
            if trigger.get("authenticationRef"):
                self._say(f"{at}.authenticationRef", "what it refers to is not read: give the login in clusters.connection")

    def _trigger(self, trigger: Mapping[str, Any], kind: str, at: str) -> tuple[dict[str, Any], dict[str, Any]]:
        data = _block(trigger, "metadata")
        group, topic = self._literal(data, "consumerGroup", at), self._literal(data, "topic", at)
        for name, value in (("consumerGroup", group), ("topic", topic)):
            if value is None and data.get(f"{name}FromEnv"):
                raise self._refused(f"{at}{name}FromEnv", f"its value stands in the Deployment: write it as {name}")
        if group is None:
            raise self._refused(f"{at}consumerGroup", "is missing")
        if topic is None:
            raise self._refused(
                f"{at}topic", "is missing, so that KEDA looks at every topic that the group has committed to: name them"
            )
        topics = [t.strip() for t in topic.split(",") if t.strip()]
        if kind == "kafka" and len(topics) > 1:
            self._say(
                f"{at}topic",
                f"KEDA takes {topic!r} for the name of one topic, which none can have; taken for {len(topics)} topics",
            )
        policy = self._literal(data, "offsetResetPolicy", at) or "latest"
        if policy not in {"latest", "earliest"}:
            raise self._refused(f"{at}offsetResetPolicy", f"must be latest or earliest, not {policy!r}")
        for name, why in _NOT_CARRIED.items():
            if data.get(name) is not None:
                self._say(f"{at}{name} {data[name]}", f"not carried over: {why}")
        self._others(data, {*_NOT_CARRIED, *_CONNECTION, *_NAMED, "offsetResetPolicy"}, at)
        found = {"group": group, "topics": topics, "mode": "advise", "assignment": "native", "auto_offset_reset": policy}
        return self._connection(data, trigger, at), found

    def _connection(self, data: Mapping[str, Any], trigger: Mapping[str, Any], at: str) -> dict[str, Any]:
        brokers = self._literal(data, "bootstrapServers", at)
        if brokers is None and (name := _text(data, "bootstrapServersFromEnv")):
            brokers = f"env:{name}"
            self._say(f"{at}bootstrapServersFromEnv", f"the job reads {name} from its own environment")
        if brokers is None:
            raise self._refused(f"{at}bootstrapServers", "is missing")
        found: dict[str, Any] = {"bootstrap.servers": ",".join(b.strip() for b in brokers.split(","))}
        sasl, tls = (_text(data, "sasl") or "none").lower(), (_text(data, "tls") or "disable").lower()
        if sasl != "none" and sasl not in _SASL:
            raise self._refused(f"{at}sasl", f"{sasl!r} is no login that is supported here ({', '.join(_SASL)})")
        secure, logged_in = tls == "enable", sasl != "none"
        if secure or logged_in:
            found["security.protocol"] = ("SASL_" if logged_in else "") + ("SSL" if secure else "PLAINTEXT")
        if logged_in:
            found["sasl.mechanism"] = _SASL[sasl]
            if sasl != "gssapi":
                found |= {"sasl.username": "env:KAFKA_USERNAME", "sasl.password": "env:KAFKA_PASSWORD"}
                self._say(f"{at}sasl", "the login is not in the file: set KAFKA_USERNAME and KAFKA_PASSWORD for the job")
        if (_text(data, "unsafeSsl") or "").lower() == "true":
            self._say(f"{at}unsafeSsl", "not carried over: certificates are checked here; name yours in ssl.ca.location")
        for name in sorted(_CONNECTION - {"sasl", "tls", "unsafeSsl"} & data.keys()):
            self._say(f"{at}{name}", "not carried over: see docs/tasks/connect.md for what takes its place")
        if trigger.get("authenticationRef") and not logged_in:
            self._say(
                f"{at}sasl", "left out, so that it may be in what authenticationRef refers to: give it in clusters.connection"
            )
        return found

    # --- HorizontalPodAutoscaler --------------------------------------------------------------------------------------

    def _hpa(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        version = _text(self.item, "apiVersion")
        if version not in {"autoscaling/v2", "autoscaling/v2beta2"}:
            raise self._refused(at="apiVersion", text=f"{version} is not read here: autoscaling/v2 is")
        if spec.get("maxReplicas") is None:
            raise self._refused(at="spec.maxReplicas", text="is missing")
        limits = self._bounds(
            self._number(spec, "minReplicas", "spec.", 1), self._number(spec, "maxReplicas", "spec.", 0), "spec.minReplicas"
        )
        self._others(spec, {"scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"}, "spec.")
        return limits | self._behaviour(_block(spec, "behavior"), "spec.behavior.")

    def _metrics(self, metrics: object) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        for i, metric in enumerate(metrics if isinstance(metrics, list) else []):
            at, kind = f"spec.metrics[{i}]", _text(metric, "type")
            name = _text(_block(metric, "external", "metric"), "name")
            if kind != "External" or name is None or "lag" not in name.lower():
                self._say(f"{at} of type {kind}{f', {name}' if name else ''}", "not carried over: " + _other_trigger(kind))
                continue
            labels = _block(metric, "external", "metric", "selector", "matchLabels")
            group = next((str(labels[x]) for x in _GROUP_LABELS if labels.get(x)), None)
            topic = self._literal(labels, "topic", f"{at}.external.metric.selector.matchLabels.")
            if group is None or topic is None:
                raise self._refused(f"{at}.external.metric.selector", "matchLabels must name the consumer group and the topic")
            self._say(f"{at}.external.target", f"not carried over: {_BY_LOAD}")
            self._others(labels, {*_GROUP_LABELS, "topic"}, f"{at}.external.metric.selector.matchLabels.")
            self._say(self.name.partition(" ")[0], "names no brokers: set KAFKA_BOOTSTRAP_SERVERS for the job")
            self._say("auto_offset_reset", "is not in the file: earliest is the default here")
            connection = {"bootstrap.servers": "env:KAFKA_BOOTSTRAP_SERVERS"}
            yield connection, {"group": group, "topics": [topic], "mode": "advise", "assignment": "native"}

    # --- both --------------------------------------------------------------------------------------------------------

    def _behaviour(self, behaviour: Mapping[str, Any], at: str) -> dict[str, Any]:
        up, down = _block(behaviour, "scaleUp"), _block(behaviour, "scaleDown")
        calm = self._number(down, "stabilizationWindowSeconds", f"{at}scaleDown.", _HPA_CALM_S)
        if down.get("stabilizationWindowSeconds") is None:
            self._say(f"{at}scaleDown.stabilizationWindowSeconds", f"left out, which is {_HPA_CALM_S} s: carried over as that")
        scale_up: dict[str, Any] = {"stabilisation": f"{self._number(up, 'stabilizationWindowSeconds', f'{at}scaleUp.', 0)}s"}
        scale_down: dict[str, Any] = {"stabilisation": f"{calm}s"}
        if (step := self._step(up, f"{at}scaleUp")) is not None:
            scale_up["step"] = step[0]
            self._say(
                f"{at}scaleUp.policies[0].periodSeconds {step[1]}",
                "not carried over: a step follows as soon as the one before has an effect",
            )
        if (step := self._step(down, f"{at}scaleDown")) is not None:
            scale_down |= {"step": step[0], "cooldown": f"{step[1]}s"}
        for name, block in (("scaleUp", up), ("scaleDown", down)):
            self._others(block, {"stabilizationWindowSeconds", "policies", "selectPolicy"}, f"{at}{name}.")
        off = [ours for ours, block in (("scale_up", up), ("scale_down", down)) if block.get("selectPolicy") == "Disabled"]
        holds = {"holds": {"paused": "all" if off[1:] else off[0]}} if off else {}
        return {"scale_up": scale_up, "scale_down": scale_down, **holds}

    def _step(self, block: Mapping[str, Any], at: str) -> tuple[int | str, int] | None:
        """Return a step and its seconds, where one policy says it; several cannot be said in one."""
        policies = block.get("policies")
        if not isinstance(policies, list) or not policies or block.get("selectPolicy") == "Disabled":
            return None
        if len(policies) > 1:
            self._say(f"{at}.policies", f"not carried over: {len(policies)} policies cannot be said in one step")
            return None
        value = self._number(policies[0], "value", f"{at}.policies[0].", 0)
        seconds = self._number(policies[0], "periodSeconds", f"{at}.policies[0].", 0)
        kind = _text(policies[0], "type")
        if kind not in {"Pods", "Percent"} or value == 0:
            raise self._refused(f"{at}.policies[0]", f"must be a number of Pods or Percent from 1, not {value} of {kind}")
        return (value if kind == "Pods" else f"{value}%"), seconds

    def _merged(self, found: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return one group for each id and cluster, with the topics of all of its triggers."""
        merged: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for connection, group in found:
            same = next((g for c, g in merged if c == connection and g["group"] == group["group"]), None)
            if same is None:
                merged.append((connection, group))
                continue
            same["topics"] += [t for t in group["topics"] if t not in same["topics"]]
            if same.get("auto_offset_reset") != group.get("auto_offset_reset"):
                raise self._refused(
                    at="spec.triggers", text=f"the triggers of group {group['group']} differ in offsetResetPolicy"
                )
        if len(merged) > 1:
            self._say("spec", f"{len(merged)} consumer groups share one Deployment; here each has its own number of consumers")
        return merged

    def _cluster(self, connection: dict[str, Any]) -> str:
        known = next((c for c in self.result.clusters if c["connection"] == connection), None)
        if known is None:
            number = len(self.result.clusters)
            known = {"name": f"kafka-{number + 1}" if number else "kafka", "connection": connection}
            self.result.clusters.append(known)
        return str(known["name"])


def _other_trigger(kind: str | None) -> str:
    """Say what there is instead of a trigger, or of a metric, that is not about a consumer group's lag."""
    if kind == "cron":
        return "say it as a window with min_consumers (docs/tasks/hold.md)"
    if kind in {"cpu", "memory", "Resource", "ContainerResource"}:
        return "what one consumer processes is measured as bytes/s here (docs/concepts/capacity.md)"
    return "only the load of a consumer group sizes it here"
