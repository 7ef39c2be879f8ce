"""The job's HTTP endpoint: metrics, answers and server of one configuration, put together."""

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from autoscaler.adapters.http.board import Board
from autoscaler.adapters.http.brokers import BrokerPlans, Rows
from autoscaler.adapters.http.login import Login
from autoscaler.adapters.http.metrics import Backlog, Cycle, JobMetrics
from autoscaler.adapters.http.page import Page, is_loopback
from autoscaler.adapters.http.server import Answers, Health, Server
from autoscaler.clients.secrets import referred
from autoscaler.config.settings import Settings
from autoscaler.model import HandoverDone, PartitionLoad
from autoscaler.ports import Clock, MayAct, unlimited

_OLD_CYCLES, _OLD_S = 5, 10.0  # so many cycles, and at least so many seconds, without news: the page calls what it shows old


class Endpoint:
    """Answers on the address that the configuration names, of what it is told."""

    def __init__(  # noqa: PLR0917  what it is told of
        self,
        settings: Settings,
        address: tuple[str, int],
        clock: Clock,
        backlog: Backlog,
        plans: Rows = list,
        may_act: MayAct = unlimited,
    ) -> None:
        """Open nothing yet; ``address`` is host and port, ``plans`` reads rows of what is planned for brokers.

        Raises:
            SettingsError: The token cannot be read, or is too short.
        """
        http = settings.http
        health = Health(groups=len(settings.groups), oldest_s=settings.measure.watchdog_s, advice_max_age_s=http.advice_max_age_s)
        self._metrics = JobMetrics(clock, backlog, partitions=http.partitions)
        self._board: Board | None = None
        token = http.token
        login = None if token is None else Login(partial(referred, "http.token", token), clock, address[1])
        anywhere = http.page or login is not None
        if anywhere or is_loopback(address[0]):
            old_s = max(_OLD_S, _OLD_CYCLES * settings.measure.trigger_s)
            self._board = Board(clock, backlog, (g.group for g in settings.groups), old_s=old_s)
        page = Page(self._board, BrokerPlans(clock, plans), anywhere=anywhere)
        self._server = Server(address, Answers(self._metrics, health, clock, page, may_act), login)

    def start(self) -> None:
        """Begin to answer, and to count the messages of the process' log."""
        logging.getLogger().addHandler(self._metrics.handler)
        self._server.start()

    def take(self, line: Mapping[str, Any], loads: tuple[PartitionLoad, ...], handovers: Iterable[HandoverDone]) -> None:
        """Take in a group's cycle: its line of ``cycles.jsonl``, what was measured, and the handovers that it saw finished."""
        cycle, done = Cycle(line=line, loads=loads), tuple(handovers)
        self._metrics.take(cycle, done)
        if self._board is not None:
            self._board.take(cycle, done)

    def close(self) -> None:
        """Answer no more."""
        logging.getLogger().removeHandler(self._metrics.handler)
        self._server.close()
