"""A mock of MindSpore's PyNative runtime that models who holds which memory.

``import mockspore as ms`` answers to the MindSpore names that the scenarios
use. Native names load when they are first used, so ``mockspore.harness`` works
without the extension.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mockspore import communication, graph, mint, nn, ops, runtime
    from mockspore._context import (
        GRAPH_MODE,
        PYNATIVE_MODE,
        reset,
        set_context,
        set_device,
    )
    from mockspore._errors import (
        MockRuntimeError,
        MockSporeError,
        MockTypeError,
        MockValueError,
    )
    from mockspore._function import _Function
    from mockspore._grad import grad, value_and_grad
    from mockspore._mockspore import (
        Tensor,
        census,
        set_abstract_limits,
        set_acl_residue,
        tallies,
        thread_net,
    )
    from mockspore._recompute import recompute

__version__ = "0.1.0"

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "MockRuntimeError",
    "MockSporeError",
    "MockTypeError",
    "MockValueError",
    "Tensor",
    "_Function",
    "census",
    "communication",
    "grad",
    "graph",
    "mint",
    "nn",
    "ops",
    "recompute",
    "reset",
    "runtime",
    "set_abstract_limits",
    "set_acl_residue",
    "set_context",
    "set_device",
    "tallies",
    "thread_net",
    "value_and_grad",
]

_SUBMODULES = {"communication", "graph", "mint", "nn", "ops", "runtime"}
_HOMES = {
    "_context": ("GRAPH_MODE", "PYNATIVE_MODE", "reset", "set_context", "set_device"),
    "_errors": (
        "MockRuntimeError",
        "MockSporeError",
        "MockTypeError",
        "MockValueError",
    ),
    "_function": ("_Function",),
    "_grad": ("grad", "value_and_grad"),
    "_mockspore": (
        "Tensor",
        "census",
        "set_abstract_limits",
        "set_acl_residue",
        "tallies",
        "thread_net",
    ),
    "_recompute": ("recompute",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
