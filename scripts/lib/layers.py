"""Checks the import rules of smc-core, and where atomics and unsafe code may stand.

Each module of smc-core/src belongs to a layer and may import layers below its own, and leaves.
Modules on one layer may not import each other. Tests are free.
"""

import pathlib
import re
import sys

# From the top down; modules on one line are siblings.
LAYERS = [
    ["engine"],
    ["summary"],
    ["poll"],
    ["fdtable"],
    ["socket"],
    ["conn"],
    ["process"],
    ["proto", "transport"],
    ["arena"],
    ["ring", "wire"],
    ["shm"],
    ["sys"],
    ["sync"],
]
# Values that every layer but `sync` may name; they import only each other.
PLAIN_LEAVES = {"errno", "reason", "config", "outcome"}
# Facilities that every layer above `sys` may use; they stand on what is listed here.
SERVICE_LEAVES = {"log": {"sys", "sync"}, "stats": {"shm", "sys", "sync"}}

# Where `unsafe` may be written, as path prefixes from the project's root.
UNSAFE_ALLOWED = [
    "smc-core/src/sys",
    "smc-core/src/shm",
    "smc-core/src/ring",
    "smc-core/src/sync",
    "smc-core/src/arena",
    "smc-core/src/log.rs",
    "smc-preload/src",
    "smc-run/src/devices",
    "smc-run/src/inherited",
    "tests",
    "fuzz",
]
# The tools share no memory with anyone: their atomics need no model.
ATOMICS_ALLOWED = ["smc-core/src/sync", "smc-run", "tests", "fuzz"]

RANK = {name: len(LAYERS) - i for i, row in enumerate(LAYERS) for name in row}


def production_code(path):
    """The file's text without comments, strings' contents and its trailing test module."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^#\[cfg\((all\()?(test|loom)\b[^\n]*\n(#\[[^\n]*\n)*mod \w+ \{.*", "", text, flags=re.S | re.M)
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def is_test(path):
    return "tests" in path.parts[:-1] or path.stem in ("tests", "test") or "benches" in path.parts


def imports(code, at_root):
    """The modules of the crate that the code names."""
    found = set(re.findall(r"\bcrate::(\w+)", code))
    if at_root:
        found |= set(re.findall(r"^(?:pub )?use super::(\w+)", code, flags=re.M))
    for group in re.findall(r"\bcrate::\{((?:[^{}]|\{[^{}]*\})*)\}", code):
        flat = re.sub(r"\{[^{}]*\}", "", group)
        found |= {item.strip().split("::")[0].split(" ")[0] for item in flat.split(",")}
    return {name for name in found if name}


def may_import(module, other):
    if module == other:
        return True
    if other in PLAIN_LEAVES:
        return module != "sync"
    if other in SERVICE_LEAVES:
        return RANK.get(module, 0) > RANK["sys"] or module in SERVICE_LEAVES
    if module in PLAIN_LEAVES:
        return False
    if module in SERVICE_LEAVES:
        return other in SERVICE_LEAVES[module]
    return RANK[other] < RANK[module]


def layer_faults(root, modules):
    source = root / "smc-core/src"
    for path in sorted(source.rglob("*.rs")):
        relative = path.relative_to(source)
        module = relative.parts[0].removesuffix(".rs")
        if module == "lib" or is_test(relative):
            continue
        if module not in modules:
            yield f"{path}: module {module} has no layer; give it one in {__file__}"
            continue
        at_root = len(relative.parts) == 1 or (len(relative.parts) == 2 and path.stem == "mod")
        for other in sorted(imports(production_code(path), at_root) & modules):
            if not may_import(module, other):
                yield f"{path}: {module} may not import {other}"


def place_faults(root):
    for crate in ("smc-core", "smc-preload", "smc-run"):
        for path in sorted((root / crate).rglob("*.rs")):
            relative = path.relative_to(root).as_posix()
            if "/target/" in relative or is_test(pathlib.Path(relative)):
                continue
            code = production_code(path)
            if re.search(r"\b(core|std)::sync::atomic\b", code) and not allowed(relative, ATOMICS_ALLOWED):
                yield f"{path}: atomics come from smc_core::sync"
            if re.search(r"\bunsafe\b", code) and not allowed(relative, UNSAFE_ALLOWED):
                yield f"{path}: unsafe code is not allowed here"


def allowed(relative, prefixes):
    return any(relative == p or relative.startswith((p + "/", p + ".rs")) for p in prefixes)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    if not (root / "smc-core/src/lib.rs").is_file():
        sys.exit(f"check-layers: {root} is not the project")
    modules = set(RANK) | PLAIN_LEAVES | set(SERVICE_LEAVES)
    faults = list(layer_faults(root, modules)) + list(place_faults(root))
    for fault in faults:
        print(f"check-layers: {fault.replace(str(root) + '/', '')}", file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
