"""``--split-archs``: a package for each generation of GPUs, and the one in front that takes the one that fits."""

from __future__ import annotations

import dataclasses
import email
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import fakecuda
import pytest
from builtpackage import HOPPER, KERNEL

from aot import cli, resources
from aot.packages import package
from aot.packages.splitpackage import Part, SplitSpec, render

SETTINGS = 'edition = 1\n[package]\nname = "my-kernels"\nversion = "1.5"\n[source.hopper]\narchs = ["sm_90a"]\n'
SPEC = SplitSpec(
    name="mine",
    distribution="mine",
    version="2",
    generator="0",
    description="",
    license="",
    parts=tuple(Part(f"sm{n}", f"mine_sm{n}", f"mine-sm{n}", (f"sm_{n}0",)) for n in (12, 9, 8)),
    namespaces={"both": ("f", "g"), "newest": ("f",)},
    stubs={"both": b"def f() -> None: ...\n", "newest": b"def f() -> None: ...\n"},
    frameworks=("torch",),
    cpu=False,
)
PART = """\
import types
__version__ = {version!r}
both = types.SimpleNamespace(f=lambda: {name!r})
class Report:
    def __init__(self, device):
        self.capability = HERE
        self.device = device
    def __bool__(self):
        return self.capability is not None and self.capability[0] == {major}
def check(device=None):
    return Report(device)
class CudaError(Exception): ...
"""


def site(folder: Path, parts: dict[int, str]) -> Path:
    """The package in front, and stand-ins for some parts, by major capability and version."""
    for path, data in render(SPEC, package.read_templates(resources.templates())).items():
        if path.startswith("src/"):
            (folder / path[4:]).parent.mkdir(exist_ok=True)
            (folder / path[4:]).write_bytes(data)
    for major, version in parts.items():
        place = folder / f"mine_sm{major}"
        place.mkdir()
        (place / "__init__.py").write_text(PART.format(version=version, name=place.name, major=major))
        (place / "torch.py").write_text("import sys\nname = __name__\n")
    return folder


@pytest.mark.parametrize(
    ("cpu", "words"), [(False, "GPU functions: both, newest."), (True, "Functions: both, newest.")]
)
def test_a_package_without_a_description_says_what_it_holds(cpu: bool, words: str) -> None:
    files = render(dataclasses.replace(SPEC, cpu=cpu), package.read_templates(resources.templates()))
    assert f'description = "{words}"' in files["pyproject.toml"].decode()


def said(folder: Path, capability: tuple[int, int] | None, code: str) -> str:
    """What a program prints where the GPU, if any, has this capability."""
    text = f"import builtins; builtins.HERE = {capability}; import mine\n{code}"
    done = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]


ALL = {12: "2", 9: "2", 8: "2"}
CHOICES = [
    ("the one that fits", ALL, (9, 0), "mine.both.f()", "mine_sm9"),
    ("another generation", ALL, (8, 6), "mine.both.f()", "mine_sm8"),
    ("the newest without a GPU", ALL, None, "mine.both.f()", "mine_sm12"),
    ("the only one, unasked", {8: "2"}, (9, 0), "mine.both.f()", "mine_sm8"),
    ("for a device", ALL, (8, 0), "mine.for_device(1).__name__", "mine_sm8"),
    ("a framework's module", ALL, (9, 0), "__import__('mine.torch').torch.name", "mine_sm9.torch"),
    ("an exception", ALL, (9, 0), "mine.CudaError.__module__", "mine_sm9"),
    ("the report that is good", ALL, (8, 0), "bool(mine.check(3)), mine.check(3).device", "True 3"),
    ("the names", ALL, (9, 0), "dir(mine.both)", "['f']"),
    ("a source of others", ALL, (9, 0), "mine.newest.f()", "AttributeError: mine_sm9 has no 'newest': it is left out"),
    ("a wrong name", ALL, (9, 0), "mine.nothing", "AttributeError: module 'mine' has no attribute 'nothing'"),
    ("nothing", {}, (9, 0), "mine.both.f()", "  pip install 'mine[sm8]'  has sm_80"),
    ("an old part", {9: "1"}, (9, 0), "mine.both.f()", "pip install --upgrade 'mine[sm9]==2'"),
    (
        "none that fits",
        {12: "2", 9: "2"},
        (8, 0),
        "mine.both.f()",
        "none of mine_sm12, mine_sm9 runs on this GPU (sm_80); not installed: 'mine[sm8]' has sm_80",
    ),
]


@pytest.mark.parametrize(
    ("parts", "capability", "code", "answer"), [each[1:] for each in CHOICES], ids=[each[0] for each in CHOICES]
)
def test_choice(
    tmp_path: Path, parts: dict[int, str], capability: tuple[int, int] | None, code: str, answer: str
) -> None:
    found = said(site(tmp_path, parts), capability, f"print({code})")
    assert answer in found, found


def test_functions_of_one_name_stay_in_their_namespaces(tmp_path: Path) -> None:
    spec = dataclasses.replace(SPEC, namespaces={"both": ("f", "g")}, stubs={"both": b""})
    init = render(spec, package.read_templates(resources.templates()))["src/mine/__init__.py"].decode()
    assert ' "g",' in init
    assert ' "g",' in render(SPEC, package.read_templates(resources.templates()))["src/mine/__init__.py"].decode()
    assert ' "f",' not in render(SPEC, package.read_templates(resources.templates()))["src/mine/__init__.py"].decode()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Import name -> wheel, built by the product."""
    folder = tmp_path_factory.mktemp("split")
    (folder / "kernels").mkdir()
    for name, text in {"kernel.mlir": KERNEL, "hopper.mlir": HOPPER, "aot.toml": SETTINGS}.items():
        (folder / "kernels" / name).write_text(text)
    places = ["--out", str(folder / "dist"), "--work", str(folder / "build"), "-j", "2", "-q", "--split-archs"]
    assert cli.run(["build", str(folder / "kernels"), "--archs", "sm_80,sm_86,sm_90", *places]) == 0
    return {path.name.partition("-")[0]: path for path in (folder / "dist").iterdir()}


def test_parts_hold_their_architectures(wheels: dict[str, Path]) -> None:
    found = {}
    for name in ("my_kernels_sm8", "my_kernels_sm9"):
        manifest = json.loads(zipfile.ZipFile(wheels[name]).read(f"{name}/aot.json"))
        found[name] = {each["name"]: [image["target"] for image in each["images"]] for each in manifest["modules"]}
    assert found == {
        "my_kernels_sm8": {"kernel": ["sm_80", "sm_86"]},
        "my_kernels_sm9": {"kernel": ["sm_90", "compute_90"], "hopper": ["sm_90a"]},
    }
    assert wheels["my_kernels"].name == "my_kernels-1.5-py3-none-any.whl"


def test_extras_install_the_parts(wheels: dict[str, Path]) -> None:
    data = zipfile.ZipFile(wheels["my_kernels"]).read("my_kernels-1.5.dist-info/METADATA")
    needs = email.message_from_bytes(data).get_all("Requires-Dist")
    assert needs is not None
    plain = {need.replace('"', "'").replace(" ", "") for need in needs}
    assert "my-kernels-sm9==1.5;extra=='sm9'" in plain
    assert {"my-kernels-sm8==1.5;extra=='all'", "my-kernels-sm9==1.5;extra=='all'"} <= plain


def test_the_package_in_front_is_no_package_with_code(
    wheels: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zipfile.ZipFile(wheels["my_kernels"]).extractall(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for place in (str(wheels["my_kernels"]), str(tmp_path), "my_kernels"):
        for command in (["inspect"], ["verify", "--against", __file__], ["bench"]):
            if (place, command) != ("my_kernels", ["inspect"]):
                assert cli.run([*command, place]) == 2
                assert (
                    f"error: '{place}' is the package in front of split ones and has no code itself\n"
                    "hint: name a package that has: my_kernels_sm9, my_kernels_sm8" in capsys.readouterr().err
                )


@pytest.mark.parametrize(
    ("capability", "part", "has"), [(80, "my_kernels_sm8", False), (90, "my_kernels_sm9", True)], ids=["8.0", "9.0"]
)
def test_the_driver_decides(
    wheels: dict[str, Path], tmp_path: Path, fake_cuda: Path, capability: int, part: str, *, has: bool
) -> None:
    for wheel in wheels.values():
        zipfile.ZipFile(wheel).extractall(tmp_path)
    environment = fakecuda.environment(fake_cuda, {"capability": capability})
    code = "import my_kernels as k; k.preload(); print(k.kernel.iota.__module__, hasattr(k.hopper, 'hopper_only'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{part}.kernel {has}\n", done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--archs", "sm_80,sm_86"], "a package for each generation of GPUs; sm_80, sm_86 is one"),
        (["--archs", "sm_80,sm_90", "--sdist"], "--sdist and --split-archs exclude each other"),
    ],
    ids=["one generation", "sdist"],
)
def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    (tmp_path / "kernel.mlir").write_text(KERNEL)
    assert (
        cli.run(["build", str(tmp_path / "kernel.mlir"), "--work", str(tmp_path / "w"), "--split-archs", *options]) == 2
    )
    assert words in capsys.readouterr().err
