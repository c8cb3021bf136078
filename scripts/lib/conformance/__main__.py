"""Runs the chosen suites both ways and judges what differs."""

import pathlib
import sys
import time

from . import suites
from .runs import Run
from .sources import Broken, Unavailable

KNOWN = pathlib.Path("tests/conformance/known-differences.txt")
# How often a suite is run again, both ways, to settle what differs.
AGAIN = 3
SKIPPED = 77


def known_differences():
    """Suite and test to reason."""
    found = {}
    for line in KNOWN.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            suite, test, reason = (part.strip() for part in line.split("|", 2))
            found[suite, test] = reason
    return found


def differences(bare, smc):
    """Tests whose outcomes differ."""
    return [name for name in sorted({*bare.outcomes, *smc.outcomes})
            if bare.outcomes.get(name) != smc.outcomes.get(name)]


class Doubt:
    """A test that differed: what it came to in each run."""

    def __init__(self):
        self.bare, self.smc = [], []

    def add(self, name, bare, smc):
        self.bare.append(bare.outcomes.get(name, "absent"))
        self.smc.append(smc.outcomes.get(name, "absent"))

    def verdict(self):
        """What the runs after the first say: the first has only raised the question."""
        strange = [outcome for outcome in self.smc if outcome not in self.bare]
        if not strange:
            return "flaky bare"
        if not [outcome for outcome in self.smc[1:] if outcome not in self.bare]:
            return "not again"
        return "DIFFERS"

    def __str__(self):
        return f"bare {', '.join(self.bare)}; smc-run {', '.join(self.smc)}"


def settle(suite, bare, smc, known):
    """The differences that a first pair of runs showed, each with all that was seen of it."""
    doubts = {name: Doubt() for name in differences(bare, smc)}
    open_names = [name for name in doubts if (suite.name, name) not in known]
    for name, doubt in doubts.items():
        doubt.add(name, bare, smc)
    if [name for name in open_names if name != "(exit)"] or open_names == ["(exit)"] == list(doubts):
        for number in range(1, AGAIN + 1):
            again = Run(suite, "bare", number=number), Run(suite, "smc", number=number)
            for name in differences(*again):
                if name not in doubts:
                    doubts[name] = Doubt()
                    doubts[name].add(name, bare, smc)
            for name, doubt in doubts.items():
                doubt.add(name, *again)
    return doubts


def accelerates_again(suite):
    """Whether another run has accelerated connections: very short ones may all end too early."""
    return any(Run(suite, "smc", number=number).connections()[1] > 0
               for number in range(1, AGAIN + 1))


def judge(suite, known):
    """Runs a suite; lines to tell, and whether it failed."""
    bare, smc = Run(suite, "bare"), Run(suite, "smc")
    total, ring = smc.connections()
    tests = len(bare.outcomes) - 1
    lines = [f"{tests} tests, {total} ends of connections, {ring} accelerated"]
    failed = False
    if tests == 0:
        lines.append(f"NO TEST RAN bare: see {bare.log}")
        failed = True
    doubts = settle(suite, bare, smc, known)
    told = {name: (doubt, known.get((suite.name, name))) for name, doubt in doubts.items()}
    explained = any(reason for name, (_, reason) in told.items() if name != "(exit)")
    for name, (doubt, reason) in told.items():
        verdict = f"known: {reason}" if reason else doubt.verdict()
        if name == "(exit)" and (explained or len(told) > 1) and "HANGS" not in doubt.smc:
            # The exit status repeats what the tests say.
            continue
        failed |= verdict == "DIFFERS"
        lines.append(f"{name}: {verdict} ({doubt})")
    if suite.accelerates and ring == 0 and not accelerates_again(suite):
        lines.append("NOT ACCELERATED: no connection took a ring")
        failed = True
    if failed:
        lines.append(f"logs: {bare.log} {smc.log}")
    return lines, failed


def main(words):
    if words[:1] in (["-h"], ["--help"]):
        print("usage: scripts/conformance.sh [--list | --short | --full | SUITE…]")
        return 0
    if words == ["--list"]:
        for suite in suites.SUITES:
            print(suite.name + (" (short)" if suite.short else ""))
        return 0
    known = known_differences()
    failures, skipped, done = [], [], []
    for suite in suites.chosen(words):
        started = time.monotonic()
        try:
            lines, failed = judge(suite, known)
        except Unavailable as why:
            print(f"SKIPPED {suite.name}: {why}", flush=True)
            skipped.append(suite.name)
            continue
        except Broken as why:
            lines, failed = [str(why)], True
        done.append(suite.name)
        if failed:
            failures.append(suite.name)
        took = time.monotonic() - started
        print(f"{'FAILED ' if failed else 'ok     '} {suite.name}: {took:.0f} s, {lines[0]}")
        for line in lines[1:]:
            print(f"        {line}")
        sys.stdout.flush()
    print(f"{len(done)} suites run, {len(failures)} failed, {len(skipped)} skipped"
          + (f"; failed: {' '.join(failures)}" if failures else ""))
    if not done:
        return SKIPPED
    return 1 if failures else 0


sys.exit(main(sys.argv[1:]))
