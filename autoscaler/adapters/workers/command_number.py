"""A number of consumers that programs of the user set and read back, such as those of Nomad, ECS or systemd.

Implements ``ports.ConsumerNumber``. A program that sets it finds it in its arguments as ``{count}``; one that reads it
prints it, and behind it how many run if that may differ. Both end with 0, or say on standard error why they could not.
"""

import os
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autoscaler.concurrency import started
from autoscaler.config.settings import CommandWorkers
from autoscaler.errors import AutoscalerError, PermanentError, TransientError
from autoscaler.ports import Clock, MayAct, NumberRead, unlimited

if TYPE_CHECKING:
    from concurrent.futures import Future

_PRINTED = re.compile(r"\s*(\d{1,9})(?:\s+(\d{1,9}))?\s*", re.ASCII)
_LONGEST_WORD = 300  # of what a program says


class CommandNumber:
    """Asks the programs in threads of their own, one at a time."""

    def __init__(
        self, *, settings: CommandWorkers, environment: Mapping[str, str], clock: Clock, may_act: MayAct = unlimited
    ) -> None:
        self._settings, self._clock, self._may_act = settings, clock, may_act
        self._environment = {**os.environ, **environment, **settings.environment}
        self._asking = threading.Lock()
        self._look: Future[NumberRead] | None = None
        self._looked_at = 0.0
        self._last: NumberRead | AutoscalerError = TransientError(f"the number of {self.name} has not been read yet")
        self._ours: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """Return what sets it."""
        return f"consumers that {self._settings.set_count[0]} sets"

    def read(self) -> NumberRead:
        """Return what was printed last; it is asked for anew now and then.

        Raises:
            TransientError: Nothing has been printed yet, or the program failed; says why.
            PermanentError: There is no such program.
        """
        now = self._clock.monotonic()
        if self._look is None or (self._look.done() and now >= self._looked_at + self._settings.read_every_s):
            self._look, self._looked_at = started(self._asked, f"reads the number of {self.name}"), now
        last = self._last
        if isinstance(last, AutoscalerError):
            raise type(last)(str(last))
        return replace(last, ours=self._ours)

    def check(self, now: NumberRead) -> None:
        """Return: what else sets it is not known to this platform."""

    def write(self, wanted: int, *, known: int) -> None:
        """Set it and read it back.

        Raises:
            TransientError: It was another one already, a program failed, it does not read as it was set, or another job acts.
            PermanentError: There is no such program.
        """
        now = self._asked().wanted
        if now != known:
            raise TransientError(f"the number of {self.name} is {now} and not {known} any more, so it was not set to {wanted}")
        with self._asking:
            self._may_act()
            self._ours = frozenset({known, wanted})
            self._ran([part.replace("{count}", str(wanted)) for part in self._settings.set_count], "set_count")
        if (now := self._asked().wanted) != wanted:
            raise TransientError(f"the number of {self.name} was set to {wanted} and reads {now}")
        self._ours = frozenset({wanted})

    def close(self) -> None:
        """Leave a program that runs to its end."""

    def _asked(self) -> NumberRead:
        with self._asking:
            try:
                self._last = read = self._printed()
            except AutoscalerError as e:
                self._last = e
                raise
        return read

    def _printed(self) -> NumberRead:
        said = self._ran(self._settings.read_count, "read_count")
        found = _PRINTED.fullmatch(said)
        if found is None:
            raise TransientError(
                f"{self._settings.read_count[0]} printed {said.strip()[:_LONGEST_WORD]!r}: it must print the number of "
                "consumers that should run, and behind it how many do if that may differ"
            )
        return NumberRead(wanted=int(found[1]), running=int(found[2] or found[1]))

    def _ran(self, command: Sequence[str], setting: str) -> str:
        limit_s, environment, none = self._settings.count_timeout_s, self._environment, subprocess.DEVNULL
        try:
            done = subprocess.run(
                command, env=environment, stdin=none, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired as e:
            raise TransientError(f"{command[0]} has not ended after {limit_s:g} s (workers.count_timeout)") from e
        except (FileNotFoundError, PermissionError) as e:
            raise PermanentError(f"{command[0]} cannot be started: {e.strerror}; correct workers.{setting} of the group") from e
        except (OSError, UnicodeDecodeError) as e:
            raise TransientError(f"{command[0]} cannot be asked: {e}") from e
        if done.returncode:
            said = " ".join(done.stderr.split())[-_LONGEST_WORD:] or "it says nothing on standard error"
            raise TransientError(f"{command[0]} ended with {done.returncode}: {said}")
        return done.stdout
