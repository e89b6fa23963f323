"""A recomputed forward that stops early: one step as a function of ``ms``.

The same step on the mock runtime in Rust is in ``mock.rs``.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

# The harness lies beside this folder, in the checkout and in a copy of both.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
harness: Any = importlib.import_module("harness")


class Layers:
    """The tensors that outlive a step."""

    def __init__(self, setting: Any) -> None:
        ms = setting.ms
        self.mul = ms.mint.mul
        self.recompute = ms.recompute
        self.recomputed = setting.choice("recompute") == "on"
        stop = setting.policy("recompute_stop", "early")
        # 2.8.0 has no such keyword, and always runs to the end.
        offered = "early_stop" in inspect.signature(ms.recompute).parameters
        self.options = {"early_stop": stop == "early"} if offered else {}
        self.layers = setting.integer("layers")
        self.x = setting.random_tensor(2, 2)
        self.weight = setting.random_tensor(2, 2)
        self.sens = setting.random_tensor(2, 2)
        self.grad = ms.ops.GradOperation(sens_param=True)(self.forward)

    def step(self) -> Any:
        """Run forward and backward."""
        return self.grad(self.x, self.sens)

    def forward(self, x: Any) -> Any:
        """All layers, each recomputed in the backward or not."""
        for _ in range(self.layers):
            if self.recomputed:
                x = self.recompute(self.layer, x, use_reentrant=False, **self.options)
            else:
                x = self.layer(x)
        return x

    def layer(self, x: Any) -> Any:
        """Two operators, of which the last saves the last value."""
        return self.mul(self.mul(x, self.weight), self.weight)


def build(setting: Any) -> Any:
    """Make the step."""
    return harness.Step(run=Layers(setting).step)


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
