"""Who publishes which data set, where, and what its files must be like."""

from dataclasses import dataclass

from lossgap.datasets.download import Checksum
from lossgap.datasets.images import EMNIST


@dataclass(frozen=True, kw_only=True)
class File:
    """A file that a data set is read from, with or without .gz.

    Args:
        name: without .gz.
        unpacked: the checksum of its contents.
        packed: the checksum of the .gz that was published. Where neither is known, a file can only be found whole.
    """

    name: str
    unpacked: Checksum | None = None
    packed: Checksum | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Something to download: a file as it is used, or an archive that holds some.

    Args:
        name: of the file that arrives.
        addresses: where it lies, the first that answers being taken.
        checksum: of the file.
        size: in bytes, if known.
        members: where files stand in the archive, by the name they are to have; empty for a file as it is used.
    """

    name: str
    addresses: tuple[str, ...]
    checksum: Checksum
    size: int | None = None
    members: tuple[tuple[str, str], ...] = ()

    @property
    def brings(self) -> list[str]:
        """The files that come of it."""
        return [name for name, _ in self.members] or [self.name]


@dataclass(frozen=True, kw_only=True)
class Published:
    """One data set."""

    name: str
    about: str
    licence: str
    page: str
    files: tuple[File, ...]
    sources: tuple[Source, ...]

    @property
    def size(self) -> int | None:
        """Bytes to download, if all are known."""
        sizes = [source.size for source in self.sources]
        return None if None in sizes else sum(size for size in sizes if size is not None)


def md5(digits: str) -> Checksum:
    return Checksum("md5", digits)


def sha256(digits: str) -> Checksum:
    return Checksum("sha256", digits)


def _zipped(places: tuple[str, ...], name: str, packed: str, size: int, unpacked: str = "") -> tuple[File, Source]:
    """A file that is published as .gz."""
    file = File(name=name, packed=md5(packed), unpacked=sha256(unpacked) if unpacked else None)
    addresses = tuple(f"{place}{name}.gz" for place in places)
    return file, Source(name=f"{name}.gz", addresses=addresses, checksum=md5(packed), size=size)


def _plain(place: str, name: str, checksum: Checksum, size: int | None = None) -> tuple[File, Source]:
    source = Source(name=name, addresses=(f"{place}{name}",), checksum=checksum, size=size)
    return File(name=name, unpacked=checksum), source


def _of(name: str, *pairs: tuple[File, Source], about: str, licence: str, page: str) -> Published:
    files, sources = [file for file, _ in pairs], [source for _, source in pairs]
    return Published(name=name, about=about, licence=licence, page=page, files=tuple(files), sources=tuple(sources))


BYCLASS_TEST = {  # contents, and the .gz as published
    "emnist-byclass-test-images-idx3-ubyte": (
        sha256("385559d7d5c96f49cd6b55b3e9e76d7ecbf568897b6067e8cac8f1ffc2f50f81"),
        sha256("5ec835bd5d5b1a66378a132e727fef20fe994b3cc666899befcca5ac766f50cd"),
    ),
    "emnist-byclass-test-labels-idx1-ubyte": (
        sha256("842d01413932b3ce7afbc9990376a16f8880a212bb42d66fa2922b4218cf300a"),
        sha256("501e305eeeacb093b162592d80e8a2632040872360fa6d85cfcb2200d91ca92a"),
    ),
}


def _emnist() -> Published:
    names = [
        archive.path(part, kind)[1]
        for archive in EMNIST.values()
        for part in archive.parts
        for kind in ("images-idx3", "labels-idx1")
    ]
    known = {name: BYCLASS_TEST.get(name, (None, None)) for name in names}
    return Published(
        name="emnist",
        about="handwritten letters and digits, in five selections",
        licence="public domain (NIST)",
        page="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        files=tuple(File(name=name, unpacked=unpacked, packed=packed) for name, (unpacked, packed) in known.items()),
        sources=(
            Source(
                name="gzip.zip",
                addresses=("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
                checksum=md5("58c8d27c78d21e728a6bc7b3cc06412e"),
                size=561_753_746,
                members=tuple((f"{name}.gz", f"gzip/{name}.gz") for name in names),
            ),
        ),
    )


def _mnist() -> Published:
    places = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    )
    images = _zipped(
        places,
        "train-images-idx3-ubyte",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        9_912_422,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    )
    labels = _zipped(
        places,
        "train-labels-idx1-ubyte",
        "d53e105ee54ea40749a09fcbcd1e9432",
        28_881,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    )
    test_images = _zipped(
        places,
        "t10k-images-idx3-ubyte",
        "9fb629c4189551a2d022fa330f9573f3",
        1_648_877,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    )
    test_labels = _zipped(
        places,
        "t10k-labels-idx1-ubyte",
        "ec29112dd5afa0611ce80d1b7f02629c",
        4_542,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    )
    page = "http://yann.lecun.com/exdb/mnist/"
    return _of(
        "mnist",
        *(images, labels, test_images, test_labels),
        about="handwritten digits",
        licence="CC BY-SA 3.0",
        page=page,
    )


def _fashion_mnist() -> Published:
    places = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
    return _of(
        "fashion_mnist",
        _zipped(places, "train-images-idx3-ubyte", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
        _zipped(places, "train-labels-idx1-ubyte", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
        _zipped(places, "t10k-images-idx3-ubyte", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
        _zipped(places, "t10k-labels-idx1-ubyte", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        about="pictures of clothes",
        licence="MIT",
        page="https://github.com/zalandoresearch/fashion-mnist",
    )


def _ambiguous_mnist() -> Published:
    place = "https://github.com/BlackHC/ddu_dirty_mnist/releases/download/data-v1.0.0/"
    return _of(
        "ambiguous-mnist",
        _plain(place, "amnist_samples.pt", md5("4f7865093b1d28e34019847fab917722")),
        _plain(place, "amnist_labels.pt", md5("3bfc055a9f91a76d8d493e8b898c3c95")),
        about="digits that two people would read differently",
        licence="see its page",
        page="https://github.com/BlackHC/ddu_dirty_mnist",
    )


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
HEART = {
    "cleveland": (sha256("a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"), 18_461),
    "hungarian": (sha256("d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"), 10_263),
    "switzerland": (sha256("834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"), 4_109),
    "va": (sha256("e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"), 6_737),
}


def _heart() -> Published:
    return _of(
        "heart",
        *(_plain(f"{UCI}heart-disease/", f"processed.{hospital}.data", *known) for hospital, known in HEART.items()),
        about="patients of four hospitals",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/45/heart+disease",
    )


def _adult() -> Published:
    return _of(
        "adult",
        _plain(f"{UCI}adult/", "adult.data", md5("5d7c39d7b8804f071cdd1f2a7c460872"), 3_974_305),
        _plain(f"{UCI}adult/", "adult.test", md5("35238206dfdf7f1fe215bbb874adecdc"), 2_003_153),
        about="incomes of the 1994 census",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/2/adult",
    )


CATALOGUE = (_emnist(), _mnist(), _fashion_mnist(), _ambiguous_mnist(), _heart(), _adult())
