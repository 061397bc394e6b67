"""What all commands have in common: an empty word on the command line is a mistake, mostly a variable that is not set.

In: a command's words. Out: its options, or a wrong use. An empty path would be the folder that one is in.

>>> Group(name="aot").command_class is Command
True
"""

from __future__ import annotations

import click


class Command(click.Command):
    """A command that refuses empty words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's; UsageError names the option or argument that is empty."""
        rest = super().parse_args(ctx, args)
        for param in self.params:
            value = ctx.params.get(param.name or "")
            if "" in (value if isinstance(value, tuple) else (value,)):
                raise click.UsageError(f"{_called(param)} is empty", ctx)
        return rest


class Group(click.Group):
    """Commands of this kind."""

    command_class = Command


def _called(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return param.opts[-1]
    return (param.metavar or param.name or "").rstrip(".").upper()
