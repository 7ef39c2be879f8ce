"""The grouped blocks of the configuration file and the flat models that the code reads, by the table of ``setting_paths``.

Part of ``config/settings.py``. What a value must be is the models' business; here a setting only has its place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel

from autoscaler.config.setting_paths import PATHS

Block = Mapping[str, object]
_SHOWS = "conf/autoscaler.yaml shows where"
_LISTS = "conf/autoscaler.yaml lists all of them"


def flattened(data: Block, model: type[BaseModel]) -> tuple[dict[str, object], list[str]]:
    """Return a file's settings by the names of the models' fields, and what stands where no setting is.

    Values are passed on as they are, wrong ones too: the models refuse them.
    """
    reading = _Reading(tuple(dict.fromkeys(_places(model))))
    return reading.block(data, model, ""), reading.problems


def in_file(model: type[BaseModel]) -> dict[str, str]:
    """Return the fields of a model by how they are written in its block: ``scale_up.step`` → ``grow_step``."""
    table = PATHS.get(model.__name__, {})
    return {table.get(name, name): name for name in model.model_fields}


def inner(annotation: object) -> type[BaseModel] | None:
    """Return the model that a field's type holds, one or a list of them; ``None`` of a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for part in get_args(annotation) if (m := inner(part))), None)


def _places(model: type[BaseModel], at: str = "") -> Iterator[tuple[str, str]]:
    """Yield every setting below a model: its field and its full path in the file."""
    for path, name in in_file(model).items():
        yield name, at + path
        if within := inner(model.model_fields[name].annotation):
            yield from _places(within, f"{at}{path}.")


@dataclass
class _Reading:
    """One walk through a file."""

    places: tuple[tuple[str, str], ...]  # of every setting: field and path
    problems: list[str] = field(default_factory=list)

    def block(self, block: Block, model: type[BaseModel], at: str) -> dict[str, object]:
        known, out = in_file(model), dict[str, object]()
        sections = {path.partition(".")[0] for path in known if "." in path}
        for key, value in block.items():
            if key in sections and isinstance(value, Mapping):
                for below, x in value.items():
                    if (name := known.get(f"{key}.{below}")) is None:
                        self._unknown(f"{at}{key}.", str(below), model)
                    else:
                        out[name] = x
            elif key in sections:
                if value is not None:  # else all of its settings are left out
                    self._no_block(at, str(key), value, model)
            elif key in known and "." not in key:
                out[known[key]] = self._value(value, inner(model.model_fields[known[key]].annotation), f"{at}{key}")
            else:
                self._unknown(at, str(key), model)
        return out

    def _value(self, value: object, model: type[BaseModel] | None, at: str) -> object:
        if model is not None and isinstance(value, Mapping):
            return self.block(value, model, f"{at}.")
        if model is not None and isinstance(value, list):
            return [self._value(x, model, f"{at}.{i}") for i, x in enumerate(value)]
        return value

    def _no_block(self, at: str, key: str, value: object, model: type[BaseModel]) -> None:
        if key in PATHS[model.__name__]:  # a setting of that name became a block
            self._unknown(at, key, model)
            return
        first = next(path for path in in_file(model) if path.startswith(f"{key}."))
        self.problems.append(f"{at}{key}: must be a block of settings, such as {{{first.partition('.')[2]}: ...}}, not {value!r}")

    def _unknown(self, at: str, key: str, model: type[BaseModel]) -> None:
        """Say where a setting of this name stands, or which one may be meant."""
        section, _, below = key.partition(".")
        if below and key in in_file(model):
            self.problems.append(f"{at}{key}: is written {section}: {{{below}: ...}}; {_SHOWS}")
        elif now := PATHS.get(model.__name__, {}).get(key):
            self.problems.append(f"{at}{key}: is written {now} now; {_SHOWS}")
        elif there := [p for name, p in self.places if key in {name, p.rpartition(".")[2], p.removeprefix("groups.")}]:
            ours = "groups." if at.startswith("groups.") else ""
            self.problems.append(f"{at}{key}: is written {' or '.join(p.removeprefix(ours) for p in there)}; {_SHOWS}")
        else:
            names = sorted({x for name, path in self.places for x in (name, *path.split("."))})
            near = get_close_matches(key, names, 1)
            self.problems.append(f"{at}{key}: unknown setting{f' (is {near[0]} meant?)' if near else ''}; {_LISTS}")
