"""Checks the import rules of smc-core, and where atomics and unsafe code may stand.

Each module of smc-core/src belongs to a layer and may import layers below its own, and leaves.
Modules on one layer may not import each other. Beside the layers stands the context, the object
that the upper ones share. Tests are free.
"""

import pathlib
import re
import sys

# From the top down; modules on one line are siblings.
LAYERS = [
    ["engine"],
    ["summary"],
    ["poll"],
    ["conn"],
    ["transport"],
    ["arena"],
    ["proto"],
    ["ring", "wire"],
    ["shm", "fdtable"],
    ["sys"],
    ["sync"],
]
# The one object that all calls of a process share. It holds what belongs to the layers below
# `engine`, so it may name them; these layers get it as an argument, so they may name it.
CONTEXT = {"process": {"engine", "summary", "poll", "conn"}}
# Values that every layer but `sync` may name; they import only each other.
PLAIN_LEAVES = {"errno", "reason", "config"}
# Facilities that every layer above `sys` may use; they stand on what is listed here.
SERVICE_LEAVES = {"log": {"sys", "sync"}}

# Where `unsafe` may be written, as path prefixes from the project's root.
UNSAFE_ALLOWED = [
    # System calls, copies that survive a fault, mappings.
    "smc-core/src/sys",
    # Views of the memory that a fork family shares, and the cells behind its locks.
    "smc-core/src/arena.rs",
    "smc-core/src/arena/conn.rs",
    # Views of the memory that a link group shares, and the rings in it.
    "smc-core/src/transport/loopback",
    "smc-core/src/ring/mem.rs",
    "smc-core/src/log.rs",
    "smc-preload/src",
    "smc-run/src/devices",
    "smc-run/src/inherited",
    "tests",
    "fuzz",
]
# Single files with a few unsafe words beside: how many, and for what.
UNSAFE_FEW = {
    "smc-core/src/arena/handover.rs": (1, "a view of what one image leaves for the next"),
    "smc-core/src/conn/pipe.rs": (1, "the real recv"),
    "smc-core/src/conn/rx.rs": (1, "the real recv"),
    "smc-core/src/conn/wait.rs": (1, "the real ppoll"),
    "smc-core/src/poll/set.rs": (1, "the real ppoll"),
    "smc-core/src/poll/epoll_wait.rs": (1, "the real epoll_pwait"),
    "smc-core/src/poll/epoll.rs": (1, "a lock is let go after a fork"),
    "smc-core/src/poll/registry.rs": (1, "a pointer that is only compared is Send"),
    "smc-core/src/engine/processes.rs": (4, "locks are let go after a fork"),
}
# Modules that are compiled for tests alone.
TEST_TREES = ["smc-core/src/transport/conformance"]
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
    if "tests" in path.parts[:-1] or path.stem in ("tests", "test") or "benches" in path.parts:
        return True
    return any(path.as_posix().startswith((tree + "/", tree + ".rs")) for tree in TEST_TREES)


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
    if other in CONTEXT:
        return module in CONTEXT[other]
    if module in CONTEXT:
        return other != "engine"
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
        if module == "lib" or is_test(path.relative_to(root)):
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
            few, _ = UNSAFE_FEW.get(relative, (0, ""))
            if len(re.findall(r"\bunsafe\b", code)) > few and not allowed(relative, UNSAFE_ALLOWED):
                yield f"{path}: unsafe code is not allowed here" + (f" beyond {few} places" if few else "")


def allowed(relative, prefixes):
    return any(relative == p or relative.startswith((p + "/", p + ".rs")) for p in prefixes)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    if not (root / "smc-core/src/lib.rs").is_file():
        sys.exit(f"check-layers: {root} is not the project")
    modules = set(RANK) | set(CONTEXT) | PLAIN_LEAVES | set(SERVICE_LEAVES)
    faults = list(layer_faults(root, modules)) + list(place_faults(root))
    for fault in faults:
        print(f"check-layers: {fault.replace(str(root) + '/', '')}", file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
