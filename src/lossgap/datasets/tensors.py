"""PyTorch's tensor files (.pt), read without PyTorch and without running what they hold.

Such a file is a zip archive: a pickle that says type, shape and place of a tensor, and the numbers as they are. A
pickle is a program for a small stack machine that may call anything. The machine here knows only what a plain tensor
needs: it calls nothing, and anything else ends in an error. A file is read whole or refused.
"""

import math
import pickletools
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lossgap.errors import FileError

LARGEST_PICKLE = 1 << 16
DTYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
}
REBUILD, HOOKS = "torch._utils _rebuild_tensor_v2", "collections OrderedDict"
AGAIN = "Fetch or copy the file again."
DAMAGE = (  # what reading a zip archive or a pickle of any bytes may raise
    *(zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, EOFError, OSError),
    *(ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError),
)


@dataclass(frozen=True)
class _Name:
    """Something that a pickle would import."""

    name: str


@dataclass(frozen=True)
class _Storage:
    """Numbers in the archive."""

    dtype: np.dtype
    place: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Mark:
    """Where a tuple begins on the stack."""


class _Refused(ValueError):
    """Anything that is not a plain tensor."""


def tensor(path: Path) -> np.ndarray:
    """The one tensor of a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path.stat().st_size)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file. Check the path.") from None
    except _Refused as problem:
        raise FileError(f"{path} is no file of one plain tensor: {problem}. {AGAIN}") from problem
    except DAMAGE as problem:
        raise FileError(
            f"{path} is damaged, or no tensor file of PyTorch 1.6 or later: {problem}. {AGAIN}"
        ) from problem


def _read(archive: zipfile.ZipFile, size: int) -> np.ndarray:
    names = archive.namelist()
    pickles = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
    _demand(len(pickles) == 1 and len(set(names)) == len(names), "the archive does not hold one data.pkl")
    folder = pickles[0].removesuffix("data.pkl")
    if f"{folder}byteorder" in names:
        _demand(_member(archive, f"{folder}byteorder", 16) == b"little", "its numbers are not little-endian")
    found = _run(_member(archive, pickles[0], LARGEST_PICKLE))
    _demand(isinstance(found, _Tensor), "it holds something else")
    _check(found)
    content = _member(archive, f"{folder}data/{found.storage.place}", size)
    _demand(len(content) == found.storage.count * found.storage.dtype.itemsize, "its numbers are not all there")
    count = math.prod(found.shape)
    return np.frombuffer(content, found.storage.dtype, count, found.offset * found.storage.dtype.itemsize).reshape(
        found.shape
    )


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """A file of the archive; its checksum is compared while it is read."""
    entry = archive.getinfo(name)
    _demand(entry.compress_type == zipfile.ZIP_STORED, f"{name} is compressed")
    _demand(entry.file_size <= most, f"{name} is larger than it may be")
    return archive.read(entry)


def _check(tensor: _Tensor) -> None:
    """Rows one after another without gaps, within the storage."""
    contiguous, step = True, 1
    for side, stride in zip(tensor.shape[::-1], tensor.strides[::-1], strict=True):
        contiguous &= side == 1 or stride == step
        step *= side
    _demand(contiguous, "its numbers are not in one piece and in order")
    _demand(min((1, *tensor.shape)) > 0, f"its shape is {tensor.shape}")
    _demand(tensor.offset >= 0 and tensor.offset + step <= tensor.storage.count, "it is larger than its numbers")


def _run(program: bytes) -> Any:
    """What a pickle leaves on its stack."""
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    for opcode, argument, _ in pickletools.genops(program):
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "STOP":
                (result,) = stack
                return result
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case name:
                stack.append(_value(name, argument, stack))
    raise _Refused("its pickle does not end")


def _value(opcode: str, argument: Any, stack: list[Any]) -> Any:
    """What an opcode puts onto the stack, from what it takes off."""
    match opcode:
        case "BINUNICODE" | "SHORT_BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1":
            return argument
        case "NEWTRUE" | "NEWFALSE":
            return opcode == "NEWTRUE"
        case "MARK":
            return _Mark()
        case "EMPTY_TUPLE":
            return ()
        case "TUPLE1" | "TUPLE2" | "TUPLE3":
            return tuple(_taken(stack, int(opcode[-1])))
        case "TUPLE":
            begin = max(place for place, value in enumerate(stack) if isinstance(value, _Mark))
            return tuple(_taken(stack, len(stack) - begin)[1:])
        case "GLOBAL":
            return _Name(argument)
        case "STACK_GLOBAL":
            return _Name(" ".join(_taken(stack, 2)))
        case "BINPERSID":
            return _storage(*stack.pop())
        case "REDUCE":
            return _called(*_taken(stack, 2))
    raise _Refused(f"its pickle has the instruction {opcode}")


def _taken(stack: list[Any], count: int) -> list[Any]:
    _demand(len(stack) >= count, "its pickle takes more than it has put there")
    taken = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return taken


def _storage(kind: str, storage: _Name, place: str, device: str, count: int) -> _Storage:
    library, _, name = storage.name.partition(" ")
    _demand(kind == "storage" and library == "torch" and name in DTYPES, f"its pickle speaks of {storage.name}")
    _demand(place.isdigit() and isinstance(device, str) and _is_size(count), "its numbers have no proper place")
    return _Storage(np.dtype(DTYPES[name]), place, count)


def _called(function: _Name, arguments: tuple[Any, ...]) -> Any:
    """The two calls of a plain tensor's pickle, neither of which is made."""
    if function == _Name(HOOKS) and arguments == ():
        return HOOKS
    _demand(function == _Name(REBUILD), f"its pickle calls {getattr(function, 'name', function)}")
    storage, offset, shape, strides, _needs_gradient, hooks = arguments
    _demand(isinstance(storage, _Storage) and hooks == HOOKS, "its pickle describes the tensor wrongly")
    _demand(all(map(_is_size, (offset, *shape, *strides))), "its sizes are no sizes")
    return _Tensor(storage, offset, shape, strides)


def _is_size(number: Any) -> bool:
    return type(number) is int and number >= 0


def _demand(condition: object, problem: str) -> None:
    if not condition:
        raise _Refused(problem)
