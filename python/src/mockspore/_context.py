"""Mode, device and policies."""

from __future__ import annotations

from mockspore._errors import MockValueError
from mockspore._mockspore import reset, set_device

GRAPH_MODE = 0
PYNATIVE_MODE = 1

__all__ = ["GRAPH_MODE", "PYNATIVE_MODE", "reset", "set_context", "set_device"]


def set_context(
    *,
    mode: int = PYNATIVE_MODE,
    device_target: str | None = None,
    pynative_synchronize: bool = True,
) -> None:
    """Set the context; the mock is always in PyNative mode and synchronous."""
    del pynative_synchronize
    if mode != PYNATIVE_MODE:
        raise MockValueError("graph mode is not modelled: use PYNATIVE_MODE")
    if device_target is not None:
        set_device(device_target)
