"""What one request gets."""

import json
from dataclasses import dataclass
from http import HTTPStatus

_JSON = "application/json"
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body, what kind of text the body is, and further headers."""

    status: HTTPStatus
    body: bytes
    kind: str = _JSON
    headers: Headers = ()

    @classmethod
    def of(cls, status: HTTPStatus, said: object, headers: Headers = ()) -> "Answer":
        """Return a value as JSON."""
        return cls(status, json.dumps(said).encode(), headers=headers)
