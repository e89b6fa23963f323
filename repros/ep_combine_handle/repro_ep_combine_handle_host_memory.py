"""The combine's handle on real autograd: MindSpore, PyTorch, or Hyper-Parallel's own.

What stays alive is seen through weak references: to the combined tensors, to
what a hook on each layer's input captured (it dies with its node), and to what a
custom function upstream keeps as an attribute of its ctx.
"""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The harness lies beside this folder, in the checkout and in a copy of both.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
harness: Any = importlib.import_module("harness")

ROWS, HIDDEN, LAYERS = 16, 8, 2


class Marker:
    """Something to refer to weakly."""


class AsyncHandle:
    """Waits once; returns the same tensor each time, and keeps it."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self._waited = False

    def wait(self) -> Any:
        """Return the tensor."""
        self._waited = True
        return self._tensor


def own_handle() -> type[Any]:
    """Return Hyper-Parallel's handle where it is installed, else the one above."""
    for home in (
        "hyper_parallel.core.expert_parallel",
        "hyper_parallel.expert_parallel",
    ):
        try:
            found: type[Any] = importlib.import_module(home).AsyncHandle
        except (ImportError, AttributeError):
            continue
        return found
    return AsyncHandle


class Torch:
    """What the layers need of PyTorch."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        markers = self.markers = []

        class AuxLoss(torch.autograd.Function):  # type: ignore[misc,name-defined]
            @staticmethod
            def forward(ctx: Any, stream: Any) -> Any:
                ctx.aux_loss = Marker()
                markers.append(weakref.ref(ctx.aux_loss))
                return stream.view_as(stream)

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad

        self.function = AuxLoss

    def full(self, rows: int, value: float) -> Any:
        """Return a leaf that requires grad."""
        return self.torch.full((rows, HIDDEN), value, requires_grad=True)

    def backward(self, output: Any) -> None:
        """Run the backward pass with ones."""
        output.backward(self.torch.ones_like(output))

    def grad(self, leaf: Any) -> list[float]:
        """Take a leaf's gradient."""
        grad, leaf.grad = leaf.grad, None
        return list(grad.flatten().tolist())

    def no_grad(self) -> Any:
        """Return a scope that records nothing."""
        return self.torch.no_grad()


class MindSpore:
    """What the layers need of MindSpore."""

    def __init__(self) -> None:
        import mindspore as ms

        self.ms = ms
        ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
        ms.set_device("CPU")
        executor = harness.Setting(ms, "", {}, {}).executor()
        executor.set_grad_flag(True)
        self.set_grad_flag = executor.set_grad_flag
        native = importlib.import_module("mindspore._c_expression")
        self.run_backward = native.run_backward
        markers = self.markers = []

        class AuxLoss(ms.common._grad_function._Function):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, stream: Any) -> Any:
                ctx.aux_loss = Marker()
                markers.append(weakref.ref(ctx.aux_loss))
                return stream

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad

        self.function = AuxLoss

    def full(self, rows: int, value: float) -> Any:
        """Return a leaf that requires grad."""
        import numpy as np

        leaf = self.ms.Tensor(np.full((rows, HIDDEN), value, np.float32))
        leaf.requires_grad_()
        return leaf

    def backward(self, output: Any) -> None:
        """Run the backward pass with ones."""
        import numpy as np

        ones = self.ms.Tensor(np.ones(output.shape, np.float32))
        self.run_backward((output,), (ones,), False, False, ())

    def grad(self, leaf: Any) -> list[float]:
        """Take a leaf's gradient."""
        values = leaf._grad.asnumpy().ravel().tolist()
        leaf._grad = None
        return list(values)

    def no_grad(self) -> Any:
        """Return a scope that records nothing."""
        return _Flag(self)


class _Flag:
    def __init__(self, library: MindSpore) -> None:
        self.library = library

    def __enter__(self) -> None:
        self.library.set_grad_flag(False)

    def __exit__(self, *_: object) -> None:
        self.library.set_grad_flag(True)


class Layer:
    """One MoE module: dispatch and experts are a product, as is the exchange."""

    def __init__(self, library: Any, policy: str, *, async_combine: bool) -> None:
        self.library = library
        self.policy = policy
        self.async_combine = async_combine
        self.weight = library.full(1, 3.0)
        self.exchange = library.full(1, 1.0)
        self.handle_type = own_handle()

    def __call__(self, stream: Any, seen: Training) -> Any:
        """Run the layer, with a hook on its input's node."""
        passed = self.library.function.apply(stream)
        marker = Marker()
        passed.register_hook(lambda grad, keep=marker: None)
        seen.nodes.append(weakref.ref(marker))
        computed = passed * self.weight
        seen.before_combine()
        combined = computed * self.exchange
        seen.tensors.append(weakref.ref(combined))
        return self.combine(combined)

    def combine(self, combined: Any) -> Any:
        """Do with the handle what the policy says."""
        if not self.async_combine:
            return combined
        handle = self.handle_type(combined)
        if self.policy in ("kept_on_module", "kept_for_debug"):
            self._ep_combine_handle = handle
            return handle.wait()
        if self.policy in ("cleared_after_wait", "one_shot_slot"):
            self._ep_combine_handle = handle
            output = handle.wait()
            del self._ep_combine_handle
            return output
        return handle.wait()


class Training:
    """Two layers, and weak references to what their first step made."""

    def __init__(self, library: Any, arm: Any, policy: str) -> None:
        self.library = library
        on = arm.knobs["async_combine"] == "on"
        self.layers = [Layer(library, policy, async_combine=on) for _ in range(LAYERS)]
        self.input = library.full(ROWS, 2.0)
        self.tensors: list[Any] = []
        self.nodes: list[Any] = []
        self.before_combine: Callable[[], None] = lambda: None

    def forward(self) -> Any:
        """Run all layers."""
        stream = self.input
        for layer in self.layers:
            stream = layer(stream, self)
        return stream

    def leaves(self) -> list[Any]:
        """Return everything that has a gradient."""
        weights = [leaf for one in self.layers for leaf in (one.weight, one.exchange)]
        return [self.input, *weights]


def alive(references: list[Any]) -> int:
    """Count what still lives."""
    gc.collect()
    return sum(reference() is not None for reference in references)


def observe_with(make: Callable[[], Any]) -> Callable[[Any], dict[str, Any]]:
    """Return what runs an arm on a library."""

    def observe(arm: Any) -> dict[str, Any]:
        library = make()
        policy = arm.policy("combine_handle", "kept_on_module")
        figures, grads = run(library, arm, policy)
        _, reference = run(make(), arm, "local_handle")
        return {**figures, "gradients_as_local": grads == reference}

    return observe


def run(library: Any, arm: Any, policy: str) -> tuple[dict[str, Any], Any]:
    """Run a step and the next forward; what is alive in each phase."""
    training = Training(library, arm, policy)
    output = training.forward()
    tensors, nodes, ctxs = training.tensors, training.nodes, library.markers
    first = {"tensors": list(tensors), "nodes": list(nodes), "ctxs": list(ctxs)}
    grads = None
    if arm.knobs["backward"] == "on":
        library.backward(output)
        grads = [library.grad(leaf) for leaf in training.leaves()]
    del output
    figures = {
        "tensors_after_backward": alive(first["tensors"]),
        "nodes_after_backward": alive(first["nodes"]),
        "ctx_after_backward": alive(first["ctxs"]),
    }
    with library.no_grad():
        for layer in training.layers:
            layer.weight * 0.5
    figures["tensors_in_optimizer_step"] = alive(first["tensors"])
    in_next: list[int] = []
    training.before_combine = lambda: in_next.append(alive(first["tensors"]))
    output = training.forward()
    del output
    figures["tensors_in_next_forward"] = in_next[0]
    figures["tensors_after_next_forward"] = alive(first["tensors"])
    return figures, grads


LIBRARIES = {
    "mindspore": harness.finding.Library(
        observe_with(MindSpore),
        lambda: str(importlib.import_module("mindspore").__version__),
        module="mindspore",
        mend='pip install mindspore "numpy<2"',
    ),
    "torch": harness.finding.Library(
        observe_with(Torch),
        lambda: str(importlib.import_module("torch").__version__),
        module="torch",
        mend="pip install torch",
    ),
}

if __name__ == "__main__":
    sys.exit(harness.finding.main(__file__, sys.argv[1:], LIBRARIES))
