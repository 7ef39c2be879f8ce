"""What a caller gives, as Python's own numbers, or a message that says what is none and whose it is. Part of *pack*.

Scalars of numpy come in as well, but no further: they overflow where Python's numbers do not, and sort wrongly when negated.
"""

import math
from collections.abc import Mapping
from numbers import Real
from reprlib import repr as short_repr

import numpy as np

from autoscaler.packing.problem.assignment import P

HIGHEST = 2**63 - 1  # index of a consumer


def shown(value: object) -> str:
    """Return a value as a message shows it, however long it is."""
    return short_repr(value)


def number_of(value: object) -> float:
    """Return a finite number as a float, NaN for anything else: text, ``None``, true, what no float can hold."""
    if type(value) is bool or not isinstance(value, Real):
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def is_index(value: object) -> bool:
    """Say whether a value can be the index of a consumer: a whole number from 0 that 64 bits hold."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) <= HIGHEST


def checked_capacity(capacity: float) -> float:
    """Return a capacity as a float.

    Raises:
        ValueError: It is no positive, finite number; the message says what it is.
    """
    number = number_of(capacity)
    if not number > 0:
        raise ValueError(f"capacity must be a positive number of bytes per second, not {shown(capacity)}")
    return number


def checked_amounts(amounts: Mapping[P, float], name: str) -> Mapping[P, float]:
    """Return the amounts of every partition as floats; ``name`` says what they are: "rate".

    Raises:
        ValueError: One is no finite number or negative; the message says whose.
    """
    plain = set(map(type, amounts.values())) <= {float}
    numbers = amounts if plain else {p: number_of(amount) for p, amount in amounts.items()}
    bad = [p for p, number in numbers.items() if not 0 <= number < math.inf]
    if bad:
        p = min(bad)
        raise ValueError(f"{name} of partition {p} must be a finite number that is not negative, not {shown(amounts[p])}")
    return numbers


def checked_loads(loads: Mapping[P, float]) -> Mapping[P, float]:
    """Return the rates as floats.

    Raises:
        ValueError: As ``checked_amounts``, or they add up to more than can be counted.
    """
    rates = checked_amounts(loads, "rate")
    if not math.isfinite(sum(rates.values())):
        raise ValueError(f"the rates of {len(rates)} partitions add up to more than can be counted")
    return rates


def checked_previous(previous: Mapping[P, int]) -> Mapping[P, int]:
    """Return the owners as whole numbers.

    Raises:
        ValueError: An owner is negative, not a whole number or none that 64 bits hold; the message says whose.
    """
    plain = set(map(type, previous.values())) <= {int}
    bad = [p for p, c in previous.items() if not (0 <= c <= HIGHEST if plain else is_index(c))]
    if bad:
        p = min(bad)
        raise ValueError(f"previous owner of partition {p} must be an index from 0, not {shown(previous[p])}")
    return previous if plain else {p: int(c) for p, c in previous.items()}
