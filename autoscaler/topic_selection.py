"""Which topics a group means: names, patterns and what is left out of these. Below the path; standard library only.

As librdkafka has it, what begins with ``^`` is a regular expression that a topic's name must begin with. What begins with ``!``
is left out of the patterns: a name, or a pattern again. No pattern means a topic whose name begins with two underscores: those
are Kafka's own and the control log's.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_INTERNAL = "__"
_NOT_CONSUMED = re.compile(r"__consumer_offsets|__transaction_state|__share_group_state|__cluster_metadata|__autoscaler_\w+")
_NOT = "!"


def names(topics: Iterable[str]) -> tuple[str, ...]:
    """Return the topics that are named."""
    return tuple(t for t in topics if not t.startswith(("^", _NOT)))


def patterns(topics: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns, without those of what is left out."""
    return tuple(t for t in topics if t.startswith("^"))


def subscribed(topics: Iterable[str]) -> tuple[str, ...]:
    """Return names and patterns, as a consumer of librdkafka subscribes to them."""
    return tuple(t for t in topics if not t.startswith(_NOT))


def matches(pattern: str, topic: str) -> bool:
    """Say whether a pattern means a topic, whatever else is left out."""
    return not topic.startswith(_INTERNAL) and re.match(pattern, topic) is not None


@lru_cache(maxsize=100_000)  # asked of every topic in every batch
def means(topics: tuple[str, ...], topic: str) -> bool:
    """Say whether a group that consumes ``topics``, as they are configured, consumes this one."""
    if topic in names(topics):
        return True
    return not _left_out(topics, topic) and any(matches(p, topic) for p in patterns(topics))


def wanted(topics: tuple[str, ...], listed: Iterable[str]) -> frozenset[str]:
    """Return the topics to ask for: the named ones, there or not, and those listed that a pattern means."""
    return frozenset(names(topics)) | {t for t in listed if means(topics, t)}


def unmatched(topics: Sequence[str], listed: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns that mean none of the topics listed."""
    found = [t for t in listed if not _left_out(topics, t)]
    return tuple(p for p in patterns(topics) if not any(matches(p, t) for t in found))


def problem_of(entry: str) -> str | None:
    """Return what is wrong with one entry of a configuration, if anything."""
    text = entry.removeprefix(_NOT)
    if not text.startswith("^"):
        if _NOT_CONSUMED.fullmatch(text):
            return f"{text!r} is a topic of Kafka's or of the autoscaler's own: name those that your consumers process"
        wrong = f"{text!r} is no topic's name (letters, digits, '.', '_', '-'); a regular expression begins with ^"
        return None if _NAME.fullmatch(text) and text not in {".", ".."} else wrong
    if entry.startswith(f"^{_INTERNAL}") and "|" not in entry:
        return f"{text!r} means no topic: one that begins with {_INTERNAL} has to be named"
    if "," in text:
        return f"{text!r}: no comma, please: consumers are told their topics with commas in between"
    try:
        re.compile(text)
    except re.error as e:
        return f"{text!r} is no regular expression: {e}"
    return None


def contradictions(topics: Sequence[str]) -> tuple[str, ...]:
    """Return what is wrong between entries that are each fine by themselves."""
    found = ["topics names a topic twice"] if len(set(topics)) != len(topics) else []
    found += [f"topics names {t} and leaves it out" for t in names(topics) if _left_out(topics, t)]
    if topics and not patterns(topics) and len(names(topics)) < len(topics):
        found.append("topics leaves something out (!) and has no pattern (^) to leave it out of")
    return tuple(found)


def _left_out(topics: Iterable[str], topic: str) -> bool:
    out = [t.removeprefix(_NOT) for t in topics if t.startswith(_NOT)]
    return any(re.match(x, topic) is not None if x.startswith("^") else x == topic for x in out)
