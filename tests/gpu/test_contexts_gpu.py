"""Contexts that the caller made, green ones among them: calls run in the current one and leave it current."""

from __future__ import annotations

from types import ModuleType

import pytest
from test_errors_gpu import run_script

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
BEGIN = """
import numpy as np, traced_kernels as k
from cuda.bindings import driver

def done(result):
    code, *values = result
    assert code == driver.CUresult.CUDA_SUCCESS, code
    return values[0] if len(values) == 1 else values

class Array:
    def __init__(self, values):
        self.address = int(done(driver.cuMemAlloc(values.nbytes)))
        done(driver.cuMemcpyHtoD(self.address, values.ctypes.data, values.nbytes))
        self.__cuda_array_interface__ = {"shape": values.shape, "typestr": values.dtype.str, "version": 3,
                                         "data": (self.address, False), "stream": None}

def content(array, stream=0):
    done(driver.cuStreamSynchronize(stream))
    facts = array.__cuda_array_interface__
    values = np.full(facts["shape"], np.nan, facts["typestr"])
    done(driver.cuMemcpyDtoH(values.ctypes.data, facts["data"][0], values.nbytes))
    return values

def check(stream=None):
    before = int(done(driver.cuCtxGetCurrent()))
    y = k.traced.twice(Array(X), stream=stream)
    assert int(done(driver.cuCtxGetCurrent())) == before, "another context is current"
    np.testing.assert_array_equal(content(y, stream or 0), 2 * X)
    z = k.traced.iota(5, stream=stream)
    assert content(z, stream or 0).tolist() == [0, 1, 2, 3, 4]

X = np.arange(12, dtype="f4").reshape(3, 4)
done(driver.cuInit(0))
device = done(driver.cuDeviceGet(0))
primary = done(driver.cuDevicePrimaryCtxRetain(device))
done(driver.cuCtxSetCurrent(primary))
"""
OWN = """
check()
for _ in range(3):
    own = done(driver.cuCtxCreate(None, 0, device))
    check()
    check(int(done(driver.cuStreamCreate(1))))
    done(driver.cuCtxSetCurrent(primary))
    check()
    done(driver.cuCtxSetCurrent(own))
    check()
    done(driver.cuCtxDestroy(own))
    done(driver.cuCtxSetCurrent(primary))
check()
print("ok")
"""
GREEN = """
kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
groups, _, _ = done(driver.cuDevSmResourceSplitByCount(1, done(driver.cuDeviceGetDevResource(device, kind)), 0, 16))
description = done(driver.cuDevResourceGenerateDesc(groups, 1))
flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
green = done(driver.cuGreenCtxCreate(description, device, flags))
context = done(driver.cuCtxFromGreenCtx(green))
stream = int(done(driver.cuGreenCtxStreamCreate(green, driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0)))
"""
GREEN_IS_CURRENT = """
done(driver.cuCtxSetCurrent(context))
for _ in range(3):
    check()
    check(stream)
done(driver.cuCtxSetCurrent(primary))
check()
print("ok")
"""
PRIMARY_IS_CURRENT = """
for _ in range(3):
    check(stream)
    check()
print("ok")
"""
NONE_IS_CURRENT = """
x = Array(X)
done(driver.cuCtxSetCurrent(None))
y = k.traced.twice(x)
np.testing.assert_array_equal(content(y), 2 * X)
assert int(done(driver.cuCtxGetCurrent())) == int(primary)
print("ok")
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(OWN, id="own"),
        pytest.param(GREEN + GREEN_IS_CURRENT, id="green"),
        pytest.param(GREEN + PRIMARY_IS_CURRENT, id="stream of a green one"),
        pytest.param(NONE_IS_CURRENT, id="none"),
    ],
)
def test_contexts(traced: ModuleType, script: str) -> None:
    done = run_script(BEGIN + script)
    assert done.stdout.split() == ["ok"], done.stdout + done.stderr[-2000:]
