"""Settings of notifications: where events are posted, as what, and how often. Part of *settings*."""

import re
import string
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from autoscaler.config.units import Seconds

FIELDS = ("cluster", "group", "mode", "kind", "reason", "detail", "consumers_now", "consumers")
Kind = Literal["changed", "held", "attention"]
_HTTP = re.compile(r"^https?://[^\s/]+")


def _address(value: str) -> str:
    if value.startswith(("env:", "file:")):
        return value
    if not _HTTP.match(value):
        raise ValueError(f"must be an address such as https://example.com/hook, or env:NAME or file:PATH, not {value!r}")
    return value


def _template(value: str) -> str:
    try:
        parts = list(string.Formatter().parse(value))
    except ValueError as e:
        raise ValueError(f"is no text with fields such as {{group}}: {e}") from e
    if wrong := [name for _, name, spec, _ in parts if name is not None and (name not in FIELDS or spec)]:
        raise ValueError(f"has {{{wrong[0]}}}; the fields are {', '.join(FIELDS)}, each without a format")
    return value


class Notify(BaseModel):
    """What is told elsewhere: to a webhook, to Slack or what reads its messages, or as CloudEvents."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    url: Annotated[str, AfterValidator(_address)] | None = None
    """where each event is posted: an address, or env:NAME or file:PATH where it is a secret, as Slack's is; null: nowhere"""
    format: Literal["cloudevents", "slack"] = "cloudevents"
    """cloudevents: one CloudEvent as JSON; slack: a message for Slack, Mattermost or what else takes theirs"""
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = ("changed", "held", "attention")
    """changed: a decision that changes something; held: a limit that holds for long; attention: what an operator should see"""
    held_for_s: Annotated[Seconds, Field(gt=0)] = 600.0
    """seconds that a limit must hold a group before that is told, once"""
    every_s: Annotated[Seconds, Field(gt=0)] = 60.0
    """seconds between two events of one kind and group, at least; what comes in between is counted in the next"""
    text: Annotated[str, Field(min_length=1), AfterValidator(_template)] = "{cluster}/{group}: {reason}: {detail}"
    """the message; {consumers_now}, {consumers}, {mode} and {kind} may stand in it too"""


def filled(template: str, fields: Mapping[str, object]) -> str:
    """Return a message with its fields; what is not known stands as a question mark."""
    return template.format(**{name: "?" if fields.get(name) is None else fields[name] for name in FIELDS})
