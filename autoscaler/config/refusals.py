"""What pydantic refuses, in the words of the file: where it stands, and what to write instead.

Part of ``config/settings.py``. Must not repeat what may be a secret.
"""

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType

from pydantic_core import ErrorDetails

from autoscaler.config.clusters import is_secret
from autoscaler.config.policy import ContradictionsError
from autoscaler.config.setting_paths import PATHS

_PRIVATE = frozenset({"connection", "environment"})  # what stands below may be a secret, whatever it is called
_PATHS = {name: path for table in PATHS.values() for name, path in table.items()}
_MUST = MappingProxyType({
    "bool_parsing": "true or false", "bool_type": "true or false",
    "dict_type": "a block, such as {{NAME: value}}",
    "finite_number": "a finite number", "float_type": "a number",
    "greater_than": "above {gt}", "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number", "int_parsing_size": "a smaller number", "int_type": "a whole number",
    "less_than": "below {lt}", "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "model_type": "a block of settings",
    "string_too_long": "at most {max_length} characters", "string_type": "text",
    "tuple_type": "a list, such as [a, b]",
})  # fmt: skip


def refusals(errors: list[ErrorDetails]) -> list[str]:
    """Return what is wrong, each with its path, in lists by number."""
    return [said for e in _own(errors) for said in _refusal(e)]


def _own(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors without "too few items" of a list whose items are refused one by one."""
    deeper = {e["loc"][:depth] for e in errors for depth in range(len(e["loc"]))}
    return [e for e in errors if e["type"] != "too_short" or e["loc"] not in deeper]


def _refusal(found: ErrorDetails) -> list[str]:
    loc, kind, given = found["loc"], found["type"], found.get("input")
    if loc[:1] == ("clusters",) and "connection" in loc and len(loc) > _VALUE_DEPTH:  # one line, whatever types it may have
        said = "one text with commas in between, such as a,b" if isinstance(given, list) else "text, a number, true or false"
        return [f"{_path(loc[:_VALUE_DEPTH])}: must be {said}"]
    before = f"{path}: " if (path := _path(loc)) else ""
    if kind == "value_error":  # one of ours
        error = found.get("ctx", {}).get("error")
        return [before + said for said in (error.problems if isinstance(error, ContradictionsError) else (str(error),))]
    return [f"{before}{_words(found)}{_not(path, loc, given, kind)}"]


_VALUE_DEPTH = 4  # clusters, its number, connection, the key


def _path(loc: tuple[int | str, ...]) -> str:
    """Return the path in the file of what the models call by flat names."""
    free = next((i for i, x in enumerate(loc) if x in _PRIVATE), len(loc))
    tables = (PATHS["Window"] if "windows" in loc[:i] else _PATHS for i in range(len(loc)))  # both have a paused
    return ".".join(
        str(x) if i > free else table.get(str(x), str(x)) for i, (x, table) in enumerate(zip(loc, tables, strict=True))
    )


def _words(found: ErrorDetails) -> str:
    kind, ctx = found["type"], found.get("ctx", {})
    if kind in {"missing", "string_too_short"}:
        return "is required" if kind == "missing" else "must not be empty"
    if kind == "too_short":
        return "must hold at least one block of settings" if len(found["loc"]) == 1 else "must name at least one, such as [a]"
    if kind in _MUST:
        return f"must be {_MUST[kind].format(**{k: _plain(x) for k, x in ctx.items()})}"
    return found["msg"].replace("Input should be", "must be")


def _plain(limit: object) -> object:
    """Return a number without an exponent: YAML takes some of these for text."""
    return f"{limit:f}".rstrip("0").rstrip(".") if isinstance(limit, float) else limit


def _not(path: str, loc: tuple[int | str, ...], given: object, kind: str) -> str:
    """Return what was given instead, with how YAML came to read it so."""
    if kind in {"missing", "too_short", "string_too_short"}:
        return ""
    if given is None:
        return ", and nothing is written there"
    if isinstance(given, Mapping) or is_secret(path) or not _PRIVATE.isdisjoint(map(str, loc)):
        return ""
    if kind not in {"string_type", "literal_error"} or isinstance(given, str | list):
        return f", not {given!r}"
    if isinstance(given, bool):
        word = "on, yes and true" if given else "off, no and false"
        return f", not {str(given).lower()} (as YAML reads {word}): to mean the word, put it in quotes"
    return f", not {given}: put it in quotes" if isinstance(given, int | float | date) else f", not {given!r}"
