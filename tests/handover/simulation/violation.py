"""What a schedule that breaks a promise ends with; one class for the modules as they are and for every mutated copy of them."""

from enum import StrEnum


class Promise(StrEnum):
    """What must hold in every history."""

    ONE_OWNER = "two active owners"
    NOTHING_LOST = "a record is lost"
    TOKENS_GROW = "a fencing token goes back"
    ONCE = "an output is seen twice"
    OFFSETS_GROW = "a committed offset goes back"
    RELEASED_IS_RELEASED = "released and still in hand"
    FENCED_IS_FENCED = "a controller acts on a plan that is not in the log"
    LATEST_LEADS = "not the latest controller is the one that stays"
    EPOCHS_DIFFER = "two plans of one number"
    PROGRESS = "no progress"
    BOUNDED = "the control log keeps what nobody needs"


class Violation(AssertionError):  # noqa: N818  (it is the word)
    """A promise of the protocol was broken; a shrunk schedule must break the same."""

    def __init__(self, promise: Promise, how: str) -> None:
        super().__init__(f"{promise}: {how}")
        self.promise = promise
