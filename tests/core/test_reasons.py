"""The page that explains the reasons, against the code that gives them."""

import re
from pathlib import Path

from autoscaler.model import Reason

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "reasons.md").read_text(encoding="utf-8")
HEADING = re.compile(r"^## `(\w+)`\n\n\*([A-Z][a-z, ]+)\.\*\n\n\*\*Cause\.\*\* (.+)\n\n\*\*Remedy\.\*\* (.+)$", re.MULTILINE)
ROWS = HEADING.findall(PAGE)
KINDS = {name: set(kind.lower().split(", ")) for name, kind, _, _ in ROWS}
CORE = "\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "autoscaler" / "core").rglob("*.py")))


def test_every_reason_has_one_heading_with_cause_and_remedy() -> None:
    assert re.findall(r"^## `?(\w+)`?", PAGE, re.MULTILINE) == sorted(Reason)
    assert [name for name, *_ in ROWS] == sorted(Reason)


def test_every_reason_says_what_it_means_and_what_to_do() -> None:
    assert [name for name, _, cause, remedy in ROWS if len(cause) < 20 or len(remedy) < len("Nothing.")] == []


def test_reasons_that_are_reserved_are_those_the_code_does_not_give() -> None:
    given = {name for name in Reason if f"Reason.{name}" in CORE}
    assert {name for name, kinds in KINDS.items() if kinds != {"reserved"}} == given


def test_kinds_are_the_four_that_the_page_explains() -> None:
    assert set.union(*KINDS.values()) == {"condition", "limit", "state", "reserved"}
