"""The configuration file, followed while the job runs: what can change without a restart does so between two cycles.

Beside the path, and called from the job before each cycle. A file that has changed is read once it rests, so that one which is
still being written is not taken for whole. A faulty one is named in the log, all of its problems at once, and the settings that
are in force stay; it is read again now and then, because what it refers to may be what was missing. What needs a restart is
named too, and the rest of the file holds all the same. Groups that come or go, and what a group's connections, workers and query
are made of, are for the job to make anew: ``anew`` has the settings for that. Groups that are declared elsewhere are put beside
those of the file.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from autoscaler.config.setting_paths import path_of
from autoscaler.config.settings import Group, Settings, load
from autoscaler.errors import SettingsError

if TYPE_CHECKING:
    from autoscaler.config.consumer_groups import Beside

log = logging.getLogger(__name__)

# What connections, workers and the query are made with; every other setting of a group is read in each cycle.
MADE_WITH = frozenset({"group", "cluster", "topics", "mode", "assignment", "reset_policy", "read_committed", "workers"})

_AGAIN_LOOKS = 10  # to read hundreds of groups takes a good part of a second, which a faulty file must not cost in every cycle

_Stamp = tuple[int, int, int]


class FollowedFile:
    """Tells what a configuration file says by now.

    Attributes:
        anew: What the job is to be made anew with; ``None`` while it need not be.
    """

    def __init__(self, path: str | Path, settings: Settings) -> None:
        """Follow ``path``, from which ``settings`` were read a moment ago."""
        self._path = Path(path)
        self._groups = {g.group: g for g in settings.groups}
        self._started = settings
        self._in_file = settings.groups
        self._beside: Beside | None = None
        self.anew: Settings | None = None
        self._read = self._seen = self._stamp()
        self._faulty: tuple[str, ...] = ()  # what was said of the file as it is
        self._looks = 0  # since then

    def beside(self, beside: "Beside") -> None:
        """Put what is declared elsewhere beside the file's groups from now on."""
        self._beside = beside

    def look(self) -> Mapping[str, Group]:
        """Return the groups whose settings have changed since the last look, by name; nothing while all is as it was."""
        file = self._file()
        if file is None and (self._beside is None or not self._beside.news()):
            return {}
        if file is not None:
            self._in_file = file.groups
            for what in sorted(name for name in _differences(self._started, file) if name != "groups"):
                log.warning("%s: %s needs a restart of the job to hold", self._path, what)
        beside = self._beside
        return self._taken(self._in_file if beside is None else beside.groups(self._started.clusters, self._in_file))

    def _file(self) -> Settings | None:
        """Return what the file says if that has changed since the last look and is sound."""
        stamp = self._stamp()
        rests, self._seen = stamp == self._seen, stamp
        self._looks += 1
        again = bool(self._faulty) and self._looks >= _AGAIN_LOOKS
        if not rests or (stamp == self._read and not again):
            return None
        self._read, self._looks = stamp, 0
        try:
            wanted = load(self._path)
        except SettingsError as e:
            for problem in e.problems if e.problems != self._faulty else ():
                log.error("%s: %s; the settings stay as they were", self._path, problem)  # noqa: TRY400  the stack says nothing
            self._faulty = e.problems
            return None
        self._faulty = ()
        return wanted

    def _taken(self, wanted: tuple[Group, ...]) -> Mapping[str, Group]:
        changed, groups = {}, {g.group: g for g in wanted}
        anew = [f"groups: {name!r} is new" for name in groups.keys() - self._groups.keys()]
        anew += [f"groups: {name!r} is gone" for name in self._groups.keys() - groups.keys()]
        for name in sorted(groups.keys() & self._groups.keys()):
            now = self._groups[name]
            taken, kept = _merged(now, groups[name])
            anew += [f"groups.{name}.{path_of(setting)}" for setting in kept]
            if taken != now:
                log.info("%s: group %s goes on with %s", self._path, name, ", ".join(map(path_of, _differences(now, taken))))
                self._groups[name] = changed[name] = taken
        self._make_anew(wanted, sorted(anew))
        return changed

    def _make_anew(self, wanted: tuple[Group, ...], why: list[str]) -> None:
        """Ask for the job to be made anew with other groups, unless these need what is outside of them too."""
        if not why:
            self.anew = None  # what was wanted has been taken back meanwhile
            return
        try:
            fields = {name: getattr(self._started, name) for name in self._started.model_fields_set}
            self.anew = Settings.model_validate({**fields, "groups": wanted})
        except ValidationError:
            for what in why:
                log.warning("%s: %s needs a restart of the job to hold", self._path, what)
            return
        for what in why:
            log.info("%s: %s: the job makes its query anew", self._path, what)

    def made_anew(self) -> Settings:
        """Return what the job is made anew with, and go on from there."""
        if self.anew is None:
            return self._started
        self._started, self.anew = self.anew, None
        self._groups = {g.group: g for g in self._started.groups}
        return self._started

    def _stamp(self) -> _Stamp | None:
        """Return what changes with the file; ``None`` while it is away, as between the two steps of being replaced."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)


def _merged(now: Group, wanted: Group) -> tuple[Group, list[str]]:
    """Return a group's settings with everything new that needs no restart, and what does need one."""
    kept = [setting for setting in _differences(now, wanted) if setting in MADE_WITH]
    fields = {name: getattr(wanted, name) for name in wanted.model_fields_set - MADE_WITH}
    fields |= {name: getattr(now, name) for name in now.model_fields_set & MADE_WITH}
    try:
        return Group.model_validate(fields), kept
    except ValidationError:  # what is new makes sense only together with what needs a restart
        return now, _differences(now, wanted)


def _differences(now: Group | Settings, then: Group | Settings) -> list[str]:
    return [name for name in type(now).model_fields if getattr(now, name) != getattr(then, name)]
