"""What is measured: the cells of each part, and how much work each is.

A cell is a dict that goes into the results as it is: one shape and variant, the passes
(fwd, bwd) and the contenders that run it. Knows no torch.
"""

SEQLENS = [512, 1024, 2048, 4096, 8192, 16384]
VARIANTS = ["softcap", "alibi_causal", "relpos_causal", "window512_causal",
            "document512_causal", "prefix1024"]

# The contenders of each part, the first one against the others; more can be asked for where
# they can run it.
CONTENDERS = {
    "grid": (["fathom", "fa2", "cudnn"], ["flex", "math"]),
    "variants": (["fathom", "flex"], []),
    "gqa": (["fathom", "fa2", "cudnn"], ["flex", "math"]),
    "decode": (["fathom", "fa2", "cudnn"], ["flex", "math"]),
    "short": (["fathom", "fa2", "cudnn", "math"], ["flex"]),
    "compile": (["fathom", "flex"], []),
}
PARTS = list(CONTENDERS)


def visible_pairs(variant, sq, sk):
    """How many (query, key) pairs of a head are computed. Causal is half of all, as the papers
    count it."""
    if variant in ("dense", "softcap"):
        return sq * sk
    if variant in ("causal", "alibi_causal", "relpos_causal"):
        return sq * sk / 2
    if variant == "window512_causal":
        return sum(min(i, 512) + 1 for i in range(sq))
    if variant == "document512_causal":
        return sum(i % 512 + 1 for i in range(sq))
    if variant == "prefix1024":
        return sum(max(min(1024, sk), i + 1) for i in range(sq))
    raise ValueError(f"expected a variant of tests/perf/variants, got '{variant}'")


def flops(cell, which):
    """4 D per visible pair forward, 2.5 times that backward, as the papers count."""
    pairs = cell["B"] * cell["Hq"] * visible_pairs(cell["variant"], cell["Sq"], cell["Sk"])
    return 4 * cell["D"] * pairs * (2.5 if which == "bwd" else 1)


def operand_bytes(cell, which):
    """Bytes of the operands read and written once; lse and workspaces not counted."""
    q = cell["B"] * cell["Sq"] * cell["Hq"] * cell["D"]
    k = cell["B"] * cell["Sk"] * cell["Hkv"] * cell["D"]
    return 2 * ((2 * q + 2 * k) if which == "fwd" else (4 * q + 4 * k))


def make_cell(part, name, variant, b, hq, hkv, sq, sk, d, passes):
    return dict(part=part, name=name, variant=variant, B=b, Hq=hq, Hkv=hkv, Sq=sq, Sk=sk, D=d,
                passes=passes)


def shapes(part, o):
    """The cells of a part but for dtype and contenders. `o` has the command's options."""
    passes = o.passes
    rows = lambda s: max(1, o.tokens // s)
    if part == "grid":
        for d in o.dims:
            for s in o.seqlens or ([512, 4096] if o.quick else SEQLENS):
                for variant in ("dense", "causal"):
                    h = max(1, o.hidden // d)
                    yield make_cell(part, f"D={d} S={s} {variant}", variant, rows(s), h, h, s, s, d, passes)
    elif part == "variants":
        h = max(1, o.hidden // 128)
        for s in o.seqlens or [4096]:
            for variant in o.variants or VARIANTS:
                yield make_cell(part, f"S={s} {variant}", variant, rows(s), h, h, s, s, 128, passes)
    elif part == "gqa":
        hq = max(1, 2 * o.hidden // 128)
        for s in o.seqlens or [4096]:
            for hkv in sorted({min(hq, n) for n in (1, 4, 8)}):
                yield make_cell(part, f"S={s} Hq={hq} Hkv={hkv} causal", "causal", rows(s), hq, hkv,
                                s, s, 128, passes)
    elif part == "decode":
        hq = max(1, 2 * o.hidden // 128)
        for b in (1, 16, 64):
            for sk in o.seqlens or [8192, 65536]:
                if "fwd" in passes:
                    yield make_cell(part, f"B={b} Sk={sk}", "dense", b, hq, max(1, hq // 4), 1, sk, 128,
                                    ["fwd"])
    elif part == "short":
        h = max(1, 2 * o.hidden // 128)
        for s in o.seqlens or [64, 128, 256, 512]:
            for b in (1, 16):
                yield make_cell(part, f"B={b} S={s}", "dense", b, h, h, s, s, 128, passes)


def contenders_of(part, asked):
    """The contenders of a part, of those asked for (none: the part's own)."""
    own, more = CONTENDERS[part]
    return [c for c in own + more if c in asked] if asked else own


def groups(o):
    """Yields (environment kinds, cells): each group runs in a process of its own. The kinds name
    directories that start empty or as an earlier group left them."""
    # Short calls are timed with the host's part, on which a profiler used before would weigh.
    for parts in ([p for p in o.parts if p == "short"], [p for p in o.parts if p not in ("short", "compile")]):
        cells = [dict(cell, dtype=o.dtype, contenders=contenders_of(part, o.contenders))
                 for part in parts for cell in shapes(part, o)]
        if cells:
            yield {}, cells
    if "compile" in o.parts:
        names = ["causal"] if o.quick else ["causal", "dense"] + VARIANTS
        for contender in contenders_of("compile", o.contenders):
            for state in ("cold", "disk"):
                yield {"caches": contender}, [
                    dict(part="compile", name=f"{name}, {state}", variant=name, state=state, D=128,
                         B=1, Hq=16, Hkv=16, Sq=1024, Sk=1024, passes=o.passes, dtype=o.dtype,
                         contenders=[contender]) for name in names]
        if "fathom" in contenders_of("compile", o.contenders):
            yield {}, [dict(part="compile", name="host time of a call", variant="causal", state="host",
                            D=64, B=1, Hq=1, Hkv=1, Sq=64, Sk=64, passes=o.passes, dtype=o.dtype,
                            contenders=["fathom"])]
