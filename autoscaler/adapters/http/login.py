"""Who may see the page where ``http.token`` is set: a browser by a form and a cookie, a program by a header.

The token is never part of an address, and the cookie is not the token: it ends by itself, and with the token.
"""

import hashlib
import hmac
import logging
import re
from collections.abc import Callable
from email.message import Message
from http import HTTPStatus
from urllib.parse import parse_qs

from autoscaler.adapters.http.answer import Answer, Headers
from autoscaler.adapters.http.page import Page, shipped
from autoscaler.errors import SettingsError
from autoscaler.ports import Clock

log = logging.getLogger(__name__)

PATH = "/login"
MOST_BYTES = 4096  # of what the form sends
_UNTIL = re.compile(r"\d{1,12}", re.ASCII)
_LASTS_S = 12 * 3600  # one working day
_LEAST = 16  # characters: what is shorter can be guessed
_SAY_EVERY_S = 60.0
_ASKS: Headers = (("WWW-Authenticate", "Bearer"),)
_OPEN = frozenset({"/page.css"})  # the form's own style


class Login:
    """Tells requests of the page and of ``/api`` that come with the token from others."""

    def __init__(self, token: Callable[[], str], clock: Clock, port: int) -> None:
        """Read the token; it is read again with every request, so that another one holds at once.

        ``port`` tells the cookies of two jobs of one machine apart: browsers send them to every port of a host.

        Raises:
            SettingsError: It cannot be read, or is too short.
        """
        self._read, self._clock, self._cookie = token, clock, f"autoscaler_{port}"
        self._token, self._said = token(), -_SAY_EVERY_S
        if len(self._token) < _LEAST:
            raise SettingsError((f"http.token: it must have {_LEAST} characters or more, such as of: openssl rand -hex 24",))

    def refused(self, path: str, headers: Message) -> Answer | None:
        """Return what a request gets that must log in first; ``None``: it may pass."""
        if not Page.has(path) or path in _OPEN:
            return None
        if authorization := headers.get("Authorization"):
            scheme, _, given = authorization.partition(" ")
            if scheme.lower() == "bearer" and _same(given.strip(), self._now()):
                return None
            self._say()
        elif self._is_cookie(headers.get("Cookie", "")):
            return None
        return _form() if path == "/" else _unauthorized()

    def enter(self, sent: bytes, headers: Message) -> Answer:
        """Return what the form gets: the page and a cookie, or the form again."""
        (given,) = parse_qs(sent.decode("utf-8", "replace")).get("token", [""])[:1]
        if not _same(given.strip(), self._now()):
            self._say()
            return _form(wrong=True)
        until = int(self._clock.now()) + _LASTS_S
        kept = f"{self._cookie}={until}.{self._signed(until)}; Max-Age={_LASTS_S}; HttpOnly; SameSite=Strict"
        if headers.get("X-Forwarded-Proto") == "https":
            kept += "; Secure"
        return Answer(HTTPStatus.SEE_OTHER, b"", headers=(("Location", "."), ("Set-Cookie", kept)))

    def _is_cookie(self, cookies: str) -> bool:
        found = next((v for n, _, v in (c.strip().partition("=") for c in cookies.split(";")) if n == self._cookie), "")
        until, _, signed = found.partition(".")
        if not _UNTIL.fullmatch(until):
            return False
        return int(until) > self._clock.now() and _same(signed, self._signed(int(until)))

    def _signed(self, until: int) -> str:
        return hmac.new(self._now().encode(), f"page {until}".encode(), hashlib.sha256).hexdigest()

    def _now(self) -> str:
        """Return the token as it is now; while it cannot be read, as when it is being replaced, the one before holds."""
        try:
            found = self._read()
        except SettingsError:
            return self._token
        if len(found) >= _LEAST:
            self._token = found
        return self._token

    def _say(self) -> None:
        now = self._clock.monotonic()
        if now - self._said >= _SAY_EVERY_S:
            self._said = now
            log.warning("a request for the page had a wrong token (said at most once in %.0f s)", _SAY_EVERY_S)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _form(*, wrong: bool = False) -> Answer:
    text = shipped("login.html")
    if wrong:
        text = text.replace(b"<!-- wrong -->", b'<div id="news" class="bad" role="alert"><p>That is not the token.</p></div>')
    return Answer(HTTPStatus.UNAUTHORIZED, text, "text/html; charset=utf-8", _ASKS)


def _unauthorized() -> Answer:
    said = {"error": "log in at / first, or send the header Authorization: Bearer TOKEN (http.token)"}
    return Answer.of(HTTPStatus.UNAUTHORIZED, said, _ASKS)
