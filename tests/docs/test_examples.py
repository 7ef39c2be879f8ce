"""The example that serves advice: what it answers of a job's ``cycles.jsonl``, and that it never answers with a stale number."""

import http.client
import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autoscaler.adapters.audit.cycle_log import DECIDED

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("advice", ROOT / "docs" / "examples" / "advice.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cycles(tmp_path: Path) -> Path:
    return tmp_path / "cycles.jsonl"


@pytest.fixture
def address(example: ModuleType, cycles: Path) -> Iterator[tuple[str, int]]:
    server = example.server(cycles, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield "127.0.0.1", server.server_port
    server.shutdown()
    server.server_close()


def line(group: str, recommended: int | None, **fields: float | None) -> str:
    """Return a line of a cycle with the fields that the job writes."""
    cycle: dict[str, Any] = dict.fromkeys(DECIDED) | {
        "t": time.time(), "cluster": "kafka", "group": group, "reason": "WITHIN_TARGET", "recommended": recommended,
        "recommended_age_s": None if recommended is None else 0.5, "sample_age_s": 0.5,
    }  # fmt: skip
    return json.dumps(cycle | fields) + "\n"


def ask(address: tuple[str, int], path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*address, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_latest_line_of_each_group_is_the_answer(address: tuple[str, int], cycles: Path) -> None:
    half = line("orders", 9)[:40]
    cycles.write_text(line("orders", 3) + line("bills/eu", 2) + line("orders", 5) + half, encoding="utf-8")
    status, text = ask(address, "/advice/orders")
    assert (status, json.loads(text)["recommended"]) == (200, 5)
    assert json.loads(ask(address, "/advice/bills%2Feu")[1])["recommended"] == 2


@pytest.mark.parametrize(("recommended", "fields"), [(None, {}), (5, {"t": 1.7e9}), (5, {"recommended_age_s": 61.0})])
def test_a_number_that_is_unknown_or_old_is_no_answer(
    address: tuple[str, int], cycles: Path, recommended: int | None, fields: dict[str, float]
) -> None:
    cycles.write_text(line("orders", recommended, **fields), encoding="utf-8")
    assert ask(address, "/advice/orders")[0] == http.HTTPStatus.SERVICE_UNAVAILABLE
    assert ask(address, "/advice/other")[0] == http.HTTPStatus.SERVICE_UNAVAILABLE


def test_a_job_that_has_not_decided_yet_has_nothing_to_answer_with(address: tuple[str, int]) -> None:
    assert ask(address, "/advice/orders")[0] == http.HTTPStatus.SERVICE_UNAVAILABLE
    assert ask(address, "/metrics") == (200, "")


def test_the_page_names_every_metric_and_an_unknown_number_has_no_line(address: tuple[str, int], cycles: Path) -> None:
    cycles.write_text(
        line("orders", 5, consumers_now=3, lower_bound=2, total_bytes_per_s=1.5, capacity_bytes_per_s=9.0, total_lag_records=7)
        + line("dark", None),
        encoding="utf-8",
    )
    served = ask(address, "/metrics")[1].splitlines()
    assert 'autoscaler_consumers_recommended{cluster="kafka",group="orders"} 5' in served
    assert not [x for x in served if "recommended" in x and "dark" in x]
    page = (ROOT / "docs" / "tasks" / "feed.md").read_text(encoding="utf-8")
    assert [x for x in served if f"`{x.split('{')[0]}`" not in page] == []
    assert len({x.split("{")[0] for x in served}) == page.count("`autoscaler_")
