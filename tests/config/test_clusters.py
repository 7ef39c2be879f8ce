"""Connections that may work, and which group is on which cluster."""

from pathlib import Path

import pytest

from autoscaler.config.settings import load
from tests.config.files import MINIMAL, problems, write

SASL = {"bootstrap.servers": "b:9092", "security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    "connection",
    [
        {"bootstrap.servers": "SASL_SSL://a:9092, [::1]:9092,c.example.org:1"},
        {**SASL, "sasl.mechanism": "GSSAPI"},
        {**SASL, "sasl.kerberos.service.name": "kafka"},
        {**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "file:/etc/hostname"},
        {**SASL, "sasl.mechanism": "env:HOME"},
    ],
)
def test_connections_that_may_work(tmp_path: Path, connection: dict[str, str]) -> None:
    load(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": connection}]}))


def test_what_a_connection_refers_to_need_not_be_there_where_nothing_connects(tmp_path: Path) -> None:
    connection = {
        "bootstrap.servers": "env:NOT_SET_ANYWHERE", "security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN",
        "sasl.username": "me", "sasl.password": "file:/not/there", "ssl.ca.location": "/no.pem",
    }  # fmt: skip
    file = write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": connection}]})
    assert len(problems(file)) == 3
    assert load(file, connects=False).root == Path("/tmp/state")  # noqa: S108


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["a:9092", "b:9092"], "clusters.0.connection.bootstrap.servers: must be one text with commas in between, such as a,b"),
        (None, "clusters.0.connection.bootstrap.servers: must be text, a number, true or false"),
    ],
)
def test_one_wrong_value_of_a_connection_is_one_line(tmp_path: Path, value: object, said: str) -> None:
    (found,) = problems(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": {"bootstrap.servers": value}}]}))
    assert found.startswith(said)


def test_what_a_connection_lacks_is_said_beside_a_value_of_a_wrong_type(tmp_path: Path) -> None:
    connection = {**SASL, "sasl.mechanism": "PLAIN", "sasl.password": "file:/etc/hostname", "bootstrap.servers": ["a:1"]}
    found = problems(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": connection}]}))
    assert len(found) == 2
    assert any("sasl.username is missing" in x for x in found)


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "b:9092", "sasl.password": "hunter2"}, "must be a reference"),
        ({"bootstrap.servers": "b:9092", "sasl.password": "env:NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE"),
        ({"bootstrap.servers": "b:9092", "sasl.password": "file:/not/there"}, "/not/there"),
        ({"bootstrap.servers": "b:9092", "ssl.ca.location": "/not/there.pem"}, "/not/there.pem does not exist"),
        ({"bootstrap.servers": "http://broker:9092"}, "'http://broker:9092' is not host:port"),
        ({"bootstrap.servers": "b:1", 9092: "b"}, "9092 is not a connection setting"),
        ({"bootstrap.servers": "broker:0"}, "'broker:0' is not host:port"),
        ({"bootstrap.servers": "broker:99999"}, "'broker:99999' is not host:port"),
        (SASL, "sasl.mechanism is missing: name one, such as PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.password": "file:/etc/hostname"}, "sasl.username is missing: PLAIN logs in"),
        ({**SASL, "sasl.mechanisms": "scram-sha-512", "sasl.username": "me"}, "sasl.password is missing: scram-sha-512 logs in"),
        ({**SASL, "sasl.mechanisms": "scram-sha-512"}, "'scram-sha-512' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI"),
        ({**SASL, "sasl.mechanism": "FOO"}, "sasl.mechanism: 'FOO' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism: OAUTHBEARER is not supported here"),
        (
            {"bootstrap.servers": "b:1", "sasl.username": "me", "sasl.mechanism": "PLAIN"},
            "sasl.mechanism, sasl.username: security.protocol must be sasl_ssl or sasl_plaintext; by plaintext the clients",
        ),
        ({**SASL, "security.protocol": "SSL", "sasl.mechanism": "PLAIN"}, "by ssl the clients would connect without logging in"),
    ],
)
def test_connections_that_cannot_work(tmp_path: Path, connection: dict[object, str], said: str) -> None:
    found = problems(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": [{"connection": connection}]}))
    assert said in "\n".join(found)
    assert "hunter2" not in "\n".join(found), "a secret is never repeated"


def cluster(name: str | None, **connection: object) -> dict[str, object]:
    named = {} if name is None else {"name": name}
    return {**named, "connection": {"bootstrap.servers": f"{name or 'kafka'}:9092", **connection}}


def on(*places: str | None, group: str = "g{}") -> list[dict[str, object]]:
    """Return a group for each place: the name of its cluster, or nothing."""
    named = [{} if c is None else {"cluster": c} for c in places]
    return [{"group": group.format(i), "topics": ["t"], **x} for i, x in enumerate(named)]


def test_each_group_is_on_its_own_cluster(tmp_path: Path) -> None:
    several = {**MINIMAL, "clusters": [cluster("east"), cluster("west"), cluster("idle")], "groups": on("west", "east", "west")}
    settings = load(write(tmp_path / "c.yaml", several))
    assert [settings.cluster_of(g).name for g in settings.groups] == ["west", "east", "west"]
    served = [(c.name, [g.group for g in groups]) for c, groups in settings.served]
    assert served == [("east", ["g1"]), ("west", ["g0", "g2"])], "in the file's order, and only those that have groups"


@pytest.mark.parametrize("group", [None, "kafka"])
def test_where_there_is_one_cluster_a_group_need_not_name_it(tmp_path: Path, group: str | None) -> None:
    settings = load(write(tmp_path / "c.yaml", {**MINIMAL, "groups": on(group)}))
    assert settings.cluster_of(settings.groups[0]) is settings.clusters[0]


@pytest.mark.parametrize(
    ("clusters", "groups", "said"),
    [
        ([], on(None), "clusters: "),
        ([cluster("a"), cluster("b")], on("a", None), "groups.g1.cluster: is required where there are several clusters"),
        ([cluster("a"), cluster("b")], on("a", "c"), "groups.g1.cluster: there is no cluster 'c'; there are a, b"),
        ([cluster("a")], on("b"), "groups.g0.cluster: there is no cluster 'b'; there are a"),
        ([cluster("a"), cluster("a")], on("a"), "clusters: 'a' is named twice: give each a name of its own"),
        ([cluster(None), cluster(None)], on("kafka"), "clusters: 'kafka' is named twice"),
        (
            [cluster("a"), cluster("b")],
            on("a", "b", group="same"),
            "groups: 'same' is named twice: ids are unique within a job; let a second one, with a state_dir of its own, look",
        ),
        ([cluster("a"), cluster("b", color=1)], on("a"), "clusters.b.connection: color is not a connection setting"),
        ([cluster("a"), {"name": "b"}], on("a"), "clusters.b.connection: is required"),
        ([cluster("a"), {"name": 7, "connection": {}}], on("a"), "clusters.1.name: "),
        ([cluster("a"), cluster("b", **{"sasl.password": "env:NOT_SET"})], on("a"), "clusters.b.connection.sasl.password: env"),
        ([cluster("a"), cluster("b", **{"ssl.ca.location": "/no.pem"})], on("a"), "clusters.b.connection.ssl.ca.location: file"),
    ],
)
def test_what_is_wrong_with_clusters_is_said_by_their_names(
    tmp_path: Path, clusters: list[object], groups: list[object], said: str
) -> None:
    found = problems(write(tmp_path / "c.yaml", {**MINIMAL, "clusters": clusters, "groups": groups}))
    assert any(p.startswith(said) for p in found), found


def test_a_group_named_twice_on_one_cluster_is_no_matter_for_a_second_job(tmp_path: Path) -> None:
    assert problems(write(tmp_path / "c.yaml", {**MINIMAL, "groups": on(None, None, group="same")})) == (
        "groups: 'same' is named twice",
    )


def test_the_block_of_one_cluster_is_told_how_it_is_written_now_and_what_else_is_wrong(tmp_path: Path) -> None:
    old: dict[str, object] = {k: v for k, v in MINIMAL.items() if k != "clusters"}
    (said,) = problems(write(tmp_path / "c.yaml", {**old, "cluster": cluster("prod")}))
    assert said.startswith("cluster: is a list now, also of one: write clusters: [{name: ..., connection: {...}}]")
    both = problems(write(tmp_path / "c.yaml", {**old, "cluster": cluster("prod", color=1)}))
    assert said in both
    assert any(p.startswith("clusters.prod.connection: color is not") for p in both), both
