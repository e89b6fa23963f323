"""The command line that every scenario's script has."""

from __future__ import annotations

import argparse
import os
import random
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from . import backend, launch, protocol
from .errors import HarnessError, InvalidError, UnsupportedError, UsageError
from .probes import Probes
from .rows import Rows
from .scenario import Scenario
from .setting import Setting, Step

MAX_STEPS = 1_000_000_000


def main(
    script: str,
    build: Callable[[Setting], Step],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run one arm and write its rows; return the exit code."""
    try:
        scenario = Scenario(Path(script).resolve().with_name("scenario.json"))
        given = sys.argv[1:] if arguments is None else list(arguments)
        options = _parser(scenario).parse_args(given)
        _run(script, given, scenario, options, build)
    except HarnessError as error:
        print(f"{Path(script).name}: {error}", file=sys.stderr)
        return error.exit_code
    except Exception as error:
        if "unregistered" in str(error):
            # A kernel that the device does not have; asynchronous, so anywhere.
            unsupported = UnsupportedError(str(error).splitlines()[0])
            print(f"{Path(script).name}: {unsupported}", file=sys.stderr)
            return unsupported.exit_code
        # Whatever the framework raises in a step makes the measurement invalid.
        traceback.print_exc()
        return InvalidError.exit_code
    return 0


def _run(
    script: str,
    arguments: Sequence[str],
    scenario: Scenario,
    options: argparse.Namespace,
    build: Callable[[Setting], Step],
) -> None:
    arm = scenario.arm(options.arm)
    mock = options.backend == "mockspore"
    if "real" not in arm and not mock:
        raise UsageError(f"arm '{options.arm}' has no real counterpart")
    plan = {**scenario.real, **arm.get("real", {}).get("plan", {})}
    for name in ("steps", "every", "warmup"):
        if getattr(options, name) is None:
            setattr(options, name, plan[name])
    if options.device is None:
        options.device = arm.get("device", "CPU") if mock else "CPU"
    if options.steps % options.every:
        raise UsageError("--steps must be a multiple of --every")
    if options.out is not None and not options.out.parent.is_dir():
        raise UsageError(f"--out: there is no folder {options.out.parent}")
    knobs = scenario.knob_values(arm, options.set)
    if not mock:
        scenario.refuse_mock_only(options.set)
        backend.restart_with(scenario.real.get("env", {}))
    ranks = scenario.ranks(knobs)
    if ranks is not None and not mock:
        if not launch.is_rank():
            launch.run(script, arguments, ranks)
            return
        launch.end_with_parent()
    policies = arm.get("policies", {})
    ms = backend.load(options.backend)
    if not mock:
        scenario.require_offered(ms.__version__)
    rank = backend.set_up(
        ms,
        mock=mock,
        device=options.device,
        pipeline=options.pipeline,
        policies=policies,
        ranks=ranks,
    )
    rows = Rows(scenario.name, options.arm, options.backend)
    rows.run(
        role=arm["role"],
        version="2.10.0" if mock else ms.__version__,
        device=options.device,
        seed=options.seed,
        knobs=knobs,
        steps=options.steps,
    )
    step = build(
        Setting(
            ms=ms,
            arm=options.arm,
            knobs=knobs,
            policies=policies,
            declared=scenario.knobs,
            baseline=options.baseline,
            random=random.Random(options.seed),
        )
    )
    table = protocol.readings(
        ms,
        step,
        Probes(ms, scenario.real["metrics"], mock=mock).read,
        warmup=options.warmup,
        steps=options.steps,
        every=options.every,
    )
    readings = list(table)
    if rank > 0:
        return
    for done, metrics in readings:
        rows.sample(done, metrics)
    if options.out is not None:
        rows.write(options.out)
    _print(readings)


def _print(readings: list[tuple[int, dict[str, int]]]) -> None:
    try:
        for done, metrics in readings:
            print(done, *(f"{name}={value}" for name, value in metrics.items()))
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads stdout any more; the rows are written already.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _count(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if text.isdecimal() and minimum <= int(text) <= MAX_STEPS:
            return int(text)
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a whole number from {minimum} to {MAX_STEPS}"
        )

    return parse


def _parser(scenario: Scenario) -> argparse.ArgumentParser:
    real = scenario.real
    parser = argparse.ArgumentParser(description=f"Scenario {scenario.name}.")
    add = parser.add_argument
    add("--backend", choices=("mindspore", "mockspore"), default="mindspore")
    add(
        "--device",
        choices=("CPU", "Ascend"),
        help="default: CPU, and the arm's own on the mock",
    )
    add("--arm", default=real["control"])
    add("--steps", type=_count(1), help="default: the arm's own")
    add("--every", type=_count(1), help="default: the arm's own")
    add("--warmup", type=_count(0), help="default: the arm's own")
    add("--set", action="append", default=[], metavar="KNOB=VALUE")
    add("--seed", type=_count(0), default=1)
    add(
        "--baseline",
        choices=("clean", "report"),
        default="clean",
        help="clean has no growth of its own; report is the reports' loop",
    )
    add(
        "--pipeline",
        choices=("sync", "async"),
        default="sync",
        help="async keeps the framework's queues, and graphs in flight in them",
    )
    add("--out", type=Path, metavar="FILE", help="write the rows as JSON lines")
    return parser
