"""The command line: a module per command. Each imports what it needs when it runs, so that `--help` answers at once."""

import importlib
import sys
import warnings
from typing import Any

import click

from lossgap import __version__
from lossgap.errors import LossgapError

COMMANDS = (
    "demo",
    "train",
    "compare",
    "tune",
    "show",
    "report",
    "audit",
    "runs",
    "data",
    "describe",
    "flower",
    "theory",
    "reproduce",
)
"""Each is `command` in the module of its name."""


class Program(click.Group):
    """Finds commands by name, and turns lossgap's errors into one line on standard error."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"lossgap.cli.{name}").command
        return found

    def invoke(self, context: click.Context) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: click.secho(f"warning: {message}", fg="yellow", err=True)
            try:
                return super().invoke(context)
            except LossgapError as problem:
                click.secho(f"error: {problem}", fg="red", err=True)
                sys.exit(1)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lossgap")
def main() -> None:
    """Train one model for several self-interested parties so that each gains about as much from joining."""
