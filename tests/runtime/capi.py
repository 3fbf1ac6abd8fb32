"""The C interface from a language that knows no C: plain ctypes.

usage: capi.py LIBFATHOM

Runs a causal variant forward and backward on the CPU and compares with loops.
"""

import ctypes
import math
import random
import sys


class Struct(ctypes.Structure):
    """A struct of fathom_c.h: its size comes first, what is not said is zero."""

    def __init__(self, **values):
        super().__init__(size=ctypes.sizeof(self), **values)


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


Tensor = ctypes.POINTER(DLTensor)
Text, I64, I32 = ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32


class Options(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("device", Text), ("dtype", Text), ("layout", Text),
                ("p_policy", Text), ("dq_policy", Text), ("head_dim", I64), ("head_dim_v", I64),
                ("group", I64), ("block_m", I64), ("block_n", I64), ("dq_splits", I64),
                ("forward_only", I32), ("lse_gradient", I32), ("deterministic", I32),
                ("kv_splits", I64), ("seqlen_q_hint", I64)]


class Inputs(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("q", Tensor), ("k", Tensor), ("v", Tensor),
                ("captures", ctypes.POINTER(Tensor)), ("capture_count", I32),
                ("cu_seqlens_q", Tensor), ("cu_seqlens_k", Tensor),
                ("max_seqlen_q", I64), ("max_seqlen_k", I64)]


class Gradients(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("dq", Tensor), ("dk", Tensor), ("dv", Tensor),
                ("captures", ctypes.POINTER(Tensor)), ("capture_count", I32)]


class Floats:
    """A C-order tensor of f32 in a ctypes buffer."""

    def __init__(self, *shape, draw=None):
        self.shape = (I64 * len(shape))(*shape)
        self.values = (ctypes.c_float * math.prod(shape))()
        if draw:
            for n in range(len(self.values)):
                self.values[n] = draw.gauss(0, 1)
        self.tensor = DLTensor(data=ctypes.addressof(self.values), device_type=1, ndim=len(shape),
                               code=2, bits=32, lanes=1, shape=self.shape)

    def ref(self):
        return ctypes.pointer(self.tensor)


def check(library, status):
    if status:
        library.fathom_message.restype = Text
        sys.exit(f"status {status}: {library.fathom_message().decode()}")


def main(path):
    library = ctypes.CDLL(path)
    size, heads, dim = 12, 2, 8
    draw = random.Random(1)
    q, k, v, d_o = (Floats(1, size, heads, dim, draw=draw) for _ in range(4))
    o, dq, dk, dv = (Floats(1, size, heads, dim) for _ in range(4))
    lse = Floats(1, heads, size)

    variant, kernel, saved = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(library, library.fathom_variant_parse(b"fa.variant @causal causal", None,
                                                ctypes.byref(variant)))
    check(library, library.fathom_compile(variant, ctypes.byref(Options(head_dim=dim)),
                                          ctypes.byref(kernel)))
    inputs = Inputs(q=q.ref(), k=k.ref(), v=v.ref())
    again = ctypes.c_void_p()
    check(library, library.fathom_compile_for(variant, ctypes.byref(inputs), None, ctypes.byref(again)))
    library.fathom_kernel_free(again)
    check(library, library.fathom_forward(kernel, ctypes.byref(inputs), o.ref(), lse.ref(), None,
                                          ctypes.byref(saved)))
    gradients = Gradients(dq=dq.ref(), dk=dk.ref(), dv=dv.ref())
    check(library, library.fathom_backward(kernel, saved, d_o.ref(), None,
                                           ctypes.byref(gradients), None))

    at = lambda t, i, h, d: t.values[(i * heads + h) * dim + d]
    worst = 0
    for h in range(heads):
        want_dv = [[0.0] * dim for _ in range(size)]
        for i in range(size):
            scores = [sum(at(q, i, h, d) * at(k, j, h, d) for d in range(dim)) / math.sqrt(dim)
                      for j in range(i + 1)]
            total = math.log(sum(map(math.exp, scores)))
            worst = max(worst, abs(total - lse.values[h * size + i]))
            p = [math.exp(s - total) for s in scores]
            for d in range(dim):
                worst = max(worst, abs(sum(p[j] * at(v, j, h, d) for j in range(i + 1))
                                       - at(o, i, h, d)))
                for j in range(i + 1):
                    want_dv[j][d] += p[j] * at(d_o, i, h, d)
        worst = max([worst] + [abs(want_dv[j][d] - at(dv, j, h, d))
                               for j in range(size) for d in range(dim)])
    library.fathom_saved_free(saved)
    library.fathom_kernel_free(kernel)
    library.fathom_variant_free(variant)
    print(f"largest difference {worst:.1e}")
    sys.exit(not worst < 1e-5)


main(sys.argv[1])
