"""The job: parses its command line and runs ``autoscaler.service`` until it is told to stop.

Exit codes: 0 told to stop; 1 the query failed; 74 told to stop, but rows of the audit could not be written; 76 the watchdog
saw no batch for long; 77 another controller has taken over; 78 the settings (or the tables they point at) are wrong.
``spark-submit.sh`` starts 1 and 76 again.
"""

import argparse
import logging
import os
import sys

from autoscaler.config.hot_reload import FollowedFile
from autoscaler.config.settings import load
from autoscaler.errors import Exit, SettingsError, TransientError
from autoscaler.service import run

log = logging.getLogger("autoscale")


def main(argv: list[str] | None = None) -> int:
    """Parse the command line, run, and turn settings errors into messages."""
    parser = argparse.ArgumentParser(description="Size Kafka consumer groups and place their partitions.")
    parser.add_argument("--config", required=True, help="configuration file; conf/autoscaler.yaml explains every setting")
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # otherwise a line per call
    try:
        settings = load(args.config)
        if settings.log.format == "json":
            from autoscaler.adapters.job_log import as_json  # noqa: PLC0415  most logs are text

            as_json()
        return run(settings, FollowedFile(args.config, settings))
    except SettingsError as e:
        for problem in e.problems:
            sys.stderr.write(f"{args.config}: {problem}\n")
        return Exit.SETTINGS
    except TransientError as e:
        log.error("%s", e)  # noqa: TRY400  the stack tells an operator nothing
        return Exit.FAILED


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # client threads that wait for an absent broker must not keep the process
