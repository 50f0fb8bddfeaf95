"""Errors that name the client, the cause and the fix."""

import math
from collections.abc import Callable, Hashable, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

H = TypeVar("H", bound=Hashable)


class LossgapError(Exception):
    """Anything that lossgap refuses or cannot finish. Its message says what to do about it."""


class DataError(LossgapError, ValueError):
    """The rows cannot be trained on as they are."""


class SettingError(LossgapError, ValueError):
    """A setting that means nothing or would do harm."""


class DivergedError(LossgapError, ArithmeticError):
    """A run whose losses left every bound, and the number of the client whose loss was the first to do so."""

    def __init__(self, message: str, client: int | None = None) -> None:
        super().__init__(message)
        self.client = client


class FileError(LossgapError, OSError):
    """A file that is not there, cut off, or not what it says."""


class Stopped(KeyboardInterrupt):
    """Training that was interrupted, and on request what it has come to so far."""

    def __init__(self, so_far: Callable[[], Any]) -> None:
        super().__init__()
        self.so_far = so_far


class DataWarning(UserWarning):
    """Rows that can be trained on, with something about them that a user should know."""


def require(condition: object, cause: str, fix: str) -> None:
    """Refuse a setting: what is wrong with it, then what to do instead."""
    if not condition:
        raise SettingError(f"{cause} {fix}")


def require_data(condition: object, cause: str, fix: str) -> None:
    """Refuse rows: whose they are and what is wrong with them, then what to do about it."""
    if not condition:
        raise DataError(f"{cause} {fix}")


def is_count(number: object) -> bool:
    """Whether this is a whole number of at least 1."""
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= 1


def is_positive(number: object) -> bool:
    """Whether this is a finite number above zero."""
    return isinstance(number, Real) and not isinstance(number, bool) and 0 < float(number) < math.inf


def repeated(names: Sequence[H]) -> list[H]:
    """What stands more than once, in order of first appearance."""
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]
