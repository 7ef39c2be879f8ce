"""What each program of a run took of the machine: processor time, and memory of the job's own processes."""

import contextlib
import statistics
from collections.abc import Iterator

import psutil

_JOB = ("the job's JVM", "the job's Python driver", "Spark's Python workers")


class Usage:
    """Looks at the processes now and then; those that end in between count for what they were last seen with."""

    def __init__(self, roots: dict[str, int | None]) -> None:
        """Follow each root's process; the job's children are told apart by what they run."""
        self._roots = dict(roots)
        self._spent: dict[tuple[str, int, float], float] = {}
        self._looks: list[tuple[float, dict[str, float], dict[str, int]]] = []

    def follow(self, name: str, pid: int | None) -> None:
        """Follow another process under this name from now on."""
        self._roots[name] = pid

    def look(self, ran_s: float) -> None:
        """Take stock, ``ran_s`` seconds into the run."""
        memory: dict[str, int] = {}
        for name, process in self._found():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._spent[name, process.pid, process.create_time()] = times.user + times.system
                if name in _JOB:  # shared pages of forked Python workers count once
                    used = process.memory_info().rss if name == _JOB[0] else process.memory_full_info().pss
                    memory[name] = memory.get(name, 0) + used
        totals: dict[str, float] = {}
        for (name, _, _), spent in self._spent.items():
            totals[name] = totals.get(name, 0.0) + spent
        self._looks.append((ran_s, totals, memory))

    def rows(self, after_s: float) -> Iterator[tuple[str, str]]:
        """Return processor time and memory of the run after its first ``after_s`` seconds."""
        late = [x for x in self._looks if x[0] > after_s]
        if len(late) < 4:
            return
        quarter = max(1, len(late) // 4)
        for name in _JOB:
            first, last = (
                statistics.median(m.get(name, 0) for _, _, m in part) / 2**20 for part in (late[:quarter], late[-quarter:])
            )
            yield f"memory of {name}, first and last quarter after the first minute", f"{first:.0f} and {last:.0f} MiB"
        span = late[-1][0] - late[0][0]
        shares = {n: (late[-1][1][n] - late[0][1].get(n, 0.0)) / span for n in late[-1][1]}
        said = ", ".join(f"{n} {share:.2f}" for n, share in sorted(shares.items(), key=lambda x: -x[1]))
        yield f"cores used, of {psutil.cpu_count()}", f"{sum(shares.values()):.2f}: {said}"

    def _found(self) -> Iterator[tuple[str, psutil.Process]]:
        for name, pid in self._roots.items():
            with contextlib.suppress(psutil.Error):
                root = psutil.Process(pid)
                for process in (root, *root.children(recursive=True)):
                    with contextlib.suppress(psutil.Error):
                        yield (_part(process) if name == "job" else name), process


def _part(process: psutil.Process) -> str:
    said = " ".join(process.cmdline())
    if "java" in process.name():
        return _JOB[0]
    if "jobs/autoscale.py" in said and "spark-submit.sh" not in said:
        return _JOB[1]
    if "pyspark" in said:
        return _JOB[2]
    return "consumers" if "consumer.py" in said else "supervisor"
