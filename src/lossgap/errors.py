"""Errors that name the client, the cause and the fix."""


class LossgapError(Exception):
    """Anything that lossgap refuses or cannot finish. Its message says what to do about it."""


class DataError(LossgapError, ValueError):
    """The rows cannot be trained on as they are."""


class SettingError(LossgapError, ValueError):
    """A setting that means nothing or would do harm."""


class DivergedError(LossgapError, ArithmeticError):
    """A run whose losses left every bound."""


class FileError(LossgapError, OSError):
    """A file that is not there, cut off, or not what it says."""


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
