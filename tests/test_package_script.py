"""What looks for Chromium and Prometheus before the tests: it says what to do, and stops no test that can do without."""

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "package"


def run(what: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "YES": "", **environment}
    return subprocess.run([str(SCRIPT), what], env=env, capture_output=True, text=True, check=False, timeout=30)


def test_a_browser_that_is_there_is_nothing_to_talk_about() -> None:
    done = run("chromium", CHROMIUM="/bin/true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_one_the_tests_go_on_and_one_line_says_what_installs_it(tmp_path: Path) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
    apt.chmod(0o755)
    done = run("chromium", CHROMIUM="no-such-browser", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 0
    first, then = done.stderr.splitlines()
    assert "tests that look at a page will be skipped; here this installs it: " in first
    assert first.endswith("apt-get install -y --no-install-recommends chromium")
    assert "YES=1" in then


def test_told_to_install_it_uses_the_package_manager_and_says_when_that_did_not_help(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    for name in ("apt-get", "sudo"):
        fake = tmp_path / name
        fake.write_text(f'#!/bin/sh\necho "{name} $*" >>{calls}\n', encoding="utf-8")
        fake.chmod(0o755)
    done = run("chromium", CHROMIUM="no-such-browser", PATH=f"{tmp_path}:{os.environ['PATH']}", YES="1")
    assert done.returncode == 1
    assert "Chromium is still not found: see that CHROMIUM leads to it" in done.stderr
    assert [line.removeprefix("sudo ") for line in calls.read_text(encoding="utf-8").splitlines()] == [
        "apt-get update -qq",
        "apt-get install -y --no-install-recommends chromium",
    ]


def test_what_it_does_not_know_is_refused() -> None:
    done = run("firefox")
    assert done.returncode == 2
    assert "chromium|prometheus" in done.stderr


def test_prometheus_is_known_by_the_tool_that_comes_with_it() -> None:
    assert run("prometheus", PROMTOOL="/bin/true").returncode == 0
    said = run("prometheus", PROMTOOL="no-such-tool").stderr
    assert "Prometheus is not here: tests of metrics and alerts will be skipped" in said
