"""Host time of calls, and of a bare kernel launch through the CUDA driver."""

import ctypes
import statistics
import time

PTX = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n"


def host_us(call, sync, count=100, bursts=30):
    """Microseconds of host time a call, the median of bursts after each of which the GPU is
    waited for: a burst must fit into the launch queue, or the GPU's time would be measured."""
    results = []
    for _ in range(bursts):
        sync()
        start = time.perf_counter()
        for _ in range(count):
            call()
        results.append((time.perf_counter() - start) / count * 1e6)
    sync()
    return statistics.median(results)


class Bare:
    """Launches a kernel that does nothing, in the current context."""

    def __init__(self, stream):
        driver = ctypes.CDLL("libcuda.so.1")
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        for status in (driver.cuModuleLoadData(ctypes.byref(module), PTX),
                       driver.cuModuleGetFunction(ctypes.byref(function), module, b"nothing")):
            if status:
                raise RuntimeError(f"CUDA driver error {status} for a bare kernel")
        self.function = driver.cuLaunchKernel
        self.function.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
        self.arguments = (function, 1, 1, 1, 32, 1, 1, 0, stream, None, None)

    def launch(self):
        self.function(*self.arguments)
