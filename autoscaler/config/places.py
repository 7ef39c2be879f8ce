"""Where state may lie: a directory of this machine, or an address that Hadoop's file systems know.

A place is text: an absolute path, an address such as ``s3a://bucket/x``, or, for tables, ``catalog.schema``. What is written as
``file:/x`` is the path ``/x``. Looks at nothing: whether a place can be reached is asked where it is used.
"""

import os
import re
from pathlib import Path

# Hadoop's names, and what an address of each looks like. Which of them a class path knows is found out at start.
SCHEMES = {
    "s3a": "s3a://bucket/path",
    "abfss": "abfss://container@account.dfs.core.windows.net/path",
    "gs": "gs://bucket/path",
    "hdfs": "hdfs://namenode/path",
    "dbfs": "dbfs:/path",
    "file": "file:/path",
}
_WHOSE = frozenset({"s3a", "abfss", "gs"})  # an address of these names a bucket or a container
_SCHEME = re.compile(r"^([A-Za-z][\w+.-]*):")
_CATALOG = re.compile(r"^[^\W\d][\w-]*\.[^\W\d][\w-]*$")


def problem(value: str, *, catalog: bool = False) -> str:
    """Return why this cannot be a place; empty if it can. With ``catalog`` it may be ``catalog.schema``."""
    value = os.path.expandvars(value)
    scheme = scheme_of(value)
    if not scheme:
        return ""
    if scheme not in SCHEMES:
        known = ", ".join(SCHEMES.values())
        return f"{scheme}: is no file system that is known; there are {known}" + (", and catalog.schema" if catalog else "")
    host = _host(value)
    if scheme in _WHOSE and not host:
        return f"{value!r} names no bucket or container: it is written {SCHEMES[scheme]}"
    if scheme == "file" and (host or not value.partition(":")[2].startswith("/")):
        return f"{value!r} is no path of this machine: it is written {SCHEMES[scheme]}"
    return ""


def scheme_of(place: str) -> str:
    """Return an address's scheme in small letters; empty for a path or a catalog's schema."""
    found = _SCHEME.match(place)
    return found[1].lower() if found else ""


def resolved(value: str, *, catalog: bool = False) -> str:
    """Return a place as it is written as one that means the same anywhere on this machine."""
    value = os.path.expandvars(value)
    scheme = scheme_of(value)
    if scheme == "file":
        return "/" + value.partition(":")[2].strip("/")
    if scheme or (catalog and is_catalog(value)):
        return value.rstrip("/")
    return str(directory(value))


def directory(value: str) -> Path:
    """Return a directory of this machine as it is written as an absolute path."""
    return Path(os.path.expanduser(os.path.expandvars(value))).absolute()  # noqa: PTH111  of a user who is not there it leaves the name


def is_catalog(place: str) -> bool:
    """Say whether this is ``catalog.schema``; a directory of such a name is written with a slash: ``./a.b``."""
    return _CATALOG.match(place) is not None


def local(place: str) -> Path | None:
    """Return a place's directory on this machine; ``None``: it is elsewhere."""
    return None if scheme_of(place) or is_catalog(place) else Path(place)


def lacking(setting: str, value: str) -> list[str]:
    """Return what a place as it is written refers to and is not there."""
    place = os.path.expanduser(os.path.expandvars(value))  # noqa: PTH111  as above
    if "$" in place:
        return [f"{setting}: {place} names an environment variable that is not set"]
    return [f"{setting}: {place} names a home directory that is not there"] if place.startswith("~") else []


def _host(value: str) -> str:
    rest = value.partition(":")[2]
    return rest[2:].partition("/")[0] if rest.startswith("//") else ""
