"""A wheel as bytes: another tag, the extension inside, and what may be wrong with it.

In: the files of a wheel, or its extension. Out: the same, bytes and words. Nothing is written.

>>> retagged("a-1-cp310-abi3-linux_x86_64.whl", members, "cp310-abi3-manylinux_2_34_x86_64")[0]   # doctest: +SKIP
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
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from aot import codec
from aot.errors import PackageError
from aot.wheels import rawzip
from aot.wheels.rawzip import Member

Members = Mapping[str, Member]
"""A wheel by its files' names."""
_LIBRARIES = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux-[\w-]+)\.so(\.\d+)?")
"""What an extension may link: parts of glibc. libcuda is opened at the first call."""
_PYTHON = re.compile(r"_?Py")
_TVM_FFI = "__tvm_ffi_"
"""Starts of what --tvm-ffi exports."""
_MANIFEST = "/aot.json"
_MACHINES = {"x86_64": "x86-64", "aarch64": "aarch64"}
"""Ends of platform tags -> machines as the manifest names them."""
_BINDING = (".dynstr", ".gnu.version", ".gnu.version_r")
_BEGINNING, _HEADER = 8, 16
"""Bytes of a fatbin before those that differ, and before its images: behind the first, how long it is."""


def retagged(name: str, files: Members, tag: str) -> tuple[str, Members]:
    """The wheel under another tag: file name, WHEEL, RECORD and the manifest's machines; all else is kept."""
    stem = name.rsplit("-", 3)[0]
    (info,) = {path.partition("/")[0] for path in files if path.endswith(".dist-info/WHEEL")}
    tags = re.sub(r"^Tag: .*$", f"Tag: {tag}", files[f"{info}/WHEEL"].content().decode("utf-8"), flags=re.MULTILINE)
    changed = {f"{info}/WHEEL": tags.encode("utf-8")}
    for path in files:
        if path.endswith(_MANIFEST):
            changed |= _for_machine(path, files[path].content(), tag.rpartition("-")[2])
    return f"{stem}-{tag}.whl", _with(files, changed)


def ours(members: Members) -> Members:
    """A backend's wheel as ``renewed`` would make it: large files are compressed in our way."""
    return _with(members, {path: each.content() for path, each in members.items() if each.size > rawzip.PIECE})


def changed(members: Members, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that a wheel does not hold, or holds with other contents."""
    return {path: content for path, content in files.items() if path not in members or not members[path].holds(content)}


def renewed(members: Members, paths: Collection[str], contents: Mapping[str, bytes]) -> Members | None:
    """A wheel with other contents; None when it has other files than ``paths`` and what changes."""
    if {*paths, *contents} != {path for path in members if ".dist-info/" not in path}:
        return None
    return _with(members, contents)


def archive(members: Members, epoch: int) -> bytes:
    """The file of a wheel."""
    # RECORD comes last, as the wheel format recommends.
    own = _record_of(members)
    ordered = [*(members[path] for path in sorted(members) if path != own), members[own]]
    return rawzip.archive(ordered, time.gmtime(epoch)[:6])


def _with(members: Members, contents: Mapping[str, bytes]) -> Members:
    """A wheel with some other contents; the rest is not compressed again."""
    own = _record_of(members)
    made = {path: rawzip.stored(path, content, members[path]) for path, content in contents.items()}
    return {**members, **made, own: rawzip.stored(own, _record(members[own].content(), contents))}


def _record_of(members: Members) -> str:
    """The path of the list of files."""
    (own,) = (path for path in members if path.endswith(".dist-info/RECORD"))
    return own


def _for_machine(path: str, manifest: bytes, platform: str) -> dict[str, bytes]:
    """The manifest, if it changes: a tree's names all machines that it can be built for, a wheel is built for one."""
    (machine,) = (name for ending, name in _MACHINES.items() if platform.endswith(ending))
    if not any(f'"{other}"'.encode() in manifest for other in {*_MACHINES.values()} - {machine}):
        return {}
    content = json.loads(manifest)
    for module in content["modules"]:
        module["host"] = [each for each in module["host"] if each == machine]
        module["cpu"] = {each: variants for each, variants in module["cpu"].items() if each == machine}
    return {path: codec.document(content)}


def extension_of(members: Members) -> tuple[str, bytes]:
    """File name and bytes of the one extension in a wheel."""
    found = [member for path, member in members.items() if path.endswith(".so")]
    if len(found) != 1:
        raise PackageError(f"the wheel holds {len(found)} extensions, expected one")
    return found[0].name.rpartition("/")[2], found[0].content()


def bindings(library: bytes) -> str:
    """The digest of what binds an extension to others: names, versions and libraries, notes and flags, not its code."""
    elf = ELFFile(io.BytesIO(library))
    found = hashlib.sha256(f"{elf.header['e_machine']} {elf.header['e_flags']} {sorted(_needed(elf))}".encode())
    for section in elf.iter_sections():
        if section.name in _BINDING or section["sh_type"] == "SHT_NOTE":
            found.update(section.data())
    return found.hexdigest()


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
    names: dict[bytes, list[str]] = {}
    sizes: dict[bytes, set[int]] = {}
    for name, blob in blobs.items():
        names.setdefault(blob, []).append(name)
        sizes.setdefault(blob[:_HEADER], set()).add(len(blob))
    counts: Counter[str] = Counter()
    for beginning in {header[:_BEGINNING] for header in sizes}:
        for found in re.finditer(re.escape(beginning), library):
            place = found.start()
            for size in sizes.get(library[place : place + _HEADER], ()):
                counts.update(names.get(library[place : place + size], ()))
    return counts


def _record(old: bytes, changed: Mapping[str, bytes]) -> bytes:
    """The list of files, with new digests for those that have changed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(old.decode("utf-8")))}
    (own,) = (path for path, (digest, _) in rows.items() if not digest)
    for path in sorted(rows, key=lambda path: (path == own, path)):
        content = changed.get(path)
        writer.writerow([path, *(rows[path] if content is None else (_digest(content), len(content)))])
    return text.getvalue().encode("utf-8")


def _digest(content: bytes) -> str:
    return f"sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode('ascii')}"


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
