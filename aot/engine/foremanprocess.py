"""Starts a foreman for a folder, and brings jobs to it: what a build does, and a worker of a cluster.

In: a folder, and Orders. Out: a foreman who listens in the folder for as long as the block takes.

>>> with foreman_in(folder, orders, hear, over) as beside: ...   # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from aot import codec, fileset, process, resources
from aot.engine import ninjaclient
from aot.engine.executor import Orders
from aot.process import Companion


@contextlib.contextmanager
def foreman_in(
    folder: Path, orders: Orders, hear: Callable[[str], None], over: Callable[[], None], files: Sequence[int] = ()
) -> Iterator[Companion]:
    """A foreman at work. Its lines go to ``hear``; ``over`` is called when it has ended. It keeps ``files`` open."""
    with fileset.listener(folder / ninjaclient.ADDRESS) as listener:
        command = [sys.executable, "-m", "aot.engine.foreman", codec.encode(orders).decode(), str(listener.fileno())]
        kept = (listener.fileno(), *files)
        with process.companion(command, hear, env=_environment(), pass_fds=kept, over=over) as beside:
            # It alone listens: when it dies, whoever calls must not wait for an answer.
            listener.close()
            yield beside


def ask(address: Path, description: Path) -> int:
    """Has one job done; its exit code."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as with_foreman:
        with_foreman.connect(str(address))
        with_foreman.sendall(os.fsencode(description) + b"\n")
        answer = with_foreman.recv(1)
    return answer[0] if answer else 1


def _environment() -> dict[str, str]:
    """The foreman finds the same aot that runs here, also when it runs from a checkout."""
    root = str(resources.PACKAGE.parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    # Threads of numpy's BLAS, which MLIR's bindings import and nobody uses, would be in the way of forks.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "OPENBLAS_NUM_THREADS": "1"}
