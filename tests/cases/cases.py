"""Cases that broke attention kernels elsewhere, as tests of fa-run.

usage: cases.py [ID... | PART/PARTS]    all cases, those given, or one part of all

Each function is one case; its ids are those of README.md. Unless it says
otherwise a run is checked against the reference (--verify); what is checked
here beyond it are values that are known exactly. They run on the CPU, or where
FATHOM_DEVICE says.
"""

import math
import os
import subprocess
import sys
import tempfile

from arrays import Array

VARIANTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs", "variants.mlir")
CASES = []
INF = math.inf


def case(*ids):
    def add(function):
        CASES.append((ids, function))
        return function
    return add


class Run:
    """One run of fa-run; results are read from its files as attributes (o, lse, dq, ..., d_NAME)."""

    def __init__(self, variant, *, verify=True, backward=False, deterministic=False, layout="bhsd", fails=False,
                 fortran=(), captures={}, files={}, **options):
        self.folder = tempfile.TemporaryDirectory()
        command = ["fa-run", VARIANTS, "--variant", variant, "--layout", layout, "--out", self.path(""),
                   *os.environ.get("CASES_OPTIONS", "").split()]
        for name, array in files.items():
            array.save(self.path(f"in_{name}.npy"), fortran=name in fortran)
            command += [f"--{name}", self.path(f"in_{name}.npy")]
        for name, value in captures.items():
            if isinstance(value, Array):
                value.save(self.path(f"in_{name}.npy"))
                value = self.path(f"in_{name}.npy")
            command += ["--capture", f"{name}={value}"]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        command += ["--verify"] * verify + ["--backward"] * backward + ["--deterministic"] * deterministic
        p = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.text = p.stdout + p.stderr
        said = f"{' '.join(command)}\n{self.text[-3000:]}"
        if fails:
            assert p.returncode == 2 and p.stderr.strip(), f"expected a message and exit code 2, got {p.returncode}\n{said}"
        else:
            assert p.returncode == 0, f"exit code {p.returncode}\n{said}"

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def __getattr__(self, name):
        if name.startswith("_") or name == "folder":
            raise AttributeError(name)
        value = Array.load(self.path(f"{name}.npy"))
        setattr(self, name, value)
        return value


def refused(variant, *words, **options):
    run = Run(variant, fails=True, verify=False, **options)
    for word in words:
        assert word in run.text, f"expected the message to name {word}, got\n{run.text}"


def qkv(seed, b, hq, hkv, sq, sk, d, dv=None, sigma=1.0):
    return {"q": Array.normal((b, hq, sq, d), seed, sigma), "k": Array.normal((b, hkv, sk, d), seed + 1, sigma),
            "v": Array.normal((b, hkv, sk, dv or d), seed + 2, sigma)}


def one_hot(b, h, sk, dv):
    return Array.of((b, h, sk, dv), lambda b, h, j, d: float(j == d))


def on_gpu():
    return os.environ["FATHOM_DEVICE"].startswith("cuda")


def same(a, b, tolerance=1e-5):
    """The same bits. On a GPU other strides and lengths may mean other tiles, so sums in another order."""
    return a.distance(b) <= tolerance if on_gpu() else a.same_bits(b)


def all_equal(values, x):
    return all(v == x for v in values)


def near(a, b, tolerance):
    return abs(a - b) <= tolerance * max(1.0, abs(b))


def empty_row(run, h, i):
    return all_equal(run.o[0, h, i], 0) and run.lse[0, h, i] == -INF


# Rows without a key, single keys, L

@case("B001")
def leading_rows_see_no_key():
    x = qkv(1, 1, 2, 2, 130, 65, 64)
    r = Run("causal", files=x, dtype="f16", backward=True)
    for h in range(2):
        for i in range(65):
            assert empty_row(r, h, i) and all_equal(r.dq[0, h, i], 0), (h, i)
        assert all(math.isfinite(r.lse[0, h, i]) for i in range(65, 130))
    x["q"] = Array.of((1, 2, 65, 64), lambda b, h, i, d, q=x["q"]: q[b, h, i + 65, d])
    square = Run("causal", files=x, dtype="f16")
    assert max(abs(a - b) for h in range(2) for i in range(65)
               for a, b in zip(r.o[0, h, i + 65], square.o[0, h, i])) < 1e-3
    assert Run("causal_top_left", batch=1, heads=2, seqlen_q=130, seqlen_k=65, head_dim=64, dtype="f16",
               backward=True).lse.finite()


@case("B002")
def packed_with_one_key_a_sequence():
    n = {"q": Array.normal((256, 1, 32), 1, 3), "k": Array.normal((3, 1, 32), 2, 3), "v": Array.normal((3, 1, 32), 3, 3),
         "do": Array.of((256, 1, 32), 1.0)}
    for variant, rows in (("causal", [1, 1, 1]), ("causal_top_left", [76, 34, 146])):
        r = Run(variant, files=n, layout="packed", cu_seqlens_q="0,76,110,256", cu_seqlens_k="0,1,2,3", dtype="f16",
                backward=True)
        assert max(map(abs, r.dq.data)) < 0.05 and max(map(abs, r.dk.data)) < 0.5
        for j in range(3):
            assert all(near(x, rows[j], 2e-3) for x in r.dv[j]), (variant, j)


@case("B003")
def one_token():
    for seed in (1, 5):
        x = qkv(seed, 1, 1, 1, 1, 1, 16, sigma=3)
        r = Run("full", files={**x, "do": Array.of((1, 1, 1, 16), 1.0)}, backward=True)
        assert r.o.same_bits(x["v"]) and all_equal(r.dv.data, 1)
        assert near(r.lse[0, 0, 0], 0.25 * sum(a * b for a, b in zip(x["q"].data, x["k"].data)), 1e-5)
        assert max(map(abs, r.dq.data)) < 1e-4 and max(map(abs, r.dk.data)) < 1e-4


@case("B004", "B006")
def lse_of_an_empty_row():
    x = qkv(1, 1, 2, 2, 5, 0, 32)
    r = Run("full", files=x)
    assert all_equal(r.o.data, 0) and all_equal(r.lse.data, -INF)
    r = Run("visible_rows", captures={"rows": Array((5,), [1, 0, 1, 0, 1], "<i4")}, files=qkv(2, 1, 2, 2, 5, 4, 32),
            backward=True)
    for h in range(2):
        assert [empty_row(r, h, i) for i in range(5)] == [False, True, False, True, False]
        assert all_equal(r.dq[0, h, 1], 0) and all_equal(r.dq[0, h, 3], 0)


@case("B005")
def lse_is_minus_infinity_not_a_large_number():
    x = qkv(1, 1, 32, 8, 64, 31, 128)
    x["v"] = Array.of((1, 8, 31, 128), 1.0)
    r = Run("causal", files=x, dtype="bf16")
    for h in range(32):
        assert all(empty_row(r, h, i) for i in range(33))
        assert all(all_equal(r.o[0, h, i], 1) for i in range(33, 64))


@case("B007")
def bias_at_the_lowest_float():
    lowest = -3.4028234663852886e38
    x = qkv(1, 1, 1, 1, 441, 441, 64)
    r = Run("bias_key", files=x, captures={"bias": Array.of((441,), lambda j: lowest if j < 128 else 0.0)})
    part = {"q": x["q"]}
    for n in "kv":
        part[n] = Array.of((1, 1, 313, 64), lambda b, h, j, d, a=x[n]: a[0, 0, j + 128, d])
    assert r.o.distance(Run("full", files=part).o) < 1e-5
    r = Run("bias_key", files=x, captures={"bias": Array.of((441,), lowest)}, verify=False)
    mean = [sum(x["v"][0, 0, j, d] for j in range(441)) / 441 for d in range(64)]
    assert all(near(a, b, 1e-4) for i in (0, 63, 440) for a, b in zip(r.o[0, 0, i], mean))


@case("B008")
def leading_key_blocks_hidden_for_late_rows():
    x = {n: Array.of((1, 1, 640, 4), 1.0) for n in "qkv"}
    for variant in ("window_9_0", "window_9_mask"):
        r = Run(variant, files=x)
        assert all(near(a, 1, 1e-6) for a in r.o.data)
        assert all(near(r.lse[0, 0, i], 2 + math.log(min(i + 1, 10)), 1e-6) for i in range(640))


@case("B009")
def gradient_of_lse_alone():
    x = qkv(1, 1, 2, 2, 65, 65, 64)
    x["do"], x["dlse"] = Array.of((1, 2, 65, 64), 0.0), Array.of((1, 2, 65), 1.0 / 130)
    for dtype in ("f32", "bf16"):
        r = Run("full", files=x, dtype=dtype, backward=True)
        assert all_equal(r.dv.data, 0) and max(map(abs, r.dq.data)) > 0 and max(map(abs, r.dk.data)) > 0


@case("B010")
def gradients_of_o_and_lse():
    for s in (100, 129):
        x = qkv(s, 1, 2, 2, s, s, 64)
        x["dlse"] = Array.normal((1, 2, s), s)
        x["do"] = Array.normal((1, 2, s, 64), s + 1)
        r = Run("causal", files=x, backward=True)
        assert r.dq.finite() and r.dk.finite() and r.dv.finite()


# Numbers

@case("B013")
def huge_equal_logits():
    big = 133120.0
    x = {n: Array.of((1, 1, 1, 64), big) for n in "qkv"}
    r = Run("full", files={**x, "do": Array.of((1, 1, 1, 64), 1.0)}, dtype="bf16", backward=True, verify=False)
    assert all_equal(r.o.data, big) and r.lse[0, 0, 0] == 141767475200.0
    assert all_equal(r.dv.data, 1) and r.dq.finite() and r.dk.finite()
    for sk in (2, 130):
        x = {"q": x["q"], **{n: Array.of((1, 1, sk, 64), big) for n in "kv"}}
        r = Run("full", files=x, dtype="bf16", verify=False)
        assert all_equal(r.o.data, big) and near(r.lse[0, 0, 0], 141767475200.0, 1e-6)


@case("B014")
def growing_bias():
    for s in (256, 257):
        x = qkv(1, 1, 1, 1, s, s, 64)
        r = Run("distance", files={**x, "do": Array.of((1, 1, s, 64), 0.01 / (64 * s))}, dtype="bf16", backward=True)
        assert r.dq.finite() and r.dk.finite() and r.dv.finite()


@case("B015")
def nan_in_q_stays_in_its_row():
    x = qkv(1, 2, 4, 4, 16, 16, 8)
    clean = Run("full", files=x)
    x["q"] = x["q"].with_entries(lambda v, b, h, i, d: math.nan if (b, h, i) == (0, 0, 3) else v)
    r = Run("full", files=x, verify=False)
    for b in range(2):
        for h in range(4):
            for i in range(16):
                if (b, h, i) == (0, 0, 3):
                    assert all(map(math.isnan, r.o[b, h, i])) and math.isnan(r.lse[b, h, i])
                else:
                    assert r.o[b, h, i] == clean.o[b, h, i] and r.lse[b, h, i] == clean.lse[b, h, i], (b, h, i)


@case("B016")
def bias_of_minus_infinity():
    bias = Array.of((9, 9), lambda i, j: -INF if i == 4 or j == 2 else 0.0)
    for dtype in ("f16", "bf16"):
        r = Run("bias_table", files=qkv(1, 1, 1, 1, 9, 9, 16), dtype=dtype, captures={"bias": bias}, backward=True,
                verify=False)
        assert empty_row(r, 0, 4) and all_equal(r.dk[0, 0, 2], 0) and all_equal(r.dv[0, 0, 2], 0)
        assert r.o.finite() and r.dq.finite() and r.dk.finite() and r.dv.finite() and all_equal(r.dq[0, 0, 4], 0)


@case("B017")
def f16_logits_far_apart():
    x = qkv(1, 1, 1, 1, 77, 77, 64)
    x["q"] = x["q"].with_entries(lambda v, *_: 20 * v)
    r = Run("full", files=x, dtype="f16", backward=True)
    assert r.o.finite()


@case("B019")
def scale():
    x = qkv(1, 1, 2, 2, 32, 32, 64)
    default = Run("full", files=x, backward=True)
    outputs = {v: Run(v, files=x, backward=True) for v in ("scale_eighth", "scale_quarter", "scale_half", "scale_one")}
    assert default.o.same_bits(outputs["scale_eighth"].o) and default.dq.same_bits(outputs["scale_eighth"].dq)
    assert all(default.o.distance(outputs[v].o) > 1e-2 for v in outputs if v != "scale_eighth")
    x["q"] = x["q"].with_entries(lambda v, *_: 0.25 * v)
    scaled = Run("scale_one", files=x)
    assert scaled.o.distance(outputs["scale_quarter"].o) < 1e-6
    Run("scale_half", batch=1, heads=2, seqlen_q=32, head_dim=72, backward=True)


# Alignment, windows

def weights(variant, sq, sk, dv=130):
    """Which keys each row sees, read from O with one-hot rows of V."""
    x = {"q": Array.of((1, 1, sq, 16), 0.0), "k": Array.of((1, 1, sk, 16), 0.0), "v": one_hot(1, 1, sk, dv)}
    r = Run(variant, files=x)
    return [{j for j in range(sk) if r.o[0, 0, i, j] != 0} for i in range(sq)], r


@case("B020", "B021")
def one_rule_for_alignment():
    for sq, sk in ((1, 16), (2, 5), (5, 2), (63, 65), (65, 63), (64, 64), (1, 130), (130, 1), (130, 64), (5, 130)):
        seen, r = weights("causal", sq, sk)
        assert seen == [{j for j in range(sk) if j <= i + sk - sq} for i in range(sq)], (sq, sk)
        assert [v == -INF for v in r.lse.data] == [not s for s in seen]
        seen, _ = weights("causal_top_left", sq, sk)
        assert seen == [{j for j in range(sk) if j <= i} for i in range(sq)], (sq, sk)


@case("B022")
def lengths_that_differ():
    for sq, sk in ((33, 130), (130, 33)):
        x = qkv(1, 1, 2, 2, sq, sk, 64)
        r = Run("full", files=x, backward=True)
        for n in "kv":  # keys in another order
            x[n] = Array.of(x[n].shape, lambda b, h, j, d, a=x[n]: a[b, h, (7 * j + 3) % sk, d])
        assert r.o.distance(Run("full", files=x).o) < 1e-5


@case("B023")
def later_keys_have_no_influence():
    x = qkv(1, 1, 1, 1, 100, 100, 64)
    r = Run("causal", files=x)
    for n in "kv":
        x[n] = x[n].with_entries(lambda v, b, h, j, d: v if j <= 40 else 1e4)
    changed = Run("causal", files=x, verify=False)
    assert all(r.o[0, 0, i] == changed.o[0, 0, i] for i in range(41))


@case("B023")
def tile_shapes():
    for m, n in ((32, 64), (64, 32), (16, 128), (128, 16), (48, 40)):
        Run("causal", batch=1, heads=1, seqlen_q=150, head_dim=64, block_m=m, block_n=n, backward=True)


@case("B024")
def backward_has_the_mask_of_the_forward():
    for variant in ("full", "causal", "window_16_0", "window_16_16"):
        Run(variant, batch=1, heads=2, seqlen_q=128, head_dim=64, dtype="f16", backward=True)


@case("B025")
def all_channels_count():
    x = qkv(1, 1, 2, 2, 64, 64, 128)
    r = Run("full", files=x)
    x["q"] = x["q"].with_entries(lambda v, b, h, i, d: v if d < 64 else 0.0)
    assert r.o.distance(Run("full", files=x).o) > 1e-2
    assert any(r.o[0, 0, 0][64:])


@case("B026")
def last_row_alone():
    slopes = {"slopes": Array((4,), [0.5, 0.25, 0.125, 0.0625])}
    for variant, captures in (("alibi", slopes), ("causal", {}), ("window_8_0", {}), ("far", {})):
        x = qkv(1, 1, 4, 4, 77, 77, 32)
        r = Run(variant, files=x, captures=captures)
        x["q"] = Array.of((1, 4, 1, 32), lambda b, h, i, d, q=x["q"]: q[b, h, 76, d])
        last = Run(variant, files=x, captures=captures)
        for h in range(4):
            assert all(near(a, b, 1e-5) for a, b in zip(r.o[0, h, 76], last.o[0, h, 0])), (variant, h)
            assert near(r.lse[0, h, 76], last.lse[0, h, 0], 1e-5)


@case("B027")
def left_bound_is_inclusive():
    assert weights("window_2_0", 8, 8)[0] == [{j for j in range(8) if i - 2 <= j <= i} for i in range(8)]


@case("B029")
def left_window_in_the_first_tile():
    x = qkv(1, 1, 8, 2, 40, 300, 64)
    r = Run("window_33_left", files=x, dtype="f16")
    first = 300 - 40 - 33
    for n in "kv":
        x[n] = x[n].with_entries(lambda v, b, h, j, d: v if j >= first else 6e4)
    changed = Run("window_33_left", files=x, dtype="f16", verify=False)
    assert all(r.o[0, h, 0] == changed.o[0, h, 0] for h in range(8))


@case("B030")
def right_window_with_groups():
    for variant, dtype in (("window_64_64", "bf16"), ("window_64_right", "f16")):
        Run(variant, batch=2, heads=8, kv_heads=2, seqlen_q=200, head_dim=64, dtype=dtype, backward=True)
    x = qkv(1, 1, 2, 1, 100, 100, 64)
    r = Run("window_64_right", files=x)
    for n in "kv":
        x[n] = x[n].with_entries(lambda v, b, h, j, d: v if j <= 64 else 1e4)
    changed = Run("window_64_right", files=x, verify=False)
    assert all(r.o[0, h, 0] == changed.o[0, h, 0] for h in range(2))


@case("B031")
def window_to_the_left_is_causal():
    x = {**qkv(1, 1, 2, 2, 40, 40, 32), "do": Array.normal((1, 2, 40, 32), 9)}
    a, b = (Run(v, files=x, backward=True) for v in ("window_5_0", "window_5_causal"))
    for n in ("o", "lse", "dq", "dk", "dv"):
        assert getattr(a, n).distance(getattr(b, n)) < 1e-5, n


@case("B032")
def window_bound_of_zero():
    for s in (6, 130):
        x = {**qkv(1, 1, 1, 1, s, s, 16), "do": Array.normal((1, 1, s, 16), 9)}
        r = Run("window_0_0", files=x, backward=True)
        assert r.o.same_bits(x["v"]) and r.dv.same_bits(x["do"])
        for i in range(s):
            assert near(r.lse[0, 0, i], 0.25 * sum(a * b for a, b in zip(x["q"][0, 0, i], x["k"][0, 0, i])), 1e-5)
        assert max(map(abs, r.dq.data)) < 1e-4 and max(map(abs, r.dk.data)) < 1e-4
    for variant, left, right in (("window_0_0", 0, 0), ("window_0_left", 0, 99), ("window_0_right", 99, 0),
                                 ("window_0_3", 0, 3)):
        for sq, sk in ((6, 6), (3, 6), (6, 3)):
            off = sk - sq
            assert weights(variant, sq, sk)[0] == [{j for j in range(sk) if i + off - left <= j <= i + off + right}
                                                   for i in range(sq)], (variant, sq, sk)


@case("B034")
def window_wider_than_the_sequence():
    x = {**qkv(1, 1, 1, 1, 257, 257, 32), "do": Array.normal((1, 1, 257, 32), 9)}
    causal = Run("causal", files=x, backward=True)
    for variant in ("window_256", "window_257", "window_258", "window_2570"):
        r = Run(variant, files=x, backward=True)
        for n in ("o", "lse", "dq", "dk", "dv"):
            assert getattr(r, n).distance(getattr(causal, n)) < 1e-5, (variant, n)


@case("B035")
def two_sided_window_with_few_keys():
    r = Run("window_32_64", files=qkv(1, 1, 2, 2, 129, 16, 64), backward=True)
    for h in range(2):
        assert [empty_row(r, h, i) for i in range(129)] == [i < 49 for i in range(129)]
        assert all(all_equal(r.dq[0, h, i], 0) for i in range(49))
    seen, _ = weights("window_32_64", 129, 16)
    assert seen[128] == set(range(16))


# Sizes

@case("B036", "B066")
def sizes_off_the_tile():
    for dtype, heads, s, d in (("bf16", 8, 192, 16), ("f16", 4, 100, 72), ("f32", 2, 509, 32)):
        runs = [Run("full", batch=1, heads=heads, seqlen_q=s, head_dim=d, dtype=dtype, backward=True, deterministic=True)
                for _ in range(2)]
        for n in ("o", "lse", "dq", "dk", "dv"):
            assert getattr(runs[0], n).same_bits(getattr(runs[1], n)), (d, n)


@case("B037")
def fewer_keys_than_a_block():
    for sk in (1, 2, 63, 64, 65, 127, 129):
        x = qkv(sk, 1, 1, 1, 1, sk, 16)
        x = {n: a.with_entries(lambda v, *_: round(v * 16) / 16) for n, a in x.items()}
        r = Run("full", files=x, dtype="bf16")
        if sk == 1:
            assert r.o.same_bits(x["v"])


@case("B038")
def second_batch_is_not_zero():
    r = Run("causal", batch=2, heads=1, seqlen_q=2, head_dim=16)
    assert any(r.o[1])


@case("B042")
def empty_tensors():
    for variant in ("full", "causal"):
        for b, h, sq, sk in ((0, 2, 5, 5), (1, 2, 0, 5), (1, 2, 5, 0), (1, 2, 0, 0), (0, 2, 0, 0)):
            for dtype in ("f32", "bf16"):
                x = {**qkv(1, b, h, h, sq, sk, 32), "do": Array.normal((b, h, sq, 32), 4)}
                r = Run(variant, files=x, backward=True, dtype=dtype)
                assert all_equal(r.o.data, 0) and all_equal(r.lse.data, -INF) and all_equal(r.dq.data, 0)
                assert all_equal(r.dk.data, 0) and all_equal(r.dv.data, 0)
                assert r.dk.shape == (b, h, sk, 32) and r.o.shape == (b, h, sq, 32)


# Packed sequences

@case("B039")
def many_short_sequences():
    cu = [0]
    for n in range(64):
        cu.append(cu[-1] + 1 + (n * 11) % 70)
    Run("causal", layout="packed", heads=2, head_dim=64, dtype="bf16", backward=True,
        cu_seqlens_q=",".join(map(str, cu)), cu_seqlens_k=",".join(map(str, cu)))


@case("B040", "B043")
def sequences_without_queries():
    r = Run("full", layout="packed", heads=4, kv_heads=1, head_dim=256, dtype="bf16", backward=True,
            cu_seqlens_q="0,0,30,51,51", cu_seqlens_k="0,63,107,128,204")
    for j in range(204):
        assert (j < 63 or j >= 128) == (all_equal(r.dk[j], 0) and all_equal(r.dv[j], 0)), j
    for d in (32, 64):
        r = Run("full", layout="packed", heads=4, kv_heads=2, head_dim=d, backward=True, cu_seqlens_q="0,5,5,12",
                cu_seqlens_k="0,4,10,13")
        for j in range(13):
            assert (4 <= j < 10) == (all_equal(r.dk[j], 0) and all_equal(r.dv[j], 0)), j
    # A dense key that no query sees.
    r = Run("window_2_0", files=qkv(1, 1, 2, 2, 10, 20, 32), backward=True)
    for h in range(2):
        for j in range(8):
            assert all_equal(r.dk[0, h, j], 0) and all_equal(r.dv[0, h, j], 0), (h, j)


@case("B044", "B047")
def packed_lengths_off_the_tile():
    Run("causal", layout="packed", heads=8, kv_heads=2, head_dim=64, dtype="bf16", backward=True,
        cu_seqlens_q="0,1,66,193")
    for n in (1, 3, 17):
        Run("full", layout="packed", heads=2, head_dim=32, cu_seqlens_q=",".join(str(3 * i) for i in range(n + 1)))


@case("B046")
def packed_equals_dense():
    x = {"q": Array.normal((8, 4, 16), 1), "k": Array.normal((10, 2, 16), 2), "v": Array.normal((10, 2, 16), 3)}
    r = Run("causal", files=x, layout="packed", cu_seqlens_q="0,3,8", cu_seqlens_k="0,4,10")
    for q0, q1, k0, k1 in ((0, 3, 0, 4), (3, 8, 4, 10)):
        part = {n: Array.of((1, a[1] - a[0], x[n].shape[1], 16),
                            lambda b, i, h, d, n=n, a=a: x[n][i + a[0], h, d])
                for n, a in (("q", (q0, q1)), ("k", (k0, k1)), ("v", (k0, k1)))}
        dense = Run("causal", files=part, layout="bshd")
        for i in range(q0, q1):
            assert all(near(a, b, 1e-5) for a, b in zip(r.o[i], dense.o[0, i - q0])), i


@case("B048")
def malformed_sequence_boundaries():
    x = {n: Array.normal((10, 2, 16), 1) for n in "qkv"}
    for cu in ("1,4,10", "0,4,9", "0,4,11", "0,6,4,10", "0,-1,10", "", "x"):
        refused("full", files=x, layout="packed", cu_seqlens_q=cu)


# Heads

@case("B050")
def heads_that_do_not_divide():
    for hq, hkv in ((33, 2), (3, 2), (2, 4), (2, 0)):
        refused("full", files=qkv(1, 1, hq, hkv, 5, 5, 16))
    x = qkv(1, 1, 4, 2, 5, 5, 16)
    x["v"] = Array.normal((1, 1, 5, 16), 3)
    refused("full", "v", files=x)


@case("B051")
def gradients_sum_over_the_group():
    for hkv in (2, 1):
        x = {**qkv(1, 2, 8, hkv, 33, 33, 32), "do": Array.normal((2, 8, 33, 32), 5)}
        r = Run("causal", files=x, backward=True)
        group = 8 // hkv
        wide = dict(x)
        for n in "kv":
            wide[n] = Array.of((2, 8, 33, 32), lambda b, h, j, d, a=x[n]: a[b, h // group, j, d])
        w = Run("causal", files=wide, backward=True)
        for n in ("dk", "dv"):
            summed = Array.of((2, hkv, 33, 32), lambda b, h, j, d, a=getattr(w, n):
                              sum(a[b, h * group + g, j, d] for g in range(group)))
            assert summed.distance(getattr(r, n)) < 1e-4, n
        assert w.dq.distance(r.dq) < 1e-5 and w.lse.distance(r.lse) < 1e-5


@case("B052")
def odd_group_sizes():
    for group in (3, 7, 24, 71):
        for sq in (1, 65):
            Run("causal", batch=1, heads=2 * group, kv_heads=2, seqlen_q=sq, seqlen_k=70, head_dim=16, backward=sq > 1)


@case("B053")
def query_head_to_kv_head():
    for hq, hkv in ((12, 12), (32, 8), (28, 4)):
        x = qkv(1, 1, hq, hkv, 17, 17, 16)
        x["v"] = Array.of((1, hkv, 17, 16), lambda b, h, j, d: float(h))
        r = Run("full", files=x)
        for h in range(hq):
            assert all(near(v, h // (hq // hkv), 1e-6) for v in r.o[0, h]), h


# Layouts

@case("B054", "B055", "B059")
def memory_order_does_not_matter():
    x = {**qkv(1, 2, 3, 3, 17, 17, 32), "do": Array.normal((2, 3, 17, 32), 7)}
    r = Run("causal", files=x, backward=True)
    for fortran in (("do",), ("q", "k", "v", "do")):
        f = Run("causal", files=x, backward=True, fortran=fortran)
        for n in ("o", "lse", "dq", "dk", "dv"):
            assert same(getattr(f, n), getattr(r, n)), n
    y = {n: Array.of((2, 17, 3, 32), lambda b, i, h, d, a=a: a[b, h, i, d]) for n, a in x.items()}
    s = Run("causal", files=y, backward=True, layout="bshd")
    for n in ("o", "dq", "dk", "dv"):
        by_head = Array.of((2, 3, 17, 32), lambda b, h, i, d, a=getattr(s, n): a[b, i, h, d])
        assert same(by_head, getattr(r, n)), n
    # Heads are independent.
    x["q"] = x["q"].with_entries(lambda v, b, h, i, d: v if h < 2 else 2 * v)
    t = Run("causal", files=x)
    assert all(t.o[b, h] == r.o[b, h] for b in range(2) for h in range(2)) and t.o[0, 2] != r.o[0, 2]


@case("B062")
def repeated_keys_of_one_head():
    for sk in (33, 65, 97):
        Run("full", batch=1, heads=4, kv_heads=1, seqlen_q=20, seqlen_k=sk, head_dim=64, dtype="bf16")


# Head dims

@case("B063", "B065", "B067", "B068", "B069")
def head_dims():
    for d, dv in ((1, 1), (3, 5), (46, 46), (80, 80), (96, 96), (112, 112), (136, 136), (260, 260), (128, 96), (128, 40),
                  (128, 8), (192, 128), (320, 320), (512, 512)):
        Run("causal", batch=1, heads=2, seqlen_q=40, head_dim=d, head_dim_v=dv, dtype="bf16", backward=True)
    Run("full", batch=1, heads=1, seqlen_q=256, head_dim=128, dtype="f32")
    Run("full", layout="packed", heads=2, head_dim=104, dtype="bf16", cu_seqlens_q="0,60,120", backward=True)
    Run("full", batch=1, heads=2, seqlen_q=1, seqlen_k=90, head_dim=96)


@case("B073")
def many_heads_and_batches():
    r = Run("full", batch=256, heads=257, seqlen_q=1, seqlen_k=2, head_dim=4, backward=True)
    assert any(r.o[255, 256]) and any(r.dk[255, 256])


# Soft caps, captured operands

@case("B075")
def soft_cap_formula():
    x = {"q": Array.of((1, 1, 1, 16), 25.0), "k": Array.of((1, 1, 2, 16), lambda b, h, j, d: 25.0 if j == 0 else -25.0),
         "v": one_hot(1, 1, 2, 16)}
    r = Run("cap_one", files=x, captures={"cap": 15})
    assert near(r.lse[0, 0, 0], 15 + math.log1p(math.exp(-30)), 1e-6)
    assert near(r.o[0, 0, 0, 0], 1, 1e-6) and abs(r.o[0, 0, 0, 1] / math.exp(-30) - 1) < 1e-4


@case("B076")
def the_cap_is_a_value_of_the_call():
    x = qkv(1, 1, 2, 2, 40, 40, 32, sigma=3)
    first, second, again = (Run("cap_causal", files=x, captures={"cap": c}) for c in (5, 50, 5))
    assert first.o.same_bits(again.o) and first.o.distance(second.o) > 1e-2
    assert second.o.distance(Run("causal", files=x).o) > 1e-3


@case("B077")
def soft_cap_backward():
    for cap in (0.5, 15, 1e4):
        Run("cap", layout="packed", heads=2, head_dim=128, cu_seqlens_q="0,128", cu_seqlens_k="0,217", captures={"cap": cap},
            backward=True)


@case("B079")
def gradients_of_captures():
    x = {**qkv(1, 2, 3, 3, 33, 33, 16), "do": Array.normal((2, 3, 33, 16), 5)}
    r = Run("factor", files=x, captures={"r": 0.75}, backward=True)
    assert r.d_r.data[0] != 0
    for variant, shape in (("bias_batch", (2, 33, 33)), ("bias_head", (3, 1, 33)), ("bias_key", (33,))):
        r = Run(variant, files=x, captures={"bias": Array.normal(shape, 6)}, backward=True)
        assert r.d_bias.shape == shape and any(r.d_bias.data)


@case("B080")
def tables_are_not_read_where_hidden():
    Run("short_table", files=qkv(1, 1, 2, 2, 128, 128, 64), captures={"table": Array.normal((127,), 4)}, backward=True)
    Run("band_table", files=qkv(1, 1, 2, 2, 200, 200, 64), captures={"table": Array.normal((64,), 4)}, backward=True)


@case("B081")
def alibi_slopes():
    for hq, hkv, sq, sk, slopes in ((3, 3, 65, 65, [0.5, 0.0, -0.25]), (6, 2, 7, 65, [2.0 ** -n for n in range(6)]),
                                    (40, 40, 5, 9, [0.01 * n for n in range(40)])):
        r = Run("alibi_full", files=qkv(1, 1, hq, hkv, sq, sk, 16), captures={"slopes": Array((hq,), slopes)}, backward=True)
        assert r.d_slopes.shape == (hq,)
    r = Run("alibi_batch", files=qkv(1, 2, 3, 3, 20, 20, 16), captures={"slopes": Array.normal((2, 3), 3)}, backward=True)
    assert r.d_slopes.shape == (2, 3)
    refused("alibi_full", "slopes", files=qkv(1, 1, 4, 4, 5, 5, 16), captures={"slopes": Array.normal((3,), 3)})
    refused("alibi_full", "slopes", files=qkv(1, 1, 4, 4, 5, 5, 16), captures={"slopes": Array.normal((3, 2), 3)})


# Masks said in several ways, and the same kernel for other data

@case("B082")
def equal_masks_agree():
    for s in (16, 100):
        x = qkv(1, 1, 1, 1, s, s, 32)
        table = Array.of((s, s), lambda i, j: int(j <= i), "<i4")
        causal = Run("causal", files=x, backward=True)
        for other in (Run("causal_mask", files=x, backward=True),
                      Run("visible_table", files=x, backward=True, captures={"seen": table})):
            assert causal.o.distance(other.o) < 1e-5 and causal.lse.distance(other.lse) < 1e-5
        for variant, rule in (("prefix_16", lambda i, j: j <= i or j < 16), ("block_causal", lambda i, j: j // 8 <= i // 8)):
            table = Array.of((s, s), lambda i, j: int(rule(i, j)), "<i4")
            a = Run(variant, files=x)
            b = Run("visible_table", files=x, captures={"seen": table})
            assert a.o.distance(b.o) < 1e-5 and a.lse.distance(b.lse) < 1e-5, variant


@case("B083")
def the_same_kernel_for_other_segments():
    for step in (1, 3, 7, 50):
        ids = Array.of((2, 50), lambda b, i: (i + b) // step, "<i4")
        r = Run("segments", files=qkv(step, 2, 2, 2, 50, 50, 32), captures={"id": ids}, backward=True)
        assert r.o.finite() and r.dq.finite()
        if step == 1:
            assert r.o.distance(Array.of((2, 2, 50, 32), lambda b, h, i, d, v=qkv(1, 2, 2, 2, 50, 50, 32)["v"]:
                                         v[b, h, i, d])) == 0


@case("B085")
def deterministic_gradients():
    runs = [Run("causal", batch=2, heads=8, kv_heads=2, seqlen_q=300, head_dim=64, dtype="bf16", backward=True,
                verify=False, deterministic=True, threads=n) for n in (1, 2, 3, 2)]
    for r in runs[1:]:
        for n in ("o", "lse", "dq", "dk", "dv"):
            assert getattr(r, n).same_bits(getattr(runs[0], n)), n


def main():
    wanted = set(sys.argv[1:])
    known = {i for ids, _ in CASES for i in ids}
    if len(sys.argv) == 2 and "/" in sys.argv[1]:
        part, parts = map(int, sys.argv[1].split("/"))
        wanted = {ids[0] for ids, _ in CASES[part - 1::parts]}
    if wanted - known:
        sys.exit(f"cases: expected ids among {', '.join(sorted(known))}, got {', '.join(sorted(wanted - known))}")
    failed = []
    os.environ.setdefault("FATHOM_DEVICE", "cpu")
    os.environ["FATHOM_POISON"] = "1"  # workspaces start as NaN
    cache = tempfile.TemporaryDirectory()
    os.environ.setdefault("FATHOM_CACHE_DIR", cache.name)
    for ids, function in CASES:
        if wanted and not wanted & set(ids):
            continue
        try:
            function()
            print("ok  ", *ids, function.__name__, flush=True)
        except (AssertionError, OSError, subprocess.TimeoutExpired, KeyError, ValueError) as error:
            failed.append(function.__name__)
            print("FAIL", *ids, function.__name__, f"\n{type(error).__name__}: {error}", flush=True)
    print(f"count: bug-cases {sum(len(ids) for ids, _ in CASES if not wanted or wanted & set(ids))}")
    sys.exit(f"cases: {len(failed)} failed: {', '.join(failed)}" if failed else 0)


main()
