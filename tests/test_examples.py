"""The examples and the cases build as they stand, and their manifests say what they are."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aot import pipeline, plan
from aot.model import CompiledSource

ROOT = Path(__file__).parents[1]
EXAMPLES, CASES, HAZARDS = ROOT / "examples" / "kernels", ROOT / "tests" / "cases", ROOT / "tests" / "hazards"
EVERY_ARCH = "sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_120"


def asked(source: Path, folder: Path) -> pipeline.BuildRequest:
    return pipeline.BuildRequest(
        (str(source),), archs="sm_80", ptx=False, out=str(folder / "out"), work=str(folder / "work")
    )


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """``aot.json`` of the examples' wheel."""
    result = pipeline.build(asked(EXAMPLES, tmp_path_factory.mktemp("examples")))
    with zipfile.ZipFile(result.wheel) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("/aot.json")]
        return json.loads(wheel.read(name))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def examples(manifest: dict[str, Any]) -> Mapping[str, Any]:
    assert manifest["package"] == "demo_kernels"
    return {module["name"]: module for module in manifest["modules"]}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CompiledSource]:
    return {each.name: each for each in pipeline.compiled(asked(CASES, tmp_path_factory.mktemp("cases")))}


FUNCTIONS = [
    ("alloc", "sync", "launch", [], 0),
    ("alloc", "with_tokens", "launch", [], 0),
    ("attention", "attention", "tensor", ["q:in", "k:in", "v:in"], 1),
    ("gelu", "gelu", "tensor", ["x:in"], 1),
    ("gelu", "gelu_tanh", "tensor", ["x:in"], 1),
    ("hello", "hello", "launch", [], 0),
    ("launch_func", "times4", "launch", ["a:scalar", "out:ref"], 0),
    ("layernorm", "layernorm", "tensor", ["x:in", "gamma:in", "beta:in", "eps:scalar"], 1),
    ("matmul", "matmul", "tensor", ["a:in", "b:in"], 1),
    ("matmul", "matmul_f16", "tensor", ["a:in", "b:in"], 1),
    ("rmsnorm", "rmsnorm", "tensor", ["x:in", "weight:in", "eps:scalar"], 1),
    ("smooth", "smooth", "launch", ["x:ref", "out:ref", "steps:scalar", "negate:scalar"], 0),
    ("softmax", "softmax", "tensor", ["x:in"], 1),
    ("square", "square", "tensor", ["x:in", "out:destination"], 1),
    ("vector_add", "vector_add", "tensor", ["x:in", "y:in"], 1),
]


@pytest.mark.parametrize(("source", "name", "level", "args", "results"), FUNCTIONS, ids=[row[1] for row in FUNCTIONS])
def test_functions(
    examples: Mapping[str, Any], source: str, name: str, level: str, args: list[str], results: int
) -> None:
    (function,) = [f for f in examples[source]["functions"] if f["name"] == name]
    assert function["level"] == level
    assert [f"{a['name']}:{a['role']}" for a in function["args"]] == args
    assert len(function["results"]) == results


def test_every_function_is_in_the_table(examples: Mapping[str, Any]) -> None:
    found = {(name, f["name"]) for name, module in examples.items() for f in module["functions"]}
    assert found == {row[:2] for row in FUNCTIONS}


def test_returned_destination_is_the_argument(examples: Mapping[str, Any]) -> None:
    (function,) = examples["square"]["functions"]
    assert [result["argument"] for result in function["results"]] == [1]


def test_printing_is_known_ahead(examples: Mapping[str, Any]) -> None:
    assert examples["hello"]["functions"][0]["flags"] == ["messages"]
    assert examples["softmax"]["functions"][0]["flags"] == []


KERNELS = [
    ("block_sum", "block_sum", ["x", "partial"], [256, 1, 1], 1),
    ("copy_async", "reverse_tiles", ["x", "out"], [128, 1, 1], 1),
    ("mma_sync", "mma_nt", ["a", "b", "c"], [32, 1, 1], 2),
]


@pytest.mark.parametrize(("source", "name", "params", "block", "axes"), KERNELS, ids=[row[0] for row in KERNELS])
def test_kernels(
    examples: Mapping[str, Any], source: str, name: str, params: list[str], block: list[int], axes: int
) -> None:
    (kernel,) = examples[source]["kernels"]
    assert kernel["name"] == name
    assert kernel["callable"]
    assert [param["name"] for param in kernel["params"]] == params
    assert kernel["required_block"] == block
    assert len(kernel["grid"]) == axes
    assert kernel["usage"]["sm_80"]["spill_bytes"] == 0


def test_host_functions_hide_their_kernels(examples: Mapping[str, Any]) -> None:
    assert not any(kernel["callable"] for kernel in examples["launch_func"]["kernels"])


def test_wgmma_is_left_out_where_it_cannot_run(examples: Mapping[str, Any]) -> None:
    assert "wgmma" not in examples


@pytest.mark.parametrize(
    ("folder", "source", "skipped"),
    [
        (EXAMPLES, "softmax", []),
        (EXAMPLES, "mma_sync", ["sm_75"]),
        (EXAMPLES, "copy_async", ["sm_75"]),
        (EXAMPLES, "wgmma", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120"]),
        (HAZARDS, "clusters", ["sm_75", "sm_80", "sm_86", "sm_89"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_archs_of_a_source(folder: Path, source: str, skipped: list[str], tmp_path: Path) -> None:
    planned = plan.plan(pipeline.BuildRequest((str(folder),), archs=EVERY_ARCH, work=str(tmp_path)))
    (found,) = [each for each in planned.sources if each.file.name == source]
    assert [arch for arch in found.selection.skipped if arch.startswith("sm_")] == skipped


def test_cases_build(cases: Mapping[str, CompiledSource]) -> None:
    assert sorted(cases) == sorted(file.stem for file in CASES.glob("*.mlir"))


@pytest.mark.parametrize(
    ("source", "function", "flag"),
    [("newton_sqrt", "newton_sqrt", "reads_device"), ("seed_printf", "hello", "messages")],
)
def test_flags_of_cases(cases: Mapping[str, CompiledSource], source: str, function: str, flag: str) -> None:
    (found,) = [f for f in cases[source].functions if f.name == function]
    assert flag in found.flags


def test_internal_types_stay_inside(tmp_path: Path) -> None:
    (source,) = pipeline.compiled(asked(HAZARDS / "internal_types.mlir", tmp_path))
    assert [function.name for function in source.functions] == ["sum_by_four"]
    assert not any(kernel.callable for kernel in source.kernels)
