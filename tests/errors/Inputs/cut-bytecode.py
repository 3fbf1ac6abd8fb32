"""Cuts a bytecode file at many lengths: fa-opt must refuse each with a message."""

import subprocess
import sys
import tempfile

data = open(sys.argv[1], "rb").read()
for length in range(1, len(data), max(1, len(data) // 60)):
    with tempfile.NamedTemporaryFile(suffix=".mlirbc") as file:
        file.write(data[:length])
        file.flush()
        p = subprocess.run(["fa-opt", file.name], capture_output=True, timeout=20)
    if p.returncode != 1 or b"error" not in p.stderr:
        sys.exit(f"cut at {length} of {len(data)} bytes: exit code {p.returncode}\n{p.stderr[-2000:].decode()}")
