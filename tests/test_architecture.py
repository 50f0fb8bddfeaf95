"""Imports point one way: from the command line down to the federation."""

import ast
from pathlib import Path

import lossgap

ROOT = Path(lossgap.__file__).parent

# A module may import from its own floor and from those above it in this list.
FLOORS = [
    ("errors", "table", "progress"),
    ("disk",),
    ("charts",),
    ("mapped",),
    ("checks",),
    ("federation", "partition", "skew", "tabular", "describe"),
    ("affine", "convolution"),
    ("datasets", "models", "training"),
    ("algorithms",),
    ("engine",),
    ("metrics", "identity"),
    ("solo",),
    ("theory",),
    ("result",),
    ("passes",),
    ("experiment",),
    ("learners",),
    ("comparison", "tuning"),
    ("store", "picture", "live", "tracking", "arguments"),
    ("selection",),
    ("reporting",),
    ("auditing",),
    ("paper",),
    ("config",),
    ("flower",),
    ("cli",),
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
HEAVY = {"jax", "pyarrow", "pydantic", "rich", "scipy", "sklearn", "torch", "flwr", "polars", "pandas"}
LEAVES = ("learners", "tracking", "flower")
"""Rooms for users of other frameworks: no other room imports them when it is loaded."""

LONGEST_MODULE = 300


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path, *, top_level: bool) -> set[str]:
    """Modules that a file imports; `top_level` leaves out those imported inside functions and for types only."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level else ast.walk(tree)
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | ({f"lossgap.{a.name}" for a in node.names} if node.module == "lossgap" else set())
    return names


def modules() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def test_every_module_has_a_floor() -> None:
    assert {room_of(path) for path in modules()} == set(FLOOR)


def test_imports_point_one_way() -> None:
    for path in modules():
        for name in imports(path, top_level=True):
            room = name.removeprefix("lossgap.").split(".")[0]
            if name.startswith("lossgap.") and room in FLOOR:
                assert FLOOR[room] <= FLOOR[room_of(path)], f"{path.relative_to(ROOT)} imports {name}"


def test_light_rooms_load_nothing_heavy() -> None:
    light = [path for path in modules() if room_of(path) in ("errors", "table", "progress", "charts", "cli")]
    for path in light:
        names = {name.split(".")[0] for name in imports(path, top_level=True)}
        assert not names & HEAVY, path


def test_the_core_never_imports_other_frameworks() -> None:
    for path in modules():
        if room_of(path) in LEAVES:
            continue
        names = {name.split(".")[0] for name in imports(path, top_level=False)}
        assert not names & {"torch", "flwr", "pandas", "polars", "mlflow"}, path


def test_nothing_loads_a_leaf() -> None:
    for path in modules():
        rooms = {name.removeprefix("lossgap.").split(".")[0] for name in imports(path, top_level=True)}
        assert room_of(path) in LEAVES or not rooms & set(LEAVES), path


def test_modules_stay_small() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in modules()
        if (lines := len(path.read_text().splitlines())) > LONGEST_MODULE
    }
    assert not long
