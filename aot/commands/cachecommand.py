"""``aot cache``: what the cache of compiled sources holds, and how to make it smaller.

In: a folder, or nothing for the one that builds use. Out: a table, or what was dropped.

>>> sorted(cache.commands)
['clear', 'info', 'prune']
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from aot import fileset
from aot.commands.clickgroup import Group
from aot.engine import cache as store
from aot.engine.cache import Store, Usage
from aot.errors import UsageError
from aot.reporting import report

_FOLDER = click.option("--cache", "folder", metavar="DIR", help="Its folder. Default: AOT_CACHE, else the user's.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


@click.group(cls=Group)
def cache() -> None:
    """Look at the cache of compiled sources, or make it smaller."""


@cache.command()
@_FOLDER
@_JSON
def info(folder: str | None, as_json: bool) -> None:
    """Where it is, and how much it holds."""
    found = _store(folder)
    usage = found.usage()
    rows = {"folder": str(found.folder), "entries": usage.entries, "bytes": usage.bytes, "limit": found.limit}
    if as_json:
        report.result(json.dumps(rows, indent=2))
    else:
        shown = {**rows, "limit": f"{found.limit / store.UNITS['G']:.3g} GiB"}
        report.table("", ["cache", ""], [[name, str(value)] for name, value in shown.items()])


@cache.command()
@_FOLDER
def clear(folder: str | None) -> None:
    """Drop everything."""
    _dropped(_store(folder).clear())


@cache.command()
@_FOLDER
@click.option("--size", metavar="SIZE", help="What may stay, such as 500M. Default: AOT_CACHE_LIMIT, else 5G.")
def prune(folder: str | None, size: str | None) -> None:
    """Drop what was not used for longest. Each build does so, too, when the limit is passed."""
    found = _store(folder)
    _dropped(found.prune(found.limit if size is None else store.size(size, "--size")))


def _store(folder: str | None) -> Store:
    place: Path | None = store.folder(folder, os.environ)
    if place is None:
        raise UsageError("the cache is off", hint=f"name a folder with --cache, or with {store.FOLDER_VARIABLE}")
    fileset.check_readable(place)
    return Store(place, store.limit(os.environ))


def _dropped(usage: Usage) -> None:
    entries = "1 entry" if usage.entries == 1 else f"{usage.entries} entries"
    report.say(f"dropped {entries}, {usage.bytes} bytes")
