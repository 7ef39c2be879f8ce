"""One line about where figures come from."""

import os
import platform
import re
import subprocess
from pathlib import Path


def machine(repository: Path) -> str:
    """Return processor, memory, system, Python and, where git knows it, the commit."""
    info = Path("/proc/cpuinfo")
    found = re.findall(r"model name\s*: (.+)", info.read_text("utf-8")) if info.exists() else []
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    git = ["git", "-C", str(repository), "log", "-1", "--format=%h of %cs"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        commit = ""
    return (
        f"{os.cpu_count()} cores of {found[0] if found else platform.machine()}, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}" + (f", commit {commit}" if commit else "")
    )
