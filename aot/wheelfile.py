"""A wheel as bytes: another tag, the extension inside, and what may be wrong with it.

In: bytes of a wheel or of its extension. Out: bytes and words. Nothing is written.

>>> retagged("a-1-cp310-abi3-linux_x86_64.whl", data, "cp310-abi3-manylinux_2_34_x86_64", 0)[0]   # doctest: +SKIP
'a-1-cp310-abi3-manylinux_2_34_x86_64.whl'
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from aot import codec
from aot.errors import PackageError

_LIBRARIES = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux-[\w-]+)\.so(\.\d+)?")
"""What an extension may link: parts of glibc. libcuda is opened at the first call."""
_PYTHON = re.compile(r"_?Py")
_TVM_FFI = "__tvm_ffi_"
"""Starts of what --tvm-ffi exports."""
_MANIFEST = "/aot.json"
_MACHINES = {"x86_64": "x86-64", "aarch64": "aarch64"}
"""Ends of platform tags -> machines as the manifest names them."""
_MODE = 0o100644 << 16
_BEGINNING = 8
"""Bytes of a fatbin before those that differ."""


def retagged(name: str, data: bytes, tag: str, epoch: int) -> tuple[str, bytes]:
    """The wheel under another tag: file name, WHEEL, RECORD and the manifest's machines; all else is kept."""
    stem = name.rsplit("-", 3)[0]
    platform = tag.rpartition("-")[2]
    files = dict(_members(data))
    (info,) = {path.partition("/")[0] for path in files if path.endswith(".dist-info/WHEEL")}
    tags = files[f"{info}/WHEEL"].decode("utf-8")
    files[f"{info}/WHEEL"] = re.sub(r"^Tag: .*$", f"Tag: {tag}", tags, flags=re.MULTILINE).encode("utf-8")
    for path in [path for path in files if path.endswith(_MANIFEST)]:
        files[path] = _for_machine(files[path], platform)
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    return f"{stem}-{tag}.whl", _zipped(files, last=f"{info}/RECORD", date=time.gmtime(epoch)[:6])


def _for_machine(manifest: bytes, platform: str) -> bytes:
    """The manifest of a tree names all machines that the tree can be built for; a wheel is built for one."""
    content = json.loads(manifest)
    (machine,) = (name for ending, name in _MACHINES.items() if platform.endswith(ending))
    for module in content["modules"]:
        module["host"] = [each for each in module["host"] if each == machine]
        module["cpu"] = {each: variants for each, variants in module["cpu"].items() if each == machine}
    return codec.document(content)


def extension_of(data: bytes) -> tuple[str, bytes]:
    """File name and bytes of the one extension in a wheel."""
    found = [(path, content) for path, content in _members(data) if path.endswith(".so")]
    if len(found) != 1:
        raise PackageError(f"the wheel holds {len(found)} extensions, expected one")
    path, content = found[0]
    return path.rpartition("/")[2], content


def problems(module: str, library: bytes, blobs: Mapping[str, bytes]) -> list[str]:
    """What is wrong with an extension: exports, imports, libraries, blobs; empty when nothing is."""
    elf = ELFFile(io.BytesIO(library))
    exported = sorted(name for name in _exported(elf) if not name.startswith(_TVM_FFI))
    wrong = [] if exported == [f"PyInit_{module}"] else [f"it exports {', '.join(exported)}, not only PyInit_{module}"]
    wrong += [f"it links {name}" for name in _needed(elf) if not _LIBRARIES.fullmatch(name)]
    wrong += [f"it needs '{name}', which nothing provides" for name in sorted(_unprovided(elf))]
    counts = _counts(library, blobs)
    return wrong + [f"it holds {name} {counts[name]} times" for name in blobs if counts[name] != 1]


def _counts(library: bytes, blobs: Mapping[str, bytes]) -> Counter[str]:
    """How often the library holds each blob. It is searched once for all that begin alike, as fatbins do."""
    alike: dict[bytes, list[str]] = {}
    for name, blob in blobs.items():
        alike.setdefault(blob[:_BEGINNING], []).append(name)
    counts: Counter[str] = Counter()
    for beginning, names in alike.items():
        for place in re.finditer(re.escape(beginning), library):
            counts.update(name for name in names if library.startswith(blobs[name], place.start()))
    return counts


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield member.filename, archive.read(member)


def _record(files: Mapping[str, bytes], own: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for path in sorted(files):
        if path != own:
            digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).rstrip(b"=").decode("ascii")
            writer.writerow([path, f"sha256={digest}", len(files[path])])
    writer.writerow([own, "", ""])
    return text.getvalue().encode("utf-8")


def _zipped(files: Mapping[str, bytes], *, last: str, date: tuple[int, int, int, int, int, int]) -> bytes:
    """RECORD comes last, as the wheel format recommends."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(files, key=lambda path: (path == last, path)):
            member = zipfile.ZipInfo(path, date)
            member.external_attr = _MODE
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, files[path])
    return out.getvalue()


def _exported(elf: ELFFile) -> Iterator[str]:
    symbols = elf.get_section_by_name(".dynsym")
    for symbol in symbols.iter_symbols() if isinstance(symbols, SymbolTableSection) else ():
        if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK"):
            yield symbol.name


def _unprovided(elf: ELFFile) -> Iterator[str]:
    """Undefined symbols that are neither Python's nor glibc's (those have a version): a crash when they are called."""
    symbols, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
    if not isinstance(symbols, SymbolTableSection) or not isinstance(versions, GNUVerSymSection):
        return
    for symbol, version in zip(symbols.iter_symbols(), versions.iter_symbols(), strict=True):
        required = symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
        if required and isinstance(version["ndx"], str) and not _PYTHON.match(symbol.name):
            yield symbol.name


def _needed(elf: ELFFile) -> Iterator[str]:
    dynamic = elf.get_section_by_name(".dynamic")
    for tag in dynamic.iter_tags("DT_NEEDED") if isinstance(dynamic, DynamicSection) else ():
        yield str(cast(Any, tag).needed)
