"""Units, schedulers and states on MindSpore's own API.

A unit's output hooks and its ``PostBackwardFunction`` call its scheduler, which
gathers, shards and reduces its parameters.
"""

from __future__ import annotations

import importlib
import weakref
from collections import Counter
from typing import Any

NAMES = ("hooks_registered", "hook_calls", "applies", "final_callbacks")
NAMES += ("collectives", "state_changes", "backward_without_unshard")


class Process:
    """What all units of this rank share."""

    def __init__(self, setting: Any) -> None:
        self.ms = setting.ms
        self.executor = setting.executor()
        self.dist = importlib.import_module(f"{self.ms.__name__}.mint.distributed")
        self.release = setting.policy("backward_pre_hook", "dropped")
        self.clear = setting.policy("needs_input_grad", "kept")
        self.requires_grad_sync = True
        self.counters = Counter({f"step.{name}": 0 for name in NAMES})
        # Handles by forward, for those that may still run backward.
        self.forwards: list[Forward] = []
        self.forward = Forward()
        # Units of the running backward, and the reductions of the one before.
        self.reached: dict[Scheduler, None] = {}
        self.queued = False
        self.pending: list[Any] = []
        self.function = make_post_backward(self.ms)

    def count(self, name: str) -> None:
        """Note that something happened."""
        self.counters[f"step.{name}"] += 1

    def reduce(self, tensor: Any) -> None:
        """Take the largest of all ranks' values: equal ones stay as they are."""
        self.issue("all_reduce", tensor, op="max").wait()

    def issue(self, name: str, *tensors: Any, **options: Any) -> Any:
        """Start a collective and return its handle."""
        self.count("collectives")
        return getattr(self.dist, name)(*tensors, async_op=True, **options)

    def begin_forward(self) -> None:
        """Release the forwards that no backward can reach any more."""
        self.release_forwards(lambda forward: forward.token() is None)
        self.forward = Forward()

    def release_forwards(self, done: Any) -> None:
        """Remove the handles of the forwards that are done."""
        for forward in [one for one in self.forwards if done(one)]:
            self.forwards.remove(forward)
            for handle in forward.handles:
                handle.remove()

    def drain(self) -> None:
        """Wait for the reductions that are under way."""
        for handle in self.pending:
            handle.wait()
        self.pending = []

    def root_backward_hook(self) -> None:
        """End a backward: once, whichever unit queued it."""
        self.queued = False
        reached, self.reached = self.reached, {}
        for unit in reached:
            unit.backward_hook()
        self.drain()
        if self.release == "released_with_backward":
            self.release_forwards(
                lambda one: one.token() is None or one.token().took_part
            )
        elif self.release == "cleared_by_any_root":
            self.release_forwards(lambda _: True)


class Token:
    """Lives as long as a backward through its forward is still possible."""

    took_part = False


class Forward:
    """The handles of one forward; only hooks own its token for long."""

    def __init__(self) -> None:
        self.own: Token | None = Token()
        self.weak = weakref.ref(self.own)
        self.handles: list[Any] = []

    def token(self) -> Token | None:
        """Return the token, if a hook still owns it."""
        return self.weak()


class Param:
    """A parameter: this rank's part, the whole, and its reduced gradient."""

    def __init__(self, setting: Any, width: int, ranks: int, *, sharded: bool) -> None:
        self.sharded = sharded
        self.full = setting.random_tensor(1, width)
        self.full.requires_grad_()
        part = width // ranks if sharded else width
        self.own = setting.random_tensor(1, part) if sharded else self.full
        self.grad = setting.random_tensor(1, part)


class Scheduler:
    """A unit's scheduler, with its parameters."""

    def __init__(self, process: Process, params: list[Param]) -> None:
        self.process = process
        self.params = params
        self.state = "NONE"
        self.is_root = False
        self.forward_prefetch: list[Scheduler] = []
        self.backward_prefetch: list[Scheduler] = []
        self.gathers: list[Any] | None = None
        self.handles: list[Any] = []

    def enter(self, state: str) -> None:
        """Go to another state."""
        self.process.count("state_changes")
        self.state = state

    def prefetch(self) -> None:
        """Start gathering, unless the parameters are there or on their way."""
        if self.gathers is None:
            self.gathers = [
                self.process.issue("all_gather_into_tensor", param.full, param.own)
                for param in self.params
                if param.sharded
            ]

    def unshard(self, ahead: list[Scheduler]) -> None:
        """Have the parameters gathered, and start gathering those ahead."""
        self.prefetch()
        for handle in self.gathers or ():
            handle.wait()
        self.gathers = []
        for unit in ahead:
            unit.prefetch()

    def shard(self) -> None:
        """Leave this rank its part only."""
        self.gathers = None

    def pre_forward(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gather, and mark where the unit's backward ends."""
        if self.is_root:
            self.process.begin_forward()
        self.enter("PRE_FORWARD")
        self.unshard(self.forward_prefetch)
        if not any(one._requires_grad for one in inputs):
            return inputs
        self.process.count("applies")
        output = self.process.function.apply(self, *inputs)
        return (output,)

    def post_forward(self, outputs: tuple[Any, ...]) -> None:
        """Register on the outputs, and shard."""
        process = self.process
        handles = [self.register(output) for output in outputs if output._requires_grad]
        if process.release == "removed_in_function_backward":
            self.handles = handles
        self.enter("FORWARD")
        if self.is_root:
            process.forward.own = None
            if process.release in ("released_with_backward", "cleared_by_any_root"):
                process.forwards.append(process.forward)
        self.shard()

    def register(self, output: Any) -> Any:
        """Register the backward pre-hook on an output."""
        process, token = self.process, self.process.forward.own
        own: list[Any] = []

        def hook(grad: Any) -> None:
            del grad
            if token is not None:
                token.took_part = True
            while own:
                own.pop().remove()
            self.backward_pre_hook()

        process.count("hooks_registered")
        handle = output.register_hook(hook)
        if process.release in ("released_with_backward", "cleared_by_any_root"):
            process.forward.handles.append(handle)
        elif process.release == "removed_on_firing":
            own.append(handle)
        return handle

    def backward_pre_hook(self) -> None:
        """Gather before the unit's backward; queue what ends the backward."""
        process = self.process
        process.count("hook_calls")
        process.reached[self] = None
        final = self.backward_hook if process.queued else process.root_backward_hook
        process.queued = True

        def callback() -> None:
            process.count("final_callbacks")
            final()

        process.executor.queue_backward_final_callback(callback)
        if self.state != "PRE_BACKWARD":
            self.enter("PRE_BACKWARD")
            self.unshard(self.backward_prefetch)

    def backward_hook(self) -> None:
        """Reduce the gradients and shard: once in each backward."""
        if self.state == "BACKWARD":
            return
        self.enter("BACKWARD")
        if self.process.requires_grad_sync:
            self.process.drain()
            self.process.pending = [self.reduce(param) for param in self.params]
        self.shard()

    def reduce(self, param: Param) -> Any:
        """Start the reduction of one gradient."""
        grad, param.full._grad = param.full._grad, None
        if param.sharded:
            return self.process.issue("reduce_scatter_tensor", param.grad, grad)
        param.grad = grad
        return self.process.issue("all_reduce", grad)

    def zero_grad(self) -> None:
        """Drop gradients that no reduction has taken."""
        for param in self.params:
            param.full._grad = None


def make_post_backward(ms: Any) -> Any:
    """Make the function whose backward is the end of a unit's."""

    class PostBackwardFunction(ms._Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, scheduler: Any, *inputs: Any) -> Any:
            ctx.scheduler = scheduler
            if scheduler.process.clear == "cleared_in_forward":
                ctx.needs_input_grad = None
            return inputs[0]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            scheduler = ctx.scheduler
            if scheduler.state != "PRE_BACKWARD":
                scheduler.process.count("backward_without_unshard")
            scheduler.backward_hook()
            while scheduler.handles:
                scheduler.handles.pop().remove()
            if scheduler.process.clear == "cleared_in_backward":
                ctx.needs_input_grad = None
            return None, grad

    return PostBackwardFunction
