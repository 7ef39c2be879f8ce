"""Mutated copies of modules, compiled beside the real ones: what is mutated is the text that production runs.

``copy_of(edits)`` imports ``autoscaler.handover`` and the simulation once more under another package, some passages replaced. No
file is written and the real modules are not touched. A passage that is not there exactly once is an error: a mutation that has
gone stale fails loudly.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parents[2]
_COPIED = ("autoscaler.handover", "autoscaler.worker", "tests.handover.simulation")
_KEPT = frozenset({"tests.handover.simulation.violation"})  # one class for all copies
_number = count()


@dataclass(frozen=True, slots=True)
class Edit:
    """One passage of a module, and what stands there instead; the module is named without ``autoscaler.``."""

    module: str
    old: str
    new: str

    @property
    def full_name(self) -> str:
        return self.module if self.module.startswith("tests.") else f"autoscaler.{self.module}"


class Copy:
    """A copy of the modules under a name of its own."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def module(self, name: str) -> ModuleType:
        """Return the copy of a module by its real name."""
        return importlib.import_module(f"{self._prefix}.{name}")


@contextmanager
def copy_of(edits: Sequence[Edit] = ()) -> Iterator[Copy]:
    """Make copies importable, and forget them afterwards."""
    prefix = f"mutant_{next(_number)}"
    texts: dict[str, str] = {}
    for edit in edits:
        texts[edit.full_name] = _edited(texts.get(edit.full_name) or _source(edit.full_name), edit)
    finder = _Finder(prefix, texts)
    sys.meta_path.insert(0, finder)
    try:
        yield Copy(prefix)
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n == prefix or n.startswith(f"{prefix}.")]:
            del sys.modules[name]


def _source(name: str) -> str:
    path = _path(name)
    if path is None:
        raise AssertionError(f"there is no module {name}")
    return path.read_text(encoding="utf-8")


def _path(name: str) -> Path | None:
    path = _ROOT.joinpath(*name.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def _edited(text: str, edit: Edit) -> str:
    if (found := text.count(edit.old)) != 1:
        raise AssertionError(f"{edit.module} has {found} times, not once: {edit.old!r}")
    return text.replace(edit.old, edit.new)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the copies: packages are empty, modules are compiled from the real files."""

    def __init__(self, prefix: str, texts: Mapping[str, str]) -> None:
        self._prefix, self._texts = prefix, texts

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  (the import system's)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._prefix and not fullname.startswith(f"{self._prefix}."):
            return None
        real = fullname.removeprefix(self._prefix).removeprefix(".")
        package = not real or (_ROOT.joinpath(*real.split("."))).is_dir()
        return importlib.machinery.ModuleSpec(fullname, self, is_package=package)

    def exec_module(self, module: ModuleType) -> None:
        real = module.__name__.removeprefix(self._prefix).removeprefix(".")
        path = _path(real) if real else None
        if path is None:
            return
        text = self._texts.get(real) or _source(real)
        for package in _COPIED:
            text = text.replace(f"from {package}", f"from {self._prefix}.{package}")
        for kept in _KEPT:
            text = text.replace(f"from {self._prefix}.{kept}", f"from {kept}")
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102  (the project's own text)
