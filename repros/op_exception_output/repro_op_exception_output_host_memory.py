"""Operators that raise: one step as a function of ``ms``.

The same step on the mock runtime in Rust is in ``mock.rs``.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

# The harness lies beside this folder, in the checkout and in a copy of both.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
harness: Any = importlib.import_module("harness")


class Raising:
    """The tensors that outlive a step."""

    def __init__(self, setting: Any) -> None:
        self.mint = setting.ms.mint
        self.calls = setting.integer("calls_per_step")
        self.outputs = setting.integer("outputs_per_call")
        self.raises = setting.choice("operator") == "raises"
        self.x = setting.random_tensor(4, 2)
        self.other = setting.random_tensor(1, 3) if self.raises else self.x

    def step(self) -> None:
        """Make the calls, and catch what they raise."""
        for _ in range(self.calls):
            try:
                self.call()
            except ValueError:
                if not self.raises:
                    raise
            else:
                if self.raises:
                    raise RuntimeError("the operator did not raise")

    def call(self) -> Any:
        """One operator: ``add`` for one output, ``split`` for more."""
        if self.outputs == 1:
            return self.mint.add(self.x, self.other)
        # Pieces of one row each; the last takes the rest, or a row too many.
        rest = 4 + 1 - self.outputs + self.raises
        return self.mint.split(self.x, [1] * (self.outputs - 1) + [rest])


def build(setting: Any) -> Any:
    """Make the step."""
    return harness.Step(run=Raising(setting).step)


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
