"""Fathom's C interface (runtime/fathom_c.h) by ctypes, on tensors of another library.

A tensor is any object with data_ptr(), shape, stride(), dtype and device as torch's have them.
Knows no torch. The structs are checked against the header by bench.py --self-test.
"""

import ctypes
import os

Text, I64, I32, Pointer = ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p


class DLTensor(ctypes.Structure):
    _fields_ = [("data", Pointer), ("device_type", I32), ("device_id", I32), ("ndim", I32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(I64)), ("strides", ctypes.POINTER(I64)),
                ("byte_offset", ctypes.c_uint64)]


Tensor = ctypes.POINTER(DLTensor)
Tensors = ctypes.POINTER(Tensor)


class Struct(ctypes.Structure):
    """A struct of fathom_c.h: its size comes first, what is not said is zero."""

    def __init__(self, **values):
        super().__init__(size=ctypes.sizeof(self), **values)


class Options(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("device", Text), ("dtype", Text), ("layout", Text),
                ("p_policy", Text), ("dq_policy", Text), ("head_dim", I64), ("head_dim_v", I64),
                ("group", I64), ("block_m", I64), ("block_n", I64), ("dq_splits", I64),
                ("forward_only", I32), ("lse_gradient", I32), ("deterministic", I32),
                ("kv_splits", I64), ("seqlen_q_hint", I64)]


class Inputs(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("q", Tensor), ("k", Tensor), ("v", Tensor),
                ("captures", Tensors), ("capture_count", I32), ("cu_seqlens_q", Tensor),
                ("cu_seqlens_k", Tensor), ("max_seqlen_q", I64), ("max_seqlen_k", I64)]


class Call(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("stream", Pointer), ("workspace", Pointer),
                ("workspace_bytes", I64)]


class Gradients(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("dq", Tensor), ("dk", Tensor), ("dv", Tensor),
                ("captures", Tensors), ("capture_count", I32)]


STRUCTS = {"DLTensor": DLTensor, "fathom_options": Options, "fathom_inputs": Inputs,
           "fathom_call": Call, "fathom_gradients": Gradients}

DTYPES = {"float64": (2, 64), "float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16),
          "int32": (0, 32), "int64": (0, 64)}


class Error(RuntimeError):
    """A call failed; the library's words."""


def describe(tensor):
    """A pointer to a DLTensor; lives as long as what it describes must."""
    rank = len(tensor.shape)
    code, bits = DTYPES[str(tensor.dtype).split(".")[-1]]
    gpu = tensor.device.type == "cuda"
    return ctypes.pointer(DLTensor(
        data=tensor.data_ptr(), device_type=2 if gpu else 1, device_id=(tensor.device.index or 0) if gpu else 0,
        ndim=rank, code=code, bits=bits, lanes=1, shape=(I64 * rank)(*tensor.shape),
        strides=(I64 * rank)(*tensor.stride())))


def inputs_of(q, k, v, captures=()):
    return Inputs(q=describe(q), k=describe(k), v=describe(v),
                  captures=(Tensor * len(captures))(*map(describe, captures)), capture_count=len(captures))


class Library:
    FUNCTIONS = {
        "fathom_variant_load": [Text, Text, Pointer],
        "fathom_variant_parse": [Text, Text, Pointer],
        "fathom_variant_capture_count": [Pointer],
        "fathom_compile_for": [Pointer, Pointer, Pointer, Pointer],
        "fathom_forward": [Pointer, Pointer, Tensor, Tensor, Pointer, Pointer],
        "fathom_backward": [Pointer, Pointer, Tensor, Tensor, Pointer, Pointer],
        "fathom_workspace": [Pointer, Pointer, Pointer, Pointer],
        "fathom_variant_free": [Pointer], "fathom_kernel_free": [Pointer],
        "fathom_saved_free": [Pointer], "fathom_cache_clear": [],
    }

    def __init__(self, path):
        self.c = ctypes.CDLL(os.path.abspath(path))
        for name, arguments in self.FUNCTIONS.items():
            function = getattr(self.c, name)
            function.argtypes = arguments
            function.restype = None if name.endswith(("_free", "_clear")) else I32
        self.c.fathom_message.restype = self.c.fathom_version.restype = Text
        self.c.fathom_device_note.restype = Text

    def check(self, status):
        if status:
            raise Error(self.c.fathom_message().decode())

    def version(self):
        return self.c.fathom_version().decode()

    def variant(self, text):
        handle = Pointer()
        self.check(self.c.fathom_variant_parse(text.encode(), None, ctypes.byref(handle)))
        return Handle(self.c.fathom_variant_free, handle)

    def compile(self, variant, inputs, **options):
        """For such inputs; `options` as fathom_options; strings as str."""
        options = {k: v.encode() if isinstance(v, str) else v for k, v in options.items()}
        handle = Pointer()
        self.check(self.c.fathom_compile_for(variant.handle, ctypes.byref(inputs),
                                             ctypes.byref(Options(**options)), ctypes.byref(handle)))
        return Handle(self.c.fathom_kernel_free, handle)


class Handle:
    """Something of the library's, freed with this object."""

    def __init__(self, free, handle):
        self.free, self.handle = free, handle

    def __del__(self):
        self.free(self.handle)


class Run:
    """A kernel with operands: calls that do nothing but the C call. Outputs are the caller's:
    o and lse, then dq, dk and dv."""

    def __init__(self, library, kernel, q, k, v, o, lse, captures=(), stream=None):
        self.c, self.check, self.kernel = library.c, library.check, kernel
        self.kept = [q, k, v, o, lse, *captures]
        self.inputs = inputs_of(q, k, v, captures)
        self.o, self.lse = describe(o), describe(lse)
        self.call = Call(stream=stream)
        self.by = {n: ctypes.byref(getattr(self, n)) for n in ("inputs", "call")}
        self.saved = None

    def workspace(self):
        """Bytes that a forward and a backward call work in."""
        forward, backward = I64(), I64()
        self.check(self.c.fathom_workspace(self.kernel.handle, self.by["inputs"],
                                           ctypes.byref(forward), ctypes.byref(backward)))
        return forward.value, backward.value

    def use(self, workspace):
        """A tensor of bytes that calls work in."""
        self.kept.append(workspace)
        self.call.workspace, self.call.workspace_bytes = workspace.data_ptr(), len(workspace)

    def forward(self):
        status = self.c.fathom_forward(self.kernel.handle, self.by["inputs"], self.o, self.lse,
                                       self.by["call"], None)
        if status:
            self.check(status)

    def save(self):
        """A forward that keeps what backward needs."""
        handle = Pointer()
        self.check(self.c.fathom_forward(self.kernel.handle, self.by["inputs"], self.o, self.lse,
                                         self.by["call"], ctypes.byref(handle)))
        self.saved = Handle(self.c.fathom_saved_free, handle)

    def prepare(self, do, dq, dk, dv):
        self.kept += [do, dq, dk, dv]
        self.do = describe(do)
        self.gradients = Gradients(dq=describe(dq), dk=describe(dk), dv=describe(dv))
        self.by["gradients"] = ctypes.byref(self.gradients)

    def backward(self):
        status = self.c.fathom_backward(self.kernel.handle, self.saved.handle, self.do, None,
                                        self.by["gradients"], self.by["call"])
        if status:
            self.check(status)
