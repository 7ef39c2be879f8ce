"""Errors, named for what the loop does next, and the exit codes of programs.

Adapters translate client exceptions into these and keep the cause with ``raise ... from``. Imports the standard library only.
"""

from enum import IntEnum


class Exit(IntEnum):
    """How a program ends that did not just do what it was told; docs/reference/exit-codes.md says which program gives which."""

    FAILED = 1
    UNREADABLE = 2  # there is nothing that a check could judge; 2 is also what argparse ends with
    HELD = 70  # a consumer's application, or a client's call, does not return although the lease has long been over
    UNWRITTEN = 74  # ended as it was told, but rows of the audit are not in the tables
    STALLED = 76  # no batch for long
    FENCED = 77  # another controller has taken over
    SETTINGS = 78
    INTERRUPTED = 130


class AutoscalerError(Exception):
    """Base of every error this project raises on purpose."""


class TransientError(AutoscalerError):
    """A call failed in a way that usually passes; the loop tries again."""


class UnreachableError(TransientError):
    """No broker answers at all: what is to be asked for others there waits for nothing either."""


class PermanentError(AutoscalerError):
    """A call will keep failing until an operator changes something; the message says what."""


class AnotherWriterError(PermanentError):
    """Another one has set the number of consumers meanwhile: two that do undo each other's decisions."""

    def __init__(self, writers: tuple[str, ...], what: str, *, now: int, wrote: int) -> None:
        """Say who has set the number of what, and how it goes on."""
        who = ", ".join(writers) or "another one"
        super().__init__(
            f"{who} set the number of {what} to {now}, where this controller had set {wrote}: let only one of them set it (a "
            f"manifest that is applied leaves replicas out); this controller goes on when the number is {wrote} again"
        )


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
