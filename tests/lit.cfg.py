"""Text tests: run a tool on an .mlir file and check what it prints.

By hand: /usr/lib/llvm-22/bin/lit -v tests/passes (tools are taken from
build/bin; --param tools=DIR takes them from elsewhere).
"""

import os
import subprocess

import lit.formats

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
tools = lit_config.params.get("tools", os.path.join(root, "build", "bin"))
llvm = lit_config.params.get("llvm", "/usr/lib/llvm-22/bin")

config.name = "fathom"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.join(root, "tests")
config.test_exec_root = lit_config.params.get("work", os.path.join(root, "build", "tests", "lit"))
config.environment["PATH"] = os.pathsep.join([tools, llvm, os.environ["PATH"]])
# Kernels compiled by one test serve the others, and the next run.
config.environment["FATHOM_CACHE_DIR"] = os.path.join(config.test_exec_root, "cache")
config.environment["FATHOM_DEVICE"] = "cpu"  # tests for GPUs say so
config.substitutions.append(("%root", root))
devices = subprocess.run([os.path.join(tools, "fa-run"), "--list-devices"], capture_output=True, text=True).stdout
if "compiles for GPUs" in devices:
    config.available_features.add("nvrtc")
if "cuda:0" in devices and "not all" not in devices:
    config.available_features.add("cuda")
if os.environ.get("FATHOM_TEST_FULL"):
    config.available_features.add("full")  # tools/check --full
