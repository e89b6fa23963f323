"""Readers of what this process holds; one that cannot read is an error."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import InvalidError

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
# From 3.12 on the reference counts of True and False stand still.
BOOLS_ARE_MORTAL = sys.version_info < (3, 12)
SMAPS = Path("/proc/self/smaps_rollup")


class _MallInfo2(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS.split())


def _mallinfo2() -> Any:
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError) as error:
        raise InvalidError(
            "cannot read libc.malloc_inuse: this C library has no mallinfo2 "
            "(glibc 2.33 or later has)"
        ) from error
    function.restype = _MallInfo2
    return function


_TEST_BYTES = 1 << 16


def _require_own_malloc(in_use: Callable[[], int]) -> None:
    """Refuse a process whose malloc is not the one that mallinfo2 tells of."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    before = in_use()
    block = libc.malloc(_TEST_BYTES)
    seen = in_use() - before
    libc.free(block)
    if seen < _TEST_BYTES:
        raise InvalidError(
            "cannot read libc.malloc_inuse: another allocator is loaded in the place "
            "of the C library's (LD_PRELOAD): run without it"
        )


class Probes:
    """The metrics of one backend, in a fixed order.

    ``wanted`` adds what is read only where it decides: counting the collector's
    objects makes a list of them all.
    """

    def __init__(self, ms: Any, wanted: Sequence[str], *, mock: bool) -> None:
        self._mallinfo2 = _mallinfo2()
        self._wanted = wanted
        _require_own_malloc(self._in_use)
        self._ms = ms
        self._mock = mock

    def read(self) -> dict[str, int]:
        """Read everything that this backend shows."""
        metrics = dict(self._mock_books()) if self._mock else {}
        metrics["libc.malloc_inuse"] = self._in_use()
        metrics.update(_smaps_rollup())
        metrics["py.blocks"] = sys.getallocatedblocks()
        if "py.refs_true" in self._wanted and BOOLS_ARE_MORTAL:
            metrics["py.refs_true"] = sys.getrefcount(True)
            metrics["py.refs_false"] = sys.getrefcount(False)
        # The mock's Tensor is no object of the collector: the census counts it.
        if "gc.tensors" in self._wanted and not self._mock:
            metrics["gc.tensors"] = self._tensors()
        return metrics

    def _in_use(self) -> int:
        info = self._mallinfo2()
        return int(info.uordblks + info.hblkhd)

    def _tensors(self) -> int:
        # By type, not by isinstance: weak proxies raise there.
        kind = self._ms.Tensor
        return sum(issubclass(type(each), kind) for each in gc.get_objects())

    def _mock_books(self) -> dict[str, int]:
        books = {f"objects.{kind}": live for kind, live in self._ms.census().items()}
        books.update(self._ms.tallies())
        books["heap.thread_net"] = self._ms.thread_net()
        return books


def _smaps_rollup() -> dict[str, int]:
    try:
        text = SMAPS.read_text(encoding="ascii")
    except OSError as error:
        raise InvalidError(f"cannot read {SMAPS}: {error.strerror}") from error
    fields = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        fields[name] = rest.split()
    try:
        return {
            metric: int(fields[name][0]) * 1024
            for metric, name in (("proc.anon", "Anonymous"), ("proc.rss", "Rss"))
        }
    except (KeyError, IndexError, ValueError) as error:
        raise InvalidError(f"cannot read {SMAPS}: no field {error}") from error
