"""Changes single settings in the text of a configuration file, and leaves everything else in it as it stands, comments included.

Part of ``config``, for commands that do for an operator what an editor would. Text in, text out: whether the result is a good
configuration is for ``settings.load`` to say.
"""

from collections.abc import Iterator, Mapping

import yaml

from autoscaler.errors import SettingsError


def with_holds(text: str, group: str, holds: Mapping[str, str]) -> str:
    """Return the text of a configuration file with settings of a group's block ``holds`` changed.

    Args:
        text: The file, which is a good configuration.
        group: The group's id.
        holds: Settings and their values, as YAML has them; ``null`` for a setting that is not there changes nothing.

    Raises:
        SettingsError: There is no such group, or it is written in a way that cannot be changed without changing more.
    """
    changed = text
    try:
        for key, value in holds.items():
            changed = _set(changed, group, key, value)
        good = _same_but(yaml.safe_load(text), yaml.safe_load(changed), group)
    except yaml.YAMLError:
        good = False
    if not good:
        raise SettingsError((_by_hand(group),))
    return changed


def _by_hand(group: str) -> str:
    return f"groups: holds of group {group!r} is written in a way that is not changed here: change it in the file yourself"


def _set(text: str, group: str, key: str, value: str) -> str:
    block = _block(text, group)
    holds = _of(block, "holds")
    if holds is None:
        return text if value == "null" else _added(text, block, f"holds: {{{key}: {value}}}", behind="group")
    if not _within(block, holds):
        raise SettingsError((_by_hand(group),))  # an alias: it is another's, too
    if not isinstance(holds, yaml.MappingNode):
        return _replaced(text, holds, f"{{{key}: {value}}}")
    there = _of(holds, key)
    if there is None:
        return text if value == "null" else _added(text, holds, f"{key}: {value}")
    if not _within(holds, there):
        raise SettingsError((_by_hand(group),))
    return _replaced(text, there, value)


def _block(text: str, group: str) -> yaml.MappingNode:
    root = yaml.compose(text, yaml.SafeLoader)
    groups = _of(root, "groups") if isinstance(root, yaml.MappingNode) else None
    named = {name.value: x for x in _mappings(groups) if (name := _of(x, "group")) is not None}
    if group not in named:
        few = ", ".join(map(str, named)) or "none"
        raise SettingsError((f"groups: no group {group!r}; there are {few}",))
    return named[group]


def _mappings(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.SequenceNode):
        yield from (x for x in node.value if isinstance(x, yaml.MappingNode))


def _of(block: yaml.MappingNode, key: str) -> yaml.Node | None:
    return next((value for k, value in block.value if k.value == key), None)


def _within(outer: yaml.Node, inner: yaml.Node) -> bool:
    starts: bool = outer.start_mark.index <= inner.start_mark.index
    return starts and bool(inner.end_mark.index <= outer.end_mark.index)


def _replaced(text: str, node: yaml.Node, value: str) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    gap = " " if text[start - 1 : start] not in {" ", ""} else ""
    return f"{text[:start]}{gap}{value}{text[end:]}"


def _added(text: str, block: yaml.MappingNode, entry: str, behind: str | None = None) -> str:
    """Return the text with one more entry in a block: on the line below ``behind``, or in front of the others."""
    if block.flow_style:
        at = text.index("{", block.start_mark.index) + 1  # behind an anchor
        return f"{text[:at]}{entry}{', ' if block.value else ''}{text[at:]}"
    first = block.value[0][0].start_mark
    indent = " " * first.column
    value = _of(block, behind) if behind is not None else None
    if value is None:
        return f"{text[: first.index]}{entry}\n{indent}{text[first.index :]}"
    end = text.find("\n", value.end_mark.index)
    end = len(text) if end < 0 else end
    return f"{text[:end]}\n{indent}{entry}{text[end:]}"


def _same_but(before: object, after: object, group: str) -> bool:
    """Say whether two configurations differ in a group's holds at most."""
    return _without_holds(before, group) == _without_holds(after, group)


def _without_holds(data: object, group: str) -> object:
    if not isinstance(data, dict) or not isinstance(data.get("groups"), list):
        return data
    return {**data, "groups": [_bare(x) if isinstance(x, dict) and x.get("group") == group else x for x in data["groups"]]}


def _bare(block: Mapping[str, object]) -> Mapping[str, object]:
    return {k: v for k, v in block.items() if k != "holds"}
