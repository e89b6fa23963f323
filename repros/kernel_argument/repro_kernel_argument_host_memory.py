"""Kernel arguments that are never returned: one step as a function of ``ms``.

The same step on the mock runtime in Rust is in ``mock.rs``.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

# The harness lies beside this folder, in the checkout and in a copy of both.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
harness: Any = importlib.import_module("harness")


class Calls:
    """The tensors that outlive a step."""

    def __init__(self, setting: Any) -> None:
        self.mint = setting.ms.mint
        self.calls = setting.integer("calls_per_step")
        self.x = setting.random_tensor(2, 2)
        self.weight = setting.random_tensor(2, 2)
        grad = setting.ms.grad
        self.call = {
            "elementwise": lambda: self.mint.mul(self.x, self.weight),
            "sum": lambda: self.mint.sum(self.x),
            "matmul": lambda: self.mint.matmul(self.x, self.weight),
            "grad_without_sens": partial(grad(self.product), self.x),
            "report_loop": partial(grad(self.report), self.x),
        }[setting.choice("call")]

    def step(self) -> Any:
        """Make the calls."""
        last = None
        for _ in range(self.calls):
            last = self.call()
        return last

    def product(self, x: Any) -> Any:
        """A function whose own operators upload nothing."""
        return self.mint.mul(x, self.weight)

    def report(self, x: Any) -> Any:
        """The report's function: its sum and its ones upload arguments."""
        y = self.mint.mul(x, self.weight)
        return self.mint.sum(self.mint.mul(y, y))


def build(setting: Any) -> Any:
    """Make the step."""
    return harness.Step(run=Calls(setting).step)


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
