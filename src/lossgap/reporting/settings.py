"""What somebody needs to run it again: settings, versions, a program."""

import platform
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import lossgap
from lossgap.algorithms import Algorithm
from lossgap.reporting.html import code, definitions, paragraph
from lossgap.reporting.page import Section
from lossgap.reporting.plain import Evidence
from lossgap.result import Result
from lossgap.training import Training

PACKAGES = ("jax", "numpy")


def settings_section(evidence: Evidence) -> Section:
    first = evidence.results[0][0]
    trainings = list(dict.fromkeys(own[0].training for own in evidence.results))
    entries = {
        "Methods": "; ".join(str(own[0].algorithm) for own in evidence.results),
        "Model": f"{first.model.name}, rows of shape {'×'.join(map(str, first.features))}, {_outputs(first)}",
        "Training": "; ".join(map(described, trainings)) + ("" if len(trainings) == 1 else " (differs by method)"),
        "Seeds": ", ".join(map(str, evidence.seeds)),
        "Gaps on": evidence.measured_on,
        "Versions": versions(),
    }
    again = (
        paragraph("To run it again, where make_federation(seed=…) gives the same clients:") + code(program(evidence))
        if len(trainings) == 1
        else ""
    )
    return Section("settings", "Settings", definitions(entries) + again)


def described(training: Training) -> str:
    """Every setting, so that no default has to be looked up."""
    return ", ".join(f"{f.name} = {getattr(training, f.name)!r}" for f in fields(training))


def program(evidence: Evidence) -> str:
    """Python that trains the same methods."""
    first = evidence.results[0][0]
    methods = "".join(f"    {call(own[0].algorithm)},\n" for own in evidence.results)
    seeds = ", ".join(map(str, evidence.seeds)) + ("," if len(evidence.seeds) == 1 else "")
    changed = ", ".join(
        f"{f.name}={getattr(first.training, f.name)!r}"
        for f in fields(Training)
        if getattr(first.training, f.name) != f.default
    )
    return (
        "import lossgap as lg\n\n"
        f"methods = [\n{methods}]\n"
        f"comparison = lg.compare(\n"
        f"    make_federation, {_model(first)}, methods,\n"
        f"    lg.Training({changed}), seeds=({seeds}),\n"
        ")\n"
        'lg.report(comparison, "report.html")'
    )


def call(value: Any) -> str:
    """A method as Python writes it, with what differs from its defaults."""
    if not isinstance(value, Algorithm):
        return repr(value)
    changed = (f for f in fields(value) if getattr(value, f.name) != f.default)
    return f"lg.{type(value).__name__}({', '.join(f'{f.name}={call(getattr(value, f.name))}' for f in changed)})"


def versions() -> str:
    return ", ".join(
        [
            f"lossgap {lossgap.__version__}",
            *(f"{name} {_version(name)}" for name in PACKAGES),
            f"Python {platform.python_version()}",
        ]
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(unknown)"


def _outputs(result: Result) -> str:
    return f"{result.outputs} classes" if result.outputs > 1 else "one number"


def _model(result: Result) -> str:
    """A call, or the name of a model of somebody's own."""
    kind, _, numbers = result.model.name.removesuffix(")").partition("(")
    if kind not in ("linear", "mlp", "cnn") or " " in result.model.name:
        return "model"
    if kind == "mlp":
        return f"lg.models.mlp(hidden=({numbers},))"
    if kind == "cnn" and numbers:
        first, second, hidden = numbers.split(",")
        return f"lg.models.cnn(channels=({first}, {second}), hidden={hidden})"
    return f"lg.models.{kind}()"
