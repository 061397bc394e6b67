"""Has the jobs of a build done: ninja's edges bring them, an executor does them.

    python -m aot.engine.foreman ORDERS SOCKET

In: Orders as JSON, and the number of a listening socket. Edges connect, write the path of a job's description,
and get one byte: its exit code. An edge that goes away (ninja was stopped) stops its job. Out: Events on standard
output, one line of JSON each. Standard input is the lifeline: when it ends, everything stops.

Importing MLIR takes longer than compiling a small source. It happens here, once; every job is a fork of this process.

>>> decode(encode(Event("softmax", DONE, code=0))).state
'done'
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aot import codec, fileset
from aot.engine import executor, job
from aot.engine.executor import Executor, Orders, Running
from aot.engine.job import CompileJob, JobDone
from aot.errors import AotError, DiskError

READY, START, DONE, FATAL, NOTE, DISK = "ready", "start", "done", "fatal", "note", "disk"
"""States of an Event: the executor is ready, a job begins, a job ended, nothing can be done, the user should know,
nothing can be written."""
RETRY_SECONDS = 0.2
"""How long a job that must wait for memory waits before it asks again."""


@dataclass(frozen=True)
class Event:
    """What the foreman tells the build."""

    source: str
    """Name of the job's source; empty where no job is meant."""
    state: str
    how: str = ""
    """``built`` or ``cached``, of a job that went well."""
    seconds: float = 0.0
    code: int = 0
    slots: int = 0
    """Jobs that can run at a time, once it is known."""
    text: str = ""
    """A note; of a fatal error its Failure as JSON."""


def encode(event: Event) -> str:
    """One line."""
    return json.dumps(asdict(event))


def decode(line: str) -> Event:
    """The event of a line."""
    return Event(**json.loads(line))


@dataclass
class Client:
    """An edge that waits."""

    connection: socket.socket
    received: bytes = b""
    todo: CompileJob | None = None
    running: Running | None = None
    since: float = 0.0


@dataclass
class Foreman:
    """The loop: one thread, since it forks."""

    listener: socket.socket
    executor: Executor
    tell: Callable[[Event], None]
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    waiting: deque[Client] = field(default_factory=deque)
    running: list[Client] = field(default_factory=list)

    def serve(self) -> None:
        """Works until standard input ends."""
        over = False
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.selector.register(0, selectors.EVENT_READ, None)
        try:
            while not over:
                for key, _ in self.selector.select(RETRY_SECONDS if self.waiting else None):
                    if not self._is_watched(key):
                        continue
                    if key.data is None:
                        over = not os.read(0, 4096)
                    else:
                        key.data()
                self._begin()
        finally:
            for client in self.running:
                if client.running is not None:
                    client.running.stop()

    def _is_watched(self, key: selectors.SelectorKey) -> bool:
        """Whether a file that was ready has not been closed meanwhile, on account of another one."""
        try:
            return self.selector.get_key(key.fileobj) == key
        except (KeyError, ValueError):
            return False

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        client = Client(connection)
        self.selector.register(connection, selectors.EVENT_READ, lambda: self._hear(client))

    def _hear(self, client: Client) -> None:
        """An edge says which job it brings, or has gone."""
        try:
            data = client.connection.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._forget(client)
            return
        client.received += data
        if client.todo is None and client.received.endswith(b"\n"):
            try:
                client.todo = job.decode(fileset.read_file(Path(os.fsdecode(client.received[:-1]))))
            except DiskError as error:
                self.tell(Event("", DISK, text=error.message))
                self._forget(client)
                return
            self.waiting.append(client)

    def _begin(self) -> None:
        """Starts the jobs at the head of the queue that may run now."""
        while self.waiting:
            client = self.waiting[0]
            assert client.todo is not None
            if not self.executor.admits(client.todo):
                return
            self.waiting.popleft()
            self.tell(Event(client.todo.name, START))
            client.since = time.monotonic()
            try:
                self._watch(client, self.executor.start(client.todo, self._close_all))
            except AotError as error:
                self.tell(Event("", FATAL, text=codec.encode(job.failure(error)).decode()))
                self._answer(client, JobDone(1))
            except OSError as error:
                trouble = fileset.trouble(error)
                if trouble is None:
                    raise
                self._answer(client, JobDone(1, disk=trouble.message))

    def _watch(self, client: Client, running: Running) -> None:
        client.running = running
        self.running.append(client)
        for file, react in running.watched():
            self.selector.register(file, selectors.EVENT_READ, react)
        self.selector.register(running, selectors.EVENT_READ, lambda: self._end(client))

    def _end(self, client: Client) -> None:
        """A job has ended."""
        assert client.running is not None
        self._unwatch(client.running)
        running, client.running = client.running, None
        self.running.remove(client)
        try:
            done = running.end()
        except DiskError as error:
            done = JobDone(1, disk=error.message)
        self._answer(client, done)

    def _answer(self, client: Client, done: JobDone) -> None:
        """The edge and the build hear how a job ended."""
        assert client.todo is not None
        for note in done.notes:
            self.tell(Event("", NOTE, text=note))
        if done.disk:
            self.tell(Event("", DISK, text=done.disk))
        seconds = round(time.monotonic() - client.since, 4)
        self.tell(Event(client.todo.name, DONE, done.how, seconds, done.code))
        with contextlib.suppress(OSError):
            client.connection.send(bytes([done.code]))
        self._forget(client)

    def _forget(self, client: Client) -> None:
        """Nobody waits for this job any more."""
        self.selector.unregister(client.connection)
        client.connection.close()
        if client in self.waiting:
            self.waiting.remove(client)
        if client.running is not None:
            self._unwatch(client.running)
            client.running.stop()
            self.running.remove(client)

    def _unwatch(self, running: Running) -> None:
        for file, _ in running.watched():
            self.selector.unregister(file)
        self.selector.unregister(running)

    def _close_all(self) -> None:
        """In a fork: an edge must not seem to be answered by somebody who only holds its socket open."""
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()


def main(arguments: Sequence[str]) -> int:
    """Serves a build until it ends."""
    # Of Ctrl-C in a terminal we hear through the build: edges go away, then the lifeline ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders = codec.decode(arguments[0].encode(), Orders)
    with executor.of(orders) as works, socket.socket(fileno=int(arguments[1])) as listener:
        try:
            works.prepare()
        except AotError as error:
            _tell(Event("", FATAL, text=codec.encode(job.failure(error)).decode()))
            return 1
        _tell(Event("", READY, slots=works.slots))
        Foreman(listener, works, _tell).serve()
    return 0


def _tell(event: Event) -> None:
    with contextlib.suppress(BrokenPipeError):  # the build is gone; the lifeline says so, too
        sys.stdout.write(encode(event) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
