"""What a scenario's step is built from, and what it gives back."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .errors import InvalidError


@dataclass(frozen=True)
class Setting:
    """One arm with its knobs and policies on one backend."""

    ms: Any
    arm: str
    knobs: dict[str, int | str]
    policies: dict[str, Any]
    declared: dict[str, Any] = field(default_factory=dict)
    baseline: str = "clean"
    random: random.Random = field(default_factory=lambda: random.Random(1))

    def integer(self, name: str) -> int:
        """Return the value of an integer knob."""
        return int(self.knobs[name])

    def choice(self, name: str) -> str:
        """Return the value of a choice knob."""
        return str(self.knobs[name])

    def policy(self, name: str, default: str) -> str:
        """Return a policy of the arm, or what release 2.10.0 and its callers do."""
        return str(self.policies.get(name, default))

    def executor(self) -> Any:
        """Return ``_pynative_executor``, which releases keep in two places."""
        for home in ("graph.api", "common.api"):
            try:
                module = importlib.import_module(f"{self.ms.__name__}.{home}")
            except ModuleNotFoundError:
                continue
            return module._pynative_executor
        raise InvalidError(f"{self.ms.__name__} has no _pynative_executor")

    def random_tensor(self, rows: int, columns: int) -> Any:
        """Return a tensor of values in [0.5, 1.5)."""
        import numpy as np

        values = [
            [0.5 + self.random.random() for _ in range(columns)] for _ in range(rows)
        ]
        return self.ms.Tensor(np.array(values, np.float32))


@dataclass(frozen=True)
class Step:
    """A step, and how to tell that nothing of it is in flight any more.

    ``run`` returns a tensor whose value waits for the step, or None; ``counters``
    are metrics that the step counts itself.
    """

    run: Callable[[], Any]
    settled: Callable[[], bool] = lambda: True
    counters: Callable[[], dict[str, int]] = dict
