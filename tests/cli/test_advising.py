"""What ``autoscaler advise`` prints of what was seen: the page's example."""

import json
from dataclasses import replace
from pathlib import Path

from autoscaler.cli.advising import as_json, lines
from autoscaler.console.words import plain
from autoscaler.core.survey import Look, survey
from autoscaler.model import Retention
from tests import builders as b
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


def test_json_has_every_figure_and_names() -> None:
    said = json.loads(as_json("c", 60.0, survey(SEEN, {}, {})))
    by_name = {g["group"]: g for g in said["groups"]}
    assert by_name["payments"]["troubles"] == ["STUCK"]
    assert by_name["payments"]["stuck"] == ["payments-0"]
    assert by_name["orders"]["takes"] == 6


def test_a_name_cannot_forge_a_line_or_colour_a_terminal() -> None:
    assert plain("g-\x1b[31mevil\nx: STUCK \u00e9") == "g-\\x1b[31mevil\\nx: STUCK \u00e9"
