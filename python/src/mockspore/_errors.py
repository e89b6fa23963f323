"""What the mock raises: MindSpore's builtin types under one base."""


class MockSporeError(Exception):
    """Base of everything that the mock raises."""


class MockRuntimeError(MockSporeError, RuntimeError):
    """Where MindSpore raises a RuntimeError."""


class MockValueError(MockSporeError, ValueError):
    """Where MindSpore raises a ValueError."""


class MockTypeError(MockSporeError, TypeError):
    """Where MindSpore raises a TypeError."""
