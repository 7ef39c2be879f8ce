"""The command line: check a configuration, watch a job, ask what it decided and why, and what else an operator does.

Composes what lies elsewhere and decides nothing. A subcommand imports what it needs when it runs, so that ``validate``
answers without loading a client or Spark.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from autoscaler.cli.few import few_of
from autoscaler.errors import AutoscalerError, Exit, SettingsError

if TYPE_CHECKING:
    from autoscaler.config.settings import Settings

_LONGEST_S = 3600.0  # that a command looks
_EPILOG = """
where to begin:
  autoscaler advise --bootstrap HOST:PORT      what the groups of a cluster need, with nothing configured
  autoscaler validate --config FILE            what is wrong with a configuration; then check, then ./spark-submit.sh
  autoscaler status --config FILE              what a job does now
  autoscaler explain GROUP --config FILE       why a group has its number of consumers, and why not another one

exit codes: 0 done; 1 failed, or nothing to show: the message says what; 2 the command line is wrong;
  78 settings or tables are wrong; 130 Ctrl-C. autoscaler COMMAND --help says more of each command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code: 78 when the settings are wrong, 1 when something else failed."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _program(args[0], args[1:]) if args[:1] in (["demo"], ["recheck"]) else _command(args)
        sys.stdout.flush()
    except BrokenPipeError:  # what reads the output has seen enough, as head has
        _drop_output()
        return 0
    except OSError as e:  # a full disk, or a file that may not be read
        _drop_output()
        sys.stderr.write(f"{e.filename or 'the output cannot be written'}: {e.strerror or e}\n")
        return Exit.FAILED
    except ModuleNotFoundError as e:  # the base install has the worker library only
        sys.stderr.write(f"{_missing(e.name or str(e))}\n")
        return Exit.FAILED
    return code


def _drop_output() -> None:
    """Let what is still in the buffer go nowhere: Python would try to write it again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command(args: Sequence[str]) -> int:
    parsed = _parser().parse_args(args)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        return run(parsed)
    except SettingsError as e:
        for problem in e.problems:
            sys.stderr.write(f"{parsed.config or parsed.tables}: {problem}\n")
        return Exit.SETTINGS
    except AutoscalerError as e:
        sys.stderr.write(f"{e}\n")
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _missing(module: str) -> str:
    """Say what brings a module that the installed set does not have."""
    if module.startswith("autoscaler.devtools"):  # left out of the wheel
        return "this command runs in a clone of the source: make demo"
    return f"{module} is not installed: this command needs the extra, pip install 'kafka-group-autoscaler[controller]'"


def _program(name: str, args: Sequence[str]) -> int:
    """Run a program of its own, with its own options."""
    try:
        if name == "demo":
            from autoscaler.devtools.demo import main as demo  # noqa: PLC0415  loads the clients

            return demo(args)
        from autoscaler.devtools.recheck import main as recheck  # noqa: PLC0415  loads the clients

        return recheck(args)
    except KeyboardInterrupt:  # before the program took over the signals
        return Exit.INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autoscaler",
        description="Size Kafka consumer groups and place their partitions.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"autoscaler {version('kafka-group-autoscaler')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument(
            "--config", metavar="FILE", required=True, help="configuration file; conf/autoscaler.yaml explains every setting"
        )
        sub.set_defaults(run=run)
        return sub

    command("validate", _validate, "say everything that is wrong with a configuration, all at once")
    about = "ask the clusters: topics, groups, permissions one by one, and what the job would refuse; changes nothing"
    asks = command("check", _check, about)
    asks.add_argument("--json", action="store_true", help="print as JSON, with the permissions that are there, too")
    _add_advise(commands)
    schema = commands.add_parser("schema", help="write the JSON Schema of the configuration file, for editors")
    schema.add_argument("--crd", action="store_true", help="write the CustomResourceDefinition of ConsumerGroup instead")
    schema.set_defaults(run=_schema)
    status = command("status", _status, "watch a job: is it alive, consumers, rates, lag, the last decision and its reason")
    status.add_argument("group", metavar="GROUP", nargs="?", help="group to watch; left out: all of them at a glance")
    status.add_argument("--group", metavar="GROUP", dest="named", help="the same, as it was written before")
    status.add_argument("--once", action="store_true", help="print what is now and end")
    status.add_argument("--json", action="store_true", help="print what is now as JSON and end")
    _add_reading(commands)
    for name, about in (
        ("pause", "let nothing of a group change for now: sets holds.paused in the configuration file"),
        ("pin", "keep a group at a number of consumers: sets holds.pinned in the configuration file"),
        ("resume", "take back what pause and pin have set"),
    ):
        held = command(name, _hold, about)
        held.add_argument("group", metavar="GROUP", help="consumer group, by its id")
        held.set_defaults(name=name)
        if name == "pause":
            held.add_argument("--only", choices=("scale_up", "scale_down"), help="let the rest go on")
        if name == "pin":
            held.add_argument("consumers", metavar="N", type=_positive, help="how many consumers")
    release = command("release", _release, "let parked partitions be handed out again (STUCK_PARTITION)")
    release.add_argument("group", metavar="GROUP", help="group whose partitions they are")
    release.add_argument("topic", metavar="TOPIC", nargs="?", help="of this topic only; left out: everything that is parked")
    release.add_argument("partition", metavar="PARTITION", nargs="?", type=int, help="this one only; left out: all of the topic")
    _add_others(commands)
    return parser


def _add_advise(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    about = "look once at all consumer groups of a cluster, with nothing configured: too many, too few, uneven, stuck, at risk"
    look = commands.add_parser("advise", help=about, description=about)
    look.add_argument("cluster", metavar="CLUSTER", nargs="?", help="name of a cluster of the configuration, if it has several")
    where = look.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--bootstrap", metavar="HOST:PORT", type=_brokers, help="a broker's address, of a cluster that takes no login"
    )
    where.add_argument(
        "--config", metavar="FILE", help="configuration with the cluster's connection; capacities of its groups count"
    )
    look.add_argument(
        "--for", metavar="S", dest="seconds", type=_seconds, default=60.0, help="how long to look, such as 30s or 5m (60s)"
    )
    look.add_argument("--json", action="store_true", help="print as JSON")
    look.set_defaults(run=_advise, tables="--bootstrap")


def _add_reading(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add what reads the tables."""

    def reading(
        name: str, text: str, *, group: str | None = "", as_json: bool = True, times: bool = True
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        if group is not None:
            sub.add_argument("group", metavar="GROUP", nargs=group or None, help="consumer group, by its id")
        where = sub.add_mutually_exclusive_group(required=True)
        where.add_argument("--config", metavar="FILE", help="configuration of the job whose tables are read")
        where.add_argument(
            "--tables", metavar="PLACE", help="the tables themselves, such as .run/demo-TIME/state/tables or s3a://bucket/tables"
        )
        sub.set_defaults(zone=None)
        if times:
            about = "time zone of times without one and of those printed, as Europe/Berlin (default: here)"
            sub.add_argument("--zone", metavar="ZONE", help=about)
        if as_json:
            sub.add_argument("--json", action="store_true", help="print as JSON, with times in UTC")
        sub.set_defaults(run=_read, misused=sub.error, name=name)
        return sub

    history = reading("history", "show what was decided for a group, and why, from the tables of its job")
    history.add_argument(
        "--since", metavar="TIME", default="24h", help="from when on: 2h, 14:30, 2026-03-29T14:30+02:00 (default 24h)"
    )
    history.add_argument("--until", metavar="TIME", help="until when, written the same way (default now)")
    history.add_argument(
        "--limit", metavar="N", type=_positive, default=200, help="most lines to print, the newest (default 200)"
    )
    explain = reading(
        "explain", "say why a group had its number of consumers, and what speaks against one fewer or more", group="?"
    )
    explain.add_argument("--partition", metavar="TOPIC-N", help="in place of a group: why its leader or replicas were moved")
    explain.add_argument("--at", metavar="TIME", help="when: 2h, 14:30, 2026-03-29T14:30+02:00 (default now)")
    again = reading("replay", "decide every recorded cycle of a group again: another answer than the recorded one is a defect")
    again.add_argument(
        "--since", metavar="TIME", default="24h", help="from when on: 2h, 14:30, 2026-03-29T14:30+02:00 (default 24h)"
    )
    again.add_argument("--until", metavar="TIME", help="until when, written the same way (default now)")
    again.add_argument("--policy", metavar="FILE", help="simulate instead what the group's settings in this file would have done")
    _add_simulated(again, "; with --policy")
    about = "say which preset and which utilisation would have taken the fewest consumer-hours at the same backlog"
    tune = reading("tune", about)
    tune.add_argument(
        "--since", metavar="TIME", default="7d", help="from when on: 2h, 14:30, 2026-03-29T14:30+02:00 (default 7d)"
    )
    tune.add_argument("--until", metavar="TIME", help="until when, written the same way (default now)")
    _add_simulated(tune, "")
    about = "write the page's views of a recorded time as one HTML file, which needs no network"
    told = reading("report", about, group="?", as_json=False)
    told.add_argument("--all", action="store_true", help="in place of a group: all that the tables have decisions of")
    told.add_argument(
        "--since", metavar="TIME", default="24h", help="from when on: 2h, 14:30, 2026-03-29T14:30+02:00 (default 24h)"
    )
    told.add_argument("--until", metavar="TIME", help="until when, written the same way (default now)")
    told.add_argument("--output", metavar="FILE", required=True, help="HTML file to write; one that is there is replaced")
    reading("audit", "say what the tables hold and cost: rows, bytes, oldest day, last upkeep", group=None)
    about = "merge the files of past days in the tables, as a running job does by itself; starts Spark"
    kept = reading("maintain", about, group=None, as_json=False, times=False)
    kept.add_argument("--keep-days", metavar="N", type=_positive, help="delete days that are older (default: keep all)")


def _add_simulated(command: argparse.ArgumentParser, where: str) -> None:
    """Add what a simulation of the recorded load is told."""
    command.add_argument("--price", metavar="X", type=_number, help=f"of a consumer for an hour, to tell money{where}")
    about = f"tell the share that was read within S seconds{where}"
    command.add_argument("--within", type=_seconds, metavar="S", help=about)
    command.add_argument(
        "--start", metavar="S", type=_number, default=10.0, help=f"seconds that a consumer takes to start (10){where}"
    )


def _add_others(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    workers = commands.add_parser("workers", help="local consumers of the configured groups").add_subparsers(required=True)
    stop = workers.add_parser("stop", help="drain and stop every local consumer of the configured groups")
    stop.add_argument("--config", metavar="FILE", required=True, help="configuration file")
    stop.set_defaults(run=_stop_workers)
    about = "write a KEDA ScaledObject, or an HPA on a lag, as a configuration, and say what is not in it"
    bring = commands.add_parser("import", help=about, description=about)
    bring.add_argument("file", metavar="FILE", help="YAML with ScaledObjects or HPAs, as kubectl get -o yaml gives it")
    bring.set_defaults(run=_import)
    completion = commands.add_parser("completion", help="write what a shell reads to complete commands and options")
    completion.add_argument("shell", metavar="SHELL", choices=("bash",), help="bash")
    completion.set_defaults(run=_completion)
    commands.add_parser("demo", help="run the whole loop on an embedded broker (demo --help)", add_help=False)
    commands.add_parser("recheck", help="recompute from the outside what a demo run claims (recheck --help)", add_help=False)


def _validate(args: argparse.Namespace) -> int:
    from autoscaler.cli.preflight import problems  # noqa: PLC0415  as below
    from autoscaler.config.yaml_file import read  # noqa: PLC0415

    file = read(args.config)
    standing = tuple(map(file.placed, problems(file.data)))
    try:
        settings = _load(args.config)
    except SettingsError as e:
        raise SettingsError((*e.problems, *standing)) from e
    if standing:
        raise SettingsError(standing)
    several = len(settings.clusters) > 1
    groups = ", ".join(f"{g.group} ({g.mode}{f', {g.cluster}' if several else ''})" for g in settings.groups)
    if where := settings.kubernetes.consumer_groups:
        groups = f"{groups or 'none here'}, and ConsumerGroups of {where}"
    elsewhere = [
        f"; {name} in {place}"
        for name, place in (("checkpoint", settings.checkpoint_place), ("tables", settings.tables_place))
        if place != str(settings.root / name)
    ]
    sys.stdout.write(f"{args.config}: fine; groups {groups}; state in {settings.root}{''.join(elsewhere)}\n")
    return 0


def _check(args: argparse.Namespace) -> int:
    from autoscaler.cli.checking import check  # noqa: PLC0415  loads the clients

    return check(args)


def _advise(args: argparse.Namespace) -> int:
    from autoscaler.cli.advising import advise  # noqa: PLC0415  loads the clients

    return advise(args)


def _schema(args: argparse.Namespace) -> int:
    from autoscaler.config import crd, json_schema  # noqa: PLC0415  as below

    sys.stdout.write(crd.text() if args.crd else json_schema.text())
    return 0


def _import(args: argparse.Namespace) -> int:
    from autoscaler.cli.importing import imported  # noqa: PLC0415  as below

    try:
        found = imported(args.file)
    except SettingsError as e:
        sys.stderr.writelines(f"{args.file}: {problem}\n" for problem in e.problems)
        return Exit.SETTINGS
    sys.stdout.write(found.text())
    sys.stderr.writelines(f"{line}\n" for line in found.said)
    return 0


def _completion(_args: argparse.Namespace) -> int:
    from autoscaler.cli.completion import script  # noqa: PLC0415  asked for once in a shell's life

    sys.stdout.write(script(_parser()))
    return 0


def _load(path: str, *, connects: bool = True) -> "Settings":
    from autoscaler.config.settings import load  # noqa: PLC0415  not every command needs pydantic

    return load(path, connects=connects)


def _read(args: argparse.Namespace) -> int:
    from autoscaler.cli import reading  # noqa: PLC0415  loads Arrow
    from autoscaler.cli.times import TimeError  # noqa: PLC0415  as above

    if args.name == "explain" and (args.group is None) == (args.partition is None):
        args.misused("name a GROUP, or a partition by --partition TOPIC-N")
    if args.name == "report" and (args.group is None) != args.all:
        args.misused("name a GROUP, or all of them by --all")
    try:
        if args.name == "report":
            from autoscaler.cli.reporting import report  # noqa: PLC0415  loads the planner and the page

            return report(args)
        if args.name == "replay":
            from autoscaler.cli.replaying import replay  # noqa: PLC0415  loads the planner

            return replay(args)
        if args.name == "tune":
            from autoscaler.cli.tuning import tune  # noqa: PLC0415  loads the planner and the simulation

            return tune(args)
        if args.name == "audit":
            from autoscaler.cli.auditing import audit  # noqa: PLC0415  as above

            return audit(args)
        if args.name == "maintain":
            from autoscaler.cli.maintaining import maintain  # noqa: PLC0415  loads Spark

            return maintain(args)
        return {"history": reading.history, "explain": reading.explain}[args.name](args)
    except TimeError as e:
        args.misused(str(e))
        raise


def _brokers(text: str) -> str:
    from autoscaler.config.clusters import connection_problems  # noqa: PLC0415  as below

    for problem in connection_problems({"bootstrap.servers": text}):
        raise argparse.ArgumentTypeError(problem.removeprefix("bootstrap.servers: "))
    return text


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text)


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number from 0 on, not {text!r}")
    return found


def _seconds(text: str) -> float:
    from autoscaler.config.units import seconds  # noqa: PLC0415  as below

    try:
        found = seconds(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from e
    if not isinstance(found, int | float) or not 0 < found <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"must be up to an hour, not {text!r}")
    return float(found)


def _status(args: argparse.Namespace) -> int:
    from autoscaler.adapters.clock import SystemClock  # noqa: PLC0415  as below
    from autoscaler.console.status import Watched, as_json, once, watch  # noqa: PLC0415  only a view needs rich

    settings = _load(args.config, connects=False)
    names = tuple(dict.fromkeys((*(g.group for g in settings.groups), *_declared(settings))))
    if not names:
        raise SettingsError(("groups: the file names none, and the job has decided for none lately",))
    asked = args.group or args.named
    if asked is not None and asked not in names:
        raise SettingsError((f"groups: no group {asked!r}; there are {few_of(names)}",))
    groups = names if asked is None else (asked,)
    trigger_s, flush_s = settings.measure.trigger_s, settings.audit.flush_s
    watched = Watched(root=settings.root, groups=groups, trigger_s=trigger_s, flush_s=flush_s, clock=SystemClock())
    if args.json:
        text, known = as_json(watched)
        sys.stdout.write(text)
        return 0 if known else Exit.FAILED
    if args.once:
        return 0 if once(watched) else Exit.FAILED
    watch(watched)
    return 0


def _declared(settings: "Settings") -> dict[str, str]:
    """Return the groups that the file does not name and the job has decided for lately, each with its cluster."""
    if settings.kubernetes.consumer_groups is None:
        return {}
    from autoscaler.adapters.clock import SystemClock  # noqa: PLC0415  as below
    from autoscaler.console.status import decided_lately  # noqa: PLC0415  only a view needs rich

    return decided_lately(settings.root, SystemClock())


def _release(args: argparse.Namespace) -> int:
    from autoscaler.adapters.control_log.release import release  # noqa: PLC0415  no other command needs a client
    from autoscaler.clients.secrets import naming  # noqa: PLC0415

    settings = _load(args.config)
    groups = {**_declared(settings), **{g.group: settings.cluster_of(g).name for g in settings.groups}}
    if args.group not in groups:
        raise SettingsError((f"groups: no group {args.group!r}; there are {few_of(groups)}",))
    cluster = next(c for c in settings.clusters if c.name == groups[args.group])
    with naming(cluster.name):
        found = release(cluster.connection, args.group, topic=args.topic, partition=args.partition)
    for released in found:
        sys.stdout.write(f"{released}: released; the job hands it out in its next cycle\n")
    return 0


def _hold(args: argparse.Namespace) -> int:
    from autoscaler.cli.holding import hold  # noqa: PLC0415  as below

    return hold(args)


def _stop_workers(args: argparse.Namespace) -> int:
    from autoscaler.adapters.clock import SystemClock  # noqa: PLC0415  no other command needs workers
    from autoscaler.adapters.workers import registry  # noqa: PLC0415

    settings = _load(args.config, connects=False)
    for group in settings.groups:
        if group.workers is None:
            continue
        directory = settings.root / "workers" / group.group
        place = registry.Place(group=group.group, directory=directory, environment={}, clock=SystemClock())
        sys.stdout.write(f"{group.group}: {registry.stop(group.workers, place)}\n")
    return 0
