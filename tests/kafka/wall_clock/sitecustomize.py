"""A wall clock that can be set while processes run: seconds to add to the true one, in a file.

Python imports a module of this name by itself where it is on the path.
"""

import os
import time
from pathlib import Path

_FILE, _true = Path(os.environ["WALL_CLOCK"]), time.time


def _shifted() -> float:
    return _true() + float(_FILE.read_text(encoding="ascii"))


time.time = _shifted
