"""Every finding in plain English: the one place where sentences stand.

A template names fields of a finding in braces: ``partitions``, ``consumers``, a text, or a number with or without the unit that
its name ends in, which says how it is written. ``{live:consumer}`` counts: 1 consumer, 2 consumers. A setting is named by
``{s[shrink_cooldown_s]}``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from string import Formatter

from autoscaler.config.setting_paths import path_of
from autoscaler.model import Decision, Finding, Hindrance
from autoscaler.model.decision import FEW
from autoscaler.model.findings import What


def in_words(finding: Finding) -> str:
    """Return one finding as half a sentence."""
    template = _WORDS[finding.what]
    return template(finding) if callable(template) else _said(template, finding)


def text_of(findings: tuple[Finding, ...]) -> str:
    """Return findings as one text, the first one first."""
    return "; ".join(in_words(f) for f in findings)


def with_findings(decision: Decision, *more: Finding) -> Decision:
    """Return a decision with more to say."""
    findings = (*decision.findings, *more)
    return replace(decision, findings=findings, detail=text_of(findings)) if more else decision


def rate_text(bytes_per_s: float) -> str:
    """Return a rate for people, such as ``1.25 MB/s``."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.3g} {unit}"
    return f"{bytes_per_s:.3g} B/s"


def size_text(size: float) -> str:
    """Return bytes for people, such as ``1.25 GB``."""
    return rate_text(size).removesuffix("/s")


def time_text(seconds: float) -> str:
    """Return a time for people, such as ``40 min``."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def many(count: int, what: str) -> str:
    """Return a count for people: ``1 consumer``, ``2 consumers``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


_UNITS: Mapping[str, Callable[[float], str]] = {
    "_bytes_per_s": rate_text,
    "_records_per_s": lambda v: f"{v:.4g} records/s",
    "_bytes": size_text,
    "_ratio": lambda v: f"{v:.0%}",
    "_s": time_text,
}


_Part = tuple[str, str | None, str]  # what stands before a field, its name (none at the end), the noun behind its colon


@cache
def _parts(template: str) -> tuple[_Part, ...]:
    return tuple((before, name, noun or "") for before, name, noun, _ in Formatter().parse(template))


def _said(template: str, finding: Finding) -> str:
    fields = _fields(finding)
    return "".join(before + ("" if name is None else _field(fields, name, noun)) for before, name, noun in _parts(template))


def _field(fields: Mapping[str, object], name: str, noun: str) -> str:
    """Return a field, or with a noun behind its colon so many of that."""
    if name.startswith("s["):
        return path_of(name[2:-1])
    return many(int(str(fields[name])), noun) if noun else str(fields[name])


def _fields(f: Finding) -> dict[str, object]:
    """Return what a template may name; a limit in two units is said in both."""
    fields: dict[str, object] = {}
    for name, value in f.numbers.items():
        unit = next((u for u in _UNITS if name.endswith(u)), "")
        stem, plain = name.removesuffix(unit), str(value) if isinstance(value, int) else f"{value:.10g}"
        shown = _UNITS[unit](value) if unit else plain
        fields[name] = shown
        fields[stem] = f"{fields[stem]} and {shown}" if unit and stem in fields else shown
    fields |= {name: text + _more(f, name) if name in f.numbers else text for name, text in f.texts.items()}
    if f.partitions:
        count = int(f.numbers["partitions"])
        fields |= {"first": f.partitions[0], "partitions": _listed(f, "partitions", f.partitions)}
        fields["those"] = f"{many(count, 'partition')} ({fields['partitions']})"
    if member := f.texts.get("member"):  # a consumer that has no slot: its number says nothing to people
        fields |= {"consumer": member, "hottest": member}
    elif f.consumers:
        count = int(f.numbers["consumers"])
        fields |= {"consumer": f.consumers[0], "consumers": f"consumer{'s'[: count - 1]} {_listed(f, 'consumers', f.consumers)}"}
    return fields


def _listed(f: Finding, name: str, values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values)) + _more(f, name)


def _more(f: Finding, name: str) -> str:
    """Return how many there are besides the first few that a finding names."""
    more = int(f.numbers[name]) - FEW
    return f" and {more} more" if more > 0 else ""


def _when(name: str, more: str, *, zero: bool = False) -> Callable[[Finding], str]:
    """Return a part that is only said where a number (not zero) or a text is there."""

    def part(f: Finding) -> str:
        there = name in f.texts or (name in f.numbers and (zero or bool(f.numbers[name])))
        return _said(more, f) if there else ""

    return part


def _in_limit(more: str) -> Callable[[Finding], str]:
    """Return a part that is only said where a limit is there, in whatever unit."""
    return lambda f: _said(more, f) if any(name.startswith("limit_") for name in f.numbers) else ""


def _error(otherwise: str) -> Callable[[Finding], str]:
    """Return the error of a finding, or what stands there without one."""
    return lambda f: f.texts.get("error", otherwise)


def _joined(*parts: str | Callable[[Finding], str]) -> Callable[[Finding], str]:
    return lambda f: "".join(_said(p, f) if isinstance(p, str) else p(f) for p in parts)


def _offset_reset(f: Finding) -> str:
    where = "is out of range at {offset}" if "offset" in f.numbers else "has no committed offset any more"
    then = "goes on at {start} ({policy})" if "start" in f.numbers else "waits for a measurement"
    return _said(f"{{first}} {where} and {then}", f)


def _retention_risk(f: Finding) -> str:
    close_s = f.numbers.get("close_s")
    close = "it is not known yet when the backlog is worked off"
    if close_s is not None:
        close = "the backlog is not shrinking" if close_s == math.inf else "the backlog is worked off in {close}"
    others = int(f.numbers["partitions"]) - 1
    more = f" (and {others} more)" if others else ""
    return _said(f"{{first}}{more} may lose its first unread record in {{loss}}, and {close}", f)


def _overloaded(f: Finding) -> str:
    more = int(f.numbers["consumers"]) - 1
    others = f" and {more} more are" if more else " is"
    takes = "; {total} in all take {needed:consumer} of {usable}" if "needed" in f.numbers else ""
    return _said(f"consumer {{consumer}} with {{load}}{others} above {{limit}}{takes}", f)


_ANEW = "the rest of the plan is planned anew"
_WORDS: Mapping[What, str | Callable[[Finding], str]] = {
    What.FAILED: "{error}",
    What.FOREIGN_MEMBERS: (
        "{members:member} subscribe with this group's id (client ids {clients}; hosts {hosts}): stop them, or set "
        "{s[assignment]} to native"
    ),
    What.MANAGED_WORKERS: (
        "{workers:managed worker} of this group live and follow plan {epoch}: end them (autoscaler workers stop), or set "
        "{s[assignment]} to managed"
    ),
    What.MEMBERS_NOT_READ: "the group's members have not been read yet",
    What.MEMBERS_UNREADABLE: "the group's members could not be read: {error}",
    What.NO_SUCH_GROUP: ("no group '{group}' exists on this cluster: no consumer subscribes with that id; check groups.*.group"),
    What.REBALANCING: "the group is rebalancing ({state})",
    What.NO_PARTITIONS: _joined("topics {topics} have no known partitions: ", _error("the measurement lists none yet")),
    What.NOTHING_TO_CONSUME: "all partitions are parked: nothing else is left to consume",
    What.NO_RATES: _joined("none of {listed} partitions has a rate yet: ", _error("no read has failed")),
    What.STALE: _joined(
        "{stale} of {listed} partitions ({partitions}) were measured {oldest} ago, more than {s[stale_after_s]} {limit}: ",
        _error("no read has failed"),
    ),
    What.APPLICATION_STILL: (
        "{those} are held by live consumers and have not advanced for {patience}: the application, or what it writes to, stands "
        "still"
    ),
    What.FIRST_PLACEMENT: "{unplaced:partition} with {total} have no consumer yet and need {needed} of {usable} each",
    What.CONSUMER_LOST: "{those} lost their consumer",
    What.PARTITIONS_ADDED: "{those} are new or released again",
    What.TAKEN_OVER: "{consumers} take them, nothing else moves",
    What.NO_TAKER: _joined("no consumer can take them yet", _when("consumers", "; waiting for {consumers}")),
    What.HANDOVER: "{those} are changing hands",
    What.WITHIN_TARGET: _joined(
        "{total} on {live:consumer}, the hottest ({hottest}) with {load} of {usable} usable",
        _in_limit(", tolerated up to {limit}"),
    ),
    What.OVERSIZED: "{those} are above the {limit} of one consumer: {first} has {load}, and no number of consumers helps it",
    What.OVERLOADED: _overloaded,
    What.TAKES_MORE: "it would be {wanted} without {setting}",
    What.NO_BETTER: "with {most:consumer} at most, no other placement lowers the highest load by {tolerance} or more",
    What.UNDERUSED: _joined(
        "{total} would fit on {enough} of {now:consumer} with {tolerance} to spare",
        _when("assignor", " under assignor {assignor}"),
    ),
    What.BELOW_MINIMUM: _joined(
        "{setting} asks for {least}", _when("holders", ", {holders} hold partitions", zero=True), ", {now} are requested"
    ),
    What.ABOVE_MAXIMUM: "{now:consumer} are requested and {setting} is {most}",
    What.AWAITED: "waiting for {consumers} to start ({waited} of {limit})",
    What.NOT_STARTED: "waited {waited} of {limit} for {consumers} to start: the others go on without them",
    What.NEVER_STARTED: "scale down {before} → {after}: {consumers} never started",
    What.SCALE_DOWN: "scale down {before} → {after}: drain {consumers}",
    What.END_IDLE: "{consumers} hold nothing and are not requested: they end",
    What.LAST_RATES_TAKE: "the last known rates take {needed:consumer}",
    What.FALLBACK: "the load has not been measured for {lasted}: {s[fallback]} {fallback} asks for {wanted}, {now} are requested",
    What.PUBLISHED: "{sizing} says {action}: {wanted:consumer}, now {now}",
    What.PUBLISHED_RESTS: "the last step is {rested} of {limit} ago",
    What.PUBLISHED_LIMIT: "{bound} is the limit, and nothing changes",
    What.NOT_THERE: "{consumers} are not there",
    What.PAUSED: "{s[paused]}: {paused} holds this",
    What.FROZEN: "a window ({window}) holds this",
    What.ALLOWS: "{setting} allows {count}",
    What.KEEPS: "{setting} {least} keeps {present}",
    What.TOPIC_NOT_MEASURED: "topic {topic} is not measured right now",
    What.NOT_MEASURED: "{unknown} of {listed} partitions are not measured right now (first {first})",
    What.ENDING: "{consumers} holds partitions and is about to end",
    What.MAY_LOSE: "{first} may lose records before they are read",
    What.BEHIND_UNKNOWN: "{first} has unread records that are older than what is remembered: how far it is behind is not known",
    What.BEHIND: "{first} is {lag} behind, more than {s[backlog_s]} {limit}",
    What.FEWER_FOR: "fewer would do for {lasted} of {limit} so far",
    What.NEEDED_LATELY: _joined("{needed:consumer} were needed", _when("window_s", " within the last {window}")),
    What.COOLING_DOWN: "scale-down cooldown: the number of consumers changed {ago} ago ({s[shrink_cooldown_s]} {limit})",
    What.FLAPPING: (
        "the number of consumers has turned {turns} times in an hour, {s[turns_per_hour]} allows {limit}: the larger number stays"
    ),
    What.IN_VAIN: "{steps:step} up drained no more than {level}: the bottleneck is elsewhere",
    What.DRAINED_AS_MUCH: "{count:consumer} drained as much",
    What.OVERLOADED_FOR: "overloaded for {lasted} of {limit}",
    What.MOVES_REST: "partitions moved {ago} ago; at the same number of consumers they rest for {limit}",
    What.NOT_WORTH_MOVING: (
        "moving {those} with {rate} for {pause} costs more than {relieved} less overload is worth in {payback}"
    ),
    What.MEMBERS_DIFFER: (
        "{requested:consumer} asked for, {running} running, {members:member} in the group ({state}) for {lasted}"
    ),
    What.UNTIL_COUNT: "the controller waits until they are as many",
    What.UNTIL_NAMES: "the controller waits until every member is one of them",
    What.UNTIL_RETURN: "the controller waits until {consumers} come back to what they held",
    What.DIFFER_TOO_LONG: (
        "longer than {s[worker_start_timeout_s]} {limit}: see their logs, and which other consumers subscribe with this id"
    ),
    What.STRANGERS: (
        "{members:member} consume that this controller did not start: stop them first, and the first decision starts as many as "
        "the load needs; or set {s[mode]} to advise and set their number yourself"
    ),
    What.NOT_CONSUMED: (
        "no consumer reads {listed:partition} with {total}; it takes {count} at least, how many more depends on their assignor"
    ),
    What.NO_RELIEF: "more consumers would not relieve it with assignor {assignor}",
    What.FORECAST: _joined(
        "{count:consumer} with assignor {assignor}: the hottest gets ",
        lambda f: _said("{low} to {high}" if "low_bytes_per_s" in f.numbers else "{high}", f),
        _when("idle", ", {idle} without a partition"),
    ),
    What.NOT_FORETOLD: "that cannot be foretold for several that come or go together",
    What.ALONE_ABOVE: "{count:partition} alone are above it: spread their keys, or add partitions to the topic",
    What.REMEDY: _joined(
        "{count:consumer} ",
        lambda f: _said("with assignor {assignor}" if "assignor" in f.texts else "placed by load ({s[assignment]} managed)", f),
        " would be enough",
        _when("setting", " (more than {setting} allows)"),
    ),
    What.HOLD_NOTHING: "{count:consumer} hold nothing now",
    What.STATIC_MEMBERS: "members are static: what one that ends has held stands still until its session is over",
    What.UNHELD: (
        "{those} with {rate} are held by no member: consumers find new ones when they refresh their metadata "
        "(metadata.max.age.ms)"
    ),
    What.PLACEMENT_PENDING: "{those} are with other members than the placement says",
    What.PLACEMENT_IGNORED: "for {lasted}, longer than {s[worker_start_timeout_s]} {limit}: see the log of the member that leads",
    What.NOT_CONSUMERS: lambda f: _KINDS[f.texts["kind"]],
    What.NO_MEMBERS: "it has no members: nothing shows how its consumers subscribe and which assignor they use",
    What.NO_ASSIGNOR: "its members have not agreed on an assignor: let all of them name the same, one of {known}",
    What.UNKNOWN_ASSIGNOR: "nothing is known of assignor '{assignor}': it takes one of {known}",
    What.SUBSCRIPTION_UNKNOWN: "what its members subscribe to is not known, or a pattern",
    What.SUBSCRIPTIONS_DIFFER: (
        "its members subscribe to different topics ({ways} ways): give all of them the same, or each kind its own group"
    ),
    What.SUBSCRIBED_TO_MORE: "its members also subscribe to {topics}, which is not measured: add it to {s[topics]} of the group",
    What.SUBSCRIBED_TO_FEWER: (
        "its members do not subscribe to {topics}: remove it from {s[topics]} of the group, or wait until they look for new "
        "topics"
    ),
    What.RACKS: (
        "its members name racks ({racks}), and assignor {assignor} may place partitions by them: leave client.rack out, or take "
        "roundrobin"
    ),
    What.HELD_TWICE: "its description names {holders} holders of {first}, which cannot be: it is read again with every cycle",
    What.NAMELESS: "{nameless} of its {members} members have no name to be told by: give their assignor one",
    What.NAME_SHARED: "several of its members call themselves {name}: give each a name of its own",
    What.NAME_UNKNOWN: (
        "no consumer that is started here is called {name}: let them take their names from AUTOSCALER_WORKER_NAME"
    ),
    What.CONSUMERS_NOT_KNOWN: lambda f: (
        "its consumers are not known: "
        + f.texts.get("error", "they join anew" if "state" in f.texts else "they have not been read yet")
    ),
    What.GROUP_NOT_THERE_YET: "no group '{group}' exists on this cluster yet",
    What.NOW: "now {live:consumer}, the hottest with {load}",
    What.PLACED_BY_LOAD: "placed by load: {planned:consumer} of {usable}, the hottest with {load}, {moved:partition} moved",
    What.PARKED: (
        "{those} parked, {first} at offset {offset} after {owners} consumers in a row were lost there: see autoscaler release"
    ),
    What.STALLED: "held by a live consumer and not advancing, counted as no load: {partitions}",
    What.STOPPED: "not advancing, and held by no consumer: {partitions}",
    What.SET_BACK: "committed offset was set back: {partitions}",
    What.OPEN_TRANSACTION: "read up to a transaction that stays open: {partitions}",
    What.OFFSET_RESET: _offset_reset,
    What.MORE_OFFSETS_RESET: "and {count:more partition} with an offset out of range",
    What.NOTHING_MEASURED: "none of {listed} partitions is measured right now: {error}",
    What.TOPICS_NOT_MEASURED: _joined("topics {topics} are not measured: ", _error("nothing is known of them yet")),
    What.TOPICS_UNMATCHED: "no topic that this user may describe matches {patterns} yet",
    What.CATCHING_UP: "{unread} of {those} are to be worked off in {within} ({s[catch_up_s]}), the oldest of it is {lag} old",
    What.RETENTION_RISK: _retention_risk,
    What.BEYOND_ONE_CONSUMER: (
        "to be through by then {partitions} would take more than the {usable} of one consumer: lengthen the topic's retention "
        "until it is read, or make a consumer faster"
    ),
    What.CAPACITY_LOOKS_HIGH: (
        "{s[capacity_bytes_per_s]} {capacity} looks too high: consumers that are behind drain at most {drained} (in {times} "
        "half minutes of the last hour)"
    ),
    What.CAPACITY_LOOKS_LOW: (
        "{s[capacity_bytes_per_s]} {capacity} looks too low: a consumer drains {drained} (in {times} half minutes of the last "
        "hour)"
    ),
    What.CAPACITY_ASSUMED: "capacity {capacity} per consumer (assumed; not measured yet)",
    What.PROMISED: "for {share} within {within} consumers are filled to {target} ({late} of the records were later)",
    What.PROMISE_BROKEN: (
        "{late} of the records took longer than {within}, and {allowed} may ({s[promise_within_s]}): "
        "consumers are filled to {target}"
    ),
    What.PROMISE_HOPELESS: (
        "{late} of the records took longer than {within} ({s[promise_within_s]}) however idle their consumers are: more "
        "consumers do not help; look at how long one record takes, at batches and pauses of the application, and at clocks"
    ),
    What.PROMISE_UNSEEN: (
        "how old records are as they are processed is not known, because {why}: consumers are filled to {target} "
        "({s[target_utilisation]}), and what is more than {behind} behind is worked off within {within}"
    ),
    What.CAPACITY_KEPT: "capacity {capacity} per consumer (as measured before the restart)",
    What.CAPACITY_BOUND: (
        "capacity {capacity} per consumer is the bound: measured {measured} (in {samples:window}, the last {ago} ago); see "
        "{s[capacity_prior_bytes_per_s]}"
    ),
    What.CAPACITY_MEASURED: "capacity {capacity} per consumer (measured in {samples:window}, the last {ago} ago)",
    What.OWN_CAPACITY: "consumer {consumer} does {own}, the group's {capacity}",
    What.WORKER_RESTARTED: "worker {consumer} ended and is started again in {after}: see worker-{consumer}.log in workers/",
    What.WORKER_HINDERED: lambda f: _said(_HINDERED[Hindrance(f.texts["why"])] + (": {said}" if f.texts.get("said") else ""), f),
    What.NO_SUCH_SLOT: "ignored workers {workers}: no slot of this group has that name",
    What.NOT_CARRIED_OUT: "not carried out: {error}",
    What.CANNOT_HOLD: (
        "no placement on {count:consumer} keeps each within {usable}: {total} in all for {room}, it takes {needed:consumer} at "
        "least"
    ),
    What.NONE_FOUND_TO_HOLD: "the best placement found on {count:consumer} gives the hottest {high}, above {usable} usable",
    What.WOULD_HOLD: (
        "{count:consumer} would hold it: the hottest would get {high} of {usable} usable, {moved:partition} would move"
    ),
    What.NOTHING_TO_SPARE: "that is above the {limit} which fewer must do with, a tolerance ({s[tolerance_ratio]}) kept free",
    What.WOULD_LEAVE_ROOM: (
        "{count:consumer} are not needed for it: the hottest would get {high} of {usable} usable, {moved:partition} would move"
    ),
    What.ONE_PARTITION_ABOVE: "{first} alone has {load}, above {usable} usable: {count:consumer} do not change that",
    What.MORE_THAN_PARTITIONS: "{listed:partition} are all there are: {idle} of {count:consumer} would hold nothing",
    What.DEALT_OUT_ABOVE: "of {count:consumer} the group's own assignor ({assignor}) gives the hottest {high}, above {limit}",
    What.DEALT_OUT_WITHIN: (
        "{count:consumer} would hold it: the group's own assignor ({assignor}) gives the hottest {high}, of {limit} at most"
    ),
    What.DEALT_OUT_SPARE: (
        "{count:consumer} are not needed for it: the group's own assignor ({assignor}) gives the hottest {high}, "
        "of {limit} at most"
    ),
    What.ASSIGNOR_NOT_FOLLOWED: "what the group's own assignor ({assignor}) makes of {count:consumer} cannot be foretold",
    What.ASSIGNOR_NOT_RECORDED: (
        "{count:consumer} have room for {room}, and {total} flow; what the group's own assignor would give each of them "
        "autoscaler explain tells, if the table loads has the members of then"
    ),
    What.PLACED_BY_NOT_RECORDED: (
        "{count:consumer} have room for {room}, and {total} flow; whether a plan or an assignor places them is not recorded: "
        "autoscaler explain --config FILE, with the group's settings of then, judges it"
    ),
    What.NOT_WORKED_OUT: "what another number would do is not worked out again where {algorithm} sizes or places",
    What.LOADS_NOT_RECORDED: "what each partition had then is not recorded: no other number can be judged",
    What.LOADS_LEFT_OUT: (
        "some partitions did not count then (parked, or standing still), and which is not recorded: no other number can be judged"
    ),
    What.BALANCING: lambda f: (
        _said("{actions:action}: balancedness ", f) + f"{f.numbers['before']:.0f} → {f.numbers['after']:.0f} of 100"
    ),
    What.BROKERS_BALANCED: "every broker is in its bands",
    What.REST_BALANCED: "only {counted} of {brokers:broker} could be judged: none of these is outside its bands",
    What.OUTSIDE_NOT_LONG: "outside the band or above the limit of {goals} for {rounds:cycle} so far: brokers {brokers}",
    What.NO_ACTION_HELPS: "outside the band or above the limit of {goals}, and no action makes it better: brokers {brokers}",
    What.BALANCE_REFUSED: "the plan is not carried out, because it would make worse: {worse}",
    What.BROKERS_OFFLINE: "too many brokers are offline ({brokers}): nothing is moved until they are back",
    What.BROKERS_SETTLE: "no part is taken, until what was moved is measured, by brokers {brokers}",
    What.BROKERS_AWAY: "no part is taken, because they are offline, by brokers {brokers}",
    What.BROKERS_SLOW: "brokers {brokers} have answered slowly for some looks (slow_after): they may give, and get nothing",
    What.BROKERS_NOT_MEASURED: (
        "rates or sizes are unknown or out of date of {those}: brokers {brokers}, which hold them, take no part; "
        "look whether each has a leader, and at errors of the measurement"
    ),
    What.NO_RATES_YET: "nothing is planned, as no rates are measured yet; if this stays, look at errors of the measurement",
    What.GOAL_LEFT_OUT: "{goal} is neither balanced nor limited: {lacks} is not known",
    What.BROKER_NOT_EMPTIED: lambda f: _said("broker {broker} is not emptied of {those}: ", f) + _KEPT[f.texts["why"]],
    What.LEAVING_ALL: "leaving names every broker, so none is left to move anything to: name those only that shall be emptied",
    What.NONE_CAN_MOVE: "replicas should move, and none of them can",
    What.HELD_EVERYWHERE: "every broker holds a replica of every partition: only leaderships can move until a broker is added",
    What.RACK_EMPTIED: "leaving empties a whole rack (brokers {brokers}): replicas share one of the others then, of {those}",
    What.RACK_SHARED: "replicas of {those} share a rack although there are others, and none can be moved to another one",
    What.TARGETS_AWAY: f"{_ANEW}: brokers {{brokers}}, which were to get something, take no part now",
    What.LIMIT_IN_THE_WAY: f"{_ANEW}: broker {{broker}} would have {{load}} of {{goal}}, above the {{most}} that are left to it",
    What.PLAN_WORSENS: f"{_ANEW}: by what is measured now it would make worse: {{worse}}",
    What.NAMES_NOTHING: "{setting} names what the cluster does not have: {names}",
    What.BROKER_FULL: lambda f: _said(
        "broker {broker} has no room for replicas: it stores {load}, and its disk (disk_ratio) or limits leave it {most}"
        if f.texts["goal"] == "storage"
        else "broker {broker} has no room for more {goal}: it has {load}, and limits leave it {most}",
        f,
    ),
    What.BROKERS_MISSING: (
        "all brokers that stay have less room for {goals} (disk_ratio, limits) than there is: add {missing:broker}, or raise them"
    ),
    What.BROKER_LOADS: "the loads of broker {broker} by goal",
    What.LEADERSHIP_MOVED: lambda f: _said("{first}: broker {target} leads in place of broker {source}", f) + _scored(f),
    What.REPLICA_MOVED: lambda f: (
        _said("{first}: ", f)
        + ("the replica that leads" if "leads" in f.numbers else "a replica")
        + _said(" moves from broker {source} to broker {target}", f)
        + _scored(f)
    ),
    What.UNDER_REPLICATED: "nothing is begun while replicas are out of sync: {those}",
    What.REASSIGNED_ELSEWHERE: "another tool reassigns {those}: nothing is begun meanwhile",
    What.CONSUMERS_MOVE: "{those} wait until their consumers have been handed over",
    What.THROTTLE_KEPT: "throttles that another tool has set are left as they are: {settings}",
    What.THROTTLE_LEFT: "the throttle of brokers that do not answer is taken away when they are back: {brokers}",
    What.BATCH_WAITS: (
        "{those} have not got on for {waited}, for want of brokers that do not answer or are not in sync: {brokers}; start "
        "them, or end the batch: jobs/balance_brokers.py --cancel"
    ),
    What.BEGUN_BEFORE: _joined(
        "a job in mode act has begun and not ended: ",
        lambda f: ", and ".join(
            _said(part, f)
            for part, there in (("to move {those}", f.partitions), ("to throttle {throttled}", f.texts.get("throttled")))
            if there
        ),
        "; if it no longer runs, jobs/balance_brokers.py --cancel puts back what copies and takes the throttle away",
    ),
    What.BALANCE_ESTIMATE: lambda f: _said(
        "{leaderships:leadership} and {replicas:replica} move, {copied_mb} MB are copied"
        + (" in {least} at least" if "least_s" in f.numbers else ""),
        f,
    ),
}


_KEPT: Mapping[str, str] = {
    "offline": "the broker is offline, and what it holds cannot be copied: start it",
    "stays": "their topics are excluded, or they have moved a short time ago (stays)",
    "held": "every broker that stays holds a replica of them: add a broker, or lower their replication factor",
    "away": "the brokers that could hold them take no part now",
    "full": "the other brokers have no room for them within disk_ratio and limits: add a broker, or raise these",
}


_BECAUSE: Mapping[str, str] = {
    "leaving": ", because broker {source} is in leaving",
    "racks": ", because two replicas share a rack",
    "others": ", together with others",
}


def _because(f: Finding) -> str:
    """Return what an action of brokers is for."""
    why = f.texts.get("why")
    if why is None or why in _BECAUSE:
        return "" if why is None else _said(_BECAUSE[why], f)
    limited = any(n.startswith("most") for n in f.numbers)
    wanted = "where broker {source} may have {most}" if limited else "where {low} to {high} are wanted"
    there = "{source_load} on broker {source}, {target_load} on broker {target}, "
    return _said(f", because of {{why}}: {there}{wanted}", f)


def _scored(f: Finding) -> str:
    """Return why an action of brokers is planned, its scores, by goal and in all, and what came second."""
    goals = [n.removesuffix("_before") for n in f.numbers if n.endswith("_before")]
    parts = [f"{g} {f.numbers[f'{g}_before']:.3g} → {f.numbers[f'{g}_after']:.3g}" for g in goals]
    more = _said("; next best {next} to broker {next_target}, worth {next_ratio} of it", f) if "next" in f.texts else ""
    parts.append(f"score {f.numbers['score']:.3g}")
    return f"{_because(f)} ({', '.join(parts)}){more}"


_HINDERED: Mapping[Hindrance, str] = {
    Hindrance.PENDING: "not started yet: {consumers}",
    Hindrance.UNSCHEDULABLE: "no machine takes {consumers}",
    Hindrance.QUOTA: "a quota is used up, without {consumers}",
    Hindrance.REFUSED: "the platform refuses {consumers}",
    Hindrance.IMAGE: "no image for {consumers}",
    Hindrance.CONFIGURATION: "what {consumers} should be started with is not there",
    Hindrance.CRASH_LOOP: "again and again the end of {consumers}",
    Hindrance.OUT_OF_MEMORY: "out of memory: {consumers}",
    Hindrance.EVICTED: "evicted: {consumers}",
    Hindrance.ENDED: "ended unasked: {consumers}",
    Hindrance.UNREADY: "not ready: {consumers}",
    Hindrance.NODE_LOST: "the machine is not heard of {consumers}",
    Hindrance.TERMINATING: "told to end, not from here: {consumers}",
    Hindrance.TAKEN: "the platform has ended {consumers} in place of one that was to end",
    Hindrance.KEPT: "to end, and kept for now: {consumers}",
}
_KINDS: Mapping[str, str] = {
    "SHARE": "it is a share group: its records are dealt out one by one, not its partitions; scale it by its lag",
    "STREAMS": "it is a Kafka Streams application: its tasks belong together with their state; scale it by its own metrics",
    "OTHER": "its members are no consumers",
}
