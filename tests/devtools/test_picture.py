"""The picture of a demo run: what the live view showed at one moment."""

import json
from pathlib import Path

import pytest

from autoscaler.devtools.picture import main


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "state" / "logs").mkdir(parents=True)
    facts = {"group": "demo", "load_from_s": 1000.0, "duration_s": 200}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    lines = [
        {"t": 1000.0 + n, "cycle": n, "group": "demo", "mode": "act", "reason": "WITHIN_TARGET", "detail": f"cycle-{n}-says-so",
         "consumers_now": 1, "consumers": 1, "usable_bytes_per_s": 80.0, "capacity_bytes_per_s": 100.0, "known": True}
        for n in range(0, 200, 10)
    ]  # fmt: skip
    (tmp_path / "state" / "logs" / "cycles.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    return tmp_path


def test_it_shows_the_cycle_and_the_progress_of_that_moment(run: Path, tmp_path: Path) -> None:
    assert main(["--run-dir", str(run), "--at", "95", "--to", str(tmp_path / "p.svg"), "--title", "a title"]) == 0
    drawn = (tmp_path / "p.svg").read_text().replace("&#160;", " ")
    assert drawn.startswith("<svg")
    for said in ("a title", "WITHIN_TARGET", "cycle-90-says-so", "95 of 200 s"):
        assert said in drawn, said
    assert "cycle-100" not in drawn


def test_a_run_without_an_end_is_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "run.json").unlink()
    assert main(["--run-dir", str(run), "--at", "95", "--to", str(tmp_path / "p.svg")]) == 1
    assert f"{run} cannot be drawn" in capsys.readouterr().err
    assert not (tmp_path / "p.svg").exists()
