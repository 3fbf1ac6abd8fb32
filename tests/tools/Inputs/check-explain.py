"""Checks the JSON of fa-opt --explain for 32 heads, N = 8192, head dim 64, bf16, causal."""

import json
import sys

report = json.load(open(sys.argv[1]))
policies = {p["p"]: p for p in report["policies"]}
assert list(policies) == ["recompute", "store", "store_compressed"] and policies["recompute"]["chosen"]
assert policies["store"]["kept_n_by_n_bytes"] == 4 << 30
assert policies["store_compressed"]["kept_n_by_n_bytes"] == 2 << 30
assert policies["recompute"]["kept_n_by_n_bytes"] == 0
lse = next(b for b in policies["recompute"]["kept"] if b["name"] == "L")
assert lse["bytes"] == 1 << 20 and lse["type"] == "f32" and lse["sizes"] == [1, 32, 8192]

# Two products of the forward, five of the backward, over the visible tiles.
tiles = 32 * (128 * 129 // 2)
one = 2 * 64 * 64 * 64 * tiles
forward, backward = policies["recompute"]["functions"]
assert forward["flops"] == 2 * one and backward["flops"] == 5 * one, (forward["flops"], one)
assert sum(p["flops"] for p in forward["products"]) == forward["flops"]
for f in (forward, backward):
    assert f["roofline"]["no_cache_s"] >= f["roofline"]["each_byte_once_s"] >= f["roofline"]["compute_s"] > 0
    assert f["n_by_n_bytes"] == 0
assert {"pass", "kind", "text"} == set(policies["recompute"]["passes"][0])
