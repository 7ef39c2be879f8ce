"""Reads a configuration file: what it says, and in which line each setting stands.

Part of ``config/settings.py``, which checks what was read. Must not repeat a line of the file: it may hold a secret.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from autoscaler.config.clusters import blocks
from autoscaler.errors import SettingsError

_NAMED = {"clusters": "name", "groups": "group"}  # lists whose blocks have a name, and the setting that it is


@dataclass(frozen=True)
class Written:
    """What a file says."""

    data: Mapping[str, object]  # its settings, not yet checked
    lines: Mapping[str, int]  # the line of each setting, by its path, in lists by number: ``groups.0.topics``

    def placed(self, problem: str) -> str:
        """Return a problem with the name of its group or cluster, which says more than a number, and with its line."""
        found = re.match(r"(clusters|groups)\.(\d+)", problem)
        if found is None:
            return problem + self._line(problem)
        name = self._name(found[1], int(found[2]))
        return f"{found[1]}.{found[2] if name is None else name}{problem[found.end() :]}{self._line(problem)}"

    def _line(self, problem: str) -> str:
        path, _, said = problem.partition(": ")
        tried = [f"{path}.{said.split(' ')[0].rstrip(':')}", *_from_within(path)]
        line = next((self.lines[p] for p in tried if p in self.lines), None)
        return "" if line is None or path in _NAMED else f" (line {line})"

    def _name(self, key: str, number: int) -> str | None:
        names = [b.get(_NAMED[key]) for b in blocks(self.data, key)]
        listed = self.data[key]
        block = listed[number] if isinstance(listed, list) else None
        name = block.get(_NAMED[key]) if isinstance(block, Mapping) else None
        return (
            name if isinstance(name, str) and name.isprintable() and re.search(r"\w", name) and names.count(name) == 1 else None
        )


def _from_within(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition(".")[0]


def read(path: str | Path) -> Written:
    """Return what a configuration file says, not yet checked.

    Raises:
        SettingsError: It cannot be read, or says nothing.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as e:
        raise SettingsError((f"cannot be read ({e.strerror}); give an existing file with --config",)) from e
    except UnicodeDecodeError as e:
        raise SettingsError(("is not UTF-8 text",)) from e
    try:
        data, lines = _parsed(text)
    except yaml.YAMLError as e:
        said = _said(e)
        hint = "; what begins with ! stands in quotes" if " tag " in said else ""
        raise SettingsError((f"is not YAML: {said}{hint}",)) from e
    except RecursionError as e:
        raise SettingsError(("is not YAML: blocks lie in blocks without an end",)) from e
    if not isinstance(data, dict):
        raise SettingsError(("holds no settings; conf/autoscaler.yaml lists all of them",))
    return Written(data, lines)


def _parsed(text: str) -> tuple[object, dict[str, int]]:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines = dict(_lines(node, ""))  # before what is taken over by << is put in
        return (None if node is None else loader.construct_document(node)), lines
    finally:
        loader.dispose()


def _lines(node: yaml.Node | None, at: str) -> Iterator[tuple[str, int]]:
    """Yield the line of every setting, and refuse one that stands twice in a block: YAML would quietly take the last one."""
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        for key, value in node.value:
            if keys.count(key.value) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is set twice", node.start_mark)
            path = f"{at}{key.value}"
            yield path, key.start_mark.line + 1
            yield from _lines(value, f"{path}.")
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield f"{at}{number}", item.start_mark.line + 1
            yield from _lines(item, f"{at}{number}.")


def _said(error: yaml.YAMLError) -> str:
    """Return what is wrong and where, without the line itself: it may hold a secret that stands where none should."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    told = ((error.context, error.context_mark), (error.problem, error.problem_mark))
    parts = [f"{what} line {mark.line + 1}, column {mark.column + 1}" if mark else what for what, mark in told if what]
    return " ".join(" ".join(parts).split())
