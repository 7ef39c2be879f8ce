"""Which tests are unit tests, that none of them starts Java, and what a test leaves that fails."""

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.conftest import NEEDS

ROOT = Path(__file__).resolve().parents[1]


def run(place: Path, text: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run a file of tests under the rules of all tests."""
    (place / "test_it.py").write_text(textwrap.dedent(text), encoding="utf-8")
    (place / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(place), str(place)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


STARTS_JAVA = """\
    import subprocess
    import sys
    from autoscaler import jars

    PROGRAM = "import subprocess; subprocess.run(['java', '-version'])"

    def test_itself() -> None:
        assert subprocess.run([jars.java(), "-version"]).returncode == 97

    def test_by_a_child_of_which_nobody_asks_how_it_ended() -> None:
        subprocess.run([sys.executable, "-c", PROGRAM])

    def test_nothing_of_it() -> None:
        pass
    """


def test_a_unit_test_that_starts_java_or_whose_children_do_fails(tmp_path: Path) -> None:
    done = run(tmp_path, STARTS_JAVA, "-m", "unit")
    assert done.returncode == 1
    assert "at teardown of test_by_a_child_of_which_nobody_asks_how_it_ended" in done.stdout
    assert "a unit test has started Java: " in done.stdout
    assert "1 failed, 2 passed, 2 errors" in done.stdout, done.stdout


def test_a_test_that_asks_for_more_than_python_is_no_unit_test(tmp_path: Path) -> None:
    asked = sorted(set().union(*NEEDS.values()))
    text = "".join(f"def test_{name}({name}): pass\n" for name in asked)
    done = run(tmp_path, f"{text}def test_pure(): pass\n", "-m", "unit", "--collect-only")
    assert f"1/{len(asked) + 1} tests collected ({len(asked)} deselected)" in done.stdout


def test_what_starts_brokers_or_a_browser_is_not_even_imported_for_unit_tests() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "unit",
        "--collect-only",
        "-q",
        "tests/kafka",
        "tests/browser",
        "tests/kubernetes",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 5, done.stdout  # nothing was collected


FAILS = """\
    import subprocess
    import sys
    import threading

    def test_it(tmp_path, request) -> None:
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / "job.log").write_text("the job's last words")
        (tmp_path / "data-1").mkdir()
        (tmp_path / "data-1" / "00000.log").write_text("records")
        over = threading.Event()
        threading.Thread(target=over.wait, args=(60,), name="one that waits", daemon=True).start()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        request.addfinalizer(child.wait)
        request.addfinalizer(child.kill)
        print("said before it failed")
        assert 1 == 2, "as it must"

    def test_another() -> None:
        pass
    """


def test_a_failed_test_leaves_what_it_said_its_logs_and_where_its_threads_stood(tmp_path: Path) -> None:
    done = run(tmp_path, FAILS)
    place = tmp_path / ".run" / "failed" / "test_it.py_test_it"
    assert f"logs and stacks of 1 failed: {place}" in done.stdout
    assert [p.name for p in place.parent.iterdir()] == [place.name]
    left = {str(f.relative_to(place)): f.read_text(encoding="utf-8") for f in place.rglob("*") if f.is_file()}
    assert set(left) == {"call.txt", "stacks.txt", "job/job.log"}
    assert left["job/job.log"] == "the job's last words"
    assert "as it must" in left["call.txt"]
    assert "said before it failed" in left["call.txt"]
    assert "import time; time.sleep(600)" in left["stacks.txt"], "what it has started"
    assert "in wait" in left["stacks.txt"], "a thread that waits"


ANOTHER_THREAD_DRAWS = """\
    import random
    import threading
    from hypothesis import given, settings, strategies as st

    @st.composite
    def slowly(draw) -> int:
        end = threading.Thread(target=random.random)
        end.start()
        end.join()
        return draw(st.integers())

    @settings(max_examples=3, deadline=None)
    @given(slowly())
    def test_it(number: int) -> None:
        assert isinstance(number, int)
    """


def test_a_thread_of_a_client_that_draws_random_numbers_fails_no_property(tmp_path: Path) -> None:
    done = run(tmp_path, ANOTHER_THREAD_DRAWS)
    assert "1 passed" in done.stdout, done.stdout
