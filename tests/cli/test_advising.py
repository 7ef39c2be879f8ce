"""What ``autoscaler advise`` prints of what was seen: the page's example."""

import json
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from autoscaler.cli import advising
from autoscaler.cli.advising import as_json, lines, looked
from autoscaler.console.words import plain
from autoscaler.core.looks import Look
from autoscaler.core.survey import MEASURE_S, STILL_S, Trouble, Verdict, survey
from autoscaler.errors import TransientError
from autoscaler.model import Retention
from tests import builders as b
from tests.cli import commands
from tests.core.test_survey import looks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tasks" / "advise.md"


def together(**groups: list[Look]) -> list[Look]:
    """Return looks at several groups, each on a topic of its own."""
    made = []
    for at in range(3):
        seen = {name: x[at] for name, x in groups.items()}
        look = Look(at=next(iter(seen.values())).at, groups={}, ends={}, sizes={})
        for name, x in seen.items():
            of = {p: p._replace(topic=name) for p in x.ends}
            found = x.groups["g"]
            assert not isinstance(found, str)
            members = [
                replace(m, client_id=f"{name}-app", topics=frozenset({name}), assigned=frozenset(of[p] for p in m.assigned))
                for m in found.members.members
            ]
            committed = {of[p]: o for p, o in found.committed.items()}
            group = replace(found, committed=committed, members=replace(found.members, members=tuple(members)))
            look = replace(
                look,
                groups={**look.groups, name: group},
                ends={**look.ends, **{of[p]: e for p, e in x.ends.items()}},
                sizes={**look.sizes, **{of[p]: 1_000 * s for p, s in x.sizes.items()}},
            )
        made.append(look)
    return made


SEEN = together(
    audit=looks([[0], [1]], [600] * 2, [600] * 2),
    invoices=looks([[0], [1], [], []], [600] * 2, [600] * 2),
    orders=looks([[0, 1, 2], [3, 4, 5]], [1_200] * 6, [600] * 6, lag=3_000),
    payments=looks([[0, 1], [2]], [600] * 3, [0, 600, 600]),
    reports=looks([], [600], [0], lag=4_000),
    search=looks([[0, 1], [2], [3]], [1_500, 900, 30, 30], [1_500, 900, 30, 30], lag=3),
)


def test_the_page_shows_what_is_printed() -> None:
    found = survey(SEEN, {b.TOPIC: Retention(seconds=86_400.0, bytes=1e12)}, {})
    printed = "\n".join(lines("broker:9092", found, 60.0))
    assert f"$ autoscaler advise --bootstrap broker:9092\n{printed}\n```" in PAGE.read_text(encoding="utf-8"), printed


def test_a_short_look_says_what_it_cannot_show() -> None:
    assert "--for 60s" in list(lines("c", survey(SEEN, {}, {}), 5.0))[-1]
    assert list(lines("c", (), 60.0)) == ["c: 0 consumer groups looked at for 60 s; 0 ask for something"]


@dataclass
class Cluster:
    """A cluster on a clock of its own: the first look takes three seconds, as it connects, and those in ``fails`` fail."""

    fails: tuple[int, ...] = ()
    now: float = 100.0
    asked: int = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def look(self) -> Look:
        self.now += 0.0 if self.asked else 3.0
        self.asked += 1
        if self.asked - 1 in self.fails:
            msg = "broker:9092: no connection to broker 1"
            raise TransientError(msg)
        return Look(at=self.now, groups={}, ends={})


@pytest.mark.parametrize("seconds", [1.0, STILL_S, MEASURE_S, 60.0])
def test_what_is_seen_spans_the_time_that_is_asked_for(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    monkeypatch.setattr(advising, "time", cluster)
    looks, failed = looked(cluster, seconds)
    assert looks[-1].at - looks[0].at >= seconds
    assert failed == ()


def test_looks_that_fail_later_are_said_and_leave_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(fails=(3, 4, 5, 6))
    monkeypatch.setattr(advising, "time", cluster)
    looks, failed = looked(cluster, 60.0)
    assert (len(looks), len(failed)) == (3, 4)
    said = list(lines("c", (), looks[-1].at - looks[0].at, failed))
    assert "4 questions failed, the last one: broker:9092: no connection to broker 1" in said[1]
    monkeypatch.setattr(advising, "time", gone := Cluster(fails=(1, 2)))
    with pytest.raises(TransientError, match=r"answered once and then no more.*no connection to broker 1"):
        looked(gone, 12.0)


def test_one_of_a_kind_is_said_as_one() -> None:
    one = together(alone=looks([[0]], [600], [600], lag=1))
    said = list(lines("c", survey(one, {}, {}), 60.0))
    assert said[0] == "c: 1 consumer group looked at for 60 s; 0 ask for something"
    assert "1 record behind" in " ".join(said)
    stuck = together(alone=looks([[0]], [600], [0]))
    assert next(lines("c", survey(stuck, {}, {}), 60.0)).endswith("; 1 asks for something")


def test_the_page_says_what_each_word_of_the_json_means() -> None:
    page = PAGE.parents[1].joinpath("reference", "json.md").read_text(encoding="utf-8")
    assert [f.name for f in fields(Verdict) if f"| `{f.name}` |" not in page] == []
    assert [t.name for t in Trouble if f"`{t.name}`" not in page] == []
    said = json.loads(as_json("c", 60.0, survey(SEEN, {}, {})))
    assert said["groups"][0].keys() == {f.name for f in fields(Verdict)}


def test_ctrl_c_ends_a_command_without_a_stack() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        command = [sys.executable, "-m", "autoscaler.cli", "advise", "--bootstrap", f"127.0.0.1:{server.getsockname()[1]}"]
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        server.accept()[0].close()  # the command asks whether anybody listens
        server.accept()[0].close()
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
    assert (running.returncode, said) == (130, "")


@pytest.mark.parametrize("address", ["nonsense", "h:port", "h:99999999", ""])
def test_an_address_that_is_none_is_said_to_be_none(address: str) -> None:
    done = commands.run("advise", "--bootstrap", address)
    assert done.returncode == 2
    assert "host:port" in done.stderr or "localhost:9092" in done.stderr
    assert "int()" not in done.stderr


def test_json_has_every_figure_and_names() -> None:
    said = json.loads(as_json("c", 60.0, survey(SEEN, {}, {})))
    by_name = {g["group"]: g for g in said["groups"]}
    assert by_name["payments"]["troubles"] == ["STUCK"]
    assert by_name["payments"]["stuck"] == ["payments-0"]
    assert by_name["orders"]["takes"] == 6


def test_a_name_cannot_forge_a_line_or_colour_a_terminal() -> None:
    assert plain("g-\x1b[31mevil\nx: STUCK \u00e9") == "g-\\x1b[31mevil\\nx: STUCK \u00e9"
