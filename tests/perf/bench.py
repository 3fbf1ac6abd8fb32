#!/usr/bin/env python3
"""Measures Fathom against torch's attention on one GPU; README.md here says what comes out.

This process has no torch: it hands cells to a worker (worker.py), keeps what comes back, and
starts another one where a kernel hung or took the CUDA context with it.
"""

import argparse
import json
import os
import pathlib
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import cells
import report

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# CUDA's own holds what NVRTC compiled before: without it a cold compile would not be one.
CACHES = {"fathom": ["FATHOM_CACHE_DIR", "CUDA_CACHE_PATH"],
          "flex": ["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH"]}
START_LIMIT = 180  # seconds until torch is there


def words(text):
    return [w for w in text.split(",") if w]


def numbers(text):
    return [int(w) for w in words(text)]


def parse(arguments):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--part", dest="parts", type=words, default=["grid"], metavar="PARTS",
                   help=f"of {','.join(cells.PARTS)}; all: each of them (default grid)")
    p.add_argument("--dims", type=numbers, default=[64, 128, 256], help="head dims of the grid")
    p.add_argument("--seqlens", type=numbers, default=[], help="lengths (decode: of the keys) instead of a part's own")
    p.add_argument("--variants", type=words, default=[], help="of part variants")
    p.add_argument("--passes", type=words, default=["fwd", "bwd"])
    p.add_argument("--contenders", type=words, default=[], help="of fathom,fa2,cudnn,flex,math; instead of a part's own")
    p.add_argument("--dtype", default="bf16", choices=["bf16", "f16", "f32"])
    p.add_argument("--tokens", type=int, default=16384, help="a batch's: the batch size is tokens / S")
    p.add_argument("--hidden", type=int, default=2048, help="heads times head dim")
    p.add_argument("--quick", action="store_true", help="fewer cells and rounds")
    p.add_argument("--rounds", type=int, default=0, help="default 5, quick 3")
    p.add_argument("--round-ms", type=float, default=25, help="time of a contender in a round")
    p.add_argument("--peer-layout", dest="layout", choices=["bshd", "bhsd"], help="of all peers, instead of each one's best")
    p.add_argument("--cell-limit", type=float, default=60, help="seconds for a cell, or a compile")
    p.add_argument("--limit", type=float, default=540, help="seconds for all; what is left then is skipped")
    p.add_argument("--device", default="cuda:0", help="cpu: only to try the benchmark itself")
    p.add_argument("--library", default="", help="libfathom.so; default: of the newest build of this tree")
    p.add_argument("--out", default="bench-out", help="directory of results.json, results.md, results.svg, worker.log")
    p.add_argument("--report", metavar="JSON", help="only writes the report of such a file again")
    p.add_argument("--self-test", action="store_true", help="tests all that needs no torch")
    o = p.parse_args(arguments)
    if o.parts == ["all"]:
        o.parts = list(cells.PARTS)
    for name, got, known in (("part", o.parts, cells.PARTS), ("passes", o.passes, ["fwd", "bwd"]),
                             ("contenders", o.contenders, list(report.COLORS)),
                             ("variants", o.variants, cells.VARIANTS)):
        for word in got:
            if word not in known:
                p.error(f"argument --{name}: expected {', '.join(known)}, got '{word}'")
    o.rounds = o.rounds or (3 if o.quick else 5)
    if not o.library:
        built = [f for f in (ROOT / "build-release", ROOT / "build") for f in f.glob("**/libfathom.so")]
        o.library = str(max(built, key=lambda f: f.stat().st_mtime)) if built else "libfathom.so"
    return o


class Process:
    """A worker at work on cells."""

    def __init__(self, options, todo, environment, log, command=None):
        read, write = os.pipe()
        self.events, self.buffer, self.log = read, b"", log
        self.child = subprocess.Popen((command or [sys.executable, str(HERE / "worker.py")]) + [str(write)],
                                      stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[write],
                                      env=dict(os.environ, **environment))
        os.close(write)
        try:
            self.child.stdin.write(json.dumps(dict(options=options, cells=todo)).encode())
            self.child.stdin.close()
        except BrokenPipeError:
            pass  # it died at once; next() finds out

    def next(self, deadline):
        """The next event; None at the deadline, "end" where the worker has ended."""
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.events], [], [], left)[0]:
                return None
            got = os.read(self.events, 1 << 16)
            if not got:
                return "end"
            self.buffer += got
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def end(self):
        """Ends it, whatever it does; its exit code."""
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        os.close(self.events)
        return self.child.returncode


class Bench:
    def __init__(self, o, command=None):
        self.o, self.command = o, command  # a worker's command, for tests
        self.records, self.info = [], {"command": shlex.join([pathlib.Path(sys.argv[0]).name] + sys.argv[1:]),
                                       "date": time.strftime("%Y-%m-%d %H:%M")}
        self.start = time.monotonic()
        self.out = pathlib.Path(o.out)
        self.out.mkdir(parents=True, exist_ok=True)

    def write(self):
        text = json.dumps(dict(info=self.info, means=report.means(self.records), records=self.records), indent=1)
        for name, content in (("json", text), ("md", report.markdown(self.info, self.records)),
                              ("svg", report.plot(self.records))):
            (self.out / f"results.{name}").write_text(content)

    def say(self, records):
        for r in records:
            value = f"{r['ms']:.4f} ms  {r['tflops']:.1f} TFLOP/s" if "ms" in r else \
                f"{r['seconds']:.3f} s" if "seconds" in r else \
                f"{r['host_us']:.2f} us, added {r.get('added_us', 0):.2f}" if "host_us" in r else \
                f"{r['status']}: {r['reason']}"
            print(f"{time.monotonic() - self.start:6.1f}  {r['part']} {r['name']} {r['which']} {r['contender']}: {value}",
                  flush=True)

    def take(self, records):
        self.records += records
        self.say(records)

    def fail(self, cell, contenders, status, reason, passes=None):
        self.take([report.failed(cell, c, p, status, reason) for p in passes or cell["passes"] for c in contenders])

    def run_group(self, todo, environment, log):
        """All cells, in as many processes as it takes."""
        for index, cell in enumerate(todo):
            cell["index"] = index
        options = {k: getattr(self.o, k) for k in ("device", "layout", "library", "round_ms", "rounds")}
        limit = self.start + self.o.limit
        broken = 0  # workers in a row that finished no cell
        while todo:
            if time.monotonic() > limit or broken == 3:
                reason = "no worker got to work; see worker.log" if broken else "the run's time limit"
                for cell in todo:
                    self.fail(cell, cell["contenders"], "skipped", reason)
                return
            broken += 1
            process = Process(options, todo, environment, log, self.command)
            at, reason = None, None  # the last begin event; why the worker ended
            deadline = time.monotonic() + START_LIMIT
            while todo:
                event = process.next(min(deadline, max(limit, self.start + 1)))
                if event is None:
                    reason = "took longer than a cell may" if time.monotonic() < limit else "the run's time limit"
                    process.child.kill()
                    break
                if event == "end":
                    reason = reason or "the worker died"
                    break
                kind = event["event"]
                if kind == "ready":
                    self.info.update(event["info"])
                elif kind == "begin":
                    if at is None or event["cell"] != at["cell"]:
                        deadline = time.monotonic() + self.o.cell_limit
                    at = event
                elif kind == "lost":
                    reason = event["reason"]
                elif kind == "end":
                    self.take(event["records"])
                    todo.pop(0)
                    broken, at, deadline = 0, None, time.monotonic() + self.o.cell_limit
                    self.write()
            code = process.end()
            if reason and at is not None and todo and time.monotonic() <= limit:
                self.blame(todo, at, reason + (f" (signal {-code})" if code < 0 and "died" in reason else ""))
                broken = 0

    def blame(self, todo, at, reason):
        """Who ran when a worker ended fails; the cell's others get another process."""
        cell, name = todo[0], at["contender"]
        if name is None:
            self.fail(cell, cell["contenders"], "lost", reason + " between contenders")
            todo.pop(0)
        elif at["which"] == "bwd" and "fwd" in cell["passes"] and len(cell["passes"]) == 2:
            # Forward was fine: it is run again by itself.
            self.fail(cell, [name], "lost", reason, ["bwd"])
            others = [c for c in cell["contenders"] if c != name]
            todo[0:1] = [dict(cell, passes=["fwd"])] + ([dict(cell, passes=["bwd"], contenders=others)] if others else [])
        else:
            self.fail(cell, [name], "lost", reason)
            others = [c for c in cell["contenders"] if c != name]
            todo[0:1] = [dict(cell, contenders=others)] if others else []

    def run(self):
        kept = {}
        try:
            with open(self.out / "worker.log", "w") as log:
                for kinds, todo in cells.groups(self.o):
                    environment = {}
                    if "caches" in kinds:
                        folder = kept.setdefault(kinds["caches"], tempfile.mkdtemp(prefix="bench-cache-"))
                        os.chmod(folder, 0o700)
                        environment = {v: os.path.join(folder, v.lower()) for v in CACHES[kinds["caches"]]}
                    self.run_group(todo, environment, log)
        finally:
            for folder in kept.values():
                shutil.rmtree(folder, ignore_errors=True)
            self.write()
        print((self.out / "results.md").read_text())
        print(f"in {self.out}: results.json, results.md, results.svg, worker.log")
        return any(r["contender"] == "fathom" and r["status"] != "ok" for r in self.records)


def main():
    o = parse(sys.argv[1:])
    if o.self_test:
        import self_test
        return self_test.main(o)
    if o.report:
        stored = json.loads(pathlib.Path(o.report).read_text())
        bench = Bench(o)
        bench.info, bench.records = stored["info"], stored["records"]
        bench.write()
        return 0
    return Bench(o).run()


if __name__ == "__main__":
    sys.exit(main())
