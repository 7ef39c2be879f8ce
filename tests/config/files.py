"""Configuration files for tests, and the settings that they may hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from autoscaler.config.grouping import in_file
from autoscaler.config.settings import Settings, load
from autoscaler.errors import SettingsError

ROOT = Path(__file__).resolve().parents[2]
EVERY_SETTING = ROOT / "conf" / "autoscaler.yaml"
MINIMAL: dict[str, object] = {
    "clusters": [{"connection": {"bootstrap.servers": "localhost:9092"}}],
    "state_dir": "/tmp/state",  # noqa: S108 -- never written to
    "groups": [{"group": "g", "topics": ["t"]}],
}

BEGINNING = "state_dir: /tmp/x\nclusters:\n- name: kafka\n  connection:\n    bootstrap.servers: broker:9092\n"


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Return the settings models that a type mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for part in get_args(annotation) for m in models_in(part)]


def fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Return every setting of a model and of the models inside, with its path in the file."""
    for written_as, name in in_file(model).items():
        info = model.model_fields[name]
        yield path + written_as, info
        for inner in models_in(info.annotation):
            yield from fields(inner, f"{path}{written_as}.")


SETTINGS = dict(fields(Settings))


def write(path: Path, data: object) -> Path:
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data), encoding="utf-8")
    return path


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(path)
    return caught.value.problems


def window(**changes: object) -> dict[str, object]:
    return {"cron": "0 8 * * *", "duration": 60, "paused": "all", **changes}
