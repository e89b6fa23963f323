"""A whole HSDP training step: one step as a function of ``ms``, on each rank.

Written on MindSpore's own API: hooks of cells, ``_Function``, tensor hooks,
``queue_backward_final_callback``, ``run_backward``, collectives. The same step on
the mock runtime in Rust is in ``mock.rs``; who calls what is in ``sharding.py``.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

# The harness lies beside this folder, in the checkout and in a copy of both.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
harness: Any = importlib.import_module("harness")
sharding: Any = importlib.import_module("sharding")

# Values of each parameter on one rank.
WIDTH = 8


def make_pass_first(ms: Any, clear: str) -> Any:
    """Make what the scalers and the loss are, with regard to lifetimes."""

    class PassFirst(ms._Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            if clear == "cleared_in_forward":
                ctx.needs_input_grad = None
            return inputs[0]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if clear == "cleared_in_backward":
                ctx.needs_input_grad = None
            return grad, None

    return PassFirst


def make_unit(
    setting: Any, process: Any, spec: list[int], width: int, ranks: int
) -> Any:
    """Make a unit: a cell with the hooks of its scheduler around it."""
    outputs, gated, sharded, replicated = spec
    ms = setting.ms

    class Unit(ms.nn.Cell):  # type: ignore[misc]
        plain = not gated
        inner: Any = None

        def __init__(self) -> None:
            super().__init__()
            kinds = [True] * sharded + [False] * replicated
            params = [
                sharding.Param(setting, width, ranks, sharded=one) for one in kinds
            ]
            self.scheduler = sharding.Scheduler(process, params)
            self.register_forward_pre_hook(
                lambda _, inputs: self.scheduler.pre_forward(inputs)
            )
            self.register_forward_hook(
                lambda _, inputs, output: self.scheduler.post_forward(output)
            )

        def construct(self, stream: Any) -> tuple[Any, ...]:
            """Multiply by the parameters."""
            if self.inner is not None:
                stream = self.inner(stream)
            params = self.scheduler.params
            return tuple(
                ms.mint.mul(stream, params[index % len(params)].full)
                for index in range(outputs)
            )

        def __call__(self, stream: Any) -> Any:
            """Add up the outputs, as the unit behind it does."""
            first, *rest = super().__call__(stream)
            for output in rest:
                first = ms.mint.add(first, output)
            return first

    return Unit()


class HsdpStep:
    """The model and what outlives a step."""

    def __init__(self, setting: Any) -> None:
        self.ms = setting.ms
        self.process = sharding.Process(setting)
        ranks = setting.integer("ranks")
        width = WIDTH * ranks
        table = setting.declared["units"]["tables"][setting.choice("units")]
        names = f"{self.ms.__name__}._c_expression"
        run_backward = getattr(importlib.import_module(names), "run_backward", None)
        if run_backward is None:
            raise harness.UnsupportedError("this release has no run_backward")
        self.run_backward = run_backward
        self.units = [
            make_unit(setting, self.process, unit, width, ranks)
            for group in table["groups"]
            for _ in range(group["repeat"])
            for unit in group["units"]
        ]
        *self.inner, self.root = self.units
        self.root.scheduler.is_root = True
        for before, after in zip(self.units, self.units[1:], strict=False):
            before.scheduler.forward_prefetch = [after.scheduler]
            after.scheduler.backward_prefetch = [before.scheduler]
        self.root.inner = self.run_inner
        self.scalers = table["aux_loss_scalers"]
        self.losses = table["chunk_losses"]
        clear = setting.policy("needs_input_grad", "kept")
        self.function = make_pass_first(self.ms, clear)
        self.x = setting.random_tensor(1, width)
        self.other = setting.random_tensor(1, width)
        self.sens = setting.random_tensor(1, width)
        self.scalar = setting.random_tensor(1, 1)
        self.micro_batches = setting.integer("micro_batches")
        self.pipeline = setting.choice("schedule") == "pipeline"
        self.evaluations = setting.integer("evaluations")
        self.norms = setting.integer("muon_norms")
        if hasattr(self.ms, "set_abstract_limits"):
            self.ms.set_abstract_limits(
                setting.integer("threshold"), setting.integer("drops")
            )

    def step(self) -> Any:
        """All micro-batches forward and backward, then the optimizer's norms."""
        for _ in range(self.evaluations):
            self.forward()
        pending = []
        for micro_batch in range(1, self.micro_batches + 1):
            pending.append(self.forward())
            if not self.pipeline:
                self.backward(pending, sync=micro_batch == self.micro_batches)
        last = pending[-1:]
        self.backward(pending[:-1], sync=False)
        self.backward(last, sync=True)
        # The mean of the loss, and the norm of the gradients.
        self.process.reduce(self.scalar)
        self.process.reduce(self.scalar)
        for _ in range(self.norms):
            self.ms.ops.norm(self.sens)
        for unit in self.units:
            unit.scheduler.zero_grad()
        return self.scalar

    def forward(self) -> Any:
        """The loss of one micro-batch."""
        self.process.executor.set_grad_flag(True)
        loss = self.root(self.x)
        for _ in range(self.losses):
            loss = self.apply(loss)
        self.process.executor.set_grad_flag(False)
        return loss

    def apply(self, stream: Any) -> Any:
        """Apply a scaler or the loss."""
        self.process.count("applies")
        return self.function.apply(stream, self.other)

    def run_inner(self, plain: Any) -> Any:
        """The units below the root, a scaler behind each of the first ones."""
        stream = plain
        for index, unit in enumerate(self.inner):
            if index > 0 and unit.plain:
                stream = self.ms.mint.add(stream, unit(plain))
            else:
                stream = unit(stream)
            if index < self.scalers:
                stream = self.apply(stream)
        return stream

    def backward(self, losses: list[Any], *, sync: bool) -> None:
        """Run the backward of each, and let go of it."""
        self.process.requires_grad_sync = sync
        self.process.executor.set_grad_flag(True)
        while losses:
            self.run_backward((losses.pop(0),), (self.sens,), False, False, ())
        self.process.executor.set_grad_flag(False)


def build(setting: Any) -> Any:
    """Make the step; it counts what it does."""
    scenario = HsdpStep(setting)
    return harness.Step(
        run=scenario.step, counters=lambda: dict(scenario.process.counters)
    )


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
