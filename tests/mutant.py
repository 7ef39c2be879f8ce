"""Runs a test in a process of its own, in which one module of the package has another text.

What it imports besides the package is loaded once and forked (``multiprocessing``'s fork server), so that a run takes a
fraction of a second more than its test. No file is written, and the package in the calling process is not touched.
"""

import importlib.machinery
import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[1]
LOADED_ONCE = [
    "numba", "numpy", "pydantic", "yaml", "confluent_kafka", "psutil", "pytest", "_pytest.assertion.rewrite", "hypothesis",
    "hypothesis.strategies", "hypothesis.internal.conjecture.engine", "pandas", "pyarrow.compute", "pyarrow.dataset",
    "deltalake", "rich.table", "cronsim", "pdb", "unittest.mock", "asyncio", "tests.mutant",
]  # fmt: skip
NOT_IMPORTED = 90  # the test has not imported the module: its text decided nothing
_PATIENCE_S = 300.0


def outcome(module: str, text: str, test: str, said: Path) -> int:
    """Run a test with ``autoscaler/<module>`` replaced by a text.

    Args:
        module: Path of the module below ``autoscaler``.
        text: What it is for this test.
        test: What pytest is to run, below ``tests``: a file, or ``FILE::NAME``.
        said: Gets what pytest writes.

    Returns:
        pytest's exit code (1: it failed), or ``NOT_IMPORTED``.

    Raises:
        AssertionError: It did not end in five minutes.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED_ONCE)
    child = context.Process(target=_run, args=(module, text, str(ROOT / "tests" / test), said))
    child.start()
    child.join(_PATIENCE_S)
    if child.exitcode is None:
        child.kill()
        child.join()
        raise AssertionError(f"did not end within {_PATIENCE_S:.0f} s: {test}\n{said.read_text(encoding='utf-8')}")
    return child.exitcode


class _Replaced(importlib.machinery.SourceFileLoader):
    """Loads a module from a text instead of its file, and knows whether it did."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text, self.loaded = text, False

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  (the import system's)
        self.loaded = True
        return compile(self._text, self.path, "exec")

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  (the import system's)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None


def _run(module: str, text: str, test: str, said: Path) -> None:
    """Run a test in this process, which is new, and end it with their outcome."""
    with said.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    import numba  # noqa: PLC0415  (not in the calling process)
    import pytest  # noqa: PLC0415

    from tests import evidence  # noqa: PLC0415

    evidence.keep = lambda *_: said  # these failures are meant
    os.environ["NUMBA_DISABLE_JIT"] = "1"  # machine code that is kept is that of the file
    numba.config.reload_config()  # type: ignore[no-untyped-call]
    path = ROOT / "autoscaler" / module
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    assert name not in sys.modules
    replaced = _Replaced(name, str(path), text)
    sys.meta_path.insert(0, replaced)
    loaded = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    options = ["-x", "-q", "-W", loaded, "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = pytest.main([*options, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), test])
    sys.stdout.flush()
    sys.exit(int(code) if replaced.loaded else NOT_IMPORTED)
