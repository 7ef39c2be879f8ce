"""A real Prometheus scrapes what the job serves; rules, dashboards and the pages ask only for what is there."""

import http.client
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from autoscaler.adapters.http.metrics import JobMetrics
from autoscaler.adapters.http.server import Answers, Health, Server
from tests.adapters.audit import audit_cases as cases
from tests.adapters.http.served import cycle
from tests.fakes import FakeClock
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "conf" / "alerts" / "autoscaler.yaml"
DASHBOARDS = sorted((ROOT / "conf" / "grafana").glob("*.json"))


@pytest.fixture(scope="module")
def promtool() -> str:
    """The tool that comes with Prometheus."""
    return found("promtool")


def found(name: str) -> str:
    if (path := shutil.which(name)) is None:
        pytest.skip(f"{name} is not here: make prometheus says what installs it")
    return path


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    """One Prometheus on loopback, which scrapes one job that has decided one group."""

    def __init__(self, directory: Path) -> None:
        clock = FakeClock(wall=cases.T0 + 1)
        metrics = JobMetrics(clock, lambda: (2, cases.T0), partitions=True)
        metrics.take(cycle(cases.hot, group="orders", recommended=4, recommended_age_s=1.0), (cases.handover(1),))
        answers = Answers(metrics, Health(groups=1, oldest_s=60, advice_max_age_s=60), clock)
        self.job = Server(("127.0.0.1", 0), answers)
        self.job.start()
        config = directory / "prometheus.yaml"
        target = {"job_name": "autoscaler", "static_configs": [{"targets": [f"127.0.0.1:{self.job.port()}"]}]}
        config.write_text(yaml.safe_dump({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(RULES)],
            "scrape_configs": [target],
        }))  # fmt: skip
        self._log = directory / "prometheus.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([
                found("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}",
                "--web.listen-address=127.0.0.1:0", "--log.level=debug",
            ], stdout=log, stderr=log)  # fmt: skip
        self.port = 0

    def started(self) -> "Prometheus":
        """Return it once it has scraped the job."""
        address = re.compile(r"Listening on.*address=127\.0\.0\.1:(\d+)")

        def listening() -> int:
            assert self._process.poll() is None, self._log.read_text()
            said = address.search(self._log.read_text())
            return int(said[1]) if said else 0

        self.port = until("it listens", listening, bool, explain=self._log.read_text)
        until("it has scraped the job", lambda: self.ask("up"), lambda r: [x["value"][1] for x in r] == ["1"])
        return self

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """Return what an expression says now."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", f"/api/v1/query?{urlencode({'query': expression})}")
            answer = connection.getresponse()
            if answer.status == http.HTTPStatus.SERVICE_UNAVAILABLE:  # it reads its storage first
                return []
            said = json.loads(answer.read())
        finally:
            connection.close()
        assert said["status"] == "success", (expression, said)
        return list(said["data"]["result"])

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self.job.close()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    found("prometheus")
    made = Prometheus(tmp_path_factory.mktemp("prometheus"))
    try:
        yield made.started()
    finally:
        made.close()


def names(expression: str) -> set[str]:
    return set(re.findall(r"\bautoscaler_\w+", expression))


def test_the_rules_are_sound_and_fire_on_what_they_are_for(promtool: str, tmp_path: Path) -> None:
    run(promtool, "check", "rules", str(RULES))
    cases_of = (Path(__file__).with_name("alerts.test.yaml")).read_text(encoding="utf-8")
    own = tmp_path / "alerts.test.yaml"
    own.write_text(cases_of.replace("[RULES]", f"[{RULES}]"), encoding="utf-8")
    run(promtool, "test", "rules", str(own))
    alerts = {r["alert"] for g in yaml.safe_load(RULES.read_text())["groups"] for r in g["rules"]}
    shown = {t["alertname"] for test in yaml.safe_load(cases_of)["tests"] for t in test["alert_rule_test"] if t.get("exp_alerts")}
    assert shown == alerts, "each is shown to fire"


def test_every_alert_has_its_heading_in_the_documentation() -> None:
    page = (ROOT / "docs" / "reference" / "alerts.md").read_text(encoding="utf-8")
    rules = [r for g in yaml.safe_load(RULES.read_text())["groups"] for r in g["rules"]]
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [r["alert"] for r in rules]
    assert [r["annotations"]["runbook"] for r in rules] == [f"docs/reference/alerts.md#{r['alert'].lower()}" for r in rules]


def test_what_is_scraped_is_sound(prometheus: Prometheus, promtool: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", prometheus.job.port() or 0, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read()
    connection.close()
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
    (recommended,) = prometheus.ask("autoscaler_consumers_recommended")
    assert recommended["metric"] == {"__name__": "autoscaler_consumers_recommended", "cluster": "east", "group": "orders",
                                     "instance": recommended["metric"]["instance"], "job": "autoscaler"}  # fmt: skip
    assert recommended["value"][1] == "4"


def test_rules_and_dashboards_ask_only_for_what_the_job_tells(prometheus: Prometheus) -> None:
    told = {x["metric"]["__name__"] for x in prometheus.ask('{__name__=~"autoscaler_.+"}')}
    asked = [r["expr"] for g in yaml.safe_load(RULES.read_text())["groups"] for r in g["rules"]]
    for file in DASHBOARDS:
        board = json.loads(file.read_text())
        asked += [t["expr"] for p in board["panels"] for t in p["targets"]]
        variables = [v["definition"] for v in board["templating"]["list"] if v["type"] == "query"]
        assert all(names(v) <= told for v in variables), file
    assert len(asked) > 30
    for expression in asked:
        assert names(expression), expression
        assert names(expression) <= told, expression
        prometheus.ask(expression.replace("$cluster", ".*").replace("$group", "orders"))


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda f: f.stem)
def test_a_dashboard_is_laid_out_without_overlaps_and_names_no_data_source_of_ours(file: Path) -> None:
    board = json.loads(file.read_text())
    cells = [(x, y) for p in board["panels"] for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
             for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])]  # fmt: skip
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
    assert {p["datasource"]["uid"] for p in board["panels"]} == {"${datasource}"}
    assert all(t["datasource"]["uid"] == "${datasource}" for p in board["panels"] for t in p["targets"])


def test_the_query_of_the_page_for_scalers_holds_its_number_while_nothing_is_measured(promtool: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tasks" / "feed.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"^\s+query: (.+)$", page, re.MULTILINE)
    series = 'autoscaler_consumers_recommended{cluster="east",group="orders",instance="a",job="autoscaler"}'
    ages = series.replace("consumers_recommended", "advice_age_seconds")
    tests = [
        {"expr": query, "eval_time": at, "exp_samples": [{"labels": '{group="orders"}', "value": 5}] if value else []}
        for at, value in (("1m", 5), ("2m", 5), ("6m", None))
    ]
    file = tmp_path / "query.test.yaml"
    file.write_text(yaml.safe_dump({"tests": [{
        "interval": "30s",
        "input_series": [{"series": series, "values": "5x20"}, {"series": ages, "values": "1 1 1 31 59 89 119x20"}],
        "promql_expr_test": tests,
    }]}))  # fmt: skip
    run(promtool, "test", "rules", str(file))
