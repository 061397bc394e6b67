"""GPU tests: marked ``gpu``, run where a driver, a GPU, torch and the packages under test are.

The packages are built elsewhere (build_packages.py) and installed into the folder that
``AOT_TEST_SITE`` names, or into the environment. Without them the tests are skipped; with
``AOT_TEST_GPU=required`` (run_on_device.sh sets it) what is missing is an error.

A test that kills the CUDA context would take all later ones with it: the process then ends,
and under xdist a new worker goes on.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))  # fakecuda, where tests/conftest.py is not read
sys.path.insert(0, str(HERE.parent / "tensor_ops"))
if os.environ.get("AOT_TEST_SITE"):
    sys.path.insert(0, os.environ["AOT_TEST_SITE"])
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the GPU's memory
REQUIRED = os.environ.get("AOT_TEST_GPU") == "required"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU and the packages under test")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in Path(item.path).parents]
    no_torch = pytest.mark.skip(reason="torch is not installed: no GPU tests")
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if not REQUIRED and importlib.util.find_spec("torch") is None:
            item.add_marker(no_torch)


def missing(reason: str) -> NoReturn:
    """Skips, unless everything must be there."""
    if REQUIRED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """torch, with a GPU it can use."""
    try:
        module = importlib.import_module("torch")
    except ModuleNotFoundError:
        missing("torch is not installed")
    if not module.cuda.is_available():
        missing("no NVIDIA driver or no GPU on this machine")
    module.cuda.init()
    return module


def imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        missing(f"package '{name}' is not installed: build_packages.py builds it, AOT_TEST_SITE says where it is")


@pytest.fixture(scope="session")
def demo(torch: ModuleType) -> ModuleType:
    """The package built from examples/kernels."""
    return imported("demo_kernels")


@pytest.fixture(scope="session")
def cases(torch: ModuleType) -> ModuleType:
    """The package built from tests/cases."""
    return imported("case_kernels")


@pytest.fixture(scope="session")
def hazards(torch: ModuleType) -> ModuleType:
    """The package built from tests/hazards."""
    return imported("hazard_kernels")


@pytest.fixture(scope="session")
def traced(torch: ModuleType) -> ModuleType:
    """The package built from tests/frameworks."""
    return imported("traced_kernels")


@pytest.fixture(scope="session")
def launched(torch: ModuleType) -> ModuleType:
    """The package built from tests/gpu/launch_kernels."""
    return imported("launch_kernels")


@pytest.fixture(scope="session")
def tensor_ops(torch: ModuleType) -> ModuleType:
    """The package built from tests/tensor_ops."""
    return imported("tensor_op_kernels")


@pytest.fixture(scope="session")
def variant(torch: ModuleType) -> Any:
    """``variant("ptx_kernels")``: one of build_packages.VARIANTS."""
    return imported


@pytest.fixture
def needs(torch: ModuleType) -> Any:
    """``needs((9, 0))`` skips on an older GPU."""

    def check(capability: tuple[int, int]) -> None:
        have = torch.cuda.get_device_capability()
        if have < capability:
            pytest.skip(f"needs compute capability {capability[0]}.{capability[1]}, this GPU has {have[0]}.{have[1]}")

    return check


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    outcome = yield
    module = sys.modules.get("torch")
    if module is not None and module.cuda.is_initialized():
        try:
            module.cuda.synchronize()
        except RuntimeError as error:
            print(f"\n{item.nodeid} left a dead CUDA context: {error}", file=sys.stderr, flush=True)
            if hasattr(item.config, "workerinput"):
                os._exit(1)
            pytest.exit(f"{item.nodeid} left a dead CUDA context", returncode=3)
    return outcome
