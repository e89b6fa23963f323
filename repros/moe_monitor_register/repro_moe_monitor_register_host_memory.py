"""A load monitor on real PyTorch optimizers: hooks, calls, bias, weak references.

With Hyper-Parallel installed its own ``MoEMonitorCallback`` is run instead; which
of the declared behaviours it has is then the result.
"""

from __future__ import annotations

import gc
import importlib
import random
import struct
import sys
import weakref
from pathlib import Path
from typing import Any

# The harness lies beside this folder, in the checkout and in a copy of both.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
harness: Any = importlib.import_module("harness")

LAYERS, EXPERTS, RATE = 2, 8, 1e-3
HOMES = ("hyper_parallel.core.moe_utils", "hyper_parallel.moe_utils")
# The slot's name, in the order of the generations.
SLOTS = ("_hook_handles", "_hook_handle")


class MoE:
    """A layer that counts the tokens of each expert, with the real rule."""

    def __init__(self, torch: Any, *, resets: bool) -> None:
        self.enable_expert_bias = True
        self.torch = torch
        self.resets = resets
        self.tokens_per_expert = torch.zeros(EXPERTS)
        self.expert_bias = torch.zeros(EXPERTS)
        self.last_aux_loss = torch.zeros(())

    def update_expert_bias(self, lr: float, num_recomputations: int = 1) -> None:
        """Move the bias against the load."""
        tokens = self.tokens_per_expert
        if num_recomputations > 1:
            tokens /= num_recomputations
        delta = lr * self.torch.sign(tokens.mean() - tokens)
        self.expert_bias += delta - delta.mean()
        if self.resets:
            tokens.zero_()


class Model:
    """A model as the callback sees one."""

    def __init__(self, torch: Any, *, resets: bool) -> None:
        self.layers = [MoE(torch, resets=resets) for _ in range(LAYERS)]

    def modules(self) -> list[MoE]:
        """Return the sub-modules."""
        return self.layers

    def forward(self, tokens: list[float]) -> None:
        """Count the tokens of one forward."""
        for layer in self.layers:
            layer.tokens_per_expert += layer.torch.tensor(tokens)

    def biases(self) -> list[bytes]:
        """Return the biases, bit for bit."""
        return [struct.pack(f"{EXPERTS}f", *one.expert_bias) for one in self.layers]


class AlreadyRegistered(RuntimeError):
    """A second registration is refused."""


class MonitorCallback:
    """The callback in its four forms; ``overwrites`` is the reported one."""

    def __init__(self, model: Model, policy: str) -> None:
        self.model = model
        self.policy = policy
        self._handles: list[Any] = []

    def on_step_end(self) -> None:
        """Move every layer's bias."""
        for layer in self.model.modules():
            layer.update_expert_bias(RATE)

    def register(self, optimizer: Any) -> None:
        """Have it called after every step of an optimizer."""
        if self.policy == "refuses" and self._handles:
            raise AlreadyRegistered
        if self.policy == "replaces":
            self.remove()
        handle = optimizer.register_step_post_hook(lambda *_: self.on_step_end())
        kept = self._handles if self.policy == "keeps_all" else []
        self._handles = [*kept, handle]

    def remove(self) -> None:
        """Take off what it knows of."""
        for handle in self._handles:
            handle.remove()
        self._handles = []


def installed() -> Any:
    """Return Hyper-Parallel's own class, where it is installed."""
    for home in HOMES:
        try:
            return importlib.import_module(home).MoEMonitorCallback
        except (ImportError, AttributeError):
            continue
    return None


class Run:
    """One training, and what happens in it."""

    def __init__(self, torch: Any, arm: Any, callback: Any) -> None:
        rule = arm.policy("expert_bias_rule", "zeroes_counters")
        self.model = Model(torch, resets=rule == "zeroes_counters")
        self.callback = callback(self.model)
        self.calls = 0
        on_step_end = self.callback.on_step_end

        def counted() -> None:
            self.calls += 1
            on_step_end()

        self.callback.on_step_end = counted
        count = arm.knobs["optimizers"]
        weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(count)]
        self.optimizers = [torch.optim.SGD([weight], lr=0.1) for weight in weights]
        self.apart = arm.knobs["schedule"] == "apart"
        self.random = random.Random(1)

    def step(self) -> None:
        """Run forward and the optimizers' steps."""
        for index, optimizer in enumerate(self.optimizers):
            if index == 0 or self.apart:
                count = self.random.randrange
                self.model.forward([float(count(4096)) for _ in range(EXPERTS)])
            optimizer.step()

    def hooks(self) -> int:
        """Count the hooks that optimizers have."""
        return sum(len(one._optimizer_step_post_hooks) for one in self.optimizers)


def observe_with(make: Any) -> Any:
    """Return what runs an arm with a callback."""

    def observe(arm: Any) -> dict[str, Any]:
        torch = importlib.import_module("torch")
        steps = arm.knobs["steps"]

        def callback(model: Model) -> Any:
            return make(model, arm.policy("monitor_register", "overwrites"))

        once = Run(torch, arm, callback)
        once.callback.register(once.optimizers[-1])
        for _ in range(steps):
            once.step()
        run = Run(torch, arm, callback)
        refused = 0
        for index in range(arm.knobs["registrations"]):
            try:
                run.callback.register(run.optimizers[index % len(run.optimizers)])
            except RuntimeError:
                refused += 1
        run.step()
        calls_per_step = run.calls
        for _ in range(steps - 1):
            run.step()
        biases_are_equal = run.model.biases() == once.model.biases()
        run.callback.remove()
        hooks_after_remove = run.hooks()
        calls = run.calls
        run.step()
        figures = {
            "refused": refused,
            "calls_per_step": calls_per_step,
            "hooks_after_remove": hooks_after_remove,
            "calls_per_step_after_remove": run.calls - calls,
            "bias_as_once": biases_are_equal,
            "slot": next((one for one in SLOTS if hasattr(run.callback, one)), None),
        }
        callback_lives = weakref.ref(run.callback)
        model_lives = weakref.ref(run.model)
        optimizers = run.optimizers
        # The counting wrapper is a cycle of ours: it goes with the run.
        del run.callback.__dict__["on_step_end"]
        del run
        gc.collect()
        figures["callback_alive"] = callback_lives() is not None
        figures["model_alive"] = model_lives() is not None
        del optimizers
        return figures

    return observe


def torch_version() -> str:
    """Return PyTorch's version."""
    return str(importlib.import_module("torch").__version__)


LIBRARIES = {
    "torch": harness.finding.Library(
        observe_with(MonitorCallback),
        torch_version,
        module="torch",
        mend="pip install torch",
    ),
    "hyper_parallel": harness.finding.Library(
        observe_with(lambda model, _: installed()(model, lr=RATE)),
        torch_version,
        module="hyper_parallel",
        mend="install Hyper-Parallel with its PyTorch platform",
        told_by="torch",
    ),
}

if __name__ == "__main__":
    sys.exit(harness.finding.main(__file__, sys.argv[1:], LIBRARIES))
