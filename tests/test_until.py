"""The helper that tests wait with."""

from itertools import count

import pytest

from tests.until import throughout, until


def test_it_returns_the_first_that_holds() -> None:
    numbers = count()
    assert until("three", lambda: next(numbers), lambda n: n >= 3, every_s=0) == 3
    assert next(numbers) == 4


@pytest.mark.parametrize("there", [0, "", [], True])
def test_anything_but_none_and_false_is_there(there: object) -> None:
    seen = iter([None, False, there])
    assert until("it", lambda: next(seen), every_s=0) is there


def test_it_ends_with_what_it_saw_last_and_what_explains_it() -> None:
    with pytest.raises(AssertionError, match=r"(?s)ten: did not come within 0 s; last seen: 7\n.*the log says so"):
        until("ten", lambda: 7, lambda n: n == 10, explain=lambda: "the log says so", within_s=0.05, every_s=0.01)


def test_an_error_that_passes_is_not_yet_and_any_other_ends_it() -> None:
    errors = [KeyError("other"), ValueError("first")]

    def look() -> bool:
        raise errors.pop()

    with pytest.raises(KeyError, match="other"):
        until("it", look, passing=ValueError, every_s=0)
    errors += [ValueError("always")] * 1000
    with pytest.raises(AssertionError, match=r"last seen: ValueError\('always'\)"):
        until("it", look, passing=(ValueError,), within_s=0.05, every_s=0.01)


def test_what_holds_throughout_is_looked_at_until_the_end_and_once_at_least() -> None:
    seen = list[int]()
    throughout("it", lambda: seen.append(1), for_s=0.05, every_s=0.001)
    assert len(seen) > 1
    throughout("it", lambda: seen.append(1), for_s=0.0)
    numbers = count()
    with pytest.raises(AssertionError, match=r"few: no more after 0\.\d s of 30; seen: 3"):
        throughout("few", lambda: next(numbers), lambda n: n < 3, for_s=30, every_s=0)
