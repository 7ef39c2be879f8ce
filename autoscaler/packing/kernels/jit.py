"""How a function on arrays becomes machine code: the decorators for all of *pack*.

The text stays plain Python: with ``NUMBA_DISABLE_JIT=1`` it runs interpreted, which is what tests compare with. The machine
code is kept beside the module (or in the user's cache directory where that is read-only), so that only the first process after
a change compiles; where neither can be written, every process does.

numba looks for changes in a function's own module only, yet what the function calls is compiled into it. Old machine code must
not outlive a change below it, so that here a module's stamp covers the modules with compiled functions that it imports from.
A number from any other module would change unnoticed: so each family of kernels has its own ``UNASSIGNED`` and rounding.
"""

import hashlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

_stamps: dict[str, str] = {}  # by module with compiled functions: changes with its text and with what it imports from


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of arrays and numbers at its first call; division by zero gives infinity as in numpy."""
    return _kept(function, counting=True)


def borrowing(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that makes no arrays and gives none back, but only reads and writes those of its caller.

    It does without counting references to them: for a tuple of a dozen arrays the counting takes ten times the time of the work.
    """
    return _kept(function, counting=False)


def _kept(function: Callable[P, R], *, counting: bool) -> Callable[P, R]:
    """Compile a function, and keep the machine code until the function's module, or one below it, changes."""
    options = {"nogil": True, "error_model": "numpy", "_nrt": counting}  # the last one has no public name
    njit = cast("Callable[..., Callable[[object], object]]", numba.njit)
    try:
        dispatcher = njit(cache=True, **options)(function)
    except RuntimeError:  # neither of the directories can be written: every process compiles
        dispatcher = njit(**options)(function)
    kept = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)  # numba has no public way to say what is old
    if kept is not None:
        kept._source_stamp = _stamps[function.__module__] = _stamp(function, kept._source_stamp)  # noqa: SLF001  as above
    return cast("Callable[P, R]", dispatcher)


def _stamp(function: Callable[P, R], own: object) -> str:
    """Return what tells the text of a function's module, and of those whose compiled functions it may call, from any other."""
    modules = {getattr(value, "__module__", None) for value in function.__globals__.values()} - {function.__module__}
    below = sorted((m, _stamps[m]) for m in modules if m in _stamps)
    return hashlib.sha256(repr((own, below)).encode()).hexdigest()
