"""Fathom and its peers behind one interface: what runs a cell's forward and backward.

A contender is made for a cell and its tensors q, k, v, do [B, S, H, D]. forward() and backward()
return (run, results, layout): `run` is what is timed, `results(run())` gives tensors [B, S, H, D]
by name. scope() is entered around runs. asserted(kernels) raises unless the right code ran.
"""

import contextlib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import fathom
import variants

# The layout in which a peer is given its operands, as views or made ahead: its best one.
LAYOUTS = {"fa2": "bshd", "cudnn": "bshd", "math": "bhsd", "flex": "bhsd"}


class Refused(RuntimeError):
    """A contender did not do what it was asked to."""


class Fathom:
    name = "fathom"
    library = None  # fathom.Library, set by the worker

    def __init__(self, cell, tensors, device):
        self.cell, self.device = cell, device
        self.q, self.k, self.v, self.do = tensors
        self.variant = self.library.variant(variants.text(cell["variant"]))
        self.captures = variants.functions(cell["variant"], torch, cell, self.q.device)[2]

    def compile(self, forward_only):
        inputs = fathom.inputs_of(self.q, self.k, self.v, self.captures)
        return self.library.compile(self.variant, inputs, forward_only=forward_only)

    def bind(self, forward_only):
        """A fathom.Run and its outputs, which hold NaN."""
        kernel = self.compile(forward_only)
        o = torch.full_like(self.q, float("nan"))
        lse = torch.full((self.cell["B"], self.cell["Hq"], self.cell["Sq"]), float("nan"), device=self.q.device)
        run = fathom.Run(self.library, kernel, self.q, self.k, self.v, o, lse, self.captures,
                         self.device.stream())
        bytes = max(run.workspace())
        if bytes and self.device.name != "cpu":
            run.use(torch.empty(bytes, dtype=torch.uint8, device=self.q.device))
        return run, {"o": o, "lse": lse}

    def forward(self):
        run, out = self.bind(1)
        return run.forward, lambda _: out, "bshd"

    def backward(self):
        run, out = self.bind(0)
        run.save()
        out = {"d" + n: torch.full_like(t, float("nan")) for n, t in (("q", self.q), ("k", self.k), ("v", self.v))}
        run.prepare(self.do, *out.values())
        return run.backward, lambda _: out, "bshd"

    def scope(self):
        return contextlib.nullcontext()

    def asserted(self, kernels):
        # torch only fills outputs before the run that is looked at.
        foreign = [k for k in kernels if any(w in k for w in ("cudnn", "flash", "triton", "at::native"))]
        if foreign:
            raise Refused(f"expected kernels of Fathom's, got {foreign[0]}")


class Peer:
    """What all peers have in common: an autograd function of torch's."""

    def __init__(self, cell, tensors, device):
        self.cell, self.device = cell, device
        self.layout = device.layout or LAYOUTS[self.name]
        self.q, self.k, self.v, self.do = map(self.own, tensors)
        self.gqa = cell["Hq"] != cell["Hkv"]

    def own(self, t):
        """As [B, H, S, D], which is how torch takes it; the memory as self.layout says."""
        t = t.detach().transpose(1, 2)
        return t.contiguous() if self.layout == "bhsd" else t

    def forward(self):
        def run():
            with torch.no_grad():
                return self.call()
        return run, lambda o: {"o": o.transpose(1, 2)}, self.layout

    def backward(self):
        operands = [t.requires_grad_() for t in (self.q, self.k, self.v)]
        with self.scope():
            o = self.call()
        self.check_graph(o.grad_fn)
        run = lambda: torch.autograd.grad(o, operands, self.do, retain_graph=True)
        return run, lambda g: {n: t.transpose(1, 2) for n, t in zip(("dq", "dk", "dv"), g)}, self.layout

    def scope(self):
        return contextlib.nullcontext()

    def check_graph(self, node):
        pass


class Sdpa(Peer):
    """A back end of torch's scaled_dot_product_attention; torch raises where it can't be used."""

    def call(self):
        return F.scaled_dot_product_attention(self.q, self.k, self.v, enable_gqa=self.gqa,
                                              is_causal=self.cell["variant"] == "causal")

    def scope(self):
        return sdpa_kernel([self.backend])

    def __init__(self, cell, tensors, device):
        super().__init__(cell, tensors, device)
        if cell["variant"] not in ("dense", "causal"):
            raise Refused(f"expected a dense or causal cell, got {cell['variant']}")
        if cell["part"] == "short":  # whose kernels are not looked at
            q = self.q
            self.q = q.detach().requires_grad_()
            with self.scope():
                self.check_graph(self.call().grad_fn)
            self.q = q

    def check_graph(self, node):
        """The autograd nodes near the result name the back end that ran forward."""
        names, level = [], [node]
        for _ in range(6):
            names += [n.name() for n in level]
            level = [m for n in level for m, _ in n.next_functions if m]
        fused = [n for n in names if n.startswith("ScaledDotProduct")]
        if not (any(self.node in n for n in fused) if self.node else not fused):
            raise Refused(f"expected autograd node {self.node or 'of no fused kernel'}, got {names[:3]}")

    def asserted(self, kernels):
        text = " ".join(kernels).lower()
        if not kernels or all((word in text) == wanted for word, wanted in self.kernels.items()):
            return
        raise Refused(f"expected kernels by {self.kernels}, got {kernels[:3]}")


class Fa2(Sdpa):
    name, backend, node = "fa2", SDPBackend.FLASH_ATTENTION, "Flash"
    kernels = {"flash": True, "cudnn": False}


class Cudnn(Sdpa):
    name, backend, node = "cudnn", SDPBackend.CUDNN_ATTENTION, "Cudnn"
    kernels = {"cudnn": True, "pytorch_flash": False}


class Math(Sdpa):
    name, backend, node = "math", SDPBackend.MATH, None
    kernels = {"flash": False, "cudnn_generated": False}


class Flex(Peer):
    """FlexAttention through torch.compile, with its block mask made ahead."""
    name = "flex"

    def __init__(self, cell, tensors, device):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        super().__init__(cell, tensors, device)
        torch._dynamo.reset()
        score, mask, _ = variants.functions(cell["variant"], torch, cell, self.q.device)
        block_mask = mask and create_block_mask(mask, None, None, cell["Sq"], cell["Sk"], device=self.q.device)
        compiled = torch.compile(flex_attention, dynamic=False)
        self.call = lambda: compiled(self.q, self.k, self.v, score_mod=score, block_mask=block_mask,
                                     enable_gqa=self.gqa)

    def check_graph(self, node):
        if "CompiledFunction" not in node.name():
            raise Refused(f"expected a compiled function, got autograd node {node.name()}")

    def asserted(self, kernels):
        if kernels and not any("triton" in k or "flex" in k for k in kernels):
            raise Refused(f"expected Triton kernels, got {kernels[:3]}")


ALL = {c.name: c for c in (Fathom, Fa2, Cudnn, Math, Flex)}
