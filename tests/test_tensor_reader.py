"""PyTorch's tensor files are read as PyTorch reads them, and nothing that they hold is ever run."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import lossgap as lg
from lossgap.datasets.tensors import tensor

RNG = np.random.default_rng(0)


def saved(path: Path, content: object, **options: object) -> Path:
    torch.save(content, path, **options)
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(path: Path, contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def plain(tmp_path):
    """A small tensor, its file, and what the file's archive holds."""
    numbers = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    path = saved(tmp_path / "plain.pt", numbers)
    return numbers.numpy(), path, members(path)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("shape", [(5,), (7, 10), (3, 1, 4, 4), (1, 1), ()])
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_tensor_is_what_pytorch_saved(tmp_path, dtype, shape, protocol):
    numbers = torch.tensor(RNG.integers(0, 100, shape)).to(getattr(torch, dtype))
    read = tensor(saved(tmp_path / "a.pt", numbers, pickle_protocol=protocol))
    assert read.dtype == np.dtype(dtype)
    assert read.shape == shape
    assert np.array_equal(read, numbers.numpy())


def test_shapes_of_any_size(tmp_path):
    for shape in ((300, 300), (70_000, 2)):  # numbers of one, two and four bytes
        numbers = torch.arange(np.prod(shape)).reshape(shape)
        assert np.array_equal(tensor(saved(tmp_path / "a.pt", numbers)), numbers.numpy())


def test_a_part_of_a_larger_tensor(tmp_path):
    numbers = torch.arange(40).reshape(10, 4)
    assert np.array_equal(tensor(saved(tmp_path / "a.pt", numbers[3:7])), numbers[3:7].numpy())


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (torch.arange(12).reshape(3, 4).T, "in one piece and in order"),
        (torch.arange(3).expand(4, 3), "in one piece and in order"),
        (torch.zeros(0, 3), "shape is"),
        (torch.zeros(3, dtype=torch.complex64), "ComplexFloatStorage"),
        (torch.zeros(3, dtype=torch.bfloat16), "BFloat16Storage"),
        ({"a": torch.zeros(3)}, "EMPTY_DICT"),
        ([torch.zeros(3)], "EMPTY_LIST"),
        (torch.nn.Parameter(torch.zeros(3)), "_rebuild_parameter"),
        (torch.nn.Linear(2, 2), "instruction|calls"),
        ((torch.zeros(3),), "something else"),
        (5, "something else"),
        ("text", "something else"),
    ],
)
def test_anything_but_a_plain_tensor_is_refused(tmp_path, content, problem):
    path = saved(tmp_path / "other.pt", content)
    with pytest.raises(lg.FileError, match=problem) as refusal:
        tensor(path)
    assert str(path) in str(refusal.value)


class Evil:
    """What runs when an unpickler meets it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_run(plain, tmp_path, protocol):
    _, _, contents = plain
    trace = tmp_path / "it ran"
    evil = pickle.dumps(Evil(trace), protocol)
    pickle.loads(evil)
    assert trace.exists()  # it does run where pickles are loaded
    trace.unlink()
    path = zipped(tmp_path / "evil.pt", contents | {"plain/data.pkl": evil})
    with pytest.raises(lg.FileError):
        tensor(path)
    assert not trace.exists()


def test_a_call_within_a_tensor_is_refused(plain, tmp_path):
    _, _, contents = plain
    other = contents["plain/data.pkl"].replace(b"collections\nOrderedDict", b"posix\nsystem")
    with pytest.raises(lg.FileError, match="calls posix system"):
        tensor(zipped(tmp_path / "evil.pt", contents | {"plain/data.pkl": other}))


class TestDamage:
    def test_a_missing_file(self, tmp_path):
        with pytest.raises(lg.FileError, match="no such file"):
            tensor(tmp_path / "none.pt")

    def test_other_formats(self, tmp_path):
        for content in (b"", b"PK", b"<html>404</html>", pickle.dumps([1, 2])):
            (tmp_path / "a.pt").write_bytes(content)
            with pytest.raises(lg.FileError, match=r"a\.pt is damaged, or no tensor file"):
                tensor(tmp_path / "a.pt")

    def test_the_format_before_pytorch_1_6(self, tmp_path):
        path = saved(tmp_path / "old.pt", torch.zeros(3), _use_new_zipfile_serialization=False)
        with pytest.raises(lg.FileError, match=r"1\.6 or later"):
            tensor(path)

    def test_numbers_that_are_missing_or_too_many(self, plain, tmp_path):
        _, _, contents = plain
        numbers = contents["plain/data/0"]
        for other in (numbers[:-4], numbers + b"more", b""):
            with pytest.raises(lg.FileError, match="not all there"):
                tensor(zipped(tmp_path / "a.pt", contents | {"plain/data/0": other}))
        del contents["plain/data/0"]
        with pytest.raises(lg.FileError):
            tensor(zipped(tmp_path / "a.pt", contents))

    def test_big_endian_numbers(self, plain, tmp_path):
        _, _, contents = plain
        with pytest.raises(lg.FileError, match="little-endian"):
            tensor(zipped(tmp_path / "a.pt", contents | {"plain/byteorder": b"big"}))

    def test_a_compressed_archive(self, plain, tmp_path):
        _, _, contents = plain  # it might unpack to more than the machine can hold
        with pytest.raises(lg.FileError, match="compressed"):
            tensor(zipped(tmp_path / "a.pt", contents, zipfile.ZIP_DEFLATED))

    def test_two_pickles(self, plain, tmp_path):
        _, _, contents = plain
        with pytest.raises(lg.FileError, match=r"one data\.pkl"):
            tensor(zipped(tmp_path / "a.pt", contents | {"other/data.pkl": contents["plain/data.pkl"]}))

    def test_every_truncation(self, plain, tmp_path):
        _, path, _ = plain
        content = path.read_bytes()
        cut = tmp_path / "cut.pt"
        for length in range(0, len(content), 7):
            cut.write_bytes(content[:length])
            with pytest.raises(lg.FileError):
                tensor(cut)

    def test_changed_bytes_never_change_what_is_read(self, plain, tmp_path):
        """The archive's checksums see to it: either nothing is read, or what was saved."""
        numbers, path, _ = plain
        content, other = path.read_bytes(), tmp_path / "other.pt"
        for _ in range(600):
            other.write_bytes(mutated(content))
            self.read_or_refused(other, numbers)

    @pytest.mark.filterwarnings("ignore:invalid escape sequence")  # of nonsense in quotes
    def test_changed_pickles_end_in_an_error_or_a_tensor_of_the_same_numbers(self, plain, tmp_path):
        """With checksums that fit, the machine itself meets nonsense."""
        numbers, _, contents = plain
        other, read = tmp_path / "other.pt", 0
        for _ in range(1500):
            zipped(other, contents | {"plain/data.pkl": mutated(contents["plain/data.pkl"])})
            try:
                found = tensor(other)
            except lg.FileError:
                continue
            read += 1
            assert found.nbytes <= numbers.nbytes
            assert found.tobytes() in numbers.tobytes()
        assert read < 1000

    def read_or_refused(self, path: Path, numbers: np.ndarray) -> None:
        try:
            found = tensor(path)
        except lg.FileError:
            return
        assert np.array_equal(found, numbers)


def mutated(content: bytes) -> bytes:
    """Some bytes changed, removed, inserted or moved."""
    changed = bytearray(content)
    for _ in range(RNG.integers(1, 4)):
        place, length = int(RNG.integers(len(changed))), int(RNG.integers(1, 9))
        match RNG.integers(4):
            case 0:
                changed[place] ^= 1 << int(RNG.integers(8))
            case 1:
                del changed[place : place + length]
            case 2:
                changed[place:place] = RNG.bytes(length)
            case 3:
                changed[place : place + length] = changed[: place // 2][:length]
        if not changed:
            changed = bytearray(b"\0")
    return bytes(changed)


def test_the_reader_imports_no_unpickler():
    source = Path(tensor.__code__.co_filename).read_text()
    assert "import torch" not in source
    assert "import pickle\n" not in source
