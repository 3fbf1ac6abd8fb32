"""Prints what a test run covered; exits 1 on a failure or a count under its floor.

usage: count.py BUILD_DIR FLOORS_FILE

Reads ctest's log and JUnit file and lit's JSON file from BUILD_DIR. A test adds
to a count by printing a line `count: NAME N`, and states what it left out and
why with a line `skip: REASON`. Every lit file and every GoogleTest case is one
of `cases`. The last line is `N passed, N failed, N skipped`.
"""

import collections
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

LIT_OUTCOME = {
    "PASS": "passed", "FLAKYPASS": "passed", "XFAIL": "passed",
    "UNSUPPORTED": "skipped", "SKIPPED": "skipped", "EXCLUDED": "skipped",
}  # anything else failed


GTEST_OUTCOME = {"      OK": "passed", " FAILED ": "failed", " SKIPPED": "skipped"}


def read_ctest(build):
    """Yields (name, outcome, output) of each ctest entry."""
    for entry in xml.parse(build / "junit.xml").getroot().iter("testcase"):
        failed = entry.find("failure") is not None or entry.get("status") == "fail"
        skipped = entry.find("skipped") is not None
        outcome = "failed" if failed else "skipped" if skipped else "passed"
        yield entry.get("name"), outcome, entry.findtext("system-out") or ""


def split_gtest(name, outcome, output):
    """Yields (name, outcome, output) of each GoogleTest case of an entry, and of
    the entry itself where it has no cases or no case tells why it failed."""
    cases = re.findall(r"^\[ RUN      \] (\S+)\n(.*?)^\[ (      OK| FAILED | SKIPPED) \] \1",
                       output, re.M | re.S)
    for case, said, label in cases:
        yield f"{name}: {case}", GTEST_OUTCOME[label], said
    if not cases or outcome == "failed" and all(label != " FAILED " for *_, label in cases):
        yield name, outcome, output


def read_lit(build):
    """Yields (name, outcome, output) of each lit file."""
    for test in json.loads((build / "tests/lit.json").read_text())["tests"]:
        yield test["name"], LIT_OUTCOME.get(test["code"], "failed"), test["output"]


def main(build, floors_file):
    entries = [entry for entry in read_ctest(build) if entry[0] != "lit"]
    try:
        entries += read_lit(build)
    except OSError:  # lit did not start; its own entry tells
        entries += [entry for entry in read_ctest(build) if entry[0] == "lit"]
    tests = [test for entry in entries for test in split_gtest(*entry)]

    outcomes = collections.Counter(outcome for _, outcome, _ in tests)
    counts = collections.Counter({"cases": outcomes["passed"] + outcomes["failed"]})
    for *_, output in entries:
        for count, number in re.findall(r"^(?:# \| )?count: (\S+) (\d+)\s*$", output, re.M):
            counts[count] += int(number)
    skips = collections.Counter()
    for name, outcome, output in tests:
        reasons = re.findall(r"^(?:# \| )?skip: (.+)$", output, re.M)
        if outcome == "skipped" and not reasons:
            said = re.search(r": Skipped\n(.+)|(Test (?:requires|does not).+)", output)
            reasons = [(said[1] or said[2]) if said else f"{name}: no reason given"]
        skips.update(reasons)

    floors = {}
    for line in floors_file.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            count, floor = line.split()
            floors[count] = int(floor)

    low = 0
    print("\ncount                  number    floor")
    for count in list(floors) + sorted(set(counts) - set(floors)):
        under = counts[count] < floors.get(count, 0)
        low += under
        print(f"{count:20} {counts[count]:8} {floors.get(count, 0):8}{'  UNDER THE FLOOR' * under}")
    for reason, number in sorted(skips.items()):
        print(f"skipped {number} x {reason}")
    for name, outcome, _ in tests:
        if outcome == "failed":
            print(f"FAILED {name}")
    print(f"{outcomes['passed']} passed, {outcomes['failed']} failed, {outcomes['skipped']} skipped")
    sys.exit(bool(low or outcomes["failed"] or not outcomes["passed"]))


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
