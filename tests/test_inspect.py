"""``aot inspect`` on the product's own packages."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from builtpackage import Built, build_in

import aot
from aot import cli
from aot.commands import inspection
from aot.errors import AotError
from aot.fatbins import ptxtext
from aot.packages import openedpackage

EXTENSION = "_small_demo.abi3.so"


@pytest.fixture(scope="module")
def site(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(built.result.wheel).extractall(folder)
    return folder


def test_a_wheel_a_folder_and_an_extension_tell_the_same(built: Built, site: Path) -> None:
    package = site / "small_demo"
    places = [built.result.wheel, built.folder / "dist", site, package, package / EXTENSION]
    found = [aot.inspect(str(place)) for place in places]
    for each in found:
        assert each.package.manifest == found[0].package.manifest
        assert each.package.blobs == found[0].package.blobs
        assert each.sources == found[0].sources


def test_the_blobs_are_those_of_the_manifest(built: Built) -> None:
    package = aot.inspect(str(built.result.wheel)).package
    assert package.manifest is not None
    modules = {module["name"]: module for module in package.manifest["modules"]}
    for blob in package.blobs:
        assert hashlib.sha256(blob.data).hexdigest() == modules[blob.source]["blob_sha256"]
        assert [entry.target for entry in blob.entries] == [image["target"] for image in modules[blob.source]["images"]]


def test_coverage_is_known_for_each_source(built: Built) -> None:
    found = {
        each.source: {row.capability: row.how for row in each.rows}
        for each in aot.inspect(str(built.result.wheel)).sources
    }
    assert found["kernel"][(7, 5)] == "none"
    assert found["kernel"][(8, 6)] == "cubin"
    assert found["kernel"][(12, 0)] == "ptx"
    assert (found["hopper"][(9, 0)], found["hopper"][(10, 0)]) == ("cubin", "none")


def test_an_image_without_kernels_serves_nobody(tmp_path: Path) -> None:
    """It is noted when the package is built, too."""
    (tmp_path / "kernels").mkdir()
    kernel = '  gpu.func @{name}(%x: memref<?xf32>) kernel attributes {{aot.needs = "{need}"}} {{ gpu.return }}\n'
    for name, needs in (("late", ("sm_90",)), ("mixed", ("sm_80", "sm_100"))):
        text = "".join(kernel.format(name=f"k_{need}", need=need) for need in needs)
        (tmp_path / "kernels" / f"{name}.mlir").write_text(f"gpu.module @m {{\n{text}}}\n")
    built = build_in(tmp_path, archs="sm_80", ptx=False)
    found = {
        each.source: {row.capability: row.how for row in each.rows}
        for each in aot.inspect(str(built.result.wheel)).sources
    }
    assert (found["late"][(8, 0)], found["mixed"][(8, 0)]) == ("none", "cubin")
    notes = [note.partition(": ")[2] for note in built.heard.notes if "is in no image" in note]
    assert notes == [
        "kernel 'k_sm_90' is in no image: it needs sm_90, images are for sm_80",
        "kernel 'k_sm_100' is in no image: it needs sm_100, images are for sm_80",
    ]


def test_the_text_names_everything(built: Built, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["inspect", str(built.result.wheel)]) == 0
    text = capsys.readouterr().out
    for words in (
        r"small_demo 1\.5, made by aot .*, mlir 22\.1\.8.*, ptxas \d",
        r"needs a driver of CUDA 13\.0 or newer",
        r"double\(x: tensor<\?xf32>\) -> tensor<\?xf32>",
        r"iota\(.*\) launched with grid=\[1\], block=\[32\]\n",
        r"cubin sm_90a \(asked for as sm_90\): \d+ bytes",
        r"ptx compute_90: \d+ bytes, \d+ as stored",
        r"left out: sm_80",
        r"iota +sm_80 +\d+ +0 +0 +0 +\d+ +[1-9]\d+\n",
        r"8\.0 +kernel, launch, tensor_level +hopper\n",
        r"9\.0 +all\n",
    ):
        assert re.search(words, text), words


def test_json_is_the_manifest_and_more(built: Built, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["inspect", "--json", str(built.result.wheel)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert document["coverage"]["kernel"]["8.6"] == {"how": "cubin", "image": "sm_80"}
    assert {"small_demo", "1.5"} == {document["package"], document["version"]}


@pytest.mark.parametrize("name", ["iota", "kernel.iota", "inner::iota", "inner__iota"])
def test_ptx_of_a_kernel(built: Built, name: str) -> None:
    text = inspection.ptx_text(str(built.result.wheel), name)
    assert text.startswith(".version ")
    assert text.count(".entry") == 1
    assert ".entry inner__iota(" in text
    assert text.endswith("}")


TEXT = """\
.version 7.0
.target sm_80
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf
(
.param .b64 vprintf_param_0,
.param .b64 vprintf_param_1
)
;
.visible .const .align 4 .u32 aot_image = 1;
.extern .shared .align 16 .b8 dynamic[];
.global .align 1 .b8 format_0[9] = {37, 102, 32, 37, 108, 108, 100, 10};
.global .align 1 .b8 format_1[2] = {37, 102};
.global .align 8 .u64 table[2] = {generic(format_1), 0};
.func  (.param .b32 func_retval0) helper(
.param .b32 helper_param_0
)
{
.shared .align 4 .b8 own[4];
mov.b64 %rd1, table;
ret;
}
.visible .entry k(
.param .u64 k_param_0
)
{
.shared .align 16 .b8 inner[128];
mov.b64 %rd11, dynamic;
{
call.uni (retval0), helper, (param0);
}
ret;
}
.visible .entry prints(
)
{
{
call.uni (retval0), vprintf, (param0, param1);
}
ret;
}
"""


def test_what_a_kernel_uses_is_shown_with_it() -> None:
    head, *items = ptxtext.kernel(TEXT, "k").split("\n\n")
    assert head == ".version 7.0\n.target sm_80\n.address_size 64"
    assert [item.split("\n")[0] for item in items] == [
        ".extern .shared .align 16 .b8 dynamic[];",
        ".global .align 1 .b8 format_1[2] = {37, 102};",
        ".global .align 8 .u64 table[2] = {generic(format_1), 0};",
        ".func  (.param .b32 func_retval0) helper(",
        ".visible .entry k(",
    ]
    assert items[3].endswith("ret;\n}")
    assert items[4].endswith("ret;\n}")
    assert ptxtext.kernel(TEXT, "helper") == ""
    (_, printer, code) = ptxtext.kernel(TEXT, "prints").split("\n\n")
    assert printer.startswith(".extern .func")
    assert printer.endswith(")\n;")
    assert code.endswith("ret;\n}")


def test_machine_code_of_a_kernel(built: Built) -> None:
    assert "code for sm_80" in inspection.sass_text(str(built.result.wheel), "iota", None)
    text = inspection.sass_text(str(built.result.wheel), "iota", "sm_90")
    assert "code for sm_90" in text
    assert "EXIT" in text


WRONG = [
    ("iotta", None, r"no kernel 'iotta'.*\nhint: did you mean iota"),
    ("iota", "sm_75", r"no image for 'sm_75': there are sm_80, sm_90"),
]


@pytest.mark.parametrize(("kernel", "arch", "message"), WRONG, ids=["kernel", "arch"])
def test_what_is_not_there_is_named(built: Built, kernel: str, arch: str | None, message: str) -> None:
    with pytest.raises(AotError) as caught:
        inspection.sass_text(str(built.result.wheel), kernel, arch)
    assert re.search(message, caught.value.text()), caught.value.text()


def test_a_lettered_image_has_no_ptx(built: Built) -> None:
    with pytest.raises(AotError, match="no PTX of kernel 'hopper_only' is in the package: images are sm_90a"):
        inspection.ptx_text(str(built.result.wheel), "hopper_only")


def test_an_extension_alone_shows_its_images(site: Path, tmp_path: Path) -> None:
    alone = shutil.copy(site / "small_demo" / EXTENSION, tmp_path / "alone.so")
    found = inspection.inspect(str(alone))
    assert found.package.manifest is None
    assert sorted(len(blob.entries) for blob in found.package.blobs) == [1, 3, 3, 3]
    assert "images only" in inspection.text(found)
    with pytest.raises(AotError, match=r"has no aot\.json beside it"):
        inspection.ptx_text(str(alone), "iota")


def test_a_changed_blob_is_noticed(site: Path, tmp_path: Path) -> None:
    package = tmp_path / "small_demo"
    shutil.copytree(site / "small_demo", package)
    blob = openedpackage.open_package(str(site)).blobs[0].data
    extension = package / EXTENSION
    broken = blob[:-8] + bytes(byte ^ 255 for byte in blob[-8:])
    extension.write_bytes(extension.read_bytes().replace(blob, broken))
    with pytest.raises(AotError, match="the blob of 'hopper' is not in the extension as the manifest says"):
        openedpackage.open_package(str(package))


STRANGE = [
    ("text.whl", b"no zip", r"cannot be read as a wheel"),
    ("text.txt", b"", r"neither a wheel, a folder nor an extension"),
    ("folder/readme", b"", r"is not one package made by aot: aot\.json: none"),
    ("pkg/aot.json", b"{", r"not one package made by aot: \*\.so: none"),
]


@pytest.mark.parametrize(("name", "data", "message"), STRANGE, ids=[row[0] for row in STRANGE])
def test_strange_paths_are_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    with pytest.raises(AotError, match=message):
        openedpackage.open_package(str(file.parent if "/" in name else file))


def test_a_manifest_of_the_future_is_refused(site: Path, tmp_path: Path) -> None:
    shutil.copytree(site / "small_demo", tmp_path / "small_demo")
    (tmp_path / "small_demo" / "aot.json").write_text('{"schema": 2}')
    with pytest.raises(AotError, match="the manifest has schema 2; this aot reads 1"):
        openedpackage.open_package(str(tmp_path))
