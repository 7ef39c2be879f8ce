"""spark-submit.sh with a stand-in for Spark: real bash, real processes, real signals."""

import configparser
import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from autoscaler.console.job_state import JobState, read_job
from tests.until import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "spark-submit.sh"
WORKER_PYTHON = ROOT / "jobs" / "worker_python.sh"

# Stands where the JVM does: starts the driver as its child and ends with the driver's exit code, as Spark does. What the
# driver does at each start is the next line of `plan`: an exit code, or `run` to live until told to end.
FAKE = """\
#!{python}
import os, pathlib, signal, subprocess, sys
here = pathlib.Path({here!r})
def note(text):
    with (here / "notes").open("a") as notes:
        notes.write(text + "\\n")
if sys.argv[1:2] == ["driver"]:
    def told(number, frame):
        note("driver told")
        if os.environ.get("FAKE_DEAF") != "1":
            os._exit(0)
    signal.signal(signal.SIGTERM, told)
    note(f"driver {{os.getpid()}}")
    while True:
        signal.pause()
plan = (here / "plan").read_text().split()
starts = len((here / "starts").read_text().split()) if (here / "starts").exists() else 0
with (here / "starts").open("a") as file:
    file.write(f"{{os.getpid()}}\\n")
(here / "arguments").write_text("\\n".join(sys.argv[1:]))
(here / "environment").write_text("\\n".join(f"{{k}}={{v}}" for k, v in os.environ.items()))
for word in " ".join(sys.argv).split():
    if word.startswith("-XX:ArchiveClassesAtExit="):
        pathlib.Path(word.split("=", 1)[1]).write_text("classes")
print("output of start", starts, flush=True)
what = plan[min(starts, len(plan) - 1)]
if what != "run":
    sys.exit(int(what))
signal.signal(signal.SIGTERM, lambda *_: (note("jvm told"), os._exit(143)))
signal.signal(signal.SIGINT, lambda *_: (note("jvm interrupted"), os._exit(130)))
job = next(a for a in sys.argv if a.endswith("jobs/autoscale.py"))
driver = subprocess.Popen([sys.executable, __file__, "driver", job])
ended = driver.wait()
sys.exit(ended if ended >= 0 else 128 - ended)  # as Java says of a child that was killed
"""


@dataclass
class Script:
    """A configuration, the stand-in, and what became of them."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.home / "config.yaml"

    @property
    def log(self) -> Path:
        return self.home / "state" / "logs" / "job.log"

    def plan(self, *what: int | str) -> None:
        (self.home / "plan").write_text(" ".join(str(w) for w in what), encoding="utf-8")

    def command(self, *options: str) -> list[str]:
        return [str(SCRIPT), "--config", str(self.config), *options]

    def run(self, *options: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*options), env=self._env(), cwd=self.home, capture_output=True, text=True, check=False, timeout=60
        )

    @contextmanager
    def running(self, *options: str) -> "Iterator[subprocess.Popen[str]]":
        with subprocess.Popen(
            self.command(*options), env=self._env(), cwd=self.home, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def starts(self) -> list[int]:
        return [int(pid) for pid in self._read("starts").split()]

    def notes(self) -> list[str]:
        return self._read("notes").splitlines()

    def arguments(self) -> list[str]:
        return self._read("arguments").splitlines()

    def driver(self) -> psutil.Process:
        until("a driver", self.notes, lambda notes: any(n.startswith("driver ") and n != "driver told" for n in notes))
        return psutil.Process(int(next(n for n in self.notes() if n.startswith("driver ") and n != "driver told").split()[1]))

    def _read(self, name: str) -> str:
        file = self.home / name
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def _env(self) -> dict[str, str]:
        own = {"AUTOSCALER_SPARK_SUBMIT": str(self.home / "spark-submit"), "AUTOSCALER_PYTHON": sys.executable}
        return {**os.environ, **own, **self.environment}


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def script(tmp_path: Path, java: str) -> Script:  # the script looks for Java and for the jars
    fake = tmp_path / "spark-submit"
    fake.write_text(FAKE.format(python=sys.executable, here=str(tmp_path)), encoding="utf-8")
    fake.chmod(0o755)
    text = f"""\
        clusters:
          - connection: {{bootstrap.servers: "localhost:1"}}
        state_dir: {tmp_path}/state
        groups:
          - {{group: orders, topics: [orders], capacity: {{bytes_per_s: 1000000}}}}
        """
    (tmp_path / "config.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
    return Script(tmp_path)


def test_wrong_settings_are_all_said_and_nothing_starts(script: Script) -> None:
    text = script.config.read_text(encoding="utf-8")
    script.config.write_text(text.replace("{bytes_per_s: 1000000}", "{bytes_per_s: -1}, colour: red"), encoding="utf-8")
    script.plan(0)
    done = script.run()
    assert done.returncode == 78
    assert "groups.orders.capacity.bytes_per_s: must be above 0" in done.stderr
    assert "groups.orders.colour" in done.stderr
    assert script.starts() == []


def test_a_missing_file_is_named(script: Script) -> None:
    script.config.unlink()
    done = script.run()
    assert done.returncode == 78
    assert "config.yaml: cannot be read" in done.stderr


@pytest.mark.parametrize("options", [[], ["--config"], ["--master", "local[1]"]], ids=["nothing", "no value", "no --config"])
def test_without_a_configuration_it_says_how_it_is_used(options: list[str]) -> None:
    done = subprocess.run([str(SCRIPT), *options], capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "usage:" in done.stderr


def test_a_python_without_the_package_is_named(script: Script) -> None:
    script.environment["AUTOSCALER_PYTHON"] = "/bin/false"
    done = script.run()
    assert done.returncode == 78
    assert "/bin/false does not have the package" in done.stderr


def test_a_local_job_gets_the_fetched_jars_and_this_python(script: Script) -> None:
    script.plan(0)
    done = script.run("--conf", "spark.ui.port=4050")
    assert done.returncode == 0, done.stderr
    given = script.arguments()
    assert given[given.index("--properties-file") + 1] == str(ROOT / "conf" / "spark.conf")
    assert given[given.index("--master") + 1] == "local[4]"
    assert given[given.index("--driver-class-path") + 1].endswith("/delta-4.4.0/*")
    assert "--jars" not in given
    assert given[-5:] == ["--conf", "spark.ui.port=4050", str(ROOT / "jobs" / "autoscale.py"), "--config", str(script.config)]
    environment = script._read("environment").splitlines()
    assert {f"PYSPARK_PYTHON={WORKER_PYTHON}", f"PYSPARK_DRIVER_PYTHON={WORKER_PYTHON}"} <= {*environment}


@pytest.mark.parametrize(
    ("log", "given", "called"),
    [
        (
            "text",
            ["-m", "pyspark.daemon", "pyspark.worker", "a b"],
            ["-m", "autoscaler.streaming.daemon", "pyspark.worker", "a b"],
        ),
        ("text", ["-m", "pyspark.worker"], ["-m", "pyspark.worker"]),
        ("json", ["-m", "pyspark.worker", "x"], ["-m", "autoscaler.streaming.daemon", "alone", "pyspark.worker", "x"]),
        ("json", ["jobs/autoscale.py", "--config", "c"], ["jobs/autoscale.py", "--config", "c"]),
    ],
)
def test_python_on_this_machine_comes_from_the_projects_daemon_whatever_spark_asks_for(
    tmp_path: Path, log: str, given: list[str], called: list[str]
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    python.chmod(0o755)
    environment = {"AUTOSCALER_PYTHON": str(python), "AUTOSCALER_LOG_FORMAT": log}
    done = subprocess.run([WORKER_PYTHON, *given], env=environment, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.splitlines() == called


def test_a_log_as_json_has_the_scripts_own_lines_and_those_of_spark_as_objects(script: Script) -> None:
    script.config.write_text(script.config.read_text(encoding="utf-8") + "\nlog: {format: json}\n", encoding="utf-8")
    script.plan(78)
    assert script.run().returncode == 78
    own = [line for line in script.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    assert [json.loads(line)["logger"] for line in own] == ["spark-submit.sh"] * len(own)
    assert "starting the job" in json.loads(own[0])["message"]
    assert f"{ROOT}/conf/log4j2.properties,{ROOT}/conf/log4j2-json.properties" in " ".join(script.arguments())
    assert "AUTOSCALER_LOG_FORMAT=json" in script._read("environment").splitlines()


def test_a_class_archive_is_written_by_an_orderly_end_and_read_afterwards(script: Script) -> None:
    archive = script.home / "classes.jsa"
    script.environment["AUTOSCALER_CLASS_ARCHIVE"] = str(archive)
    script.plan(78, 0)
    assert script.run().returncode == 78
    assert not archive.exists()  # whatever a failed run left may be half an archive
    assert script.run().returncode == 0
    assert archive.read_text(encoding="utf-8") == "classes"
    assert script.run().returncode == 0
    assert f"-XX:SharedArchiveFile={archive}" in " ".join(script.arguments()).split()


@pytest.mark.parametrize(
    "options",
    [["--master", "spark://host:7077"], ["--master=spark://host:7077"], ["--master", "local-cluster[2,1,1024]"]],
    ids=["two words", "one", "processes of this machine"],
)
def test_another_master_brings_the_jars_to_its_executors(script: Script, options: list[str]) -> None:
    script.plan(0)
    assert script.run(*options).returncode == 0
    given = script.arguments()
    brought = [Path(jar) for jar in given[given.index("--jars") + 1].split(",")]
    assert [jar.parent.name for jar in brought if jar.name.startswith("delta-spark_")] == ["delta-4.4.0"]
    assert all(jar.is_file() for jar in brought)
    assert "--driver-class-path" not in given
    assert f"PYSPARK_PYTHON={sys.executable}" in script._read("environment").splitlines(), "theirs has no package when it starts"
    assert "local[4]" not in given
    assert [a for a in given if options[-1] in a] == options[-1:]


def test_state_in_an_object_store_brings_what_it_needs(script: Script) -> None:
    script.config.write_text(script.config.read_text(encoding="utf-8") + "\ntables: s3a://bucket/x\n", encoding="utf-8")
    script.plan(0)
    assert script.run("--jars", "mine.jar", "--packages", "a:b:1").returncode == 0
    given = script.arguments()
    assert [Path(x).parent.name for x in given[given.index("--driver-class-path") + 1].split(":")] == ["delta-4.4.0", "s3a-3.5.0"]
    assert given[given.index("--jars") + 1] == "mine.jar"
    assert script.run("--master", "spark://host:7077", "--packages", "a:b:1", "--jars=mine.jar").returncode == 0
    given = script.arguments()
    brought = given[given.index("--jars") + 1].split(",")
    assert {Path(jar).parent.name for jar in brought} == {"delta-4.4.0", "s3a-3.5.0", ""}
    assert brought[-1] == "mine.jar"
    assert given[given.index("--packages") + 1] == "a:b:1"


def test_it_starts_a_failed_job_again_and_pauses_longer_each_time(script: Script) -> None:
    script.plan(1, 76, 137, 0)
    done = script.run()
    assert done.returncode == 0
    assert len(script.starts()) == 4
    said = [line for line in done.stderr.splitlines() if "starting it again" in line]
    assert [line.split("again in ")[1] for line in said] == ["1 s", "2 s", "4 s"]
    assert ["exit code 1 " in said[0], "exit code 76 " in said[1], "exit code 137 " in said[2]] == [True] * 3
    assert "output of start 0" in done.stderr, "why it failed is in its last lines"
    standing = read_job(script.home / "state")
    assert standing.said is not None
    assert (standing.said.state, standing.said.restarts, standing.said.exit_code, standing.held) == ("ended", 3, 0, False)


@pytest.mark.parametrize(("code", "says"), [(74, "could not write rows of its audit"), (78, "refused its settings")])
def test_it_does_not_start_again_what_a_start_cannot_help(script: Script, code: int, says: str) -> None:
    script.plan(code)
    done = script.run()
    assert done.returncode == code
    assert says in done.stderr
    assert len(script.starts()) == 1


def test_a_job_that_was_fenced_is_started_again_to_wait_for_the_other_one(script: Script) -> None:
    script.plan(77, 0)
    done = script.run()
    assert done.returncode == 0
    assert "another controller has taken over: the next start waits until that one has ended" in done.stderr
    assert len(script.starts()) == 2


def test_systemd_starts_again_what_the_script_would() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "conf" / "systemd" / "autoscaler.service", encoding="utf-8")
    service = unit["Service"]
    assert service["RestartPreventExitStatus"].split() == ["74", "78"]
    assert service["KillMode"] == "process", "consumers go on"
    assert int(service["TimeoutStopSec"]) > 45, "the script kills a job that does not end in 45 s"
    assert service["ExecStart"].split()[0].endswith("/spark-submit.sh")


def test_output_is_appended_over_restarts_and_runs(script: Script) -> None:
    script.log.parent.mkdir(parents=True)
    script.log.write_text("evidence of an earlier run\n", encoding="utf-8")
    script.plan(1, 0)
    assert script.run().returncode == 0
    text = script.log.read_text(encoding="utf-8")
    assert text.startswith("evidence of an earlier run\n")
    assert text.index("output of start 0") < text.index("exit code 1 ") < text.index("output of start 1")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_told_to_end_it_ends_the_driver_in_order_and_waits(script: Script, number: signal.Signals) -> None:
    script.plan("run")
    with script.running() as process:
        driver = script.driver()
        process.send_signal(number)
        assert process.wait(60) == 0
    assert script.notes()[1:] == ["driver told"]  # the JVM was not: Spark must outlive the driver's last words
    assert gone(driver.pid)
    assert [gone(pid) for pid in script.starts()] == [True]


def test_a_ctrl_c_reaches_the_whole_foreground_group_and_still_ends_the_driver_first(script: Script) -> None:
    script.plan("run")
    with script.running() as process:
        driver = script.driver()
        os.killpg(process.pid, signal.SIGINT)  # the script leads its session; a terminal does just this
        assert process.wait(60) == 0
    assert script.notes()[1:] == ["driver told"]
    assert gone(driver.pid)


@pytest.mark.parametrize(("asked", "number"), [(3, "1 → 3"), (1, "1"), (None, "1")])
def test_the_terminal_says_the_first_decision_of_each_start_once(script: Script, asked: int | None, number: str) -> None:
    script.plan("run")
    old = {"group": "old", "consumers_now": 1, "consumers": 1, "mode": "act", "reason": "PAUSED", "detail": "of the run before"}
    cycles = script.log.with_name("cycles.jsonl")
    cycles.parent.mkdir(parents=True, exist_ok=True)
    cycles.write_text(json.dumps(old) + "\n", encoding="utf-8")
    with script.running() as process:
        script.driver()
        lines = [
            {**old, "group": g, "consumers": asked, "mode": "advise", "reason": "RATE_ABOVE_CAPACITY"}
            for g in ("orders", "bills")
        ]
        with cycles.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        assert process.stderr is not None
        said = next(line for line in process.stderr if "first decision" in line)
        assert f"group orders: {number} consumers advised, RATE_ABOVE_CAPACITY: of the run before" in said
        process.terminate()
        assert "first decision" not in process.communicate(timeout=30)[1]


def test_the_terminal_says_what_the_log_says_while_there_is_no_decision(script: Script, tmp_path: Path) -> None:
    script.plan("run")
    impatient = tmp_path / "clone"
    impatient.mkdir()
    for name in ("conf", "jobs", "autoscaler"):
        (impatient / name).symlink_to(ROOT / name)
    copy = impatient / "spark-submit.sh"
    copy.write_text(SCRIPT.read_text(encoding="utf-8").replace("QUIET_S=60", "QUIET_S=1"), encoding="utf-8")
    copy.chmod(0o755)
    command = [str(copy), *script.command()[1:]]
    with subprocess.Popen(command, env=script._env(), cwd=script.home, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "no decision yet" in line)
        assert "the log says last: output of start 0" in said
        process.terminate()
        process.communicate(timeout=60)


def test_a_job_that_does_not_end_in_time_is_killed(script: Script) -> None:
    script.environment |= {"FAKE_DEAF": "1", "AUTOSCALER_STOP_TIMEOUT_S": "1"}
    script.plan("run")
    with script.running() as process:
        driver = script.driver()
        process.terminate()
        assert process.wait(60) == 137
    assert gone(driver.pid)
    assert [gone(pid) for pid in script.starts()] == [True]


def test_told_twice_it_kills_at_once(script: Script) -> None:
    script.environment["FAKE_DEAF"] = "1"
    script.plan("run")
    with script.running() as process:
        driver = script.driver()
        process.terminate()
        until("the driver is told", script.notes, lambda notes: "driver told" in notes)
        process.terminate()
        assert process.wait(60) == 137
    assert gone(driver.pid)


def waits(job: JobState, *, restarts: int) -> bool:
    return job.said is not None and (job.said.state, job.said.exit_code, job.said.restarts) == ("waiting", 1, restarts)


def test_told_to_end_between_two_starts_it_ends_at_once(script: Script) -> None:
    script.plan(1)
    with script.running() as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "again in 4 s" in line:
                break
        standing = until("it says that it waits", lambda: read_job(script.home / "state"), lambda job: waits(job, restarts=2))
        assert standing.held
        assert standing.last_words == "output of start 2"
        process.terminate()
        assert process.wait(60) == 0
    assert len(script.starts()) == 3


def test_a_killed_driver_is_started_again(script: Script) -> None:
    script.plan("run", 0)
    with script.running() as process:
        script.driver().kill()
        assert process.wait(60) == 0
    assert len(script.starts()) == 2


def test_nothing_outlives_the_script_when_it_is_killed(script: Script) -> None:
    script.plan("run")
    with script.running() as process:
        driver = script.driver()
        process.kill()
    until("all are gone", lambda: gone(driver.pid) and all(gone(pid) for pid in script.starts()))


def rotated(log: Path, times: int) -> bool:
    return log.with_name(f"job.log.{times}").exists() and log.stat().st_size < 1000


def test_the_jobs_log_is_rotated_while_the_job_writes_to_it(script: Script) -> None:
    script.plan("run")
    script.log.parent.mkdir(parents=True)
    script.log.write_bytes(b"old\n" * (4 << 20))
    with script.running() as process:
        script.driver()
        for turn in (1, 2):
            until("the log is rotated", partial(rotated, script.log, turn))
            with script.log.open("ab") as job:  # as the job has it open
                job.write(b"new\n" * (4 << 20) if turn == 1 else b"last\n")
        process.terminate()
        assert process.wait(60) == 0
    older = script.log.with_name("job.log.1"), script.log.with_name("job.log.2")
    assert [x.read_bytes().count(b"old\n") for x in older] == [0, 4 << 20]
    assert older[0].read_bytes().count(b"new\n") == 4 << 20
    assert script.log.read_text().startswith("last\n")


def test_two_cannot_run_on_one_state_directory(script: Script) -> None:
    script.environment["AUTOSCALER_LOCK_TIMEOUT_S"] = "1"
    script.plan("run")
    with script.running() as first:
        script.driver()
        second = script.run()
        assert second.returncode == 78
        assert "another spark-submit.sh runs on" in second.stderr
        assert first.poll() is None
        first.terminate()
        assert first.wait(60) == 0
    assert len(script.starts()) == 1


def test_it_ends_in_order_although_an_upgrade_has_replaced_the_script_while_it_ran(script: Script, tmp_path: Path) -> None:
    """Bash reads a script as it goes, by offset: what is written over the part not yet read would be run."""
    home = tmp_path / "release"
    for name in ("jobs", "conf"):
        (home / name).mkdir(parents=True)
    (home / "jobs" / "autoscale.py").write_text("")
    upgraded = home / "spark-submit.sh"
    upgraded.write_text(SCRIPT.read_text())
    upgraded.chmod(0o755)
    script.plan("run")
    command = [str(upgraded), "--config", str(script.config)]
    with subprocess.Popen(command, env=script._env(), cwd=script.home, stderr=subprocess.PIPE, text=True) as process:
        try:
            script.driver()
            upgraded.write_text("exit 9\n" * 4000)
            process.terminate()
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert "stopped (exit code 0)" in said


def test_another_job_runs_once_with_its_own_options_and_without_a_configuration(script: Script) -> None:
    script.plan(3, 0)
    job = script.home / "jobs" / "autoscale.py"  # by the name that the stand-in looks for
    job.parent.mkdir()
    job.write_text("", encoding="utf-8")
    command = [str(SCRIPT), "--job", str(job), "--conf", "spark.ui.port=4050", "--", "--full", "--seeds", "2"]
    done = subprocess.run(command, env=script._env(), cwd=script.home, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3, done.stderr
    assert len(script.starts()) == 1, "a job that ends is not started again"
    assert "output of start 0" in done.stdout, "it runs in the foreground"
    assert script.arguments()[-6:] == ["--conf", "spark.ui.port=4050", str(job), "--full", "--seeds", "2"]
    assert script.arguments()[script.arguments().index("--driver-class-path") + 1].endswith("/delta-4.4.0/*")
    assert not (script.home / "state").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--job"], "usage:"),
        (["--job", "absent.py"], "there is no job absent.py"),
        (["--job", "a.py", "--config", "b.yaml"], "usage:"),
        (["--config", "b.yaml", "--", "--full"], "usage:"),
    ],
    ids=["no file", "absent", "both", "options for the supervised job"],
)
def test_a_job_that_cannot_be_run_is_said(options: list[str], says: str) -> None:
    done = subprocess.run([str(SCRIPT), *options], capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert says in done.stderr


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_what_was_asked_for(option: str) -> None:
    done = subprocess.run([str(SCRIPT), option], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
