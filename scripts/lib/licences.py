"""Reads `cargo metadata` and fails for a dependency whose licence or source is not allowed."""

import json
import re
import sys

ALLOWED = {
    "MIT", "MIT-0", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause",
    "ISC", "Zlib", "Unicode-3.0", "Unicode-DFS-2016", "Unlicense", "CC0-1.0", "0BSD", "BSL-1.0",
}


def satisfied(expression):
    """Whether some choice that the licence expression offers is allowed throughout."""
    expression = expression.replace("/", " OR ")
    tokens = re.findall(r"\(|\)|[^\s()]+", expression)
    python, name = [], []

    def flush():
        if name:
            python.append(str(" ".join(name) in ALLOWED))
            name.clear()

    for token in tokens:
        if token in ("(", ")", "OR", "AND"):
            flush()
            python.append(token.lower())
        else:
            name.append(token)
    flush()
    # Only parentheses, `and`, `or`, True and False are left.
    return eval(" ".join(python), {"__builtins__": {}})


def main():
    faults = []
    packages = json.load(sys.stdin)["packages"]
    for package in packages:
        label = f"{package['name']} {package['version']}"
        if not package["license"]:
            faults.append(f"{label}: no licence expression")
        elif not satisfied(package["license"]):
            faults.append(f"{label}: licence {package['license']} is not allowed")
        if package["source"] and not package["source"].startswith("registry+"):
            faults.append(f"{label}: comes from {package['source']}")
    for fault in faults:
        print(f"check-deps: {fault}", file=sys.stderr)
    print(f"check-deps: {len(packages)} packages looked at")
    sys.exit(1 if faults else 0)


main()
