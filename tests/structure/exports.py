"""What a shared library exports: functions of the public headers, nothing else.

usage: exports.py NM LIBRARY
"""

import re
import subprocess
import sys

names = subprocess.run([sys.argv[1], "-DC", "--defined-only", sys.argv[2]], check=True,
                       capture_output=True, text=True).stdout.splitlines()
names = [line.split(" ", 2)[2] for line in names]
public = r"fathom_\w+$|fathom::(Array|Kernel|Variant)::|fathom::(merge|listDevices|copyTo|cache\w+|clearCache|partTimes)\b|.*_tool_main"
strange = [name for name in names if not re.match(public, name)]
print("\n".join(strange))
sys.exit(bool(strange) or not any(name.startswith("fathom_forward") for name in names))
