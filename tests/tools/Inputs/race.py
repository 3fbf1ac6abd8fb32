"""Starts fa-run many times at once on one cold cache and kills one of them.

usage: race.py CACHE_DIR VARIANT

The others must give right results from one whole entry, compiled once.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

cache, variant = pathlib.Path(sys.argv[1]), sys.argv[2]
command = ["fa-run", variant, "--seqlen-q", "20", "--head-dim", "8", "--backward", "--verify", "--cache-stats"]
for victim_after in (None, 0.05, 0.3):
    shutil.rmtree(cache, ignore_errors=True)
    runs = [subprocess.Popen(command, env={**os.environ, "FATHOM_CACHE_DIR": str(cache)}, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(8)]
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
    assert compiled == 1 if victim_after is None else compiled <= 1, said
    entries = [p for p in (cache / "v1").iterdir() if re.fullmatch(r"[0-9a-f]{64}", p.name)]
    assert len(entries) == 1 and {p.name for p in entries[0].iterdir()} == {"object.o", "meta.json"}, entries
