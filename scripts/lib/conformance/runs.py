"""One run of a suite, bare or under smc-run."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from .sources import DATA
from .suites import SMC_RUN

# Namespaces of its own: no port is taken, nothing is reached from outside, nothing is left running.
ALONE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--",
         "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


class Run:
    """What a run came to."""

    def __init__(self, suite, way, only=None, number=0):
        name = f"{suite.name.replace('/', '.')}.{way}.{number}"
        folder = pathlib.Path(DATA, "runs", name).resolve()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # Of a short name: suites put Unix sockets there.
        work = pathlib.Path(tempfile.mkdtemp(prefix="smc-"))
        self.log = folder / "log"
        self.summary = folder / "summary"
        words, cwd, more = suite.command(work, only)
        words = [str(word) for word in words]
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("SMC_") and key not in ("PYTHONPATH", "DATA")}
        environment.update(more)
        if way == "smc":
            words = [SMC_RUN, "--summary", str(self.summary), "--", *words]
            environment["SMC_ATTACH_AFTER"] = "0"
        if os.geteuid() == 0:
            words = [*ALONE, *words]
        self.status = self._run(words, cwd, environment, suite.seconds)
        output = self.log.read_text(encoding="utf-8", errors="replace")
        self.outcomes = suite.outcomes(work, output)
        self.outcomes["(exit)"] = self.status
        shutil.rmtree(work, ignore_errors=True)

    def _run(self, words, cwd, environment, seconds):
        with open(self.log, "wb") as log:
            child = subprocess.Popen(
                words, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )
            try:
                return f"status {child.wait(seconds)}"
            except subprocess.TimeoutExpired:
                return "HANGS"
            finally:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()

    def connections(self):
        """How many connections the processes had, and how many of them were accelerated; ends that
        were killed are not counted."""
        total = ring = 0
        if self.summary.is_file():
            for line in self.summary.read_text(encoding="utf-8").splitlines():
                counted = json.loads(line)
                total += counted["connections"]
                ring += counted["smcd"]
        return total, ring
