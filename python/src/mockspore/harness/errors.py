"""Errors of a run, each with its exit code."""

# Begins the message about what a framework or device does not offer.
UNSUPPORTED = "unsupported: "


class HarnessError(Exception):
    """Base of what ends a run."""

    exit_code = 3


class UsageError(HarnessError):
    """A request or input that cannot be used."""

    exit_code = 2


class InvalidError(HarnessError):
    """A measurement that cannot be trusted."""

    exit_code = 3


class UnsupportedError(HarnessError):
    """Something that this framework or device does not offer: not a pass."""

    exit_code = 3

    def __init__(self, what: str) -> None:
        super().__init__(UNSUPPORTED + what)
