"""Loads the framework that a script runs on."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from .errors import InvalidError, UsageError

MENDS = {
    "mindspore": 'install it there, with "numpy<2", or name another interpreter',
    "mockspore": "build the extension with 'maturin develop' in python/",
}


def load(name: str) -> Any:
    """Import ``mindspore`` or ``mockspore`` with what it needs."""
    try:
        module = importlib.import_module(name)
        # The native part of the mock loads late; fail now if it is missing.
        _ = module.Tensor
    except ModuleNotFoundError as error:
        missing = error.name or name
        if missing not in (name, f"{name}._{name}"):
            raise InvalidError(f"importing {name} failed: {error}") from error
        raise UsageError(f"{sys.executable} has no {missing}: {MENDS[name]}") from error
    except Exception as error:
        raise InvalidError(f"importing {name} failed: {error}") from error
    return module


def restart_with(environment: dict[str, str]) -> None:
    """Start this process anew if the interpreter needs other variables."""
    if all(os.environ.get(name) == value for name, value in environment.items()):
        return
    arguments = [sys.executable, *sys.orig_argv[1:]]
    os.execve(sys.executable, arguments, {**os.environ, **environment})


def set_up(
    ms: Any,
    *,
    mock: bool,
    device: str,
    pipeline: str,
    policies: dict[str, Any],
    ranks: int | None,
) -> int:
    """Choose mode and device, join the world, drain once; return the rank."""
    if mock:
        ms.reset(device=device, policies=policies, ranks=ranks or 1)
    synchronous = pipeline == "sync"
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=synchronous)
    try:
        ms.set_device(device)
    except Exception as error:
        raise InvalidError(f"device {device} cannot be used: {error}") from error
    rank = 0
    if ranks is not None:
        try:
            communication = importlib.import_module(f"{ms.__name__}.communication")
            communication.init()
            rank = int(communication.get_rank())
        except Exception as error:
            raise InvalidError(f"the ranks do not find each other: {error}") from error
    # On CPU the first call only logs that it is not supported; later ones wait.
    ms.runtime.synchronize()
    ms.runtime.synchronize()
    return rank
