"""Tests of the benchmark without torch and without a GPU: statistics, reports, the structs of the
C interface, the supervision of workers; with --library also the calls, on the CPU."""

import array
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

import bench
import cells
import fathom
import report
import variants

HERE = pathlib.Path(__file__).resolve().parent


def options(*arguments):
    return bench.parse(list(arguments))


def cells_of(*arguments):
    return [c for _, group in cells.groups(options(*arguments)) for c in group]


def test_cells():
    grid = cells_of("--part", "grid")
    assert len(grid) == 3 * 6 * 2 and all(c["B"] * c["Sq"] == 16384 and c["Hq"] * c["D"] == 2048 for c in grid)
    causal = next(c for c in grid if c["name"] == "D=128 S=4096 causal")
    assert cells.flops(causal, "fwd") == 4 * 4096**2 * 128 * 16 * 4 / 2
    assert cells.flops(causal, "bwd") == 2.5 * cells.flops(causal, "fwd")
    assert {c["Hkv"] for c in cells_of("--part", "gqa")} == {1, 4, 8}
    assert all(c["Hq"] == 32 and c["Hkv"] == 8 and c["passes"] == ["fwd"] for c in cells_of("--part", "decode"))
    variant = cells_of("--part", "variants")
    assert len(variant) == 6 and all((c["B"], c["Hq"], c["Sq"]) == (4, 16, 4096) for c in variant)
    names = [c["name"] for c in cells_of("--part", "all")]
    assert len(names) == len(set(zip(names, [c["part"] + c["contenders"][0] for c in cells_of("--part", "all")])))
    assert cells_of("--part", "variants", "--contenders", "fa2")[0]["contenders"] == []
    # What is counted is what the masks show.
    for name in cells.VARIANTS + ["dense", "causal"]:
        class NoTorch:  # enough for masks of integers
            int32 = None
            arange = staticmethod(lambda *a, device: Numbers(range(a[-1])))
            exp2 = staticmethod(lambda x: x)
        mask = variants.functions(name, NoTorch, {"Hq": 1, "Sk": 1100}, None)[1]
        seen = sum(1 for i in range(1100) for j in range(1100) if mask is None or mask(0, 0, i, j))
        exact = cells.visible_pairs(name, 1100, 1100)
        assert abs(seen - exact) <= (1100 / 2 if exact == 1100 * 1100 / 2 else 0), name


class Numbers(list):
    def __floordiv__(self, n):
        return Numbers(x // n for x in self)

    def __rmul__(self, n):
        return Numbers(n * x for x in self)

    def to(self, _):
        return self


def ok(name, contender, ms, part="grid", which="fwd", **more):
    cell = dict(part=part, name=name, variant="causal", B=1, Hq=1, Hkv=1, Sq=512, Sk=512, D=64, dtype="bf16")
    record = report.base(cell, contender, which)
    record.update(status="ok", tflops=1 / ms, layout="bshd", **report.summary([[ms, ms], [ms, 2 * ms]]))
    return dict(record, **more)


def lost(name, contender):
    return dict(ok(name, contender, 1), status="error", reason="a | b") | {"ms": 1}


def test_statistics():
    s = report.summary([[3.0, 1.0, 2.0], [4.0, 5.0, 6.0]])
    assert s["ms"] == 3.5 and s["ms_rounds"] == [2.0, 5.0] and s["samples"] == 6 and s["rounds"] == 2
    assert abs(report.geometric_mean([2, 8]) - 4) < 1e-12
    assert report.geometric_mean([2, 0]) == 0 and report.geometric_mean([]) is None
    records = [ok("a", "fathom", 1.0), ok("a", "fa2", 2.0), lost("b", "fathom"), ok("b", "fa2", 1.0),
               ok("c", "fathom", 1.0), lost("c", "fa2")]
    rows = report.means(records)
    row = next(r for r in rows if r["group"] == "grid D=64")
    # The peer's failure says nothing; Fathom's own counts as 0.
    assert row["mean"] == 0 and abs(row["mean_ok"] - 2) < 1e-12 and row["cells"] == 2 and row["failed"] == 1


def test_report():
    records = [ok("a", "fathom", 1.0), ok("a", "fa2", 2.0), lost("b", "fathom"), ok("b", "fa2", 1.0),
               ok("v", "fathom", 1.0, "short", call_us=3.0), ok("v", "math", 3.0, "short", call_us=5.0)]
    compiled = dict(ok("causal, cold", "fathom", 1, "compile"), seconds=0.5, state="cold")
    host = dict(ok("host", "fathom", 1, "compile"), state="host", host_us=4, foreign_call_us=1, launch_us=2,
                launches=1, added_us=1)
    del compiled["ms"], host["ms"]
    text = report.markdown({"gpu": "none", "command": "x"}, records + [compiled, host])
    for line in ("| a | 1.0 | 0.5 | 2.00 |", "| b | error | 1.0 | 0.00 |", "## short, forward", "a \\| b",
                 "| causal | 0.500 |", "| fwd | 4.00 | 1.00 | 1.00 | 2.00 | 1.00 |"):
        assert line in text, (line, text)
    for width in map(len, (l.replace("\\|", "").split("|") for l in text.splitlines() if l.startswith("|"))):
        assert width > 3
    picture = report.plot(records + [compiled, host])
    root = xml.fromstring(picture)
    assert root.tag.endswith("svg") and "failed" not in picture and "short" in picture
    xml.fromstring(report.plot([]))


def test_structs():
    """As the C compiler lays them out."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("clang-22") or shutil.which("gcc")
    if not compiler:
        print("skip: no C compiler to check the structs with")
        return
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "layout")
        subprocess.run([compiler, "-I", str(bench.ROOT / "runtime"), str(HERE / "layout.c"), "-o", program], check=True)
        said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    inner = {"device": ("device_type", 8), "dtype": ("code", 4)}  # structs in a struct, laid flat here
    seen = {}
    for line in said.splitlines():
        struct, field, offset, size = line.split()
        own = fathom.STRUCTS[struct]
        seen.setdefault(struct, set()).add(field)
        if field == ".":
            assert fathom.ctypes.sizeof(own) == int(size), line
        elif struct == "DLTensor" and field in inner:
            name, bytes = inner[field]
            assert (getattr(own, name).offset, bytes) == (int(offset), int(size)), line
        else:
            at = getattr(own, field)
            assert (at.offset, at.size) == (int(offset), int(size)), line
    for struct, own in fathom.STRUCTS.items():
        if struct != "DLTensor":
            assert seen[struct] == {"."} | {f for f, _ in own._fields_}, struct
    header = (bench.ROOT / "runtime/fathom_c.h").read_text()
    for name in fathom.Library.FUNCTIONS:
        assert f"{name}(" in header, name


FAKE = '''
import json, os, sys, time
order = json.load(sys.stdin)
out = os.fdopen(int(sys.argv[1]), "w")
def emit(**e):
    out.write(json.dumps(e) + "\\n"); out.flush()
emit(event="ready", info=dict(gpu="fake"))
for cell in order["cells"]:
    records = []
    for which in cell["passes"]:
        for c in cell["contenders"]:
            emit(event="begin", cell=cell["index"], contender=c, which=which)
            fault = (cell["name"], c, which)
            if fault == ("D=64 S=512 causal", "fathom", "bwd"):
                time.sleep(60)
            if fault == ("D=64 S=1024 dense", "fa2", "fwd"):
                os.kill(os.getpid(), 11)
            if fault == ("D=64 S=1024 causal", "fathom", "fwd"):
                emit(event="lost", reason="an illegal memory access"); os._exit(3)
            ms = 1.0 if c == "fathom" else 2.0
            base = {k: cell[k] for k in ("part", "name", "variant", "B", "Hq", "Hkv", "Sq", "Sk", "D", "dtype")}
            records.append(dict(base, contender=c, which=which, status="ok", ms=ms, ms_rounds=[ms, ms],
                                tflops=1 / ms, layout="bshd"))
    emit(event="end", cell=cell["index"], records=records)
'''


def test_supervision():
    """Workers that hang, crash and lose the device: every cell still has a record of each
    contender and pass, and the others' numbers are there."""
    with tempfile.TemporaryDirectory() as folder:
        fake = os.path.join(folder, "fake.py")
        pathlib.Path(fake).write_text(FAKE)
        o = options("--dims", "64", "--seqlens", "512,1024", "--cell-limit", "5", "--out", folder,
                    "--contenders", "fathom,fa2")
        b = bench.Bench(o, [sys.executable, fake])
        sys.stdout.flush()
        keep, sys.stdout = sys.stdout, open(os.devnull, "w")
        try:
            failed = b.run()
        finally:
            sys.stdout = keep
        assert failed
        stored = json.loads((b.out / "results.json").read_text())
        status = {(r["name"], r["contender"], r["which"]): r["status"] for r in stored["records"]}
        assert len(stored["records"]) == len(status) == 4 * 2 * 2, len(stored["records"])
        bad = {k for k, s in status.items() if s != "ok"}
        assert bad == {("D=64 S=512 causal", "fathom", "bwd"), ("D=64 S=1024 dense", "fa2", "fwd"),
                       ("D=64 S=1024 dense", "fa2", "bwd"), ("D=64 S=1024 causal", "fathom", "fwd"),
                       ("D=64 S=1024 causal", "fathom", "bwd")}, bad
        reasons = {r["reason"] for r in stored["records"] if r["status"] != "ok"}
        assert any("longer" in r for r in reasons) and any("signal 11" in r for r in reasons) \
            and "an illegal memory access" in reasons, reasons
        assert stored["info"]["gpu"] == "fake" and (b.out / "results.svg").exists()

        o = options("--dims", "64", "--seqlens", "512", "--out", folder)
        b = bench.Bench(o, [sys.executable, "-c", "import sys; sys.exit(1)"])  # never gets to work
        keep, sys.stdout = sys.stdout, open(os.devnull, "w")
        try:
            b.run()
        finally:
            sys.stdout = keep
        assert b.records and all(r["status"] == "skipped" for r in b.records)


class HostTensor:
    """Floats with as much of torch's interface as fathom.describe() needs."""
    dtype = "float32"

    class device:
        type, index = "cpu", None

    def __init__(self, *shape, value=None):
        self.shape, count = shape, math.prod(shape)
        self.values = array.array("f", (value if value is not None else math.sin(n) for n in range(count)))

    def data_ptr(self):
        return self.values.buffer_info()[0]

    def stride(self):
        return [math.prod(self.shape[n + 1:]) for n in range(len(self.shape))]


def test_library(path):
    """Every variant's text is one, with the captures that are handed over; calls fill outputs."""
    library = fathom.Library(path)
    for name in cells.VARIANTS + ["dense", "causal"]:
        captures = library.c.fathom_variant_capture_count(library.variant(variants.text(name)).handle)
        assert captures == (name == "document512_causal"), name
    try:
        library.variant("fa.variant @x(")
        assert False, "expected an error"
    except fathom.Error as e:
        assert str(e)
    variant = library.variant(variants.text("causal"))
    nan = float("nan")
    q, k, v, do = (HostTensor(1, 12, 2, 8) for _ in range(4))
    kernel = library.compile(variant, fathom.inputs_of(q, k, v))
    o, dq, dk, dv = (HostTensor(1, 12, 2, 8, value=nan) for _ in range(4))
    lse = HostTensor(1, 2, 12, value=nan)
    run = fathom.Run(library, kernel, q, k, v, o, lse)
    run.forward()
    assert all(abs(a - b) < 1e-6 for a, b in zip(o.values[:16], v.values[:16]))  # row 0 sees itself
    run.save()
    run.prepare(do, dq, dk, dv)
    run.backward()
    assert not any(x != x for t in (o, lse, dq, dk, dv) for x in t.values)
    run.o = fathom.describe(HostTensor(1, 12, 2, 4))
    try:
        run.forward()
        assert False, "expected an error"
    except fathom.Error as e:
        assert "o" in str(e)


def main(o):
    tests = [test_cells, test_statistics, test_report, test_structs, test_supervision]
    for test in tests:
        test()
        print(f"ok {test.__name__}")
    if os.path.exists(o.library):
        test_library(o.library)
        print("ok test_library")
    else:
        print(f"skip: no {o.library} to call")
    return 0
