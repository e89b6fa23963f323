"""Runs a scenario without a slope on a real library, and compares its figures."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import HarnessError, InvalidError, UnsupportedError, UsageError
from .rows import Rows
from .scenario import read, unknown

Figures = dict[str, Any]


@dataclass(frozen=True)
class Arm:
    """What an arm is run with."""

    name: str
    knobs: dict[str, Any]
    policies: dict[str, Any]
    #: The figures that the mock must show.
    finding: Figures

    def policy(self, name: str, default: str) -> str:
        """Return a policy of the arm, or what the reported code does."""
        return str(self.policies.get(name, default))


@dataclass(frozen=True)
class Library:
    """A real library: whether it can be had here, and what an arm shows on it."""

    observe: Callable[[Arm], Figures]
    version: Callable[[], str]
    #: The module that must be there; none for what needs none.
    module: str | None = None
    #: What to do where it lacks.
    mend: str = ""
    #: The library whose arms its release is told by: it does what one of them does.
    told_by: str | None = None

    def is_here(self) -> bool:
        """Return whether it can be imported."""
        return self.module is None or importlib.util.find_spec(self.module) is not None


def main(script: str, arguments: Sequence[str], libraries: dict[str, Library]) -> int:
    """Run a script; return its exit code: 0 as declared, 1 not, 2, 3 as ever."""
    try:
        return _run(Path(script), arguments, libraries)
    except HarnessError as error:
        print(f"{Path(script).name}: {error}", file=sys.stderr)
        return error.exit_code


def _run(script: Path, arguments: Sequence[str], libraries: dict[str, Library]) -> int:
    path = script.resolve().parent / "scenario.json"
    scenario = _read(path)
    options = _parser(scenario, libraries).parse_args(arguments)
    name, library = _choose(libraries, options.library)
    if options.out is not None and not options.out.parent.is_dir():
        raise UsageError(f"--out: there is no folder {options.out.parent}")
    of = library.told_by or name
    arms = [arm for arm in scenario["arms"] if of in arm.get("real", {})]
    if options.arm is not None:
        known = {arm["name"]: arm for arm in scenario["arms"]}
        if options.arm not in known:
            raise unknown("arm", options.arm, known)
        arms = [arm for arm in arms if arm["name"] == options.arm]
        if not arms:
            raise UsageError(f"arm '{options.arm}' has no counterpart on {name}")
    lines: list[str] = []
    as_expected = True
    if library.told_by is not None:
        # Its release has a policy of its own, so an arm is run for its knobs.
        arms = [arm for arm in arms if not arm.get("policies")]
    for arm in arms:
        rows, fits = _observe(scenario, arm, name, library)
        lines += rows.lines()
        as_expected = as_expected and fits
    if options.out is not None:
        partial = options.out.with_name(f".{options.out.name}.partial")
        partial.write_text("".join(lines), encoding="utf-8")
        partial.replace(options.out)
    return 0 if as_expected else 1


def _observe(
    scenario: dict[str, Any], arm: dict[str, Any], name: str, library: Library
) -> tuple[Rows, bool]:
    ((kind, figures),) = arm["finding"].items()
    defaults = {knob: spec["default"] for knob, spec in scenario["knobs"].items()}
    knobs = {**defaults, **arm.get("knobs", {})}
    expected = _expected(arm, library.told_by or name)
    try:
        found = library.observe(
            Arm(arm["name"], knobs, arm.get("policies", {}), figures)
        )
    except HarnessError:
        raise
    except Exception as error:
        raise InvalidError(f"arm '{arm['name']}' on {name}: {error}") from error
    rows = Rows(scenario["name"], arm["name"], name)
    rows.run(
        role=arm["role"],
        version=library.version(),
        device="CPU",
        seed=1,
        knobs=knobs,
        steps=1,
    )
    # What else was seen is evidence; what is declared decides.
    judged = {figure: found.get(figure) for figure in expected}
    if library.told_by is not None:
        like = _like(scenario, arm, library.told_by, judged)
        expected = like or expected
    fits = judged == expected
    rows.finding(kind, judged, expected, as_expected=fits, evidence=found)
    verdict = "as declared" if fits else f"NOT as declared: {expected}"
    print(f"{arm['name']}: {json.dumps(judged)}: {verdict}")
    return rows, fits


def _expected(arm: dict[str, Any], library: str) -> Figures:
    """Return what an arm declares for a library."""
    ((_, figures),) = arm["finding"].items()
    real = arm["real"][library]
    same = {figure: figures[figure] for figure in real.get("same", [])}
    return {**same, **real.get("figures", {})}


def _like(
    scenario: dict[str, Any], arm: dict[str, Any], library: str, found: Figures
) -> Figures | None:
    """Return what an arm with the same knobs declares, if that is what is found."""
    for other in scenario["arms"]:
        same_knobs = other.get("knobs", {}) == arm.get("knobs", {})
        if library not in other.get("real", {}) or not same_knobs:
            continue
        expected = _expected(other, library)
        if expected == found:
            print(f"{arm['name']}: as arm '{other['name']}' declares")
            return expected
    return None


def _choose(libraries: dict[str, Library], wanted: str | None) -> tuple[str, Library]:
    names = list(libraries) if wanted is None else [wanted]
    for name in names:
        if libraries[name].is_here():
            return name, libraries[name]
    mends = "; ".join(libraries[name].mend for name in names)
    raise UnsupportedError(f"{sys.executable} has no {' and no '.join(names)}: {mends}")


def _read(path: Path) -> dict[str, Any]:
    data = read(path)
    for key in ("name", "knobs", "arms"):
        if key not in data:
            raise UsageError(f"{path}:1: '{key}' is missing: restore the file")
    return data


def _parser(
    scenario: dict[str, Any], libraries: dict[str, Library]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Scenario {scenario['name']}.")
    parser.add_argument(
        "--library", choices=tuple(libraries), help="default: the first that is here"
    )
    parser.add_argument("--arm", help="default: all that have a counterpart there")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the rows as JSON lines"
    )
    return parser
