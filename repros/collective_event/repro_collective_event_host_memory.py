"""Events of collectives: one step as a function of ``ms``, on each rank.

The same step on the mock runtime in Rust is in ``mock.rs``.
"""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path
from typing import Any

# The harness lies beside this folder, in the checkout and in a copy of both.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
harness: Any = importlib.import_module("harness")


class Collectives:
    """The tensors that outlive a step."""

    def __init__(self, setting: Any) -> None:
        self.ms = setting.ms
        self.dist = importlib.import_module(f"{self.ms.__name__}.mint.distributed")
        self.collective = setting.choice("collective")
        self.wait = setting.choice("wait")
        if self.wait == "two_streams" or setting.choice("own_event") == "yes":
            what = "a second stream and an event of one's own are in the Rust step only"
            raise harness.UnsupportedError(what)
        self.calls = setting.integer("calls_per_step")
        self.asynchronous = self.wait != "sync"
        ranks = setting.integer("ranks")
        self.x = setting.random_tensor(1, 4)
        self.weight = setting.random_tensor(1, 4)
        self.parts = [setting.random_tensor(1, 4) for _ in range(ranks)]
        self.whole = setting.random_tensor(ranks, 4)
        self.primitive = None
        if self.collective == "all_reduce_primitive":
            self.primitive = self.ms.ops.AllReduce()
        if hasattr(self.ms, "set_abstract_limits"):
            self.ms.set_abstract_limits(
                setting.integer("threshold"), setting.integer("drops")
            )
            self.ms.set_acl_residue(setting.integer("acl_residue_bytes"))

    def step(self) -> Any:
        """Make the calls, wait as the arm does, and synchronise."""
        last = self.x
        for _ in range(self.calls):
            if self.primitive is not None:
                last = self.primitive(self.x)
            elif self.collective == "nothing":
                last = self.ms.mint.mul(self.x, self.weight)
            else:
                handle = self.call()
                if self.wait == "async":
                    handle.wait()
                del handle
        last.asnumpy()
        self.ms.runtime.synchronize()
        gc.collect()
        return last

    def call(self) -> Any:
        """One collective."""
        dist, options = self.dist, {"async_op": self.asynchronous}
        if self.collective == "broadcast":
            return dist.broadcast(self.x, 0, **options)
        if self.collective == "all_gather":
            return dist.all_gather(self.parts, self.x, **options)
        if self.collective == "all_gather_into_tensor":
            return dist.all_gather_into_tensor(self.whole, self.x, **options)
        if self.collective == "reduce_scatter_tensor":
            return dist.reduce_scatter_tensor(self.x, self.whole, op="max", **options)
        # A reduction that leaves equal values as they are, however often.
        return dist.all_reduce(self.x, op="max", **options)


def build(setting: Any) -> Any:
    """Make the step."""
    return harness.Step(run=Collectives(setting).step)


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
