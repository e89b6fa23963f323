"""``scenario.json``: the single truth of a scenario for Rust and Python."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .errors import UnsupportedError, UsageError

SCHEMA_VERSION = 1


def unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    """Build the error for a name that is not known, with the near match."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
    return UsageError(f"unknown {what} '{name}': {hint}")


def read(path: Path) -> dict[str, Any]:
    """Read a ``scenario.json`` of either kind."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}:1: {error.reason}; restore the file") from error
    except OSError as error:
        raise UsageError(f"{path}:1: {error.strerror}; restore the file") from error
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{path}:{error.lineno}: {error.msg}; the file is cut off or damaged: "
            "restore it"
        ) from error
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(f"{path}:1: schema_version must be {SCHEMA_VERSION}")
    return data


class Scenario:
    """A scenario as its file declares it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = read(path)
        try:
            self.name: str = data["name"]
            self.knobs: dict[str, Any] = data["knobs"]
            self.real: dict[str, Any] = data["real"]
            self._arms = {arm["name"]: arm for arm in data["arms"]}
            self._defaults = {
                name: knob["default"] for name, knob in self.knobs.items()
            }
            self._releases: dict[str, str] = data["releases"]
            self._ranks: str | None = data.get("ranks")
            for key in ("control", "steps", "every", "warmup"):
                _ = self.real[key]
        except (AttributeError, KeyError, TypeError) as error:
            raise UsageError(f"{path}:1: {error} is missing or misplaced") from error

    def ranks(self, knobs: dict[str, int | str]) -> int | None:
        """Return the number of ranks, if the scenario has ranks."""
        return None if self._ranks is None else int(knobs[self._ranks])

    def require_offered(self, version: str) -> None:
        """Stop where the release lacks what the scenario needs."""
        if self._releases.get(version) == "not_offered":
            raise UnsupportedError(f"release {version} lacks what {self.name} needs")

    def refuse_mock_only(self, assignments: Iterable[str]) -> None:
        """Refuse to set what a real framework does not let one set."""
        for assignment in assignments:
            name = assignment.partition("=")[0]
            if self.knobs.get(name, {}).get("mock_only"):
                raise UsageError(f"knob '{name}' exists on the mock only")

    def arm(self, name: str) -> dict[str, Any]:
        """Return the arm of ``name``."""
        if name not in self._arms:
            raise unknown("arm", name, self._arms)
        arm: dict[str, Any] = self._arms[name]
        return arm

    def knob_values(
        self, arm: dict[str, Any], assignments: Iterable[str]
    ) -> dict[str, int | str]:
        """Return the defaults, the script's, the arm's own, then ``assignments``."""
        own = arm.get("knobs", {})
        values = {**self._defaults, **self.real.get("set", {}), **own}
        for assignment in assignments:
            name, separator, text = assignment.partition("=")
            if not (name and separator and text):
                raise UsageError(f"--set {assignment}: write it as KNOB=VALUE")
            if name not in self.knobs:
                raise unknown("knob", name, self.knobs)
            if name in own:
                raise UsageError(
                    f"knob '{name}' cannot be '{text}': arm '{arm['name']}' sets it "
                    "itself, choose another with --arm"
                )
            values[name] = self._value(name, text)
        return values

    def _value(self, name: str, text: str) -> int | str:
        knob = self.knobs[name]
        if "choices" in knob:
            if text in knob["choices"]:
                return text
            allowed = f"it is one of {', '.join(knob['choices'])}"
        else:
            low, high = knob["min"], knob["max"]
            if text.isdecimal() and low <= int(text) <= high:
                return int(text)
            allowed = f"it is a whole number from {low} to {high}"
        raise UsageError(f"knob '{name}' cannot be '{text}': {allowed}")
