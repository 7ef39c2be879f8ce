"""What one request gets."""

import json
from dataclasses import dataclass
from http import HTTPStatus

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body, and what kind of text the body is."""

    status: HTTPStatus
    body: bytes
    kind: str = _JSON

    @classmethod
    def of(cls, status: HTTPStatus, said: object) -> "Answer":
        """Return a value as JSON."""
        return cls(status, json.dumps(said).encode())
