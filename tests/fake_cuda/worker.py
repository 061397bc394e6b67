"""The process behind ``fakecuda.Core``, on the fake driver or a real one.

Reads ``[function, arguments, named]`` lines and answers ``{"value": ...}`` lines.
Its C stdout goes to a file, so that what the runtime prints can be looked at and does not mix with the answers.
"""

from __future__ import annotations

import _ctypes
import ctypes
import gc
import itertools
import json
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from concurrent import futures
from typing import Any

MESSAGE_BYTES = 4096


class Worker:
    """Both libraries, loaded; each public method can be asked for."""

    def __init__(self, core: str, fake: str = "") -> None:
        self._core = ctypes.CDLL(core)
        self._core.aot_error_name.restype = ctypes.c_char_p
        if fake:
            self._fake = ctypes.CDLL(fake)
        if fake and hasattr(self._fake, "fake_log"):
            self._fake.fake_log.restype = ctypes.c_char_p
            self._fake.fake_context_new.restype = ctypes.c_void_p
            for name in ("fake_graph_new", "fake_graph_of", "fake_graph_clone"):
                getattr(self._fake, name).restype = ctypes.c_void_p
            for name in ("count", "live", "live_events", "live_streams", "live_objects", "bad_frees", "bad_calls"):
                getattr(self._fake, f"fake_{name}").restype = ctypes.c_long
        self._stdout = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the process
        os.dup2(self._stdout.fileno(), 1)

    def call(self, script: str, flags: int, device: int, stream: int) -> dict[str, Any]:
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        values = (ctypes.c_int64 * 64)()
        code = self._core.test_call(
            script.encode(), flags, device, ctypes.c_void_p(stream), values, message, ctypes.c_size_t(MESSAGE_BYTES)
        )
        return {
            "code": code,
            "message": message.value.decode(),
            "values": list(values)[: script.count("|") + 1],
            "out": self._printed(),
        }

    def kernel(self, kernel: int, geometry: list[int], stream: int = 0) -> dict[str, Any]:
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        words = (ctypes.c_int64 * 10)(*geometry)
        code = self._core.test_kernel(kernel, words, ctypes.c_void_p(stream), message, ctypes.c_size_t(MESSAGE_BYTES))
        return {"code": code, "message": message.value.decode()}

    def twins(self, devices: list[int], address: int, length: int, stream: int = 0) -> dict[str, Any]:
        """``twins`` (tests/fake_cuda/driver.c), called from C."""
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        made = (ctypes.c_void_p * 2)()
        code = self._core.test_twins(
            (ctypes.c_int * 2)(*devices),
            ctypes.c_void_p(address),
            ctypes.c_int64(length),
            ctypes.c_void_p(stream),
            made,
            message,
            ctypes.c_size_t(MESSAGE_BYTES),
        )
        return {"code": code, "message": message.value.decode(), "values": [each or 0 for each in made]}

    def give_back(self, device: int, address: int, stream: int = 0, *, thread: bool = False) -> int:
        """``aot_c_free``, in a thread of its own if asked."""
        code: list[int] = []

        def free() -> None:
            code.append(self._core.test_give_back(device, ctypes.c_void_p(address), ctypes.c_void_p(stream)))

        if thread:
            other = threading.Thread(target=free)
            other.start()
            other.join()
        else:
            free()
        return code[0]

    def filled(self, addresses: list[int], length: int, stream: int = 0) -> dict[str, Any]:
        """``filled``, called by XLA: addresses of x, of out as it goes in, and as it comes back."""
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        words = [ctypes.c_void_p(address) for address in addresses]
        code = self._core.test_filled(
            *words, ctypes.c_int64(length), ctypes.c_void_p(stream), message, ctypes.c_size_t(MESSAGE_BYTES)
        )
        return {"code": code, "message": message.value.decode()}

    def new_memory(self, size: int) -> int:
        address = ctypes.c_uint64()
        code = self._fake.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        assert code == 0, code
        return address.value

    def preload(self, device: int = 0) -> dict[str, Any]:
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        code = self._core.test_preload(device, message, ctypes.c_size_t(MESSAGE_BYTES))
        return {"code": code, "message": message.value.decode()}

    def _printed(self) -> str:
        self._stdout.seek(0)
        text = self._stdout.read().decode()
        self._stdout.seek(0)
        self._stdout.truncate()
        return text

    def log(self) -> list[str]:
        lines = self._fake.fake_log().decode().splitlines()
        self._fake.fake_clear_log()
        return list(lines)

    def fake(self, function: str, *arguments: Any) -> int:
        words = [a.encode() if isinstance(a, str) else ctypes.c_void_p(a) if a > 2**31 else a for a in arguments]
        return int(getattr(self._fake, f"fake_{function}")(*words) or 0)

    def core(self, function: str, *arguments: Any) -> int:
        return int(getattr(self._core, f"aot_{function}")(*arguments))

    def default_device(self) -> int:
        """The device of calls without array arguments, on a thread that has no context."""
        device = ctypes.c_int(-1)
        self._fake.cuCtxSetCurrent(None)
        assert self._core.aot_current_device(ctypes.byref(device)) == 0
        return device.value

    def error_name(self, code: int) -> str:
        return str(self._core.aot_error_name(code).decode())

    def current(self) -> int:
        """The thread's current context, as the driver sees it."""
        context = ctypes.c_void_p()
        self._fake.cuCtxGetCurrent(ctypes.byref(context))
        return context.value or 0

    def use_context(self, context: int) -> int:
        return int(self._fake.cuCtxSetCurrent(ctypes.c_void_p(context)))

    def new_stream(self) -> int:
        stream = ctypes.c_void_p()
        code = self._fake.cuStreamCreate(ctypes.byref(stream), 1)
        assert code == 0, code
        return stream.value or 0

    def use_image(self, path: str) -> None:
        """Kernels for a real driver."""
        with open(path, "rb") as image:
            self._image = ctypes.create_string_buffer(image.read())
        self._core.test_use_image(self._image)

    def captured(
        self, script: str, flags: int, stream: int, replays: int, instances: int = 1, child: bool = False, mode: int = 0
    ) -> dict[str, Any]:
        """The call in a CUDA graph capture of the stream (real driver), and every later step's CUresult.

        The graph, or one that has it as a child, is instantiated so many times, and destroyed before it is replayed.
        """
        driver, graph, on = self._fake, ctypes.c_void_p(), ctypes.c_void_p(stream)
        steps = [driver.cuStreamBeginCapture_v2(on, mode)]
        result = self.call(script, flags, 0, stream)
        steps.append(driver.cuStreamEndCapture(on, ctypes.byref(graph)))
        if child:
            inner, node, graph = graph, ctypes.c_void_p(), ctypes.c_void_p()
            steps.append(driver.cuGraphCreate(ctypes.byref(graph), 0))
            steps.append(driver.cuGraphAddChildGraphNode(ctypes.byref(node), graph, None, ctypes.c_size_t(0), inner))
            steps.append(driver.cuGraphDestroy(inner))
        made = [ctypes.c_void_p() for _ in range(instances)]
        steps += [driver.cuGraphInstantiateWithFlags(ctypes.byref(each), graph, ctypes.c_ulonglong(0)) for each in made]
        steps.append(driver.cuGraphDestroy(graph))
        for each in made * replays:
            steps += [driver.cuGraphLaunch(each, on), driver.cuStreamSynchronize(on)]
        steps += [driver.cuGraphExecDestroy(each) for each in made]
        return {**result, "steps": steps}

    def close_core(self) -> None:
        """What a program does that opened the library and is done with it."""
        _ctypes.dlclose(self._core._handle)

    def threads_keep(self, count: int, times: int, script: str) -> list[int]:
        """How many of the calls failed that were captured (fake driver), per thread; graphs are cloned, destroyed."""
        streams = [self.new_stream() for _ in range(count)]

        def run(stream: int) -> int:
            failed = 0
            for _ in range(times):
                self.fake("capture", stream, 1)
                failed += self.call(script, 0, 0, stream)["code"] != 0
                self.fake("capture", stream, 0)
                graph = self.fake("graph_of", stream)
                clone = self.fake("graph_clone", graph)
                self.fake("graph_destroy", graph)
                self.fake("graph_destroy", clone)
            return failed

        with futures.ThreadPoolExecutor(count) as pool:
            return list(pool.map(run, streams))

    def threads_capture(self, count: int, times: int, script: str) -> list[int]:
        """How many steps of ``captured`` failed, per thread with a stream and captures of its own."""
        context = ctypes.c_void_p(self.current())
        streams = [self.new_stream() for _ in range(count)]

        def run(stream: int) -> int:
            self._fake.cuCtxSetCurrent(context)
            made = [self.captured(script, 0, stream, 2, 2, mode=1) for _ in range(times)]
            return sum(bool(code) for each in made for code in [each["code"], *each["steps"]])

        with futures.ThreadPoolExecutor(count) as pool:
            return list(pool.map(run, streams))

    def free_bytes(self) -> int:
        """Free device memory when everything is done and the pool is trimmed."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._fake.cuCtxSynchronize()
        self._core.aot_pool_trim(0)
        self._fake.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value

    def new_context(self) -> int:
        """A context of its own, current in this thread (real driver)."""
        context = ctypes.c_void_p()
        code = self._fake.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
        assert code == 0, code
        return context.value or 0

    def destroy_context(self, context: int) -> int:
        return int(self._fake.cuCtxDestroy_v2(ctypes.c_void_p(context)))

    def init_driver(self) -> int:
        """What another library in the process does."""
        return int(self._fake.cuInit(0))

    def devices(self) -> int:
        """How many the driver sees."""
        count = ctypes.c_int()
        self._fake.cuDeviceGetCount(ctypes.byref(count))
        return count.value

    def reset_device(self) -> int:
        return int(self._fake.cuDevicePrimaryCtxReset_v2(0))

    def threads(self, count: int, times: int, script: str, flags: int = 0) -> list[int]:
        """How many calls failed, per thread."""
        failures = [0] * count

        def work(index: int) -> None:
            for _ in range(times):
                failures[index] += self.call(script, flags, 0, 0)["code"] != 0

        running = [threading.Thread(target=work, args=(i,)) for i in range(count)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return failures

    def repeat(self, times: int, script: str, flags: int = 0) -> int:
        """How many of the calls failed."""
        return sum(self.call(script, flags, 0, 0)["code"] != 0 for _ in range(times))

    def grown(self, times: int, script: str, flags: int = 0) -> int:
        """Bytes that so many calls add to the C heap: the least of some rounds; Python's own tables grow at times."""
        heap = ctypes.CDLL(None).mallinfo2
        fields = [(name, ctypes.c_size_t) for name in "abcdefghij"]
        heap.restype = type("mallinfo2", (ctypes.Structure,), {"_fields_": fields})
        in_use = []
        for _ in range(4):
            self.repeat(times, script, flags)
            gc.collect()
            in_use.append(int(heap().h))  # uordblks
        return min(after - before for before, after in itertools.pairwise(in_use))

    def in_child(self, script: str) -> dict[str, Any]:
        """The result of the call in a forked child, or how the child ended."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(10)
            os.write(writing, json.dumps(self.call(script, 0, 0, 0)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            text = answer.read()
        status = os.waitpid(child, 0)[1]
        found: dict[str, Any] = json.loads(text) if text else {"died": status}
        return found

    def half(self, function: str, bits: list[int]) -> list[int]:
        """A conversion of rt_half.c on bit patterns; a 16-bit value travels in the low bits of a float."""
        wide = function.startswith("__truncdf")
        convert = getattr(self._core, function)
        convert.restype = ctypes.c_float
        convert.argtypes = [ctypes.c_double if wide else ctypes.c_float]
        given, number = (ctypes.c_uint64, ctypes.c_double) if wide else (ctypes.c_uint32, ctypes.c_float)
        return [_bits(convert(_number(pattern, given, number))) for pattern in bits]


def _number(pattern: int, word: Any, number: Any) -> float:
    return float(number.from_buffer(word(pattern)).value)


def _bits(value: float) -> int:
    return int(ctypes.c_uint32.from_buffer(ctypes.c_float(value)).value)


def serve(worker: Worker, lines: Any, write: Callable[[str], object]) -> None:
    """Answers each line until the input ends."""
    for line in lines:
        function, arguments, named = json.loads(line)
        try:
            answer = {"value": getattr(worker, function)(*arguments, **named)}
        except Exception:  # the parent shows it
            answer = {"error": traceback.format_exc()}
        write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        serve(Worker(*sys.argv[1:]), sys.stdin, answers.write)
