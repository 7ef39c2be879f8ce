"""Numbers of the configuration as people write them: ``30s``, ``5m``, ``2h``; ``1MB``, ``1MiB``; a plain number keeps its unit.

Below ``config/policy.py``, whose fields have these types. What is refused says what to write instead.
"""

import math
import re
from dataclasses import dataclass
from typing import Annotated, NoReturn

from pydantic import BeforeValidator, ByteSize, Field, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*$")
_PLAIN = re.compile(r"^\s*-?\d+(\.\d+)?\s*$")
_EXPONENT = re.compile(r"^\s*-?\d+(\.\d*)?[eE][+-]?\d+\s*$")  # YAML 1.1 wants a dot and a sign in it, and takes others for text
_BYTES = TypeAdapter(ByteSize)
_BYTES_PATTERN = r"^\s*\d+(\.\d+)?\s*([kKMGT]i?)?B\s*$"
DAY_S = 86_400
_MINUTE_S = 60
_DIGITS = 24  # that are still read
_YEAR_S = 366 * DAY_S


def number(value: object) -> object:
    """Return a number as it was written, and refuse what only looks like one.

    Raises:
        ValueError: It is a flag, which would count as 1 or 0, or text.
    """
    if isinstance(value, bool):
        _refuse(f"must be a number, not {str(value).lower()}")
    if isinstance(value, str):
        if _PLAIN.match(value):
            return float(value) if "." in value else int(value)
        _refuse(f"must be a number{_instead(value)}")
    return value


def seconds(value: object) -> object:
    """Return a duration in seconds; text names its unit."""
    if isinstance(value, str) and (found := _DURATION.match(value)):
        return float(found[1]) * _SECONDS[found[2]]
    if isinstance(value, str) and not _PLAIN.match(value):
        _refuse(f"must be seconds or a duration such as 500ms, 30s, 5m, 2h or 1d{_instead(value)}")
    return number(value)


def minutes(value: object) -> object:
    """Return a duration in whole minutes; text names its unit, a plain number means minutes."""
    if not isinstance(value, str) or _PLAIN.match(value):
        return number(value)
    found = seconds(value)
    if not isinstance(found, float) or found % _MINUTE_S:
        _refuse(f"must be whole minutes, such as 90m or 10h, not {value!r}")
    return round(found / _MINUTE_S)


def bytes_(value: object) -> object:
    """Return a size in bytes; text names its unit, 1 kB is 1,000 bytes and 1 KiB is 1,024."""
    if isinstance(value, str) and not _PLAIN.match(value):
        if not re.match(_BYTES_PATTERN, value):
            _refuse(f"must be bytes or a size such as 500kB, 1MB or 1MiB{_instead(value)}")
        try:
            return float(_BYTES.validate_python(value))
        except ValidationError:
            _refuse(f"must be bytes or a size such as 500kB, 1MB or 1MiB{_instead(value)}")
    return number(value)


def _instead(value: str) -> str:
    """Return the end of a refusal of text: of a power of ten, the number to write."""
    if not _EXPONENT.match(value) or not math.isfinite(float(value)):
        return f", not {value!r}"
    amount = float(value)
    plain = f"{amount:.0f}" if amount.is_integer() else f"{amount:g}"
    either = f"{plain} or " if len(plain) <= _DIGITS else ""
    return f", not {value!r}: YAML takes that for text, write {either}{_with_dot_and_sign(value)}"


def _with_dot_and_sign(value: str) -> str:
    mantissa, _, exponent = value.strip().lower().partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent if exponent[0] in '+-' else '+' + exponent}"


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


@dataclass(frozen=True)
class _OrText:
    """Lets the JSON schema of a number say that text with a unit is fine too."""

    pattern: str

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, object]:
        """Return the schema of the number, or of text with a unit."""
        return {"anyOf": [handler(core), {"type": "string", "pattern": self.pattern}]}


_DURATION_TEXT = _OrText(_DURATION.pattern)

Number = Annotated[float, BeforeValidator(number)]
Count = Annotated[int, BeforeValidator(number)]
Consumers = Annotated[Count, Field(ge=1, le=100_000)]
Seconds = Annotated[float, BeforeValidator(seconds), Field(le=_YEAR_S), _DURATION_TEXT]
Age = Annotated[float, BeforeValidator(seconds), Field(ge=DAY_S, le=10 * _YEAR_S), _DURATION_TEXT]
Minutes = Annotated[int, BeforeValidator(minutes), _DURATION_TEXT]
Bytes = Annotated[float, BeforeValidator(bytes_), Field(le=1e15), _OrText(_BYTES_PATTERN)]
