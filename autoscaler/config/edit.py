"""Changes single settings in the text of a configuration file, and leaves everything else in it as it stands, comments included.

Part of ``config``, for commands that do for an operator what an editor would. Text in, text out: whether the result is a good
configuration is for ``settings.load`` to say.
"""

from collections.abc import Iterator, Mapping

import yaml

from autoscaler.errors import SettingsError

_UNSET = "null"


def with_holds(text: str, group: str, holds: Mapping[str, str]) -> str:
    """Return the text of a configuration file with settings of a group's block ``holds`` changed.

    Args:
        text: The file, which is a good configuration.
        group: The group's id.
        holds: Settings and their values, as YAML has them; one that is ``null`` is taken out.

    Raises:
        SettingsError: There is no such group, or it is written in a way that cannot be changed without changing more.
    """
    changed = text
    try:
        for key, value in holds.items():
            changed = _set(changed, group, key, value)
        good = _differ_by(yaml.safe_load(text), yaml.safe_load(changed), group, {k: yaml.safe_load(v) for k, v in holds.items()})
    except yaml.YAMLError:
        good = False
    if not good:
        raise SettingsError((_by_hand(group),))
    return changed


def _by_hand(group: str) -> str:
    return (
        f"groups: holds of group {group!r} is written in a way that is not changed here, as where an alias (*) or a merge (<<) "
        "brings it: change it in the file yourself"
    )


def _set(text: str, group: str, key: str, value: str) -> str:
    block = _block(text, group)
    holds = _of(block, "holds")
    if holds is None:
        return text if value == _UNSET else _added(text, block, f"holds: {{{key}: {value}}}", behind="group")
    if not _within(block, holds):
        raise SettingsError((_by_hand(group),))  # an alias: it is another's, too
    if not isinstance(holds, yaml.MappingNode):
        return text if value == _UNSET else _replaced(text, holds, f"{{{key}: {value}}}")
    there = _of(holds, key)
    if there is None:
        return text if value == _UNSET else _added(text, holds, f"{key}: {value}")
    if not _within(holds, there):
        raise SettingsError((_by_hand(group),))
    if value != _UNSET:
        return _replaced(text, there, value)
    without = _removed(text, block, "holds") if len(holds.value) == 1 else _removed(text, holds, key)
    return _replaced(text, there, value) if without is None else without


def _removed(text: str, block: yaml.MappingNode, key: str) -> str | None:
    """Return the text without an entry of a block; ``None`` where more would go with it: a comment, or what is on its line."""
    n, (name, value) = next((n, entry) for n, entry in enumerate(block.value) if entry[0].value == key)
    start = name.start_mark.index
    end = start + len(text[start : value.end_mark.index].rstrip())  # that of a block is where the next token begins
    if not block.flow_style:
        start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end) + 1
        if text[start : name.start_mark.index].strip() or text[end : line_end or None].strip():
            return None
        start, end = (start, line_end) if line_end else (len(text[:start].rstrip("\r\n")), len(text))
    elif n + 1 < len(block.value):
        end = text.index(",", end) + 1
        end += text[end : end + 1] == " "
    elif n:
        start = block.value[n - 1][1].end_mark.index
    return None if "#" in text[start:end] or len(block.value) == 1 else text[:start] + text[end:]


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
    indent, line_end = " " * first.column, "\r\n" if "\r\n" in text else "\n"
    value = _of(block, behind) if behind is not None else None
    if value is None:
        return f"{text[: first.index]}{entry}{line_end}{indent}{text[first.index :]}"
    end = text.find(line_end, value.end_mark.index)
    end = len(text) if end < 0 else end
    return f"{text[:end]}{line_end}{indent}{entry}{text[end:]}"


def _differ_by(before: object, after: object, group: str, holds: Mapping[str, object]) -> bool:
    """Say whether two configurations are the same but for these holds of a group, which the second one has."""
    (was, others), (now, same) = _holds_apart(before, group), _holds_apart(after, group)
    rest = [{k: v for k, v in x.items() if k not in holds} for x in (was, now)]
    return others == same and rest[0] == rest[1] and all(now.get(k) == v for k, v in holds.items())


def _holds_apart(data: object, group: str) -> tuple[Mapping[str, object], object]:
    """Return the holds of a group, and the configuration without them."""
    if not isinstance(data, dict) or not isinstance(data.get("groups"), list):
        return {}, data
    own = [x for x in data["groups"] if isinstance(x, dict) and x.get("group") == group]
    bare = [{k: v for k, v in x.items() if k != "holds"} if x in own else x for x in data["groups"]]
    return next((x.get("holds") or {} for x in own), {}), {**data, "groups": bare}
