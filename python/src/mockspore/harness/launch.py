"""Starts one process for each rank of the real framework, and waits for them."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .errors import UNSUPPORTED, InvalidError, UnsupportedError, UsageError

# Set by msrun in each process that it starts, the scheduler's too.
_ROLE = "MS_ROLE"
# Set here, so that what was launched never launches.
_LAUNCHED = "MOCKSPORE_LAUNCHED"
_PR_SET_PDEATHSIG = 1
_TAIL = 12
_CLUSTER_SECONDS = 120


def is_rank() -> bool:
    """Return whether this process was started as one of several already."""
    return _ROLE in os.environ or _LAUNCHED in os.environ


def end_with_parent() -> None:
    """Have the system end this process with the one that started it.

    ``msrun`` gives each rank a session of its own, which a signal to the group
    of ``msrun`` does not reach.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run(script: str, arguments: Sequence[str], ranks: int) -> None:
    """Run the script once for each rank, under ``msrun`` on a free port."""
    # msrun starts the first python on the path, which must be this one.
    binaries = Path(sys.executable).parent
    msrun = shutil.which("msrun", path=str(binaries))
    if msrun is None:
        raise UsageError(f"there is no msrun beside {sys.executable}")
    environment = {"GLOG_v": "3", **os.environ, _LAUNCHED: "1"}
    environment["PATH"] = os.pathsep.join((str(binaries), os.environ.get("PATH", "")))
    with tempfile.TemporaryDirectory() as logs:
        command = [
            msrun,
            f"--worker_num={ranks}",
            f"--local_worker_num={ranks}",
            f"--master_port={_free_port()}",
            f"--log_dir={logs}",
            f"--cluster_time_out={_CLUSTER_SECONDS}",
            "--join=True",
            script,
            *arguments,
        ]
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            words = _last_words(Path(logs))
            for line in words.splitlines():
                if UNSUPPORTED in line:
                    raise UnsupportedError(line.partition(UNSUPPORTED)[2])
            raise InvalidError(f"a rank failed:\n{words or done.stderr}")
        # What rank 0 printed is what the script prints.
        print((Path(logs) / "worker_0.log").read_text(errors="replace"), end="")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _last_words(logs: Path) -> str:
    """Return the end of each rank's log, the first rank's first."""
    parts = []
    for log in sorted(logs.glob("worker_*.log")):
        lines = log.read_text(errors="replace").splitlines()
        parts.append("\n".join((f"{log.name}:", *lines[-_TAIL:])))
    return "\n".join(parts)
