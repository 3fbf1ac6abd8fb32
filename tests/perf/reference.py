"""Attention and its gradients by the book on torch tensors, and how far results are from it."""

import torch

import variants

ENTRIES = 1 << 28  # of the score matrix, at a time


def attention(cell, q, k, v, do=None, rounded=None):
    """o, lse and, given do, dq, dk and dv; in float32, tensors [B, S, H, D] as given. With
    `rounded`, a dtype, P, dS and the results are rounded to it: what a plain program gives."""
    score, mask, _ = variants.functions(cell["variant"], torch, cell, q.device)
    cast = (lambda t: t.to(rounded).float()) if rounded else lambda t: t
    batch, sq, heads, dim = q.shape
    sk, group = k.shape[1], heads // k.shape[2]
    scale = dim ** -0.5
    i = torch.arange(sq, device=q.device)[:, None]
    j = torch.arange(sk, device=q.device)[None, :]
    out = {"o": torch.empty(q.shape, device=q.device), "lse": torch.empty(batch, heads, sq, device=q.device)}
    if do is not None:
        out.update({n: torch.zeros(t.shape, device=q.device) for n, t in (("dq", q), ("dk", k), ("dv", v))})
    step = max(1, ENTRIES // (sq * sk))
    pick = lambda t, b, which: t[b][:, which].float().transpose(0, 1)  # [heads, S, D]
    for b in range(batch):
        for first in range(0, heads, step):
            h = torch.arange(first, min(heads, first + step), device=q.device)
            kv = h // group
            qh, kh, vh = pick(q, b, h), pick(k, b, kv), pick(v, b, kv)
            s = torch.bmm(qh, kh.transpose(1, 2)).mul_(scale)
            t = s.requires_grad_() if score else s
            if score:
                with torch.enable_grad():
                    t = score(s, b, h[:, None, None], i, j)
            x = t.detach()
            if mask:
                x = x.masked_fill(~mask(b, h[:, None, None], i, j), float("-inf"))
            lse = torch.logsumexp(x, -1, keepdim=True)
            p = torch.exp(x - lse)
            o = cast(torch.bmm(cast(p), vh))
            out["lse"][b, h] = lse[..., 0]
            out["o"][b][:, h] = o.transpose(0, 1)
            if do is None:
                continue
            doh = pick(do, b, h)
            dp = torch.bmm(doh, vh.transpose(1, 2))
            ds = p * dp.sub_((doh * o).sum(-1, keepdim=True))
            if score:
                ds, = torch.autograd.grad(t, s, ds)
            ds = cast(ds).mul_(scale)
            out["dq"][b][:, h] = torch.bmm(ds, kh).transpose(0, 1)
            out["dk"][b].index_add_(1, kv, torch.bmm(ds.transpose(1, 2), qh).transpose(0, 1))
            out["dv"][b].index_add_(1, kv, torch.bmm(cast(p).transpose(1, 2), doh).transpose(0, 1))
    return {n: t if n == "lse" else cast(t) for n, t in out.items()}


def distance(x, ref):
    """How far x is from ref: per head in blocks of 64 rows, the root of the mean square and the
    largest difference, both over the block's root mean square of ref; the worst block of each.
    Rows differ in size by orders of magnitude (a causal row 0 is one value, row 16000 an average
    of 16000), so one bound for all would see nothing in most. lse [B, H, S]: plain differences."""
    x = x.float()
    if x.shape != ref.shape:
        raise ValueError(f"expected {tuple(ref.shape)}, got {tuple(x.shape)}")
    d = x - ref
    if ref.dim() == 3:
        worst = d.abs().max().item()
        return worst, worst
    b, s, h, dim = ref.shape
    block = 64 if s % 64 == 0 else s
    blocks = lambda t: t.reshape(b, s // block, block, h, dim)
    size = blocks(ref).square().mean((2, 4)).sqrt().clamp_min(1e-20)
    rms = (blocks(d).square().mean((2, 4)).sqrt() / size).max().item()
    return rms, (blocks(d).abs().amax((2, 4)) / size).max().item()


def tolerances(ref, naive, dtype):
    """What each result may be off by: twice a plain program's distance and half an ulp; single
    entries, which only must not be another entry's, by more."""
    ulp = max(torch.finfo(dtype).eps, 1e-5)
    return {n: (2e-4, 2e-4) if n == "lse" else
            tuple(factor * d + slack * ulp
                  for d, factor, slack in zip(distance(naive[n], ref[n]), (2, 4), (0.5, 16)))
            for n in ref}


def compare(results, ref, allowed):
    """(distances by name, what is wrong or None). NaN is wrong."""
    distances, wrong = {}, []
    for name, x in results.items():
        got = distance(x, ref[name])
        distances[name] = [got[0], allowed[name][0]]
        if not (got[0] <= allowed[name][0] and got[1] <= allowed[name][1]):
            wrong.append(f"{name} is off by {got[0]:.2e} (rms) and {got[1]:.2e} (largest), "
                         f"allowed are {allowed[name][0]:.2e} and {allowed[name][1]:.2e}")
    return distances, "; ".join(wrong) or None
