"""Feeds broken text to a tool: it must answer with an error or with IR that is valid.

usage: fuzz.py [--number N] [--seed S] [--systematic] [--options OPTION...] FILE...

Pieces of the files (split at `// -----`, top-level ops) are mutated: bytes and
tokens dropped, doubled, swapped, replaced; with --systematic, in the generic
form, each attribute dropped and given other types, each operand and result
dropped. Many mutants run in one process (--split-input-file), so that a
hundred take a second; when the process dies, the mutant that killed it is
found by halving and printed. What the tool prints must be accepted again.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile

TOKEN = re.compile(r'"[^"\n]*"|[%@#!^]?[A-Za-z_][\w.$]*|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\s+|->|.', re.S)
POOL = ["fa.variant", "fa.attention", "fa.yield", "fa.nest", "fa.dot", "causal", "top_left", "window", "left",
        "softcap", "alibi", "scale", "score", "mask", "captures", "packing", "layout", "group", "below", "f32",
        "f64", "bf16", "f8E4M3FN", "index", "i1", "i64", "none", "tensor<*xf32>", "tensor<f32>", "tensor<0xf32>",
        "tensor<?xf32>", "tensor<4x4xf32>", "memref<*xf32>", "memref<?xf32>", "0", "-1", "1", "3",
        "9223372036854775807", "99999999999999999999", "-2147483649", "0.0", "1.0e400", "(", ")", "{", "}", "<", ">",
        "[", "]", ",", ":", "=", "->", "%0", "%q", "%s", "@f", "^bb0", "step", "parallel", "sequential", "unit"]
SEPARATOR = "\n// -----\n"


def tokens(text):
    return TOKEN.findall(text)


def same_kind(word):
    """Words that may stand where `word` stands without breaking the syntax."""
    if re.fullmatch(r"-?\d+", word):
        return ["0", "1", "2", "3", "7", "64", "65", "512", "513", "-1", "4096", "9223372036854775807"]
    if re.fullmatch(r"-?\d+\.\d+.*", word):
        return ["0.0", "-1.0", "1.0", "1.0e-30", "1.0e300", "30.0"]
    for words in (["f32", "f64", "bf16", "f16", "i1", "i32", "i64", "index"],
                  ["arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf", "arith.minimumf",
                   "arith.remf", "math.powf", "math.atan2"],
                  ["math.tanh", "math.exp", "math.exp2", "math.log", "math.sqrt", "math.erf", "math.floor"],
                  ["arith.addi", "arith.subi", "arith.muli", "arith.divsi", "arith.remsi", "arith.xori"],
                  ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule"],
                  ["bshd", "bhsd", "packed"], ["causal", "top_left"], ["left", "right"],
                  ["plain", "atomic", "ordered"], ["max", "add", "any", "all"]):
        if word in words:
            return words
    return []


def mutate(text, rng):
    if rng.random() < 0.5:  # keep the syntax, change what is said
        words = tokens(text)
        for _ in range(rng.choice([1, 1, 2, 3])):
            names = [w for w in words if w.startswith("%")]
            at = [i for i, w in enumerate(words) if same_kind(w) or w.startswith("%")]
            if at:
                i = rng.choice(at)
                words[i] = rng.choice(same_kind(words[i]) or names)
        return "".join(words)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        kind = rng.randrange(10)
        if kind == 0 and text:  # one byte
            at = rng.randrange(len(text))
            text = text[:at] + chr(rng.randrange(1, 128)) + text[at + rng.randrange(2):]
        elif kind == 1:  # cut the end
            text = text[:rng.randrange(len(text) + 1)]
        elif kind == 2:  # a line dropped or doubled
            lines = text.split("\n")
            at = rng.randrange(len(lines))
            lines[at:at + 1] = [lines[at]] * rng.choice([0, 2])
            text = "\n".join(lines)
        else:
            words = tokens(text)
            solid = [i for i, w in enumerate(words) if not w.isspace()]
            if not solid:
                continue
            at, other = rng.choice(solid), rng.choice(solid)
            if kind <= 3:
                del words[at]
            elif kind == 4:
                words.insert(at, words[at] + " ")
            elif kind == 5:
                words[at], words[other] = words[other], words[at]
            elif kind == 6:
                words[at] = words[other]
            else:
                words[at] = rng.choice(POOL)
            text = "".join(words)
    return text.replace("\r", " ")


def systematic(text):
    """Mutants of the generic form: attributes and operands dropped or retyped."""
    for entry in re.finditer(r"(\w+) = ((?:[^,<>{}\[\]()]|<[^<>]*>|\[[^\[\]]*\]|\([^()]*\))+)(, )?", text):
        yield text[:entry.start()] + text[entry.end():]
        for value in ['"x"', "1 : i32", "-7 : i64", "2.5 : f32", "unit", "[]", "[1, \"a\"]", "array<i64: 1>", "f32"]:
            yield text[:entry.start(2)] + value + text[entry.end(2):]
    for operand in re.finditer(r"%\w+(?:#\d+)?(, )?", text):
        yield text[:operand.start()] + text[operand.end():]
    for kind in re.finditer(r"(?:tensor|memref|vector)<[^<>]*(?:<[^<>]*>[^<>]*)*>|\bindex\b|\bf32\b|\bi1\b", text):
        for value in ["tensor<*xf32>", "tensor<?xbf16>", "tensor<4x0xf32>", "i7", "none", "f64", "memref<?xi8>"]:
            yield text[:kind.start()] + value + text[kind.end():]
    yield re.sub(r"\(\{.*\}\)", "({})", text, flags=re.S)
    yield re.sub(r"\(\{.*\}\)", "", text, flags=re.S)


def run(options, texts, limit):
    """Runs the tool on `texts`; returns (code, output, errors), code None after the time limit."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(SEPARATOR.join(texts))
        file.flush()
        try:
            p = subprocess.run(["fa-opt", file.name, "--split-input-file", *options], capture_output=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return None, "", "no end within the time limit"
    return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")


def died(code):
    return code is None or code < 0 or code > 1


def culprit(options, texts, limit):
    while len(texts) > 1:
        half = texts[:len(texts) // 2]
        texts = half if died(run(options, half, limit)[0]) else texts[len(texts) // 2:]
    return texts[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--systematic", action="store_true")
    parser.add_argument("--limit", type=float, default=60, help="seconds a batch may take")
    parser.add_argument("--options", nargs="*", default=[])
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    options = ["--" + o for o in args.options]

    seeds = []
    for name in args.files:
        with open(name) as file:
            text = re.sub(r"^\s*// ?(?!-----).*\n", "", file.read(), flags=re.M)
        aliases = "".join(re.findall(r"^[!#]\w+ = .*\n", text, flags=re.M))
        text = re.sub(r"^[!#]\w+ = .*\n", "", text, flags=re.M)
        seeds += [aliases + s for s in re.split(r"^// -----$|\n(?=fa\.variant|func\.func)", text, flags=re.M)
                  if s.strip()]
    if not seeds:
        sys.exit("fuzz: expected seeds in the files, got none")
    if args.systematic:
        generic = [run(["--mlir-print-op-generic", "--mlir-print-local-scope"], [s], args.limit) for s in seeds]
        texts = [m for code, out, _ in generic if code == 0 for m in systematic(out)]
    else:
        rng = random.Random(args.seed)
        texts = [mutate(rng.choice(seeds), rng) for _ in range(args.number)]

    failures = accepted = 0
    for start in range(0, len(texts), 100):
        batch = [t.replace("// -----", "") for t in texts[start:start + 100]]
        while batch:
            code, out, err = run(options, batch, args.limit)
            if not died(code):
                break
            bad = culprit(options, batch, args.limit)
            failures += 1
            print(f"--- the tool died on (seed {args.seed}, options {options}):\n{bad}\n--- {run(options, [bad], args.limit)[2][:2500]}")
            batch = [t for t in batch if t != bad]
            if failures > 20:
                sys.exit("fuzz: too many failures")
        if not batch:
            continue
        if code == 1 and "error:" not in err:
            failures += 1
            print("--- failed without a message:", *batch, sep="\n---\n")
        valid = [t for t in out.split("// -----") if t.strip() and t.strip() != "module {\n}"]
        accepted += len(valid)
        if valid:
            code, _, err = run([], valid, args.limit)
            if code != 0:
                failures += 1
                print(f"--- the tool does not accept what it printed:\n{err[:3000]}")
    print(f"{len(texts)} mutants, {accepted} accepted, {failures} failures")
    print(f"count: mutants {len(texts)}")
    sys.exit(failures > 0)


main()
