"""Warm up, then read on a fixed grid, drained and collected before each reading."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

from .errors import InvalidError
from .setting import Step

SETTLE_SECONDS = 10.0
_POLL_SECONDS = 0.01


def readings(
    ms: Any,
    step: Step,
    read: Callable[[], dict[str, int]],
    *,
    warmup: int,
    steps: int,
    every: int,
) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield ``(step, metrics)`` at step 0 and after every ``every``-th step.

    What a reading allocates is the caller's to keep outside of the window: the
    rows are a few hundred bytes and are the same in every arm.
    """
    last = None
    for _ in range(warmup):
        last = step.run()
    _drain(ms, step, last)
    # The first reading pays for what reading makes once.
    read()
    yield 0, {**read(), **step.counters()}
    for done in range(1, steps + 1):
        last = step.run()
        if done % every == 0:
            _drain(ms, step, last)
            yield done, {**read(), **step.counters()}


def _drain(ms: Any, step: Step, last: Any) -> None:
    if last is not None:
        last.asnumpy()
    ms.runtime.synchronize()
    deadline = time.monotonic() + SETTLE_SECONDS
    while not step.settled():
        if time.monotonic() > deadline:
            raise InvalidError(
                f"work is still in flight {SETTLE_SECONDS:.0f} s after the drain"
            )
        time.sleep(_POLL_SECONDS)
    gc.collect()
