"""Runs cells in a process that has torch; bench.py starts it and may have to end it.

Reads one JSON object from standard input (cells, options) and writes events, one JSON object a
line, to the file descriptor that it names:

    ready      what machine and versions these are
    begin      cell, contender, pass: what runs from now on
    end        cell, records: it is finished
    lost       a CUDA error from which this process can't recover
"""

import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import time

import torch

import cells
import contenders
import fathom
import launch
import reference
import report


class Lost(RuntimeError):
    """The CUDA context is gone."""


class Cpu:
    """The same interface on the CPU: for trying the benchmark, not for numbers."""
    l2 = 0

    def __init__(self, name, layout):
        self.name, self.layout, self.torch = name, layout, torch.device(name)

    def stream(self):
        return None

    def sync(self):
        pass

    def alive(self):
        pass

    def release(self):
        """Gives memory back that the last cell took: Fathom allocates by itself."""

    def kernels(self, run):
        run()
        return []

    def times(self, run, count, cold):
        """Milliseconds of each of `count` runs."""
        result = []
        for _ in range(count):
            start = time.perf_counter()
            run()
            result.append((time.perf_counter() - start) * 1e3)
        return result

    def info(self):
        return {"gpu": "none (CPU)", "threads": torch.get_num_threads()}


class Gpu(Cpu):
    def __init__(self, name, layout):
        super().__init__(name, layout)
        torch.cuda.set_device(self.torch)
        properties = torch.cuda.get_device_properties(self.torch)
        self.l2 = getattr(properties, "L2_cache_size", 0) or 50 << 20
        self.filler = torch.empty(2 * self.l2, dtype=torch.uint8, device=self.torch)
        torch.backends.cuda.matmul.allow_tf32 = False

    def release(self):
        torch.cuda.empty_cache()

    def stream(self):
        return torch.cuda.current_stream().cuda_stream

    def sync(self):
        torch.cuda.synchronize()

    def alive(self):
        try:
            torch.cuda.synchronize()
        except Exception as e:
            raise Lost(first_line(e))

    def kernels(self, run):
        """Names of what one call runs on the GPU; none where profiling isn't allowed."""
        try:
            self.sync()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                run()
                self.sync()
            return [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA
                    and "Sync" not in e.name]
        except RuntimeError as e:
            self.alive()
            print(f"profiler: {first_line(e)}", file=sys.stderr)
            return []

    def times(self, run, count, cold):
        """`cold`: the L2 cache holds none of the operands, and the GPU is kept busy until the
        host has put the whole call in its queue. Else one call follows the other."""
        pairs = []
        for _ in range(count):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if cold:
                self.filler.zero_()
                torch.cuda._sleep(600_000)  # cycles; some 350 us
            begin.record()
            run()
            end.record()
            pairs.append((begin, end))
        self.sync()
        return [begin.elapsed_time(end) for begin, end in pairs]

    def info(self):
        p = torch.cuda.get_device_properties(self.torch)
        info = {"gpu": p.name, "multiprocessors": p.multi_processor_count,
                "capability": f"{p.major}.{p.minor}", "l2_bytes": self.l2}
        query = ["driver_version", "power.limit", "clocks.max.sm", "clocks.sm", "temperature.gpu"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(query), "--format=csv,noheader"],
                                  capture_output=True, text=True, timeout=20, check=True).stdout
            info.update(zip(query, (x.strip() for x in said.splitlines()[0].split(","))))
        return info


def first_line(error):
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:400]


class Worker:
    def __init__(self, options, events):
        self.o, self.events = options, events
        kind = Gpu if options["device"].startswith("cuda") else Cpu
        self.device = kind(options["device"], options["layout"])
        self.load_ms = None

    def emit(self, event, **values):
        self.events.write(json.dumps(dict(event=event, **values)) + "\n")
        self.events.flush()

    def load(self):
        """Fathom's library, when it is first needed."""
        if contenders.Fathom.library is None:
            start = time.perf_counter()
            contenders.Fathom.library = fathom.Library(self.o["library"])
            self.load_ms = (time.perf_counter() - start) * 1e3
        return contenders.Fathom.library

    def info(self):
        info = dict(self.device.info(), torch=torch.__version__, cuda=torch.version.cuda,
                    python=sys.version.split()[0])
        with contextlib.suppress(Exception):
            info["cudnn"] = torch.backends.cudnn.version()
        with contextlib.suppress(Exception):
            import triton
            info["triton"] = triton.__version__
        with contextlib.suppress(Exception):
            library = self.load()
            info["fathom"] = library.version()
            info["fathom_note"] = library.c.fathom_device_note().decode()
        return info

    def tensors(self, cell):
        """q, k, v, do; the same for the same cell in every run."""
        torch.manual_seed(cell["B"] * 7919 + cell["Sk"] * 31 + cell["D"])
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[cell["dtype"]]
        make = lambda s, h: torch.randn(cell["B"], s, h, cell["D"], device=self.device.torch).to(dtype)
        q, k, v = make(cell["Sq"], cell["Hq"]), make(cell["Sk"], cell["Hkv"]), make(cell["Sk"], cell["Hkv"])
        return q, k, v, make(cell["Sq"], cell["Hq"])

    def guarded(self, cell, contender, which, work):
        """work()'s result, or a record that says why there is none."""
        self.emit("begin", cell=cell["index"], contender=contender, which=which)
        try:
            result = work()
            self.device.alive()
            return result, None
        except Lost:
            raise
        except Exception as e:
            self.device.alive()
            print(f"{cell['name']} {contender} {which}: {e}", file=sys.stderr)
            status = "wrong" if isinstance(e, Wrong) else "error"
            return None, report.failed(cell, contender, which, status, first_line(e))

    def measure(self, cell):
        """The records of a cell: all contenders checked, then timed in turn, pass by pass."""
        tensors = self.tensors(cell)
        q, k, v, do = tensors
        dtype = q.dtype
        do_ref = do if "bwd" in cell["passes"] else None
        with torch.no_grad():
            ref = reference.attention(cell, q, k, v, do_ref)
            naive = reference.attention(cell, q, k, v, do_ref, rounded=dtype)
            allowed = reference.tolerances(ref, naive, dtype)
        del naive

        records, made = [], {}
        for which in cell["passes"]:
            ready = []
            for name in cell["contenders"]:
                def prepare():
                    if name not in made:
                        if name == "fathom":
                            self.load()
                        made[name] = contenders.ALL[name](cell, tensors, self.device)
                    return Timed(self.device, made[name], which, ref, allowed)
                timed, failure = self.guarded(cell, name, which, prepare)
                if failure:
                    records.append(failure)
                else:
                    ready.append(timed)
            if not ready:
                continue
            self.emit("begin", cell=cell["index"], contender=None, which=which)
            self.interleave(cell, which, ready)
            for timed in ready:
                _, failure = self.guarded(cell, timed.contender.name, which, timed.check)
                records.append(failure or self.record(cell, which, timed))
            del ready
        return records

    def interleave(self, cell, which, ready):
        """Rounds in which each contender runs for about as long, one after the other."""
        cold_below = 4 * self.device.l2
        cold = cells.operand_bytes(cell, which) < cold_below
        for timed in ready:
            with timed.contender.scope():
                first = statistics.median(self.device.times(timed.run, 3, cold))
            # A cold sample also takes what empties the cache and waits.
            timed.count = max(1, min(40, round(self.o["round_ms"] / (first + (0.4 if cold else 0)))))
            timed.rounds = []
        for _ in range(self.o["rounds"]):
            for timed in ready:
                with timed.contender.scope():
                    if not cold:
                        self.device.times(timed.run, 1, False)  # the other's clocks and caches go
                    timed.rounds.append(self.device.times(timed.run, timed.count, cold))
        if cell["part"] == "short":
            for timed in ready:
                with timed.contender.scope():
                    timed.call_us = self.back_to_back(timed.run, timed.rounds[0][0])

    def back_to_back(self, run, ms, bursts=5):
        """Microseconds a call where calls follow each other, the host's time included."""
        results, count = [], max(2, min(100, int(20 / ms)))
        for _ in range(bursts):
            self.device.sync()
            start = time.perf_counter()
            for _ in range(count):
                run()
            self.device.sync()
            results.append((time.perf_counter() - start) / count * 1e6)
        return statistics.median(results)

    def record(self, cell, which, timed):
        record = report.base(cell, timed.contender.name, which)
        record.update(status="ok", **report.summary(timed.rounds))
        record["tflops"] = cells.flops(cell, which) / record["ms"] / 1e9
        record["tbytes_s"] = cells.operand_bytes(cell, which) / record["ms"] / 1e9
        record.update(layout=timed.layout, kernels=timed.kernels, distances=timed.distances)
        if timed.call_us is not None:
            record["call_us"] = timed.call_us
        return record

    def compile(self, cell):
        """Seconds from text to the first results, for one contender."""
        name, = cell["contenders"]
        tensors = self.tensors(cell)
        records = []
        if cell["state"] == "host":
            return self.host(cell, tensors)
        torch.full_like(tensors[0], float("nan")).sum()  # what else the process does only once
        contender = None
        if name == "fathom":
            self.load()
        else:
            contender = contenders.ALL[name](cell, tensors, self.device)  # makes block masks
        for which in cell["passes"]:
            def work():
                nonlocal contender
                self.device.sync()
                start = time.perf_counter()
                contender = contender or contenders.ALL[name](cell, tensors, self.device)
                run, _, _ = getattr(contender, "forward" if which == "fwd" else "backward")()
                with contender.scope():
                    run()
                self.device.sync()
                seconds = time.perf_counter() - start
                start = time.perf_counter()
                with contender.scope():
                    run()
                self.device.sync()
                record = report.base(cell, name, which)
                record.update(status="ok", seconds=seconds - (time.perf_counter() - start),
                              load_ms=self.load_ms)
                if name == "fathom":
                    start = time.perf_counter()
                    contender.compile(which == "fwd")
                    record["memory_us"] = (time.perf_counter() - start) * 1e6
                return record
            record, failure = self.guarded(cell, name, which, work)
            records.append(record or failure)
        return records

    def host(self, cell, tensors):
        """Host time of a cached call beyond that of its bare launches."""
        self.load()
        records, runs = [], []
        for which in cell["passes"]:
            def work():
                contender = contenders.Fathom(cell, tensors, self.device)
                run, _, _ = contender.forward() if which == "fwd" else contender.backward()
                empty = lambda: contender.library.c.fathom_variant_capture_count(contender.variant.handle)
                sync = self.device.sync
                record = report.base(cell, "fathom", which)
                record.update(status="ok", host_us=launch.host_us(run, sync),
                              foreign_call_us=launch.host_us(empty, sync))
                if self.device.name != "cpu":
                    bare = launch.Bare(self.device.stream())
                    record["launch_us"] = launch.host_us(bare.launch, sync) - record["foreign_call_us"]
                return record, run
            made, failure = self.guarded(cell, "fathom", which, work)
            records.append(failure or made[0])
            runs.append(None if failure else made[1])
        # Last, since a profiler leaves launches slower: how many launches, clears and copies.
        for record, run in zip(records, runs):
            record["kernels"] = self.device.kernels(run) if run else []
            record["launches"] = len(record["kernels"])
            if record["launches"]:
                record["added_us"] = record["host_us"] - record["foreign_call_us"] \
                    - record["launches"] * record["launch_us"]
        return records

    def run(self, all_cells):
        self.emit("ready", info=self.info())
        for cell in all_cells:
            self.emit("begin", cell=cell["index"], contender=None, which=None)
            try:
                records = self.compile(cell) if cell["part"] == "compile" else self.measure(cell)
            except Lost:
                raise
            except Exception as e:  # of the benchmark itself: a reference out of memory, ...
                self.device.alive()
                print(f"{cell['name']}: {e!r}", file=sys.stderr)
                records = [report.failed(cell, c, p, "error", first_line(e))
                           for p in cell["passes"] for c in cell["contenders"]]
            self.emit("end", cell=cell["index"], records=records)
            gc.collect()
            self.device.release()


class Wrong(RuntimeError):
    """Results are off by more than they may be."""


class Timed:
    """A contender made ready for one pass: its results are right and its own code ran."""

    def __init__(self, device, contender, which, ref, allowed):
        self.contender, self.device, self.ref, self.allowed = contender, device, ref, allowed
        make = contender.forward if which == "fwd" else contender.backward
        self.run, self.results, self.layout = make()
        self.call_us = None
        self.check()
        self.kernels = []
        if contender.cell["part"] != "short":  # profiling would weigh on the host's part
            with contender.scope():
                self.kernels = device.kernels(self.run)
        contender.asserted(self.kernels)
        self.layout += ", copied" * any("direct_copy" in k or "DtoD" in k for k in self.kernels)

    def check(self):
        """Runs once and compares; also after all timed runs, when outputs are full already."""
        with self.contender.scope():
            results = self.results(self.run())
        self.device.sync()
        self.distances, wrong = reference.compare(results, self.ref, self.allowed)
        if wrong:
            raise Wrong(wrong)


def main():
    order = json.load(sys.stdin)
    events = os.fdopen(int(sys.argv[1]), "w")
    worker = Worker(order["options"], events)
    try:
        worker.run(order["cells"])
    except Lost as e:
        worker.emit("lost", reason=str(e))
        events.flush()
        os._exit(3)  # destructors would only fail


if __name__ == "__main__":
    main()
