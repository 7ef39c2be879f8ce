"""The page and its JSON: ``/``, its style and script, and what is below ``/api``; and the page with its own JSON, in one file."""

import re
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter

from autoscaler.adapters.http.answer import Answer
from autoscaler.adapters.http.board import Board, OneGroup, Overview
from autoscaler.adapters.http.brokers import BrokerPlans, Brokers
from autoscaler.adapters.http.why import Why
from autoscaler.errors import AutoscalerError

_FILES: Mapping[str, tuple[str, str]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,9})?")
_FORBIDDEN = "the page is served on a loopback address only, unless http.token asks for a login or http.page allows it elsewhere"


def is_loopback(host: str) -> bool:
    """Return whether an address or name, without port, means this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Page:
    """Answers what a browser asks for."""

    def __init__(self, board: Board | None, plans: BrokerPlans | None = None, *, anywhere: bool = False) -> None:
        """``None`` for ``board`` forbids it all; without ``anywhere`` a request must name this machine as its host.

        A site that a browser shows could otherwise let its own name mean 127.0.0.1, and read what is there.
        """
        self._board, self._plans, self._anywhere = board, plans, anywhere

    @staticmethod
    def has(path: str) -> bool:
        """Return whether the path is of the page or its JSON."""
        return path in _FILES or path.startswith("/api/")

    def answer(self, path: str, host: str) -> Answer:
        """Return the answer to a path that it has; ``host`` is the request's header of this name."""
        if self._board is None or not (self._anywhere or is_loopback(urlsplit(f"//{host}").hostname or "")):
            return Answer.of(HTTPStatus.FORBIDDEN, {"error": _FORBIDDEN})
        if path in _FILES:
            name, kind = _FILES[path]
            return Answer(HTTPStatus.OK, shipped(name), kind)
        return _api(self._board, self._plans, path)


def _api(board: Board, plans: BrokerPlans | None, path: str) -> Answer:
    match path.removeprefix("/api/"):
        case "groups":
            return Answer.of(HTTPStatus.OK, board.overview())
        case "brokers" if plans is not None:
            return _brokers(plans)
        case "openapi.json":
            return Answer.of(HTTPStatus.OK, openapi())
        case name if name.startswith("groups/"):
            return _of_group(board, *map(unquote, name.split("/")[1:]))
        case _:
            return Answer.of(HTTPStatus.NOT_FOUND, {"error": f"there are {', '.join(openapi()['paths'])} and /api/openapi.json"})


def _of_group(board: Board, name: str, *what: str) -> Answer:
    match what:
        case ():
            group = board.group(name)
            if group is not None:
                return Answer.of(HTTPStatus.OK, group)
            return Answer.of(HTTPStatus.NOT_FOUND, {"error": "no cycle of this group since the job began"})
        case ("decisions", at) if _NUMBER.fullmatch(at) and (why := board.why(name, float(at))) is not None:
            return Answer.of(HTTPStatus.OK, why)
        case _:
            return Answer.of(HTTPStatus.NOT_FOUND, {"error": "no decision of this time that changed something is remembered"})


def _brokers(plans: BrokerPlans) -> Answer:
    try:
        return Answer.of(HTTPStatus.OK, plans.latest())
    except AutoscalerError as e:
        return Answer.of(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(e)})


@cache
def shipped(name: str) -> bytes:
    """Return one of the page's files."""
    return (files("autoscaler.adapters.http") / "static" / name).read_bytes()


@cache
def openapi() -> Mapping[str, Any]:
    """Return the description of ``/api``, made from the types of its answers."""
    schemas: dict[str, Any] = {}
    for kind in (Overview, OneGroup, Why, Brokers):
        made = TypeAdapter(kind).json_schema(ref_template="#/components/schemas/{model}")
        schemas |= made.pop("$defs", {}) | {kind.__name__: made}
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}, "description": "the group's id"}
    at = {"name": "at", "in": "path", "required": True, "schema": {"type": "number"}, "description": "of one of its decisions"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kafka consumer-group autoscaler", "version": "1", "description": "Read only."},
        "paths": {
            "/api/groups": {"get": _got("Every group at a glance", "Overview")},
            "/api/brokers": {"get": _got("The latest plan for the brokers of each cluster", "Brokers", unread=True)},
            "/api/groups/{name}": {"get": _got("One group", "OneGroup", missing=True) | {"parameters": [name]}},
            "/api/groups/{name}/decisions/{at}": {
                "get": _got("Why one decision was made", "Why", missing=True) | {"parameters": [name, at]}
            },
        },
        "components": {"schemas": schemas},
    }


def _got(summary: str, kind: str, *, missing: bool = False, unread: bool = False) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind}"}}}
    answers: dict[str, Any] = {"200": {"description": summary, "content": content}}
    if missing:
        answers["404"] = {"description": "No cycle of this group since the job began, or no such decision"}
    if unread:
        answers["503"] = {"description": "The table balance cannot be read right now"}
    answers["401"] = {"description": "The setting http.token asks for a login: send Authorization: Bearer TOKEN"}
    answers["403"] = {"description": "Not a loopback address, and neither http.token nor http.page is set"}
    return {"summary": summary, "responses": answers}
