"""The Kubernetes API: connects, asks, and follows what changes; translates refusals and outages into this project's errors.

JSON in and out: of the client library only the way to connect and to log in is used. A token that was replaced is read again.
Knows no Deployment and no pod.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from autoscaler.errors import PermanentError, TransientError

USER_AGENT = "kafka-group-autoscaler"  # as the API server's audit log has it
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # in every pod that has one
_CALL_S = (3.0, 5.0)  # to connect, to be answered
_WATCH_S = 300  # after which the API server ends a watch that is then begun anew
_RIGHTS = "docs/tasks/kubernetes.md lists the rights"

Query = Mapping[str, str | int]


class OvertakenError(TransientError):
    """What was to be changed has changed meanwhile (409), or is not as it was believed to be (422)."""


class MissingError(PermanentError):
    """There is no such object (404)."""


class BusyError(TransientError):
    """The API server is not there for now (429, 5xx).

    Attributes:
        retry_after_s: Seconds for which it asks to be left alone.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        """Keep both."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ForgottenError(TransientError):
    """The API server does not know any more what has changed since then (410): it is listed anew."""


_KINDS: Mapping[int, type[OvertakenError | MissingError | ForgottenError]] = {
    HTTPStatus.GONE: ForgottenError,
    HTTPStatus.CONFLICT: OvertakenError,
    HTTPStatus.UNPROCESSABLE_ENTITY: OvertakenError,
    HTTPStatus.NOT_FOUND: MissingError,
}


class Api:
    """One connection, by several threads; made anew when the API server does not know who asks.

    Args:
        connect: Makes a client of what is configured now.
    """

    def __init__(self, connect: Callable[[], client.ApiClient]) -> None:
        self._connect, self._lock = connect, threading.Lock()
        self._client: client.ApiClient | None = None

    def get(self, path: str, query: Query | None = None) -> dict[str, Any]:
        """Return an object or a list.

        Raises:
            MissingError: There is none.
            PermanentError: This user may not, or cannot connect as configured; says what to do.
            TransientError: The API server does not answer.
        """
        return self._asked("GET", path, query or {})

    def patch(self, path: str, body: object, *, kind: str, manager: str) -> dict[str, Any]:
        """Change an object by a patch of a kind (``json-patch``, ``merge-patch``) under a field manager's name, and return it.

        Raises:
            OvertakenError: It is not as it was believed to be; nothing was changed.
            MissingError: There is none.
            PermanentError: This user may not; says what to do.
            TransientError: It is not known whether it was changed.
        """
        return self._asked("PATCH", path, {"fieldManager": manager}, body=body, content=f"application/{kind}+json")

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        """Make an object what ``body`` says by server-side apply under a field manager's name, and return it.

        Raises:
            OvertakenError: It is another one by now; nothing was changed.
            MissingError: There is none.
            PermanentError: This user may not; says what to do.
            TransientError: It is not known whether it was changed.
        """
        query = {"fieldManager": manager, "force": "true"}
        return self._asked("PATCH", path, query, body=json.dumps(body), content="application/apply-patch+yaml")

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        """Make an object under a field manager's name, and return it.

        Raises:
            OvertakenError: It is there already, or is not as the API wants it.
            PermanentError: This user may not; says what to do.
            TransientError: It is not known whether it was made.
        """
        return self._asked("POST", path, {"fieldManager": manager}, body=dict(body), content="application/json")

    def watch(self, path: str, query: Query, opened: Callable[[Callable[[], None]], None]) -> Iterator[dict[str, Any]]:
        """Yield events for some minutes; ``opened`` is given what ends the wait from another thread.

        Raises:
            ForgottenError: The version to begin from is forgotten.
            PermanentError: This user may not; says what to do.
            TransientError: The API server does not answer.
        """
        asked = {**query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": _WATCH_S}
        answer = self._sent("GET", path, asked, read_s=_WATCH_S + 30.0)
        try:
            opened(answer.response.shutdown)
            for line in _lines(answer.response):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _refused(int(event["object"].get("code") or 0), event["object"], "GET", path)
                yield event
        except (HTTPError, OSError, ValueError) as e:
            raise TransientError(f"the Kubernetes API does not answer: {e}") from e
        finally:
            answer.response.close()

    def close(self) -> None:
        """Release connections."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _asked(self, method: str, path: str, query: Query, *, body: object = None, content: str = "") -> dict[str, Any]:
        answer = self._sent(method, path, query, body=body, content=content)
        try:
            found = json.loads(answer.read())
        except (HTTPError, OSError, ValueError) as e:
            raise TransientError(f"the Kubernetes API did not answer to the end: {e}") from e
        return dict(found)

    def _sent(
        self, method: str, path: str, query: Query, *, body: object = None, content: str = "", read_s: float = _CALL_S[1]
    ) -> Any:
        """Return an answer that is fine and not read yet; who is not known any more logs in anew, once."""
        for again in (True, False):
            api = self._connected()
            headers = {"Accept": "application/json", **({"Content-Type": content} if content else {})}
            asked = api.param_serialize(
                method, path, query_params=list(query.items()), header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            try:
                answer = api.call_api(*asked, _request_timeout=(_CALL_S[0], read_s))
                if answer.status < HTTPStatus.BAD_REQUEST:
                    return answer
                said = _status(answer.read())
            except (HTTPError, OSError, client.ApiException) as e:
                raise TransientError(f"the Kubernetes API does not answer: {_short(e)}") from e
            if answer.status != HTTPStatus.UNAUTHORIZED or not again:
                raise _refused(answer.status, said, method, path)
            self._renew(api)
        raise AssertionError

    def _connected(self) -> client.ApiClient:
        with self._lock:
            if self._client is None:
                try:
                    self._client = self._connect()
                except (config.ConfigException, OSError) as e:
                    raise PermanentError(f"no connection to Kubernetes: {e}; correct the kubeconfig that is configured") from e
            return self._client

    def _renew(self, known: client.ApiClient) -> None:
        """Forget a client whose token is over, unless another thread has."""
        with self._lock:
            if self._client is known:
                self._client = None


def connection(kubeconfig: str | None, context: str | None) -> Callable[[], client.ApiClient]:
    """Return what connects: by a file, or as the pod's own service account where there is one, or by the user's own file."""

    def connect() -> client.ApiClient:
        settings = client.Configuration()
        if kubeconfig is None and context is None and _in_pod():
            config.load_incluster_config(client_configuration=settings)
        else:
            path = None if kubeconfig is None else str(Path(kubeconfig).expanduser())
            config.load_kube_config(config_file=path, context=context, client_configuration=settings, persist_config=False)
        settings.keep_alive, settings.retries = True, False
        made = client.ApiClient(settings)
        made.user_agent = USER_AGENT
        return made

    return connect


def own_namespace(kubeconfig: str | None, context: str | None) -> str:
    """Return the namespace that a connection means by itself: that of the service account, or of the file's context.

    Raises:
        PermanentError: The file cannot be read.
    """
    try:
        if kubeconfig is None and context is None and _in_pod():
            return (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
        path = None if kubeconfig is None else str(Path(kubeconfig).expanduser())
        contexts, active = config.list_kube_config_contexts(path)
    except (config.ConfigException, OSError) as e:
        raise PermanentError(f"no connection to Kubernetes: {e}; correct the kubeconfig that is configured") from e
    chosen = active if context is None else next((c for c in contexts if c["name"] == context), active)
    return str(chosen["context"].get("namespace") or "default")


def _in_pod() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_ACCOUNT / "token").is_file()


def _lines(response: Any) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from filter(None, lines)


def _status(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _refused(code: int, said: Mapping[str, Any], method: str, path: str) -> TransientError | PermanentError:
    """Return the error that an answer means."""
    words = said.get("message") or f"answer {code} to {method} {path}"
    retry_s = float((said.get("details") or {}).get("retryAfterSeconds") or 1.0)
    if (kind := _KINDS.get(code)) is not None:
        return kind(f"Kubernetes: {words}")
    if code == HTTPStatus.FORBIDDEN:
        return PermanentError(f"Kubernetes: {words}; grant it to the job's account: {_RIGHTS}")
    if code == HTTPStatus.UNAUTHORIZED:
        return TransientError("Kubernetes does not know this user (401): its token is over, or of another cluster")
    if code == HTTPStatus.TOO_MANY_REQUESTS or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return BusyError(f"the Kubernetes API is not there for now: {words}", retry_s)
    return PermanentError(f"Kubernetes: {words}")


def _short(error: BaseException) -> str:
    """Return an error without the addresses of objects that urllib3 puts into it."""
    return str(getattr(error, "reason", None) or error).rpartition(">: ")[2] or type(error).__name__
