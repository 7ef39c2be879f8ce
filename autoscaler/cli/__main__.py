"""``python -m autoscaler.cli`` is the same as the installed command ``autoscaler``."""

import sys

from autoscaler.cli.main import main

sys.exit(main())
