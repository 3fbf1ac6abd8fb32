"""The variants once more, as functions of torch tensors: for the reference and FlexAttention.

score(s, b, h, i, j) and mask(b, h, i, j) take tensors that broadcast, as FlexAttention's scalars
do. variants/NAME.mlir says the same to Fathom.
"""

import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "variants"


def text(name):
    return (FOLDER / f"{name}.mlir").read_text()


def functions(name, torch, cell, device):
    """(score or None, mask or None, captured tensors in the variant's order)."""
    causal = lambda b, h, i, j: i >= j
    if name == "dense":
        return None, None, []
    if name == "causal":
        return None, causal, []
    if name == "softcap":
        return lambda s, b, h, i, j: 30.0 * torch.tanh(s / 30.0), None, []
    if name == "alibi_causal":
        slopes = torch.exp2(-0.5 * torch.arange(1, cell["Hq"] + 1, device=device))
        return lambda s, b, h, i, j: s + slopes[h] * (j - i), causal, []
    if name == "relpos_causal":
        return lambda s, b, h, i, j: s + (j - i), causal, []
    if name == "window512_causal":
        return None, lambda b, h, i, j: (i >= j) & (i - j <= 512), []
    if name == "document512_causal":
        document = (torch.arange(cell["Sk"], device=device) // 512).to(torch.int32)
        return None, lambda b, h, i, j: (i >= j) & (document[i] == document[j]), [document]
    if name == "prefix1024":
        return None, lambda b, h, i, j: (j < 1024) | (i >= j), []
    raise ValueError(f"expected a variant of {FOLDER}, got '{name}'")
