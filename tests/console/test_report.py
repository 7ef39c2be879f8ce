"""What the live view and the plain lines say, and that they fit where they are shown."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from autoscaler.console.cycle_reader import Cycle, CycleTail
from autoscaler.console.group_view import Progress, View
from autoscaler.console.job_state import Health
from autoscaler.console.live import Screen
from autoscaler.console.overview import Overview
from autoscaler.console.words import bar, count, rate, seconds, sparkline
from autoscaler.model.names import compact

PROGRESS = Progress(phases=(("calm", 48), ("ramp", 120), ("fall", 72)), elapsed_s=97)


def worker(slot: int, names: list[str], bytes_per_s: float | None = 400_000, phase: str = "active") -> dict[str, Any]:
    return {"slot": slot, "name": f"demo-{slot}", "uuid": f"u{slot}", "phase": phase, "bytes_per_s": bytes_per_s,
            "lag_records": 1234 * slot, "partitions": names, "latency_p50_s": 0.012, "latency_p99_s": 1.25}  # fmt: skip


def added(slot: int) -> dict[str, Any]:
    return {"kind": "add", "target": slot, "what": f"add {slot}"}


def moved(partition: int) -> dict[str, Any]:
    what = f"move demo-events-{partition} 0->2"
    return {"kind": "move", "topic": "demo-events", "partition": partition, "source": 0, "target": 2, "what": what}


def line(number: int = 7, **changed: Any) -> dict[str, Any]:  # noqa: ANN401  whatever a line may hold
    names = [f"demo-events-{p}" for p in range(16)]
    return {
        "t": 1000.0 + number, "cycle": number, "group": "demo", "mode": "act", "reason": "WITHIN_TARGET", "limited_by": None,
        "detail": "0.80 MB/s fits on 2 consumers", "epoch": 3, "consumers_now": 2, "consumers": 2, "recommended": 2,
        "lower_bound": 1, "total_bytes_per_s": 800_000.0, "total_lag_records": 1234, "usable_bytes_per_s": 800_000.0,
        "capacity_bytes_per_s": 1_000_000.0, "known": True, "partitions": 16, "r_score": 0.0, "actions": [],
        "workers": [worker(0, names[::2]), worker(1, names[1::2])], "stages": {"decide_s": 0.02}, "sample_age_s": 0.4,
    } | changed  # fmt: skip


def cycle(number: int = 7, **changed: Any) -> Cycle:  # noqa: ANN401
    return Cycle.parse(json.dumps(line(number, **changed)))


def drawn(view: View, width: int, progress: Progress | None = None, height: int | None = None) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(view.render(width, progress, height))
    return console.export_text().splitlines()


def busy() -> View:
    view = View(group="demo")
    for number in range(1, 120):
        view.take(cycle(number))
    view.take(cycle(120, reason="RATE_ABOVE_CAPACITY", consumers=3, actions=[added(2), moved(3)]))
    names = [f"demo-events-{p}" for p in range(64)]
    view.take(
        cycle(
            121,
            reason="RATE_ABOVE_CAPACITY",
            limited_by="COOLING_DOWN",
            detail="consumer 0 carries 1.05 MB/s, above its usable 0.80 MB/s; 3 consumers are needed, " * 2,
            consumers=9,
            consumers_now=8,
            workers=[worker(n, names[n::8], 1_050_000 / (n + 1), "draining" if n == 3 else "active") for n in range(8)],
        )
    )
    return view


@pytest.mark.parametrize("width", [60, 80, 100, 140, 220])
def test_every_line_fits_the_terminal(width: int) -> None:
    assert {len(text) for text in drawn(busy(), width, PROGRESS)} == {width}


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_view_shows_consumers_load_decision_and_progress(width: int) -> None:
    text = "\n".join(drawn(busy(), width, PROGRESS))
    for said in ("8 → 9", "RATE_ABOVE_CAPACITY", "limited by COOLING_DOWN", "97 of 240 s", "ramp", "1.05 MB/s", "draining",
                 "1,234", "add 2, move demo-events-3 0->2", "119 s"):  # fmt: skip
        assert said in text, said


def test_many_consumers_leave_room_for_the_decision() -> None:
    """A terminal cuts off what is below its last line: that would be the reason."""
    view = busy()
    workers = [worker(n, [f"demo-events-{n}"], 1_000_000 - 1000 * n) for n in range(40)]
    view.take(cycle(130, reason="AT_MAXIMUM", detail="word " * 60, workers=workers))
    for height in (23, 30, 49):
        text = drawn(view, 80, PROGRESS, height)
        assert len(text) == height
        assert any("AT_MAXIMUM" in x for x in text)
        assert any("RATE_ABOVE_CAPACITY" in x for x in text), "the last change"
    shown = [x for x in drawn(view, 80, PROGRESS, 23) if "● " in x]
    assert [x.split()[2] for x in shown] == [str(n) for n in range(len(shown))], "the busiest, in order"
    assert any(
        f"and {40 - len(shown)} more with {1000 - len(shown)} kB/s each or less" in x for x in drawn(view, 80, PROGRESS, 23)
    )
    assert len([x for x in drawn(view, 80, PROGRESS, 100) if "● " in x]) == 40


def test_a_wide_view_also_shows_latency_and_how_the_rate_went() -> None:
    assert "12 ms / 1.2 s" in "\n".join(drawn(busy(), 140))
    assert "rate so far" in "\n".join(drawn(busy(), 140))
    assert "rate so far" not in "\n".join(drawn(busy(), 80))


def test_many_moves_are_summed_up() -> None:
    view = View(group="demo")
    view.take(cycle(actions=[added(2), *(moved(p) for p in (3, 4, 5, 9))]))
    assert "[add 2, 4 moves: 3-5, 9]" in view.line()


def test_before_the_first_cycle_the_view_says_what_it_waits_for() -> None:
    assert any("waiting for the first cycle" in text for text in drawn(View(group="demo"), 80))
    assert any("is the job running?" in text for text in drawn(View(group="demo", note="is the job running?"), 80))


def test_cycles_of_other_groups_are_not_shown() -> None:
    view = View(group="demo")
    view.take(cycle(1, group="other"))
    assert view.latest is None


def test_unknown_load_is_said_and_not_drawn_as_zero() -> None:
    view = View(group="demo")
    view.take(cycle(known=False, total_lag_records=None, workers=[worker(0, ["demo-events-1"], None)]))
    text = "\n".join(drawn(view, 100))
    assert "load not known" in text
    assert "lag ?" in text


def test_consumers_that_were_not_looked_at_are_said_to_be_unknown() -> None:
    view = View(group="demo")
    view.take(cycle(consumers_now=None, consumers=3, workers=[]))
    assert "consumers ? → 3" in "\n".join(drawn(view, 100))
    assert "consumers ? → 3" in view.line()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"consumers_now": 3, "consumers": 5}, "3, advised 5"),
        ({"consumers_now": 3, "consumers": 3}, "3"),
        ({"consumers_now": None, "consumers": 2}, "?, advised 2"),
        ({"consumers_now": None, "consumers": None, "recommended": 3, "recommended_age_s": 31.0}, "?, advised 3 31.0 s ago"),
        ({"consumers_now": None, "consumers": None, "recommended": None, "recommended_age_s": None}, "?"),
        ({"consumers_now": 0, "consumers": None, "recommended": None, "recommended_age_s": None}, "0"),
    ],
)
def test_what_is_only_advised_is_not_said_to_be_on_its_way(changed: dict[str, Any], said: str) -> None:
    view = View(group="demo")
    view.take(cycle(**({"mode": "advise", "workers": [], "lower_bound": None} | changed)))
    text = "\n".join(drawn(view, 100))
    assert f"consumers {said}   rate 800 kB/s" in text
    assert f"consumers {said}  800 kB/s" in view.line()
    assert ("not known" in text) == (changed["consumers_now"] is None)


def member(number: int, client: str, host: str, names: list[str]) -> dict[str, Any]:
    uuid = f"{client}-7c9e6679-7425-40de-944b-{number:012}"
    return worker(number, names) | {"slot": None, "name": uuid, "uuid": uuid, "client_id": client, "host": host}


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_members_are_named_by_client_and_host_and_no_rate_is_cut_for_it(width: int) -> None:
    hosts = ["/10.32.117.4", "/10.32.117.5", "/10.32.117.5"]
    clients = ["consumer-invoices-production-1", "consumer-invoices-production-1", "consumer-invoices-production-2"]
    members = [member(n, c, h, [f"demo-events-{n}"]) for n, (c, h) in enumerate(zip(clients, hosts, strict=True))]
    view = View(group="demo")
    view.take(cycle(workers=members))
    text = drawn(view, width)
    rows = [x for x in text if "● " in x]
    assert {len(x) for x in text} == {width}
    assert len({x.split("●")[1].split("━")[0] for x in rows}) == 3, "each can be told from the others"
    for said in ("10.32.117.4", "400 kB/s", "1,234"):
        assert any(said in x for x in rows) or (width == 60 and said == "10.32.117.4"), said
    assert not any("7425" in x for x in text), "no UUID"


def test_members_alike_in_client_and_host_are_told_apart_by_the_end_of_their_ids() -> None:
    view = View(group="demo")
    view.take(cycle(workers=[member(n, "orders", "/10.0.0.1", [f"demo-events-{n}"]) for n in (1, 2)]))
    text = "\n".join(drawn(view, 120))
    assert "● orders 10.0.0.1 00000001" in text
    assert "● orders 10.0.0.1 00000002" in text


def test_advice_that_stays_the_same_is_said_once_with_since_when() -> None:
    view = View(group="demo")
    for number in range(40):
        step = [moved(number % 3)]  # the same advice, worked out anew for a load that is never quite the same
        view.take(cycle(number, mode="advise", reason="RATE_ABOVE_CAPACITY", limited_by="ADVISORY", consumers=3, actions=step))
    assert [(c.t, c.consumers) for c in view.changes] == [(1000.0, 3)]
    assert "RATE_ABOVE_CAPACITY limited by ADVISORY for 39 s or longer" in view.line()
    before = view.happened
    view.take(cycle(40, mode="advise", reason="RATE_ABOVE_CAPACITY", limited_by="ADVISORY", consumers=3, actions=[moved(1)]))
    assert view.happened == before, "no line of its own"
    view.take(cycle(41, mode="advise", reason="RATE_ABOVE_CAPACITY", limited_by="ADVISORY", consumers=4, actions=[moved(1)]))
    assert view.happened != before
    assert [c.consumers for c in view.changes] == [3, 4]


def test_ages_are_told_against_now() -> None:
    view = View(group="demo")
    view.take(cycle())
    view.now = 1007.0 + 960
    assert any("16 min ago · sample then 400 ms old" in x for x in drawn(view, 80))


def test_how_the_job_is_stands_above_everything_else() -> None:
    view = busy()
    view.health = Health(level="dead", text="the job keeps ending, with exit code 1 after 12 s")
    assert "The job keeps ending, with exit code 1 after 12 s" in drawn(view, 80)[1]
    assert view.line().startswith("the job keeps ending")


def test_an_overview_has_a_line_for_each_group_and_says_how_many_are_left_out() -> None:
    groups = [f"group-{n:04}" for n in range(2000)]
    overview = Overview.of(groups, quiet_s=10)
    for n, group in enumerate(groups[1:]):
        overview.take(cycle(7, group=group, reason="AT_MAXIMUM" if n == 1234 else "WITHIN_TARGET"))
    text = drawn_overview(overview, 80, 24)
    assert len(text) <= 24
    assert {len(x) for x in text} == {80}
    assert text[2].split()[1:2] == ["group-1235"], "what asks for an operator is first"
    assert "no decision yet" in text[3]
    assert "more" in text[-2]
    lines = overview.line().splitlines()
    assert len(lines) == 2000
    overview.take(cycle(8, group="group-0007", reason="BACKLOG"))
    assert [x.split(":")[0] for x in overview.line().splitlines()] == ["group-0007"], "only of what something happened"


@pytest.mark.parametrize("width", [80, 100, 140])
def test_an_overview_says_what_holds_a_group_however_narrow_it_is(width: int) -> None:
    overview = Overview.of(["orders-of-the-shop-in-the-west", "bills"], quiet_s=10)
    overview.take(cycle(7, group="bills", reason="RATE_ABOVE_CAPACITY", limited_by="PAUSED"))
    overview.take(cycle(7, group="orders-of-the-shop-in-the-west", reason="RATE_ABOVE_CAPACITY", limited_by="ADVISORY"))
    text = "\n".join(drawn_overview(overview, width, 24))
    assert "PAUSED" in text
    assert text.count("RATE_ABOVE_") == 2, "nor is the reason of a group that is only advised hidden by that it is"


def drawn_overview(overview: Overview, width: int, height: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(overview.render(width, None, height))
    return console.export_text().splitlines()


def test_a_plain_line_says_the_same() -> None:
    view = busy()
    assert view.line(PROGRESS).startswith("   97 s ramp   consumers 8 → 9  800 kB/s  lag 1,234  RATE_ABOVE_CAPACITY")
    assert "limited by COOLING_DOWN" in view.line()


def test_a_screen_that_is_no_terminal_prints_a_line_when_something_happens_and_not_at_every_look() -> None:
    out = io.StringIO()
    view = View(group="demo")
    with Screen(Console(file=out, width=80)) as screen:
        for number in range(5):
            view.take(cycle(number))
            screen.show(view)
        view.take(cycle(6, reason="UNDERUSED", consumers=1))
        screen.show(view)
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert "\x1b" not in out.getvalue()
    assert "UNDERUSED" in lines[1]


def test_a_screen_that_is_a_terminal_draws_in_place() -> None:
    out = io.StringIO()
    view = busy()
    with Screen(Console(file=out, width=80, force_terminal=True)) as screen:
        screen.show(view)
        screen.show(view)
    assert "\x1b[1A" in out.getvalue()  # back up over the picture before


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "?"),
        (0, "0 B/s"),
        (999, "999 B/s"),
        (1000, "1.00 kB/s"),
        (123_456, "123 kB/s"),
        (1_240_000, "1.24 MB/s"),
        (2e9, "2.00 GB/s"),
    ],
)
def test_rates_are_said_in_the_unit_that_suits(value: float | None, said: str) -> None:
    assert rate(value) == said


def test_counts_and_durations_are_said_for_people() -> None:
    assert (count(None), count(1234567)) == ("?", "1,234,567")
    assert (seconds(None), seconds(0.0204), seconds(2.04)) == ("?", "20 ms", "2.0 s")


def test_partitions_are_said_as_ranges() -> None:
    assert compact(["t-3", "t-1", "t-2", "t-10"]) == "1-3, 10"
    assert compact(["a-b-1", "c-2", "a-b-0"]) == "a-b 0-1 · c 2"
    assert compact([]) == ""


@pytest.mark.parametrize("value", [0, 100, 799, 800, 801, 1000, 5000])
def test_a_bar_has_its_width_and_the_mark_of_the_limit(value: float) -> None:
    drawn_bar = bar(value, 800, 1000, 20)
    assert len(drawn_bar.plain) == 20
    assert drawn_bar.plain[16] in "┼┿"


def test_a_bar_is_green_up_to_the_limit_yellow_up_to_the_capacity_and_red_beyond() -> None:
    styles = [str(bar(v, 800, 1000, 20).spans[0].style) for v in (800, 900, 1001)]
    assert styles == ["green", "yellow", "red"]


def test_a_sparkline_keeps_its_width_and_shows_the_peak() -> None:
    assert sparkline([], 10) == ""
    assert sparkline([0, 4, 8], 10) == "▁▄█"
    assert len(sparkline(list(range(1000)), 40)) == 40


def test_progress_names_the_phase_of_each_moment() -> None:
    phases = (("calm", 10.0), ("ramp", 20.0))
    assert [Progress(phases=phases, elapsed_s=s).phase for s in (0, 9.9, 10, 29, 30)] == ["calm", "calm", "ramp", "ramp", "end"]


def test_a_tail_gives_each_cycle_once_and_waits_for_a_line_that_is_half_written(tmp_path: Path) -> None:
    file = tmp_path / "cycles.jsonl"
    tail = CycleTail(file)
    assert list(tail.read()) == []
    whole = json.dumps(line(1)) + "\n"
    file.write_text(whole + whole[:50])
    assert [c.cycle for c in tail.read()] == [1]
    with file.open("a") as out:
        out.write(whole[50:] + "not json\n" + json.dumps(line(2)) + "\n")
    assert [c.cycle for c in tail.read()] == [1, 2]
    assert list(tail.read()) == []


def test_a_tail_follows_a_rotated_file_and_can_start_near_the_end(tmp_path: Path) -> None:
    file = tmp_path / "cycles.jsonl"
    file.write_text("".join(json.dumps(line(n)) + "\n" for n in range(20)))
    tail = CycleTail(file, last_bytes=3 * len(json.dumps(line(1))))
    assert [c.cycle for c in tail.read()] == [18, 19]
    file.write_text(json.dumps(line(20)) + "\n")
    assert [c.cycle for c in tail.read()] == [20]


def test_a_line_of_an_older_version_still_parses() -> None:
    parsed = Cycle.parse('{"t": 1, "group": "g", "reason": "NOT_READY"}')
    assert (parsed.reason, parsed.workers, parsed.total_lag_records, parsed.known) == ("NOT_READY", (), None, False)
