"""Runs a scenario's script: standard library only, no extension needed.

The scripts load this package from the checkout, from an installed
``mockspore``, or from a copy beside them, so its imports are relative.
"""

from . import finding
from .cli import main
from .errors import UnsupportedError
from .setting import Setting, Step

__all__ = ["Setting", "Step", "UnsupportedError", "finding", "main"]
