"""Jobs on a Dask cluster of several processes: the same wheel, also when a worker is lost; one toolchain for all."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from builtpackage import Built, build_in, write_sources

from aot import pipeline
from aot.engine import engineoptions, executordask
from aot.engine.executor import Orders
from aot.errors import AotError, SourceError, ToolMissing, UsageError
from aot.tools import toolid
from aot.tools.toolid import Identity

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("no_cache")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    made = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    yield made
    made.close()


def executor(cluster: Any) -> str:
    return str(cluster.scheduler_address).replace("tcp://", "dask://")


def kill_one_at_work(client: Any) -> int:
    """Waits until a worker has a job, and kills that worker; its process id, 0 if none had any within a minute."""
    pids = client.run(os.getpid)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        busy = [worker for worker, jobs in client.processing().items() if jobs]
        if busy:
            os.kill(pids[busy[0]], signal.SIGKILL)
            return int(pids[busy[0]])
        time.sleep(0.01)
    return 0


def test_a_lost_worker_costs_time_only(cluster: Any, built: Built, tmp_path: Path) -> None:
    write_sources(tmp_path)
    with (
        distributed.Client(cluster.scheduler_address, set_as_default=False) as client,
        ThreadPoolExecutor(max_workers=1) as threads,
    ):
        killing = threads.submit(kill_one_at_work, client)
        made = build_in(tmp_path, executor=executor(cluster))
        assert killing.result()
    assert sorted(made.heard.compiled) == ["hopper.mlir", "kernel.mlir", "launch.mlir", "tensor-level.mlir"]
    assert made.result.wheel.read_bytes() == built.result.wheel.read_bytes()


def test_errors_come_back_as_they_are(cluster: Any, tmp_path: Path) -> None:
    write_sources(tmp_path)
    launch = tmp_path / "kernels" / "launch.mlir"
    launch.write_text(launch.read_text().replace("%c1 =", "%c2 ="))
    with pytest.raises(SourceError, match=r"launch\.mlir") as caught:
        build_in(tmp_path, archs="sm_80", ptx=False, executor=executor(cluster))
    assert caught.value.diagnostics
    assert not (tmp_path / "dist").exists()


def test_another_toolchain_is_told_before_any_work(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sources(tmp_path)
    real = toolid.of

    def older(tools: Any) -> Identity:
        return Identity(tuple((n, "12.0" if n == "ptxas" else version) for n, version in real(tools).parts))

    monkeypatch.setattr(pipeline.toolid, "of", older)
    with pytest.raises(ToolMissing, match=r"(?s)another toolchain.*tcp://.*: ptxas .* instead of 12\.0"):
        build_in(tmp_path, executor=executor(cluster))
    assert not list((tmp_path / "build").glob("objects/*/*"))


@pytest.mark.parametrize("listens", [True, False], ids=["a silent program", "nothing"])
def test_what_is_no_scheduler_is_told(listens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executordask, "CONNECT_SECONDS", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen()
        place = f"dask://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(AotError, match="no Dask scheduler answers at tcp://127"):
            executordask.Dask(Orders(slots=0, executor=place)).prepare()


@pytest.mark.parametrize("said", ["dask", "dask://", "dask://host", "ray://host:1", ""])
def test_executors_are_spelled_in_two_ways(said: str) -> None:
    with pytest.raises(UsageError, match="unknown executor"):
        engineoptions.of(said, None, None, {})
