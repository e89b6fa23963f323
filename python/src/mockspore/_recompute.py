"""``recompute``: run a block again in the backward, and keep less until then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mockspore import _mockspore
from mockspore._errors import MockRuntimeError

__all__ = ["recompute"]


def recompute(
    block: Callable[..., Any],
    *args: Any,
    use_reentrant: bool = True,
    output_recompute: bool = False,
    early_stop: bool = True,
    context_fn: None = None,
) -> Any:
    """Return ``block(*args)`` without keeping what its backward needs.

    Only the non-reentrant way, without keywords for the block, is modelled.
    """
    if use_reentrant or output_recompute or context_fn is not None:
        raise MockRuntimeError(
            "only use_reentrant=False, without output_recompute and context_fn, "
            "is modelled"
        )
    outputs = _mockspore.recompute(block, list(args), early_stop)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
