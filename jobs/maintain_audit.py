"""Keeps the audit's tables small, as ``autoscaler maintain`` does: a file that ``spark-submit`` can be given."""

import os
import sys
from collections.abc import Sequence

from autoscaler.cli import main as command_line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these options."""
    return command_line.main(["maintain", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the JVM ends with its parent; its orderly end costs a second
