"""What builds the control plane for tests/kubernetes: once, and it says what to do where it cannot."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "control-plane"
GO = """\
#!/bin/sh
if [ "$1" = env ]; then echo go1.26; exit; fi
echo "$*" >>{calls}
if [ -e {broken} ]; then echo "no route to proxy.golang.org"; exit 1; fi
while [ "$1" != -o ]; do shift; done
echo '#!/bin/sh' >"$2"
chmod +x "$2"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a Go that notes how it is called, and fails while ``broken`` is there."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO.format(calls=tmp_path / "calls", broken=tmp_path / "broken"), encoding="utf-8")
    go.chmod(0o755)
    return tmp_path


def run(place: Path, path: str | None = None) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": path or f"{place / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(place / "cache"), "HOME": str(place)}
    return subprocess.run([str(SCRIPT)], env=env, capture_output=True, text=True, check=False, timeout=60)


def test_it_is_built_once_and_its_path_is_all_that_is_printed(place: Path) -> None:
    first, second = run(place), run(place)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    binary = Path(first.stdout.removesuffix("\n"))
    assert binary.is_relative_to(place / "cache" / "kafka-autoscaler")
    assert os.access(binary, os.X_OK)
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert len((place / "calls").read_text(encoding="utf-8").splitlines()) == 1


def test_a_build_that_fails_shows_its_last_lines_and_leaves_nothing_that_counts_as_built(place: Path) -> None:
    (place / "broken").touch()
    failed = run(place)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "no route to proxy.golang.org" in failed.stderr
    assert "HTTPS_PROXY" in failed.stderr
    (place / "broken").unlink()
    assert run(place).returncode == 0


def test_without_go_it_says_so_and_ends_with_a_code_of_its_own(place: Path) -> None:
    few = place / "few"
    few.mkdir()
    for name in ("bash", "dirname"):
        (few / name).symlink_to(shutil.which(name) or name)
    done = run(place, str(few))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("Go is not here: install it")
