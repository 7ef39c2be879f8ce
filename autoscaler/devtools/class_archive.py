"""Keeps a broker's classes as Java maps them: a start then takes half of the processor time and two thirds of the seconds.

``python -m autoscaler.devtools.class_archive`` makes the archive once for a version of Kafka and of Java, in the cache directory
of the jars; every broker that starts later uses it (Java's "class data sharing", ``-XX:ArchiveClassesAtExit``).
"""

import os
import sys
import time
from pathlib import Path

from autoscaler import jars
from autoscaler.devtools.broker import Broker
from autoscaler.errors import AutoscalerError, Exit


def make(bundle: jars.Bundle = jars.KAFKA) -> Path:
    """Return the bundle's archive; if it is not there, run a broker for a moment to make it.

    A broker that ends without having written one is no failure: brokers start without it, and take longer.
    """
    archive = jars.class_archive(bundle)
    if archive.exists():
        return archive
    made = archive.with_name(f"{archive.name}.{os.getpid()}")
    try:
        with Broker(heap_mb=160, bundle=bundle, java_options=(f"-XX:ArchiveClassesAtExit={made}",)):
            pass
        if made.exists():
            made.rename(archive)
    finally:
        made.unlink(missing_ok=True)
    return archive


def main() -> int:
    """Make the archive of the brokers that demo and tests run, and say how long it took."""
    began = time.monotonic()
    try:
        archive = make()
    except AutoscalerError as e:
        sys.stderr.write(f"{e}\n")
        return Exit.FAILED
    sys.stdout.write(f"{archive} ({time.monotonic() - began:.1f} s)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
