"""How a function on arrays becomes machine code: one decorator for all of *pack*.

The text stays plain Python: with ``NUMBA_DISABLE_JIT=1`` it runs interpreted, which is what tests compare with. The machine
code is kept beside the module (or in the user's cache directory where that is read-only), so that only the first process after
a change compiles.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of arrays and numbers at its first call; division by zero gives infinity as in numpy."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, error_model="numpy")(function))
