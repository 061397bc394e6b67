"""Bad input ends in one clear message and an exit code, with nothing in ``--out``.

``tests/bad/`` holds one tiny project per fault, named after it; the table says what to call and what must be said.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from aot import cli, fileset

ROOT = Path(__file__).parents[1]
PROJECTS = ROOT / "tests" / "bad"


@dataclass(frozen=True)
class Fault:
    """One wrong call."""

    name: str
    """Of the project, or of the fault when the project ``fine`` will do."""
    code: int
    message: str
    """What the error must say, as a regular expression."""
    options: str = ""
    project: str = ""
    """Default: the name."""
    environment: dict[str, str] = field(default_factory=dict)


def fine(name: str, code: int, message: str, options: str = "", **environment: str) -> Fault:
    """A fault that is not in the sources."""
    return Fault(name, code, message, options, "fine", environment)


BROKEN = (
    # What MLIR refuses
    Fault("syntax_error", 1, r"(?s)broken\.mlir:2:\d+: error: .*%y = arith\.addf %x, : tensor<4xf32>\n +\^"),
    Fault("unknown_dialect", 1, r"(?s)foreign\.mlir:2:\d+: error: .*stablehlo.*hint: aot reads MLIR's own"),
    Fault("unknown_op", 1, r"typo\.mlir:2:\d+: error: .*arith\.addfloat"),
    Fault("verifier_error", 1, r"mismatch\.mlir:2:\d+: error: .*requires the same type for all operands"),
    Fault("operands_of_another_type", 1, r"sum\.mlir:3: error: 'linalg\.yield' .*'f16'.*'f32'.*; convert operands"),
    Fault("softmax_without_floats", 1, r"(?s)rows\.mlir:2:\d+: error: .* on 'i32': convert.*rows\.mlir:3:.*'f4E2M1FN'"),
    Fault("undefined_value", 1, r"undefined\.mlir:2:\d+: error: .*undeclared SSA value"),
    Fault("broken_bytecode", 1, r"broken\.mlirbc: not valid MLIR"),
    Fault("broken_script", 1, r"double\.transform\.mlir:2:\d+: error: "),
    Fault("script_without_sequence", 1, r"double\.transform\.mlir: holds no transform\.named_sequence"),
    Fault("script_fails", 1, r"(?s)double\.mlir: running the source's transform script failed.*incompatible payload"),
    Fault("no_kernels", 1, r"empty_module\.mlir: .*no "),
    Fault("only_private_functions", 1, r"hidden\.mlir: .*no "),
    Fault("function_named_by_keyword", 1, r"lambdas\.mlir:\d+:\d+: error: '@lambda': it is a Python keyword"),
    Fault("function_with_underscore", 1, r"'@_init': names with a leading underscore are reserved"),
    Fault("function_with_dot", 1, r"'@a\.b': it is not an ASCII Python identifier"),
    Fault("kernels_of_one_name", 1, r"twins\.mlir:[6-9]:\d+: error: '@k': two functions or kernels of this"),
    Fault("printf_too_few_arguments", 1, r"message\.mlir:5:\d+: error: .*2.*1"),
    Fault("printf_wrong_kind", 1, r"message\.mlir:6:\d+: error: .*%s"),
    Fault("host_function_in_kernel", 1, r"call\.mlir:\d+(:\d+)?: error: .*on_the_host"),
    Fault("unknown_external_function", 1, r"missing\.mlir:\d+(:\d+)?: error: .*no_such_function"),
    Fault("recursion", 1, r"loop\.mlir:\d+(:\d+)?: error: .*(recurs|itself)"),
    Fault("launch_of_no_threads", 1, r"launch\.mlir:5:\d+: error: 'f_kernel': known_block_size: 0 is not possible"),
    Fault("launch_of_many_threads", 1, r"launch\.mlir:5:\d+: error: 'f_kernel': .* 2048 x 1 x 1 threads; a block has"),
    Fault("host_code_in_a_kernel", 1, r"(?s)kernel\.mlir:4:\d+: error: 'gpu\.memcpy' is .*kernel\.mlir:5:.*printf"),
    Fault("no_code_for_these_types", 1, r"rotate\.mlir:5:\d+: error: 'gpu\.rotate' cannot be lowered as it is written"),
    Fault("launch_in_a_kernel", 1, r"launch\.mlir:7:\d+: error: a kernel cannot launch another one"),
    Fault("parameter_of_odd_width", 1, r"kernel\.mlir:2:\d+: error: parameter 0 has type 'i4', which no kernel takes"),
    Fault("parameter_is_a_tensor", 1, r"kernel\.mlir:2:\d+: error: parameter 0 has type 'tensor<4xf32>', which no ker"),
    Fault("shared_memory_of_unknown_size", 1, r"kernel\.mlir:2:\d+: error: memory of type '.*' has no known size; see"),
    Fault("array_of_no_memory", 1, r"huge\.mlir:1(:\d+)?: error: result 0 of @f: '.*': more elements than memory has"),
    Fault("rounding_toward_zero", 1, r"halves\.mlir:2:\d+: error: 'arith\.truncf' toward_zero: only rounding to the"),
    Fault("negative_size", 1, r"sizes\.mlir:3:\d+: error: 'tensor\.empty': size -3 is negative"),
    Fault("dimension_that_there_is_not", 1, r"rows\.mlir:4:\d+: error: 'memref\.dim': 'memref<\?xindex>' has no dim"),
    Fault("convolution_that_goes_backwards", 1, r"image\.mlir:2:\d+: error: 'linalg\.conv_1d\w+': strides are pos"),
    Fault("division_by_zero_in_a_map", 1, r"halves\.mlir:2:\d+: error: 'affine\.apply': a division by 0 in '.*'; div"),
    Fault("divisor_that_becomes_zero", 1, r"halves\.mlir:3:\d+: error: 'affine\.apply': a division by 0 in '.*'; div"),
    Fault("division_by_zero_in_a_generic", 1, r"halves\.mlir:2:\d+: error: 'linalg\.generic': a division by 0 in '.*'"),
    Fault("division_by_zero_in_a_condition", 1, r"even\.mlir:3:\d+: error: .*non-positive value is not supported"),
    Fault("loop_that_stands_still", 1, r"loop\.mlir:4:\d+: error: 'scf\.for': step 0 is not positive"),
    Fault("shift_beyond_all_bits", 1, r"shift\.mlir:4:\d+: error: 'arith\.shli': a shift by 36893488147419103232"),
    Fault("scalable_vector", 1, r"lanes\.mlir:3:\d+: error: 'arith\.constant': '.*' has no length on this machine"),
    Fault("float_without_arithmetic", 1, r"wide\.mlir:2:\d+: error: 'arith\.extf': no code .* 'f128': f64 is the wid"),
    Fault("layout_without_strides", 1, r"tiles\.mlir:3:\d+: error: 'memref\.alloc': '.*': only strided layouts are"),
    Fault("collapse_of_a_gap", 1, r"(?s)view\.mlir:5:.*dimensions 0, 1 have strides 32, 1, between.*hint: memref"),
    Fault("reshape_of_other_size", 1, r"shape\.mlir:4:\d+: error: .*dim size \(7\) must equal reassociation"),
    Fault("negative_offset", 1, r"slice\.mlir:3:\d+: error: 'tensor\.insert_slice': offset -1 is negative"),
    Fault("negative_padding", 1, r"(?s)pad\.mlir:4:.*'tensor\.pad': low -2 .*: high -1 .*hint: tensor\.extract_slice"),
    Fault("negative_slice", 1, r"slice\.mlir:3:\d+: error: 'tensor\.extract_slice': size -1 is negative"),
    Fault("negative_extent_of_a_reshape", 1, r"shape\.mlir:4:\d+: error: 'tensor\.expand_shape': size -4 is negative"),
    Fault("negative_size_of_a_view", 1, r"view\.mlir:4:\d+: error: 'memref\.reinterpret_cast': size -4 is negative"),
    Fault("elided_constant", 1, r"weights\.mlir:2:\d+: error: 'dense_resource<__elided__>': the file has no data"),
    Fault("unranked_argument", 1, r"unranked\.mlir:1(:\d+)?: error: .*memref<\*xf32>"),
    Fault("sparse_tensor", 1, r"sparse\.mlir:\d+(:\d+)?: error: .*sparse"),
    Fault("host_and_device_memory_mixed", 1, r"mixed\.mlir:4(:\d+)?: error: (?s:.*)gpu\.memcpy"),
    Fault("host_memory_returned", 1, r"returned\.mlir:8(:\d+)?: error: .*memory of the host"),
    Fault("launch_attributes_do_not_fit", 1, r"attributes\.mlir:2(:\d+)?: error: .*aot\.grid"),
    Fault("need_of_launch_is_no_text", 1, r"launch\.mlir:4(:\d+)?: error: aot\.needs: '90 : i64' is no text"),
    Fault("misspelt_precision", 1, r"products\.mlir:2(:\d+)?: error: aot\.precission: .* did you mean aot\.precision"),
    Fault("need_is_no_text", 1, r"needs\.mlir:2(:\d+)?: error: aot\.needs: '90 : i64' is no text, such as \"sm_90\""),
    Fault("attribute_misspelt", 1, r"attributes\.mlir:2(:\d+)?: error: aot\.gird: .*did you mean aot\.grid"),
    Fault("unknown_precision", 1, r"products\.mlir:2(:\d+)?: error: 'aot\.precision' is 'fast': 'f32' and 'tf32' are"),
    Fault("precision_of_an_allocation", 1, r"products\.mlir:3(:\d+)?: error: aot\.precision: it belongs on an op"),
    Fault("precision_of_a_module_unknown", 1, r"products\.mlir:1(:\d+)?: error: 'aot\.precision' is 'tf64': 'f32' and"),
    Fault("target_that_no_gpu_has", 1, r"old\.mlir:1(:\d+)?: error: #nvvm\.target<chip = \"sm_35\">: unknown architec"),
    Fault("undefined_on_the_device", 1, r"(?s)kernel calls 'nowhere', .*calls\.mlir:6:14: .*hint: define it there"),
    Fault("grid_of_a_device_function", 1, r"attributes\.mlir:2(:\d+)?: error: aot\.grid: it belongs on a kernel"),
    Fault(
        "misspelt_argument_name",
        1,
        r"(?s)named\.mlir:1(:\d+)?: error: aot\.nmae: .*did you mean aot\.name\?.*: aot\.name: it belongs on an arg",
    ),
    Fault(
        "needs_of_an_operation",
        1,
        r"(?s)named\.mlir:2(:\d+)?: error: aot\.fuse: unknown attribute, and none.* aot\.needs: it belongs on a kernel",
    ),
    Fault("launch_priority", 1, r"attributes\.mlir:3(:\d+)?: error: aot\.priority: it belongs on a kernel"),
    Fault("function_programmatic", 1, r"attributes\.mlir:1(:\d+)?: error: aot\.programmatic: it belongs on a kernel"),
    Fault("shared_too_large", 1, r"attributes\.mlir:2(:\d+)?: error: aot\.shared: 999999 bytes; .* at most \d+ on sm_"),
    Fault("block_too_large", 1, r"attributes\.mlir:2(:\d+)?: error: aot\.block: 2048 threads; .*at most 1024"),
    Fault("argument_name_is_no_text", 1, r"named\.mlir:2(:\d+)?: error: aot\.name = 3 : i64 of argument 0: no"),
    Fault("argument_name_is_a_keyword", 1, r"named\.mlir:1(:\d+)?: error: aot\.name = \"lambda\" of argument 1"),
    Fault("argument_names_twice", 1, r"named\.mlir:1(:\d+)?: error: aot\.name: two arguments are called 'a'"),
    Fault("compiler_crashes", 1, r"(?s)twice\.mlir: the compiler died with SIGSEGV in: .*buffer-.*twice\.mlir:1:1: "),
    Fault("compiler_crashes_while_parsing", 1, r"(?s)died with SIG.* in: parsing.*power\.mlir:5: .*\.powf"),
    Fault("compiler_crashes_in_one_function", 1, r"(?s)died with SIG.*twice\.mlir:5:1: error: the .* of '@twice'"),
    Fault("ptxas_fails", 1, r"refuses the code for sm_80:\n\S*assembly\.mlir:4:5: error: .*no\.such\.instruction"),
    Fault("too_much_static_shared_memory", 1, r"(?s)does not fit sm_80:\n\S*shared\.mlir:2: error: .*'k'.*262144 b"),
    Fault("launch_without_a_container", 1, r"(?s)launch\.mlir:8:.*hint: write all .*module attributes {gpu\.contain"),
    Fault("unknown_pass", 1, r"(?s)double\.mlir: .*canonicalise.*hint: they are `passes` in \[source\..*double\]"),
    Fault("failing_pass", 1, r"test-no-such"),
    Fault("passes_leave_no_signature", 1, r"double\.mlir:1(:\d+)?: error: '@f' does not say any more what"),
    Fault("passes_lower_a_launch", 1, r"launch\.mlir:1(:\d+)?: error: '@f' does not say any more what"),
)  # fmt: skip
"""Found when a source is compiled; one build tells of them all."""

FAULTS = (
    # What is built
    Fault("missing_folder", 2, r"error: 'missing_folder' does not exist"),
    Fault("empty_folder", 1, r"no sources in 'empty_folder'"),
    Fault("source_is_a_pipe", 1, r"pipe\.mlir: not a regular file", project="pipes"),
    Fault("pipe_named", 2, r"'pipes/pipe\.mlir' is not a regular file", project="pipes/pipe.mlir"),
    Fault("empty_file", 1, r"nothing\.mlir: the file is empty"),
    Fault("not_utf8", 1, r"latin\.mlir:1: not UTF-8 text"),
    Fault("python_generator", 2, r"\.py' is no source: Python generators", project="python_generator/kernels.py"),
    Fault("same_name_twice", 1, r"(?s)two sources with the same name.*soft-max\.mlir.*soft_max\.mlir"),
    Fault("source_named_by_keyword", 1, r"class\.mlir: 'class' cannot become the namespace .*: it is a Python keyword"),
    Fault("source_with_reserved_name", 1, r"'preload'.*the package itself uses this name"),
    Fault("two_broken_sources", 1, r"(?s)2 sources failed.*first\.mlir:1.*second\.mlir:2"),
    Fault("script_of_no_source", 1, r"duoble\.transform\.mlir: .*there is no 'duoble\.mlir' beside it"),
    # Architectures
    fine("arch_misspelled", 2, r"unknown architecture 'sm_9'; did you mean 'sm_90'\?", "--archs sm_80,sm_9"),
    fine("arch_too_old_for_ptxas", 3, r"sm_70: ptxas [\d.]+ cannot build it; the nearest.* is sm_75", "--archs sm_70"),
    fine("ptx_of_a_lettered_arch", 2, r"'compute_90a': PTX with the letter 'a'", "--archs compute_90a"),
    fine("archs_of_an_unset_variable", 2, r"--archs is empty", "--archs="),
    fine("no_archs", 2, r"list of architectures is empty", "--archs ,"),
    fine("archs_from_environment", 2, r"AOT_ARCHS: unknown architecture 'gpu'", AOT_ARCHS="gpu"),
    fine("old_archs_from_environment", 3, r"AOT_ARCHS: sm_70: ptxas [\d.]+ cannot build it", AOT_ARCHS="sm_70"),
    fine("cache_from_environment", 1, r"AOT_CACHE: cannot read '/dev/null': a file stands", AOT_CACHE="/dev/null"),
    fine("limit_from_environment", 2, r"AOT_CACHE_LIMIT: 'much' is no size", AOT_CACHE_LIMIT="much"),
    fine("remote_from_environment", 2, r"AOT_CACHE_REMOTE: 'no://x' is no place for", AOT_CACHE_REMOTE="no://x"),
    fine("toolkit_from_environment", 3, r"AOT_TOOLKIT: ptxas was not found; looked at /no", AOT_TOOLKIT="/nowhere"),
    fine("date_from_environment", 2, r"SOURCE_DATE_EPOCH='now' is no number of seconds", SOURCE_DATE_EPOCH="now"),
    fine("ptx_asked_for_and_refused", 2, r"--no-ptx and compute_80 contradict", "--archs sm_80,compute_80 --no-ptx"),
    Fault("only_launches_on_a_cpu", 1, r"nothing is left to build: only tensor-level functions", "--archs host"),
    Fault("atomic_of_odd_bits", 1, r"odd\.mlir:3:\d+: error: 'memref\.generic_atomic_rmw': i24 cannot", "--archs host"),
    Fault("cp_async_on_turing", 1, r"copy\.mlir:5(:\d+)?: error: (?s:.*)sm_80", "--archs sm_75"),
    Fault(
        "cp_async_on_turing",
        1,
        r"(?s)2 of the requested architectures do not fit.*sm_75.*copy\.mlir:5(:\d+)?: error: .*compute_75",
        "--archs sm_75,compute_75,sm_80",
    ),
    Fault("wgmma_on_plain_hopper", 1, r"fence\.mlir:4(:\d+)?: error: (?s:.*)sm_90a", "--archs sm_90"),
    # Settings and options
    Fault("settings_unknown_key", 2, r"aot\.toml:4: build\.arch: unknown key; did you mean 'archs'\?"),
    Fault("settings_wrong_type", 2, r"aot\.toml:5: build\.ptx: true or false is needed; got 'no'"),
    Fault("min_arch_of_two", 2, r"aot\.toml:4: source\.double\.min-arch: one plain architecture is needed, such as sm"),
    Fault("settings_without_edition", 2, r"aot\.toml: edition: missing"),
    Fault("settings_for_no_function", 2, r"aot\.toml:3: .*function\.ff\]: .* 'ff'; did you mean 'f'\?"),
    Fault("settings_for_no_source", 2, r"aot\.toml:3: \[source\.duoble\]: .*did you mean 'double'\?"),
    Fault("settings_not_toml", 2, r"aot\.toml: not valid TOML"),
    Fault("settings_leave_all_out", 1, r"no source can be built for sm_80: .*aot\.toml leaves them all out"),
    Fault("license_is_none", 2, r"'No Such License' is no license"),
    Fault("description_of_two_lines", 2, r"aot\.toml:3: package\.description: one line of text is needed"),
    fine("name_of_an_unset_variable", 2, r"--name is empty", "--name="),
    fine("version_of_an_unset_variable", 2, r"--version is empty", "--version="),
    fine("dump_is_a_file", 1, r"cannot write '.*taken': a file stands where a folder is needed", "--dump taken"),
    fine("name_is_a_keyword", 2, r"import name 'class': it is a Python keyword", "--name class"),
    fine("name_with_a_slash", 2, r"'a/b' is no name for a package", "--name a/b"),
    fine("name_of_a_module", 2, r"it would hide an existing module", "--name json"),
    fine("version_is_none", 2, r"'first' is no version", "--version first"),
    fine("unknown_option", 2, r"No such option '--arch'.*--archs", "--arch sm_80"),
    fine("unknown_choice", 2, r"(?s)'zip' is not one of 'none', 'fast'", "--compress zip"),
    fine("unknown_schedules", 2, r"(?s)'quick' is not one of 'fast', 'general'", "--schedules quick"),
    fine("contradicting_options", 2, r"--toolkit and --cuda exclude each other", "--toolkit x --cuda 12"),
    fine("jobs_from_environment", 2, r"MAX_JOBS='many' is no number of jobs", MAX_JOBS="many"),
    # Tools and the disk
    fine("no_toolkit_there", 3, r"ptxas was not found; looked at .*nowhere/bin/ptxas", "--toolkit nowhere"),
    fine("no_c_compiler", 3, r"no C compiler was found: CC is '/nowhere/cc'", CC="/nowhere/cc"),
    fine("c_compiler_that_fails", 1, r"(?s)runtime cannot be compiled: `\S+ -O2.*what CC and CFLAGS say", CC="false"),
    fine("c_compiler_with_a_quote", 3, r"CC is 'gcc \"', which no shell can read: No closing quotation", CC='gcc "'),
    fine("c_compiler_of_blanks", 3, r"CC has nothing but blanks", CC="  "),
    fine("c_flags_with_a_quote", 3, r"CFLAGS is '-DA=\"', which no shell can read: No closing", CFLAGS='-DA="'),
    fine("no_c_compiler_on_path", 3, r"no C compiler was found: looked for cc, gcc, clang", PATH="/nowhere"),
    fine("no_llvm", 3, r"AOT_LLVM: opt was not found; looked at /nowhere/opt", AOT_LLVM="/nowhere"),
    fine("work_is_somebody_elses", 1, r"cannot use '.*/foreign': it holds 'tree'", "--work foreign"),
    fine("out_is_a_file", 1, r"cannot write '.*/taken/out': a file stands where a folder is needed", "--out taken/out"),
    fine("work_is_a_file", 1, r"cannot write '.*taken': a file stands where a folder is needed", "--work taken"),
    fine("out_is_read_only", 1, r"cannot write '.*locked/out': (permission|the file system)", "--out locked/out"),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder of a call: projects, a file in the way, a folder that cannot be written."""
    monkeypatch.chdir(tmp_path)
    for name in ("AOT_ARCHS", "AOT_TOOLKIT", "AOT_LLVM", "MAX_JOBS", "CC"):
        monkeypatch.delenv(name, raising=False)
    Path("empty_folder").mkdir()
    Path("pipes").mkdir()
    os.mkfifo("pipes/pipe.mlir")
    Path("taken").write_text("a file")
    Path("foreign", "tree").mkdir(parents=True)
    Path("foreign", "tree", "precious").write_text("a file")
    locked = Path("locked")
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):  # root may write everywhere; not into the kernel's own file systems
        locked.rmdir()
        locked.symlink_to("/sys/kernel")
    yield tmp_path
    if not locked.is_symlink():
        locked.chmod(0o700)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_ends_in_one_message(
    fault: Fault, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = fault.project or fault.name
    name = project.split("/")[0]
    if (PROJECTS / name).is_dir():
        shutil.copytree(PROJECTS / name, folder / name)
    for variable, value in fault.environment.items():
        monkeypatch.setenv(variable, value)
    options = fault.options.split()
    archs = [] if "--archs" in " ".join(options) or "AOT_ARCHS" in fault.environment else ["--archs", "sm_80"]

    code = cli.run(["build", project, *archs, "--name", "faulty", *options])

    out, err = capfd.readouterr()
    assert re.search(fault.message, err), err
    assert code == fault.code, err
    assert err.count("error: ") >= 1
    assert "Traceback" not in err
    assert out == ""
    assert not Path("dist").exists()
    assert not Path("locked/out").exists()
    assert Path("taken").read_text() == Path("foreign/tree/precious").read_text() == "a file"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a build says about each broken source."""
    return told_in(tmp_path_factory.mktemp("broken"))


def told_in(folder: Path, *options: str) -> dict[str, str]:
    """What one build of all broken sources says about each, by project; a project's files begin with its name."""
    settings = ["edition = 1"]
    for fault in BROKEN:
        for path in (PROJECTS / fault.name).iterdir():
            if path.name == "aot.toml":
                settings.append(path.read_text().replace("edition = 1", "").replace("source.", f"source.{fault.name}_"))
            else:
                shutil.copy(path, folder / f"{fault.name}-{path.name}")
    (folder / "aot.toml").write_text("\n".join(settings))
    command = [sys.executable, "-m", "aot", "build", ".", "--archs", "sm_80", "--name", "broken", "--no-ptx", "-j", "2"]
    command += options
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert not (folder / "dist").exists()
    progress, _, said = done.stderr.partition(f"error: {len(BROKEN)} sources failed\n")
    assert said, progress
    starts = sorted((said.index(f"{fault.name}-"), fault.name) for fault in BROKEN)
    ends = [start for start, _ in starts[1:]] + [len(said)]
    return {n: said[at:end].replace(str(folder), "") for (at, n), end in zip(starts, ends, strict=True)}


@pytest.mark.parametrize("fault", BROKEN, ids=[fault.name for fault in BROKEN])
def test_a_broken_source_is_told_of(fault: Fault, told: dict[str, str]) -> None:
    assert re.search(fault.message, told[fault.name]), told[fault.name]


def test_schedules_are_no_part_of_an_error(told: dict[str, str], tmp_path: Path) -> None:
    assert told_in(tmp_path, "--schedules", "general") == told


def test_how_the_build_is_done_is_no_part_of_an_error(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of an edge that failed, ninja shows the command: it is aot's own."""
    shutil.copytree(PROJECTS / "unknown_precision", folder / "unknown_precision")
    assert cli.run(["build", "unknown_precision", "--archs", "sm_80", "--name", "faulty", "-v"]) == 1
    err = capfd.readouterr().err
    assert "'aot.precision' is 'fast'" in err
    assert "FAILED" not in err
    assert "ninjaclient.py" not in err


def test_every_project_is_in_the_table() -> None:
    used = {(fault.project or fault.name).split("/")[0] for fault in (*BROKEN, *FAULTS)}
    assert {path.name for path in PROJECTS.iterdir()} <= used


FULL = [
    ("work", "8k", "--work small/work --out dist", r"cannot write '.*small/work/.*': no space is left on the device"),
    ("tree", "150k", "--work small/work --out dist", r"cannot write '.*small/work/tree/.*': no space is left"),
    (
        "out",
        "8k",
        "--work work --out small/dist",
        r"cannot write '.*small/dist/.*\.whl': no space is left on the device",
    ),
]


@pytest.mark.parametrize(("size", "options", "message"), [row[1:] for row in FULL], ids=[row[0] for row in FULL])
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, size: str, options: str, message: str) -> None:
    """A small file system of its own for ``small``, where this machine lets a process have one."""
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size={size} tmpfs small"
    (tmp_path / "small").mkdir()
    if subprocess.run([*alone, mount], cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    build = f"'{sys.executable}' -m aot build '{PROJECTS / 'fine'}' --archs sm_80 --name full {options}"
    command = f"{mount} && {build}; code=$?; find small/dist dist -type f 1>&2; exit $code"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*alone, command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert re.search(message, done.stderr), done.stderr
    assert done.returncode == 1
    assert not re.search(r"^\S+\.(whl|part)$", done.stderr, re.MULTILINE), "left in the output folder"
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_file_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device that is always full stands for the disk: every write to it fails."""
    target = tmp_path / "dist" / "file.whl"
    monkeypatch.setattr(Path, "open", lambda path, mode: open("/dev/full", mode))  # noqa: SIM115 - closed by its user
    with pytest.raises(fileset.DiskError, match=r"cannot write '.*file\.whl': no space is left on the device"):
        fileset.write_file(target, b"x" * 10_000)
    assert list(target.parent.iterdir()) == []
