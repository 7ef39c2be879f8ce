"""Settings changed in the text of a configuration file: whatever its form, nothing else changes."""

from itertools import product
from typing import Any

import pytest
import yaml

from autoscaler.config.edit import with_holds
from autoscaler.errors import SettingsError

HEAD = """\
# who owns this: team orders
clusters: [{connection: {bootstrap.servers: "localhost:9092"}}]
state_dir: s
"""
OTHER = "groups:\n  - {group: bills, topics: [b]}\n"
FORMS = {
    "flow": "groups: [{group: orders, topics: [o]}, {group: bills, topics: [b]}]\n",
    "flow with holds": "groups: [{group: bills, topics: [b]}, {group: orders, topics: [o], holds: {stuck_after: 1m}}]\n",
    "empty holds": "groups: [{group: orders, topics: [o], holds: {}}, {group: bills, topics: [b]}]",
    "no holds": "groups:\n- group: orders   # the shop\n  topics:\n  - o\n  # bills come last\n- {group: bills, topics: [b]}\n",
    "holds of nothing": "groups:\n  - topics: [o]\n    holds:\n    group: orders\n  - {group: bills, topics: [b]}\n",
    "holds": "groups:\n  - group: orders\n    topics: [o]\n    holds:\n      # as agreed\n      stuck_after: 2m  # two\n"
    "      pinned: 3\n  - {group: bills, topics: [b]}\n",
    "set to null": OTHER + "  - group: orders\n    holds: {paused: null, pinned: ~}\n    topics: [o]",
    "set to nothing": OTHER + "  - group: orders\n    topics: [o]\n    holds:\n      paused:\n      pinned:\n",
    "at the end": "groups:\n  - {group: bills, topics: [b]}\n  - topics: [o]\n    group: orders",
    "windows line ends": "groups:\r\n  - {group: bills, topics: [b]}\r\n  - group: orders\r\n    topics: [o]\r\n",
    "merged": "x: &x {topics: [o]}\ngroups:\n  - <<: *x\n    group: orders\n  - {group: bills, topics: [b]}\n",
    "a comment with a brace": "groups:\n  - {group: bills, topics: [b]}\n  - {  # }\n     group: orders, topics: [o]}\n",
}  # fmt: skip


def block(text: str, group: str = "orders") -> dict[str, Any]:
    found: dict[str, Any] = next(g for g in yaml.safe_load(text)["groups"] if g["group"] == group)
    return found


@pytest.mark.parametrize(("form", "holds"), [*product(FORMS, [
    {"paused": "all"}, {"pinned": "6"}, {"paused": "scale_up", "pinned": "6"}, {"paused": "null", "pinned": "null"},
])])  # fmt: skip
def test_only_what_is_asked_for_changes(form: str, holds: dict[str, str]) -> None:
    text = HEAD + FORMS[form]
    changed = with_holds(text, "orders", holds)
    was, now = block(text), block(changed)
    assert {k: (now.get("holds") or {}).get(k) for k in holds} == {k: yaml.safe_load(v) for k, v in holds.items()}
    others = {k: v for k, v in (was.get("holds") or {}).items() if k not in holds}
    assert {k: v for k, v in (now.get("holds") or {}).items() if k not in holds} == others
    assert {k: v for k, v in now.items() if k != "holds"} == {k: v for k, v in was.items() if k != "holds"}
    assert block(changed, "bills") == block(text, "bills")
    comments = [line.partition("#")[2] for line in text.splitlines()]
    assert [line.partition("#")[2] for line in changed.splitlines() if "#" in line] == [c for c in comments if c]
    assert with_holds(changed, "orders", holds) == changed


@pytest.mark.parametrize("form", sorted(x for x, text in FORMS.items() if "holds:" not in text or "stuck" in text))
def test_a_hold_that_is_taken_back_leaves_the_file_as_it_was(form: str) -> None:
    text = HEAD + FORMS[form].replace("      pinned: 3\n", "")
    held = with_holds(text, "orders", {"paused": "all", "pinned": "6"})
    resumed = with_holds(held, "orders", {"paused": "null", "pinned": "null"})
    assert resumed == text


def test_only_the_taken_back_hold_goes_and_a_comment_beside_it_stays() -> None:
    text = HEAD + FORMS["holds"]
    resumed = with_holds(text, "orders", {"paused": "null", "pinned": "null"})
    assert resumed == text.replace("      pinned: 3\n", "")
    noted = text.replace("pinned: 3", "pinned: 3  # until the sale is over")
    assert with_holds(noted, "orders", {"pinned": "null"}) == noted.replace("pinned: 3", "pinned: null")


def test_line_ends_stay_what_they_are() -> None:
    text = HEAD.replace("\n", "\r\n") + FORMS["windows line ends"]
    changed = with_holds(text, "orders", {"paused": "all"})
    assert changed.replace("    holds: {paused: all}\r\n", "") == text


MERGED = "x: &x {topics: [o], holds: {stuck_after: 1m, pinned: 2}}\ngroups:\n  - {<<: *x, group: orders}\n"
MERGED_HOLDS = "x: &x {stuck_after: 1m, pinned: 2}\ngroups:\n  - {group: orders, topics: [o], holds: {<<: *x}}\n"


@pytest.mark.parametrize(("groups", "holds"), [
    (MERGED, {"paused": "all"}), (MERGED, {"pinned": "null"}), (MERGED_HOLDS, {"pinned": "null"}),
])  # fmt: skip
def test_holds_that_a_merge_brings_are_neither_dropped_nor_taken_for_changed(groups: str, holds: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="change it in the file yourself"):
        with_holds(HEAD + groups, "orders", holds)


def test_a_hold_beside_those_that_a_merge_brings_leaves_them() -> None:
    changed = with_holds(HEAD + MERGED_HOLDS, "orders", {"paused": "all", "pinned": "4"})
    assert block(changed)["holds"] == {"paused": "all", "pinned": 4, "stuck_after": "1m"}


@pytest.mark.parametrize("groups", [
    "x: &x {stuck_after: 1m}\ngroups:\n  - {group: orders, topics: [o], holds: *x}\n  - {group: bills, topics: [b], holds: *x}\n",
    "groups:\n  - &o {group: orders, topics: [o]}\n  - *o\n",
    "groups:\n  - {group: bills, topics: [b], holds: &h {pinned: 2}}\n  - {group: orders, topics: [o], holds: *h}\n",
])  # fmt: skip
def test_what_is_another_groups_too_is_left_to_the_operator(groups: str) -> None:
    text = HEAD + groups
    try:
        changed = with_holds(text, "orders", {"paused": "all"})
    except SettingsError as e:
        assert "change it in the file yourself" in str(e)  # noqa: PT017  either is right
    else:
        assert block(changed, "orders")["holds"]["paused"] == "all"


def test_a_group_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(SettingsError, match="no group 'other'; there are orders, bills"):
        with_holds(HEAD + FORMS["flow"], "other", {"paused": "all"})
