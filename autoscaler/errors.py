"""Errors, named for what the loop does next.

Adapters translate client exceptions into these and keep the cause with ``raise ... from``. Nothing here imports anything.
"""


class AutoscalerError(Exception):
    """Base of every error this project raises on purpose."""


class TransientError(AutoscalerError):
    """A call failed in a way that usually passes; the loop tries again.

    Attributes:
        retry_after_s: Seconds the caller should wait before the same call.
    """

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        """Keep the message and the pause that the failing service deserves."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnreachableError(TransientError):
    """No broker answers at all: what is to be asked for others there waits for nothing either."""


class PermanentError(AutoscalerError):
    """A call will keep failing until an operator changes something; the message says what."""


class FencedError(PermanentError):
    """Another controller has taken over; this one changes nothing any more and exits."""


class SettingsError(AutoscalerError):
    """The configuration is wrong.

    Attributes:
        problems: Every problem found, each ``path: what is wrong and what to write instead``.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        """Keep all problems, so that they are reported at once."""
        super().__init__("; ".join(problems))
        self.problems = problems
