"""The command line as a user meets it: real processes, their output and their exit codes."""

import contextlib
import json
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.cli.preflight import problems
from autoscaler.config.settings import ProcessWorkers, load
from tests.cli.commands import run
from tests.streaming.claimed import claim

ROOT = Path(__file__).resolve().parents[2]
GOOD = """
clusters:
  - connection: {bootstrap.servers: "localhost:9092"}
state_dir: STATE
groups:
  - {group: orders, topics: [orders], capacity: {bytes_per_s: 1MB}}
  - {group: bills, topics: [bills], capacity: {bytes_per_s: 1MB}}
"""
BAD = """
clusters:
  - connection: {sasl.password: tiger7}
state_dir: /tmp/x
colour: red
groups:
  - {group: orders, topics: [orders], capacity: {bytes_per_s: -5, target_utilisation: 80}}
"""


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that nothing was imported for, as its users do."""
    command = [sys.executable, "-m", "autoscaler.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(GOOD.replace("STATE", str(tmp_path / "state")))
    return file


def cycle(number: int, group: str = "orders", **changed: object) -> str:
    return json.dumps({"t": 1000.0 + number, "cycle": number, "group": group, "mode": "act", "reason": "WITHIN_TARGET",
                       "detail": "nothing to do", "consumers_now": 2, "consumers": 2, "total_bytes_per_s": 1_500_000,
                       "usable_bytes_per_s": 800_000, "capacity_bytes_per_s": 1_000_000, "known": True,
                       "total_lag_records": 42} | changed) + "\n"  # fmt: skip


def cycles(config: Path, text: str) -> Path:
    file = config.parent / "state" / "logs" / "cycles.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_validate_says_that_a_configuration_is_fine(config: Path) -> None:
    done = started("validate", "--config", str(config))
    assert (done.returncode, done.stderr) == (0, "")
    assert "orders (advise), bills (advise)" in done.stdout


def test_validate_says_everything_that_is_wrong_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    done = run("validate", "--config", str(file))
    assert done.returncode == 78
    for said in ("bootstrap.servers is missing", "colour: unknown setting", "capacity.bytes_per_s", "target_utilisation"):
        assert said in done.stderr, said
    assert "tiger7" not in done.stderr
    assert all(line.startswith(f"{file}: ") for line in done.stderr.splitlines())


def test_validate_says_what_stands_in_the_state_directory_together_with_what_is_wrong_in_the_settings(tmp_path: Path) -> None:
    file, state = tmp_path / "bad.yaml", tmp_path / "state"
    file.write_text(GOOD.replace("STATE", str(state)).replace("- {group: bills", "- {colour: red, group: bills"))
    (state / "checkpoint" / "offsets").mkdir(parents=True)
    write_deltalake(str(state / "tables" / "loads"), pa.table({"group": ["orders"]}))
    done = run("validate", "--config", str(file))
    assert done.returncode == 78
    for said in (
        "groups.bills.colour: unknown setting",
        f"{state / 'checkpoint'} is a checkpoint of something else",
        f"table {state / 'tables' / 'loads'} does not fit this release",
    ):
        assert said in done.stderr, said
    assert len(done.stderr.splitlines()) == 3
    assert all(line.startswith(f"{file}: ") for line in done.stderr.splitlines())


def test_validate_finds_tables_that_are_broken(config: Path) -> None:
    log = config.parent / "state" / "tables" / "loads" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text('{"metaData": {}}')
    done = run("validate", "--config", str(config))
    assert done.returncode == 78
    assert "cannot be read" in done.stderr
    assert "move them away" in done.stderr


def test_validate_says_that_the_state_directory_cannot_be_made(config: Path) -> None:
    (config.parent / "state").write_text("a file")
    done = run("validate", "--config", str(config))
    assert done.returncode == 78
    assert f"{config.parent / 'state'} is a file" in done.stderr


def test_validate_goes_on_with_the_state_of_an_earlier_run(config: Path) -> None:
    """Also with one that the job will replace: nobody has to move it away."""
    for buckets in (1, 4):
        claim(config.parent / "state" / "checkpoint", clusters=["kafka"], buckets=buckets)
        assert run("validate", "--config", str(config)).returncode == 0


@pytest.mark.parametrize(
    ("state_dir", "said"),
    [
        ("s3://bucket/state", "must be a directory of the job's machine"),
        ("/proc/x", "/proc cannot be written by this user"),
        ("~not-a-user/x", "~not-a-user/x names a home directory that is not there"),
    ],
)
def test_validate_says_that_a_state_directory_is_none(config: Path, state_dir: str, said: str) -> None:
    config.write_text(config.read_text().replace(str(config.parent / "state"), state_dir))
    done = run("validate", "--config", str(config))
    assert done.returncode == 78
    assert f"{config}: state_dir: " in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program"], "there is no program 'no-such-program' on the PATH"),
        (["./none.sh"], "there is no program './none.sh' from"),
        (["{python}", "none.py"], f"there is no script 'none.py' in {ROOT}"),
        (["{python}", "-u", "none.py"], f"there is no script 'none.py' in {ROOT}"),
        (["bash", "none.sh"], f"there is no script 'none.sh' in {ROOT}"),
        (["bash", "-lc", "exec ./none.sh"], None),
        (["env", "none.sh"], None),
        (["bash", "-e", "none.sh"], f"there is no script 'none.sh' in {ROOT}"),
        (["{python}", "docs/examples/consumer.py", "new.py"], None),
        (["{python}", "-W", "ignore", "docs/examples/consumer.py"], None),
        (["{python}", "-m", "some.module"], None),
        (["{python}", "-m", "some.module", "new.py"], None),
        (["python3", "docs/examples/consumer.py"], None),
        (["sh", "-c", "run"], None),
    ],
)
def test_what_starts_the_workers_of_an_acting_group_is_looked_for(
    command: list[str], said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    group = {"group": "orders", "mode": "act", "workers": {"command": command}}
    found = "".join(problems({"groups": [group]}))
    assert found.startswith(f"groups.0.workers.command: {said}") if said else not found
    assert problems({"groups": [group | {"mode": "advise"}]}) == (), "nothing would be started"


def test_validate_looks_for_what_starts_the_workers(config: Path) -> None:
    acting = config.read_text().replace("{group: orders,", "{group: orders, mode: act, workers: {command: [no-such-program]},")
    config.write_text(acting)
    done = run("validate", "--config", str(config))
    assert done.returncode == 78
    assert "groups.orders.workers.command: there is no program 'no-such-program' on the PATH" in done.stderr
    config.write_text(acting.replace("[no-such-program]", "['{python}', -m, some.module]"))
    assert run("validate", "--config", str(config)).returncode == 0


def test_validate_looks_for_the_file_that_says_how_to_connect_to_kubernetes(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    pods = f"{{group: orders, workers: {{kind: deployment, deployment: shop, kubeconfig: {file}}},"
    config.write_text(config.read_text().replace("{group: orders,", pods))
    assert f"groups.orders.workers.kubeconfig: there is no file '{file}'" in run("validate", "--config", str(config)).stderr
    file.touch()
    assert "there is no file" not in run("validate", "--config", str(config)).stderr


def test_what_only_reads_local_files_needs_no_secret(config: Path) -> None:
    refers = '{bootstrap.servers: env:NOT_SET, security.protocol: ssl, ssl.key.password: "file:/not/there"}'
    config.write_text(config.read_text().replace('{bootstrap.servers: "localhost:9092"}', refers))
    cycles(config, cycle(1))
    assert run("validate", "--config", str(config)).returncode == 78
    assert "WITHIN_TARGET" in run("status", "--config", str(config), "--once", COLUMNS="100").stdout
    assert run("workers", "stop", "--config", str(config)).returncode == 0


def test_the_version_and_the_schema_need_no_configuration() -> None:
    assert run("--version").stdout == f"autoscaler {version('kafka-group-autoscaler')}\n"
    assert run("schema").stdout == (ROOT / "conf" / "autoscaler.schema.json").read_text(encoding="utf-8")
    assert "kind: CustomResourceDefinition" in run("schema", "--crd").stdout


def test_validate_says_that_a_file_is_missing(tmp_path: Path) -> None:
    done = run("validate", "--config", str(tmp_path / "none.yaml"))
    assert done.returncode == 78
    assert "cannot be read" in done.stderr


def test_validate_loads_neither_spark_nor_a_client(config: Path) -> None:
    """It runs before every start of the job: a second of imports would be paid each time."""
    code = (
        f"import sys; from autoscaler.cli.main import main; assert main(['validate', '--config', {str(config)!r}]) == 0; "
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'pyspark', 'confluent_kafka', 'kafka', 'pyarrow', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_demo_configuration_is_valid_once_its_broker_is_named(tmp_path: Path) -> None:
    done = run("validate", "--config", "conf/demo.yaml", DEMO_BOOTSTRAP="localhost:9092", DEMO_STATE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout


def test_status_shows_what_a_group_does_now(config: Path) -> None:
    cycles(config, cycle(1) + cycle(2, "bills", reason="IMBALANCE") + cycle(3, reason="BACKLOG", detail="42 records wait"))
    done = run("status", "orders", "--config", str(config), "--once", COLUMNS="100")
    assert done.returncode == 0
    assert "BACKLOG  42 records wait" in done.stdout
    assert "1.50 MB/s" in done.stdout
    other = run("status", "--config", str(config), "--once", "--group", "bills", COLUMNS="100")
    assert "IMBALANCE" in other.stdout


def test_status_of_several_groups_is_an_overview_and_says_first_that_no_job_runs(config: Path) -> None:
    cycles(config, cycle(1) + cycle(2, "bills", reason="AT_MAXIMUM"))
    (config.parent / "state" / "supervisor.lock").touch()
    done = run("status", "--config", str(config), "--once", COLUMNS="80")
    assert done.returncode == 0
    first, *rows = (x for x in done.stdout.splitlines()[1:] if "│" in x)
    assert "The job does not run; the last decision is" in first
    assert [x.split()[1] for x in rows if "ago" in x and "MB/s" in x] == ["bills", "orders"], "what asks for an operator is first"
    assert {len(x) for x in done.stdout.splitlines()} == {80}


def test_status_as_json_has_the_job_and_the_latest_cycle_of_each_group(config: Path) -> None:
    now = SystemClock().now()
    cycles(config, cycle(1, t=now - 3) + cycle(2, t=now))
    done = run("status", "--config", str(config), "--json")
    assert done.returncode == 0
    said = json.loads(done.stdout)
    assert said["job"] == {"level": "fine", "text": "", "runs": None, "supervisor": None}
    orders, bills = said["groups"]
    assert (orders["group"], orders["cycle"]["cycle"], bills["group"], bills["cycle"]) == ("orders", 2, "bills", None)
    assert 0 <= orders["age_s"] < 60
    assert run("status", "bills", "--config", str(config), "--json").returncode == 1, "nothing is known of it"


@pytest.mark.parametrize("option", ["--json", "--once"])
def test_what_reads_the_output_may_stop_reading(config: Path, option: str) -> None:
    cycles(config, cycle(1))
    command = [sys.executable, "-m", "autoscaler.cli", "status", "--config", str(config), option]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as printing:
        assert printing.stdout is not None
        assert printing.stderr is not None
        printing.stdout.close()
        assert printing.wait(timeout=60) == 0
        assert printing.stderr.read() == ""


def test_output_that_cannot_be_written_is_said_in_a_line() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "autoscaler.cli", "schema"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (1, "the output cannot be written: No space left on device\n")


def test_status_and_release_know_a_group_of_a_resource_from_what_the_job_has_decided_lately(config: Path) -> None:
    settings = yaml.safe_load(config.read_text(encoding="utf-8")) | {"groups": [], "kubernetes": {"consumer_groups": "shop"}}
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    assert "groups none here, and ConsumerGroups of shop;" in run("validate", "--config", str(config)).stdout
    done = run("status", "--config", str(config), "--once")
    assert (done.returncode, "the file names none" in done.stderr) == (78, True)
    now = SystemClock().now()
    cycles(config, cycle(1, "old", t=now - 3600) + cycle(2, "declared", t=now, cluster="kafka", reason="BACKLOG"))
    done = run("status", "--config", str(config), "--once", COLUMNS="100")
    assert (done.returncode, "BACKLOG" in done.stdout) == (0, True), done.stderr
    assert "there are declared" in run("release", "old", "--config", str(config)).stderr


def test_status_says_when_there_is_nothing_to_show(config: Path) -> None:
    done = run("status", "--config", str(config), "--once")
    assert done.returncode == 1
    assert "is the job running?" in done.stdout
    assert run("status", "--config", str(config), "--group", "nobody").returncode == 78


def test_status_follows_a_running_job_until_it_is_told_to_end(config: Path) -> None:
    file = cycles(config, cycle(1))
    command = [sys.executable, "-u", "-m", "autoscaler.cli", "status", "orders", "--config", str(config)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert "WITHIN_TARGET" in watching.stdout.readline()
        with file.open("a") as out:
            out.write(cycle(2, reason="RATE_ABOVE_CAPACITY"))
        assert "RATE_ABOVE_CAPACITY" in watching.stdout.readline()
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(timeout=30) == 0


def test_help_says_where_to_begin_and_what_exit_codes_mean() -> None:
    told = run("--help", COLUMNS="80").stdout
    assert "where to begin:" in told
    codes = told.partition("exit codes:")[2]
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8").partition("## `autoscaler`")[2]
    for code in re.findall(r"^\| (\d+) \|", page.partition("\n## ")[0], re.MULTILINE):
        assert re.search(rf"\b{code} ", codes), code


def test_a_wrong_command_is_refused_with_what_there_is() -> None:
    done = started("scale")
    assert done.returncode == 2
    assert "validate" in done.stderr
    for command in ("demo", "recheck"):
        assert "usage" in run(command, "--help").stdout


@pytest.mark.parametrize("arguments", [("--duration", "5"), ("--partitions", "1"), ("--dir", "tests")])
def test_the_demo_refuses_what_it_cannot_run(arguments: tuple[str, ...]) -> None:
    done = run("demo", *arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr


def test_workers_stop_ends_the_local_consumers_of_every_group(tmp_path: Path) -> None:
    """The job that started them is gone: the pool's own record says who runs."""
    file = tmp_path / "config.yaml"
    command = json.dumps([sys.executable, "-c", "import time; time.sleep(600)", str(tmp_path)])
    group = f"{{group: orders, topics: [orders], mode: act, workers: {{command: {command}}}}}"
    file.write_text(GOOD[: GOOD.index("  - {group")].replace("STATE", str(tmp_path / "state")) + f"  - {group}\n")
    written = load(file).groups[0].workers
    assert written is not None
    workers = written.chosen
    assert isinstance(workers, ProcessWorkers)
    directory = tmp_path / "state" / "workers" / "orders"
    pool = ProcessPool(group="orders", settings=workers, directory=directory, environment={}, clock=SystemClock())
    pool.apply(frozenset({0, 1}), expected=frozenset(), releasable=frozenset())
    pool.close()
    assert len(named(tmp_path)) == 2
    done = run("workers", "stop", "--config", str(file))
    assert done.returncode == 0, done.stderr
    assert "orders: no local consumer runs any more" in done.stdout
    assert named(tmp_path) == []


@pytest.mark.parametrize(
    ("workers", "ends"),
    [
        ("workers: {kind: deployment, deployment: shop}", "kubectl scale deployment/shop --replicas=0"),
        (
            "assignment: native, workers: {kind: scale, target: argoproj.io/v1alpha1/Rollout/shop}",
            "kubectl scale rollout/shop --replicas=0",
        ),
        ("assignment: native, workers: {kind: command, set_count: [nomad], read_count: [nomad]}", "nomad"),
    ],
)
def test_workers_stop_says_how_consumers_that_run_elsewhere_are_ended(config: Path, workers: str, ends: str) -> None:
    config.write_text(config.read_text().replace("{group: orders,", f"{{group: orders, {workers},"))
    done = run("workers", "stop", "--config", str(config))
    assert done.returncode == 0, done.stderr
    assert f"orders: its consumers do not run here: {ends} ends them" in done.stdout


def named(directory: Path) -> list[psutil.Process]:
    """Return the living processes that the directory was given to as their last argument."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[-1:] == [str(directory)] and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def test_a_command_goes_to_the_cluster_of_its_group(config: Path) -> None:
    two = config.read_text().replace(
        '  - connection: {bootstrap.servers: "localhost:9092"}\n',
        '  - {name: east, connection: {bootstrap.servers: "127.0.0.1:1"}}\n'
        '  - {name: west, connection: {bootstrap.servers: "127.0.0.1:2"}}\n',
    )
    config.write_text(
        two.replace("{group: orders,", "{group: orders, cluster: west,").replace(
            "{group: bills,", "{group: bills, cluster: east,"
        )
    )
    assert "groups orders (advise, west), bills (advise, east)" in run("validate", "--config", str(config)).stdout
    with ThreadPoolExecutor() as side_by_side:  # each waits for an answer
        told_all = side_by_side.map(lambda group: started("release", "--config", str(config), group), ("orders", "bills"))
    for told, address in zip(told_all, ("127.0.0.1:2", "127.0.0.1:1"), strict=True):
        assert told.returncode == 1
        assert f"no broker answers at {address}" in told.stderr
