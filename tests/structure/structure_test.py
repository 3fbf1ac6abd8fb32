"""Rules about the source tree that no compiler checks.

usage: structure_test.py SOURCE_DIR RULE

Prints each violation as file:line: text and exits 1 when there is one.
"""

import pathlib
import re
import sys

FOLDERS = ["dialect", "passes", "codegen", "runtime", "tools"]  # a variant's way
CODE = {".cpp", ".h", ".td", ".cuh", ".def"}


def files(root, *folders, suffixes=CODE):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield path


def grep(root, paths, pattern):
    pattern = re.compile(pattern)
    for path in paths:
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if pattern.search(line):
                yield f"{path.relative_to(root)}:{number}: {line.strip()}"


def includes_point_one_way(root):
    for at, folder in enumerate(FOLDERS):
        later = "|".join(FOLDERS[at + 1:] + ["tests", "examples"])
        yield from grep(root, files(root, folder), rf'^\s*#?include\s*"(?:{later})/')


def nests_know_no_target(root):
    # What stands before the map stage, and one target beside the other.
    paths = files(root, *(f"dialect/{d}" for d in ("variant", "nest", "schedule")),
                  *(f"passes/{p}" for p in ("variant", "schedule", "nest")))
    yield from grep(root, paths, r'#include "(?:dialect/gpu|passes/map)/')
    yield from grep(root, files(root, "codegen/cpu"), r'#include "codegen/(?:cuda|device)/')
    yield from grep(root, files(root, "codegen/cuda"), r'#include "codegen/cpu/')
    yield from grep(root, [root / f"codegen/device/{h}.h" for h in ("device", "portable")], r"#\s*include")


def codegen_knows_no_attention(root):
    # Whole words and camelCase parts: "else" and "false" are fine.
    words = r"(?i:softmax|attention)|(?<![A-Za-z])(?:lse|LSE|d[qQ]|DQ)(?![a-z])|[a-z](?:Lse|LSE|D[qQ])(?![a-z])"
    paths = files(root, "codegen", "passes/map", suffixes=CODE | {".txt", ".md"})
    yield from grep(root, paths, words)


def every_pass_is_documented_and_tested(root):
    text = (root / "passes/Passes.td").read_text()
    order = (root / "passes/Pipeline.cpp").read_text()
    for body in re.split(r"^def ", text, flags=re.M)[1:]:
        match = re.match(r"\w+\s*:\s*\w*Pass<\s*\"([^\"]+)\"", body)
        if not match:
            continue
        name = match[1]
        if not (root / f"tests/passes/{name}.mlir").exists():
            yield f"passes/Passes.td:1: {name} has no tests/passes/{name}.mlir"
        if not name.startswith("fa-test-") and f'"{name}"' not in order:
            yield f"passes/Passes.td:1: {name} is not in passes/Pipeline.cpp"
        if "let summary" not in body or "let description" not in body:
            yield f"passes/Passes.td:1: {name} has no summary or no description"


def public_headers_are_clean(root):
    paths = [path for path in files(root, "runtime", suffixes={".h"})
             if path.name in ("fathom.h", "fathom_c.h", "fathom_dlpack.h")]
    yield from grep(root, paths, r'#include\s*[<"](?:llvm|mlir|cuda|nvrtc|dialect|passes|codegen)')
    yield from grep(root, paths, r"^\s*throw\b")


def files_have_banners(root):
    for path in files(root, *FOLDERS, "tests", "examples", suffixes={".cpp", ".h", ".td"}):
        first = path.read_text(errors="replace").split("\n", 1)[0]
        if not first.startswith(f"//===- {path.name} "):
            yield f"{path.relative_to(root)}:1: expected a banner '//===- {path.name} - ...', got '{first}'"


def no_private_paths(root):
    skip = {"structure_test.py"}
    text = {".md", ".txt", ".py", ".mlir", ".sh", ".cmake", ".json", ""} | CODE
    paths = [path for path in files(root, *FOLDERS, "tests", "examples", "cmake", ".ci", suffixes=text)
             if path.name not in skip]
    paths += [path for path in root.iterdir()
              if path.is_file() and path.suffix in text and path.name != ".git"]
    yield from grep(root, paths, r"(?<![\w.$}/-])/(?:work|home|root)/\w")


def device_functions_are_small(root):
    """What kernels are written with wraps one instruction or operation."""
    for name in ["portable.h", "device.h"]:
        path = root / "codegen" / "device" / name
        start = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if start is None and re.match(r"(template|FA_DEVICE)\b", line):
                start = number
            if start is not None and re.match(r"}|.*}$", line) and line[0] != " ":
                if number - start + 1 > 15:
                    yield f"{path.relative_to(root)}:{start}: a function of {number - start + 1} lines"
                start = None


RULES = [includes_point_one_way, nests_know_no_target, codegen_knows_no_attention,
         every_pass_is_documented_and_tested, public_headers_are_clean,
         files_have_banners, no_private_paths, device_functions_are_small]


def main(root, rule):
    violations = list({f.__name__: f for f in RULES}[rule](root))
    print("\n".join(violations))
    sys.exit(bool(violations))


main(pathlib.Path(sys.argv[1]), sys.argv[2])
