"""What the image is made of: its steps work, and what they make starts from a directory that cannot be written."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from autoscaler.devtools.broker import Broker
from tests.conftest import OPTIONAL, ROOT, create_topic
from tests.until import until

DOCKERFILES = sorted((ROOT / "docker").glob("*Dockerfile"))
BUILD = (ROOT / "docker" / "build.sh").read_text(encoding="utf-8")


def copied(dockerfile: Path) -> Iterator[str]:
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile.read_text(encoding="utf-8"), re.MULTILINE):
        yield from line.split()


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda x: x.name)
def test_what_an_image_copies_is_there_and_reaches_the_engine(dockerfile: Path) -> None:
    ignored = dockerfile.with_name(f"{dockerfile.name}.dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = [x[1:] for x in ignored if x.startswith("!")]
    sources = list(copied(dockerfile))
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, x) for x in let_through), f"{source} is kept back by {dockerfile.name}.dockerignore"


def test_what_the_build_copies_is_part_of_the_image() -> None:
    into = set(copied(ROOT / "docker" / "Dockerfile"))
    used = {x for line in re.findall(r"^cp (?:-R )?(.*) \"", BUILD, re.MULTILINE) for x in line.split()}
    assert used
    assert all((ROOT / x).exists() and x.split("/")[0] in into for x in used), used


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(1800)
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason=f"{OPTIONAL}: root mounts it to read")
def test_the_image_starts_from_where_it_cannot_write(own_broker: Broker, tmp_path: Path) -> None:
    image, state, scratch = (tmp_path / name for name in ("image", "state", "scratch"))
    subprocess.run([ROOT / "docker" / "build.sh", image], check=True, cwd="/")
    create_topic(own_broker, "orders", 2)
    scratch.mkdir()
    config = tmp_path / "autoscaler.yaml"
    clusters = [{"connection": {"bootstrap.servers": own_broker.bootstrap}}]
    groups = [{"group": "orders", "topics": ["orders"], "assignment": "native"}]
    config.write_text(yaml.safe_dump({"clusters": clusters, "state_dir": str(state), "groups": groups}), encoding="utf-8")
    mounted = f'mount --bind "{image}" "{image}" && mount -o remount,ro,bind "{image}" && ! touch "{image}/x"'
    job = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", f'{mounted} && exec "{image}/start.sh" --config "{config}"'],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(scratch), "LANG": "C.UTF-8"},
        cwd="/",
        stderr=subprocess.PIPE,
    )
    said = state / "logs" / "job.log"
    try:
        until("a decision", (state / "logs" / "cycles.jsonl").exists, explain=lambda: said.read_text() if said.exists() else "")
        assert "machine code was loaded" in said.read_text(encoding="utf-8"), "nothing is compiled at a start"
    finally:
        job.send_signal(signal.SIGTERM)
        _, error = job.communicate(timeout=120)
    assert job.returncode == 0, error.decode()
