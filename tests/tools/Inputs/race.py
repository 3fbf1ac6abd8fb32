"""Starts fa-run many times at once on one cold cache and kills one of them.

usage: race.py CACHE_DIR VARIANT [TARGET]

The others must give right results from whole entries, each compiled once. With
a TARGET they only compile for that GPU, 50 at a time.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

cache, variant = pathlib.Path(sys.argv[1]), sys.argv[2]
gpu = sys.argv[3:]
command = ["fa-run", variant, "--seqlen-q", "20", "--head-dim", "8", "--backward", "--cache-stats"]
command += ["--dtype", "bf16", "--compile-only", "--target", *gpu] if gpu else ["--verify"]
processes, pieces = (50, 4) if gpu else (8, 1)
for victim_after in (None, 0.05, 0.3):
    shutil.rmtree(cache, ignore_errors=True)
    runs = [subprocess.Popen(command, env={**os.environ, "FATHOM_CACHE_DIR": str(cache)}, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(processes)]
    if victim_after is not None:
        time.sleep(victim_after)
        runs[0].kill()
    said = [run.communicate(timeout=120)[0] for run in runs]
    compiled = 0
    for n, (run, text) in enumerate(zip(runs, said)):
        if n == 0 and victim_after is not None:
            continue
        assert run.returncode == 0, text
        compiled += int(re.search(r"cache: (\d+) compiled", text)[1])
    # The victim may have been the one that compiled.
    assert compiled == pieces if victim_after is None else compiled <= pieces, said
    entries = [p for p in (cache / "v1").iterdir() if re.fullmatch(r"[0-9a-f]{64}", p.name)]
    assert len(entries) == pieces, entries
    assert all({p.name for p in e.iterdir()} == {"object.o", "meta.json"} for e in entries), entries
