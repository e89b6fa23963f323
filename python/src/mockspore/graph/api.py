"""``mindspore.graph.api``: the executor that the scenarios talk to."""

from __future__ import annotations

from mockspore import _mockspore

__all__ = ["_pynative_executor"]


class _PyNativeExecutor:
    clear_res = staticmethod(_mockspore.clear_res)
    grad_flag = staticmethod(_mockspore.grad_flag)
    set_grad_flag = staticmethod(_mockspore.set_grad_flag)
    queue_backward_final_callback = staticmethod(
        _mockspore.queue_backward_final_callback
    )

    @staticmethod
    def sync() -> None:
        """Return at once: nothing is in flight."""


_pynative_executor = _PyNativeExecutor()
