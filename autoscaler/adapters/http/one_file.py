"""The page as one file that needs no job and no network: the same HTML, style and script, with the answers in it."""

import base64
import hashlib
import json
import re
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from autoscaler.adapters.http.board import OneGroup, Overview
from autoscaler.adapters.http.page import shipped
from autoscaler.adapters.http.why import Why

_NO_SCRIPT = "<noscript><p>This report needs JavaScript.</p></noscript>"


class ReportedGroup(TypedDict):
    """One group of a report."""

    one: OneGroup
    whys: Annotated[list[Why], Field(description="one for each of its decisions")]
    marks: Annotated[list[float], Field(description="times of some of the decisions that are not listed, for the chart")]
    notes: Annotated[list[str], Field(description="what a reader must know of it")]


class Report(TypedDict):
    """What a report shows; times in seconds since 1970."""

    since: float
    until: float
    zone: Annotated[str, Field(description="name of the zone that times are shown in")]
    notes: list[str]
    overview: Overview
    groups: dict[str, ReportedGroup]


def one_file(title: str, report: Report) -> str:
    """Return the report as HTML; browsers run nothing in it but the page's own script."""
    style, script = shipped("page.css").decode(), shipped("page.js").decode()
    data = json.dumps(report, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    rules = f"script-src {_sum(script)}; style-src {_sum(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    policy = f"default-src 'none'; {rules}"
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    tail = f'<script type="application/json" id="report">{data}</script>\n<script>{script}</script>\n</body>'
    text = shipped("index.html").decode()
    for had, put in (
        ('<link rel="stylesheet" href="page.css">\n', f"{head}\n"),
        ('<script src="page.js" defer></script>\n', ""),
        ("<title>Consumer groups</title>", f"<title>{_text(title)}</title>"),
        (re.search("<noscript>.*</noscript>", text), _NO_SCRIPT),
        ("</body>", tail),
    ):
        found = had if isinstance(had, str) else had and had.group()
        if not found or text.count(found) != 1:
            raise ValueError(f"the page has no {found!r}, or more than one")
        text = text.replace(found, put)
    return text


def _sum(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;")
