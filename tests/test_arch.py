"""Architectures: spellings, canonical lists, what runs where, and the one table."""

from __future__ import annotations

import importlib.util
import sys
from random import Random
from types import ModuleType

import pytest

from aot import resources
from aot.errors import UnknownArch, UsageError
from aot.targets import arch, archlist
from aot.targets.arch import CURRENT, TABLE, Target, target

SPELLINGS = {
    "sm": ("sm_80,sm_90a", "sm_80 sm_90a"),
    "sm without underscore": ("sm90", "sm_90"),
    "family": ("sm_100f", "sm_100f"),
    "bare numbers": ("80 90a", "sm_80 sm_90a"),
    "upper case": ("SM_90A", "sm_90a"),
    "ptx": ("compute_90", "compute_90"),
    "torch": ("8.0;9.0a;12.0+PTX", "sm_80 sm_90a sm_120 compute_120"),
    "cmake": ("80-real;90-virtual", "sm_80 compute_90"),
    "a name": ("Hopper", "sm_90"),
    "a name of several": ("Ampere", "sm_80 sm_86"),
    "a name with ptx": ("ampere+PTX", "sm_80 sm_86 compute_86"),
    "all separators": ("80, 86;89\t90", "sm_80 sm_86 sm_89 sm_90"),
    "sorted, once": ("90,80,sm_90,8.0", "sm_80 sm_90"),
    "ptx comes last": ("compute_75,120", "sm_120 compute_75"),
    "all-major": ("all-major", "sm_75 sm_80 sm_90 sm_100 sm_110 sm_120"),
}


@pytest.mark.parametrize(("text", "names"), SPELLINGS.values(), ids=SPELLINGS)
def test_accepted_spellings(text: str, names: str) -> None:
    assert " ".join(archlist.parse(text).names()) == names


WRONG = {
    "a forgotten digit": ("sm_9", "did you mean 'sm_90'"),
    "no such number": ("sm_91", "did you mean 'sm_90'"),
    "a letter it has not": ("sm_80a", "did you mean 'sm_80'"),
    "another separator": ("sm-9", "did you mean 'sm_90'"),
    "a misspelled name": ("hoper", "did you mean 'hopper'"),
    "letter o": ("sm_1o0", "did you mean 'sm_100'"),
    "nothing near": ("foo", "unknown architecture 'foo'$"),
    "arch-specific ptx": ("compute_90a", "never made"),
    "arch-specific ptx, torch": ("9.0a+PTX", "never made"),
    "two kinds of ptx": ("compute_90-real", "do not go together"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_refused_spellings(text: str, message: str) -> None:
    with pytest.raises(UnknownArch, match=message) as caught:
        archlist.parse(text)
    assert caught.value.exit_code == 2


def test_all_wrong_words_are_reported_together() -> None:
    with pytest.raises(UnknownArch) as caught:
        archlist.parse("sm_80,foo,sm_9")
    assert "'foo'" in caught.value.message
    assert "'sm_9'" in caught.value.message


@pytest.mark.parametrize("text", ["", " , ;"])
def test_an_empty_list_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        archlist.parse(text)


def test_native_asks_and_says_what_it_means() -> None:
    found = archlist.parse("native,80", native=lambda: [(9, 0), (8, 6), (9, 0)])
    assert found.names() == ("sm_80", "sm_86", "sm_90")
    assert found.notes == ("native means sm_86, sm_90 on this machine",)


@pytest.mark.parametrize("ask", [None, lambda: []], ids=["nobody to ask", "no devices"])
def test_native_without_devices_is_an_error(ask: object) -> None:
    with pytest.raises(UsageError, match="no GPU"):
        archlist.parse("native", native=ask)  # type: ignore[arg-type]


def test_nothing_asks_for_devices_unless_told() -> None:
    def ask() -> list[tuple[int, int]]:
        raise AssertionError("the driver was asked")

    archlist.parse("all-major,90,host", native=ask)


def test_host_is_no_gpu_architecture() -> None:
    found = archlist.parse("host,80")
    assert found.host
    assert found.names() == ("sm_80",)


RUNS = {
    "same": ("sm_80", (8, 0), True),
    "later minor": ("sm_80", (8, 9), True),
    "earlier minor": ("sm_86", (8, 0), False),
    "next major": ("sm_80", (9, 0), False),
    "a on its own": ("sm_90a", (9, 0), True),
    "a on the next": ("sm_100a", (10, 3), False),
    "f on its family": ("sm_100f", (10, 3), True),
    "f on another family": ("sm_100f", (12, 0), False),
    "f is not for older ones": ("sm_103f", (10, 0), False),
    "one family, two names": ("sm_101f", (11, 0), True),
    "plain of two families": ("sm_100", (12, 0), False),
    "ptx on its own": ("compute_80", (8, 0), True),
    "ptx on a later major": ("compute_80", (12, 1), True),
    "ptx on an older one": ("compute_90", (8, 9), False),
}


@pytest.mark.parametrize(("name", "capability", "runs"), RUNS.values(), ids=RUNS)
def test_what_runs_where(name: str, capability: tuple[int, int], runs: bool) -> None:
    assert arch.runs_on(target(name), capability) is runs


@pytest.fixture(scope="module")
def check() -> ModuleType:
    """What generated packages know of images: they do not have the table."""
    spec = importlib.util.spec_from_file_location("check", resources.templates() / "package" / "_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check"] = module
    spec.loader.exec_module(module)
    return module


def test_packages_know_which_image_a_driver_takes(check: ModuleType) -> None:
    lettered = [Target(row.capability, letter) for row in TABLE if row.ptx for letter, _ in (("", None), *row.letters)]
    every = [*lettered, *(Target(row.capability, kind=arch.PTX) for row in TABLE)]
    random = Random(0)
    for _ in range(500):
        images = random.sample(every, random.randint(1, 6))
        described = [{"target": each.name, "kind": each.kind} for each in images]
        for row in arch.coverage(images):
            assert (check._choose(described, row.capability) or "") == row.image, (images, row)


def test_coverage_prefers_cubins_and_specific_ones() -> None:
    images = archlist.parse("80,90,90a,90+PTX").targets
    found = {each.capability: (each.how, each.image) for each in arch.coverage(images)}
    assert found[7, 5] == ("none", "")
    assert found[8, 9] == ("cubin", "sm_80")
    assert found[9, 0] == ("cubin", "sm_90a")
    assert found[12, 0] == ("ptx", "compute_90")


PTX = {
    "highest": ("80,90", "compute_90"),
    "a does not count": ("80,90a", "compute_80"),
    "only a": ("90a", None),
    "f does not count": ("86,100f", "compute_86"),
}


@pytest.mark.parametrize(("text", "ptx"), PTX.values(), ids=PTX)
def test_ptx_that_goes_along(text: str, ptx: str | None) -> None:
    found = arch.default_ptx(archlist.parse(text).targets)
    assert (found and found.name) == ptx


def test_a_package_without_ptx_is_worth_a_note() -> None:
    assert "sm_90a" in arch.coverage_note(archlist.parse("90a").targets)
    assert arch.coverage_note(archlist.parse("90a,80+PTX").targets) == ""


def test_every_target_reads_back() -> None:
    for row in TABLE:
        for letter in ("", *(letter for letter, _ in row.letters)):
            each = Target(row.capability, letter)
            assert target(each.name) == each
            assert archlist.parse(each.name).targets == (each,)


def test_the_table_is_sorted_and_whole() -> None:
    capabilities = [row.capability for row in TABLE]
    assert capabilities == sorted(set(capabilities))
    for row in TABLE:
        assert 48 * 1024 <= row.shared <= 227 * 1024
        letters = dict(row.letters)
        assert ("f" in letters) == bool(row.family)
        if row.ptx:
            assert all(version >= row.ptx for version in letters.values())


def test_ptx_versions_begin_at_the_lowest() -> None:
    for capability in CURRENT:
        each = Target(capability)
        versions = arch.ptx_versions(each)
        assert versions[0] == each.min_ptx
        assert versions[-1] == arch.MAX_PTX
        assert list(versions) == sorted(versions)
        assert arch.cubin_ptx(each) in versions


def test_features_are_written_as_llvm_reads_them() -> None:
    assert arch.features((8, 6)) == "+ptx86"
