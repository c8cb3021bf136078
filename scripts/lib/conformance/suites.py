"""The suites: how each is run, and how its output is read."""

import os
import re
import shutil
import xml.etree.ElementTree as ElementTree

from . import sources


class Suite:
    """One suite. `short`: part of the short form; `accelerates`: it has TCP connections between
    processes, or within one, that take a ring."""

    def __init__(self, name, short=False, accelerates=True, seconds=400):
        self.name, self.short, self.accelerates = name, short, accelerates
        self.seconds = seconds

    def command(self, folder, only):
        """The words to run, the working folder and more environment. `folder` is empty and this
        run's own; `only`: names of tests to run, where the suite can choose, or None."""
        raise NotImplementedError

    def outcomes(self, folder, output):
        """The outcome of each test by name."""
        raise NotImplementedError


class Python(Suite):
    """A module of CPython's test suite."""

    # Hangs bare where the kernel has vsock and nobody listens.
    LEFT_OUT = ["*VSOCK*"]

    def __init__(self, module, resources=(), **options):
        super().__init__(f"python/{module}", **options)
        self.module, self.resources = module, resources

    def command(self, folder, only):
        words = ["/usr/bin/python3", "-m", "test", "--timeout", self.seconds - 20, "-v",
                 "--junit-xml", folder / "results.xml", "--tempdir", folder]
        for pattern in self.LEFT_OUT:
            words += ["-i", pattern]
        for name in only or ():
            words += ["-m", name]
        for resource in self.resources:
            words += ["-u", resource]
        return words + [self.module], folder, {"PYTHONPATH": str(sources.python_tests())}

    def outcomes(self, folder, output):
        try:
            root = ElementTree.parse(folder / "results.xml").getroot()
        except (OSError, ElementTree.ParseError):
            # It did not come to its end: what it said until then.
            return dict(re.findall(r"^\w+ \((test[\w.]+)\) \.\.\. (ok|FAIL|ERROR|skipped)", output, re.M))
        found = {}
        for case in root.iter("testcase"):
            marks = [mark.tag for mark in case if mark.tag in ("error", "failure", "skipped")]
            # What fails outside of a test has no name.
            name = case.get("name") or case.get("classname") or "(outside of a test)"
            found[name] = marks[0] if marks else "ok"
        return found


class Redis(Suite):
    """A file of redis's Tcl tests: servers, clients and the driver under smc-run alike."""

    OUTCOME = re.compile(r"^\[(ok|err|exception|ignore|skip|timeout)\]: (.*)$", re.M)

    def __init__(self, unit, **options):
        super().__init__(f"redis/{unit}", **options)
        self.unit = unit

    def command(self, folder, only):
        tree = sources.redis_tests()
        for name in ("src", "redis.conf"):
            (folder / name).symlink_to(tree / name)
        shutil.copytree(tree / "tests", folder / "tests", symlinks=True)
        words = ["tclsh", "tests/test_helper.tcl", "--clients", 2, "--single", self.unit]
        for name in only or ():
            words += ["--only", name]
        return words, folder, {}

    def outcomes(self, folder, output):
        found = {}
        for outcome, name in self.OUTCOME.findall(re.sub(r"\x1b\[[0-9;]*m", "", output)):
            name = re.sub(r" \(\d+ ms\)$| in tests/\S+\.tcl$", "", name)
            # Layouts and amounts that are drawn by lot.
            name = re.sub(r"(#|x = |CYCLE )\d+", r"\1n", name)
            # The summary at the end repeats what failed.
            if found.get(name, "ok") == "ok":
                found[name] = outcome
        return found


class StressNg(Suite):
    """A stressor of stress-ng that checks what it did."""

    def __init__(self, stressor, **options):
        super().__init__(f"stress-ng/{stressor}", **options)
        self.stressor = stressor

    def command(self, folder, only):
        words = ["stress-ng", f"--{self.stressor}", 2, "--timeout", "4s", "--verify",
                 "--metrics-brief", "--temp-path", folder]
        if self.stressor == "epoll":
            words += ["--epoll-domain", "ipv4"]
        return words, folder, {}

    def outcomes(self, folder, output):
        done = re.search(rf"metrc: \[\d+\] {self.stressor} +(\d+)", output)
        if done is None:
            return {}
        found = {"did something": "yes" if int(done[1]) > 0 else "no"}
        found["checks"] = "failed" if re.search(r"stress-ng: (fail|error):", output) else "passed"
        return found


class Crate(Suite):
    """Test programs of a published crate."""

    OUTCOME = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (\w+)", re.M)

    def __init__(self, name, version, targets, features="", tests=(), **options):
        super().__init__(f"cargo/{name}", **options)
        self.crate = (name, version, tuple(targets), features)
        self.tests = list(tests)

    def command(self, folder, only):
        tree, programs = sources.crate_programs(*self.crate)
        script = folder / "run"
        lines = ["#!/bin/sh"]
        for name, path in sorted(programs.items()):
            chosen = [test.split("::", 1)[1] for test in only or () if test.startswith(f"{name}::")]
            if only and not chosen:
                continue
            words = [str(path), "--test-threads", "2", *(["--exact", *chosen] if only else self.tests)]
            lines += [f"echo 'program {name}'", " ".join(f"'{word}'" for word in words)]
        script.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return ["/bin/sh", script], tree, {"CARGO_MANIFEST_DIR": str(tree)}

    def outcomes(self, folder, output):
        found, program = {}, ""
        for line in output.splitlines():
            if line.startswith("program "):
                program = line.split()[1]
            for name, outcome in self.OUTCOME.findall(line):
                found[f"{program}::{name}"] = outcome
        return found


def every_test(*names):
    return [word for name in names for word in ("--test", name)]


def of_many(kind, names, **options):
    return [kind(name, **options) for name in names.split()]


SUITES = [
    Python("test_socket", short=True),
    *of_many(Python, "test_selectors test_select test_poll test_epoll", short=True, accelerates=False),
    *of_many(Python, "test_httpservers test_ftplib test_smtplib test_xmlrpc test_asyncio test_ssl "
             "test_imaplib test_poplib test_urllib2_localnet test_httplib test_logging "
             "test_multiprocessing_fork test_multiprocessing_spawn"),
    Python("test_socketserver", resources=["network"]),
    *of_many(Python, "test_telnetlib test_asyncore test_asynchat test_subprocess test_os test_posix "
             "test_fcntl test_signal test_docxmlrpc test_smtpd test_concurrent_futures "
             "test_eintr test_threadsignals test_fork1 test_nntplib",
             accelerates=False),
    *of_many(Redis, "unit/type/incr unit/type/string unit/type/hash unit/type/list unit/type/list-2 "
             "unit/type/set unit/type/zset unit/type/stream unit/auth unit/protocol unit/pubsub "
             "unit/multi unit/networking unit/obuf-limits unit/limits unit/querybuf "
             "unit/introspection unit/introspection-2 unit/tracking unit/wait unit/quit unit/shutdown "
             "unit/client-eviction unit/pause unit/replybufsize unit/pendingquerybuf unit/dump "
             "unit/scripting unit/other unit/info unit/maxmemory unit/keyspace unit/scan unit/sort "
             "unit/expire unit/acl unit/acl-v2 unit/aofrw unit/slowlog unit/functions unit/pubsubshard "
             "unit/lazyfree unit/latency-monitor unit/violations unit/cluster unit/cluster-scripting "
             "unit/cluster/misc unit/cluster/links unit/type/list-3 unit/type/stream-cgroups "
             "integration/aof integration/aof-multi-part integration/rdb integration/logging "
             "integration/psync2 integration/psync2-reg integration/psync2-pingoff "
             "integration/psync2-master-restart integration/dismiss-mem integration/block-repl "
             "integration/redis-cli integration/redis-benchmark "
             "integration/replication-2 integration/replication-3 integration/replication-4 "
             "integration/replication-buffer integration/replication-psync "
             "integration/failover integration/shutdown"),
    Redis("integration/replication", seconds=1200),
    # The others' connections carry one message each, which does not pay.
    StressNg("sock", short=True, seconds=60),
    StressNg("epoll", short=True, accelerates=False, seconds=60),
    *of_many(StressNg, "sockmany sockabuse sockfd poll sendfile splice", accelerates=False, seconds=60),
    Crate("nix", "0.29.0", every_test("test"), "socket,poll,event,net,uio,fs,zerocopy,feature,user,dir,process,signal,time,acct,aio,env,fanotify,hostname,inotify,ioctl,kmod,mman,mount,mqueue,personality,pthread,ptrace,quota,reboot,resource,sched,term,ucontext",
          tests=["sys::test_socket", "sys::test_sockopt", "test_poll", "sys::test_epoll",
                 "test_sendfile", "sys::test_select", "sys::test_uio"], accelerates=False),
    Crate("socket2", "0.3.19", ["--lib"], accelerates=False),
    # The last version that was published with its tests; tokio has those of the newer ones' users.
    Crate("mio", "0.6.10", every_test("test")),
    Crate("polling", "3.7.3", every_test("io", "many_connections", "multiple_pollers", "other_modes",
          "concurrent_modification", "notify", "timeout"), accelerates=False),
    Crate("async-io", "2.3.4", every_test("async", "block_on", "timer"), accelerates=False),
    Crate("tokio", "1.40.0", every_test(
        "tcp_accept", "tcp_connect", "tcp_echo", "tcp_into_split", "tcp_into_std", "tcp_peek",
        "tcp_shutdown", "tcp_socket", "tcp_split", "tcp_stream", "io_driver",
        "io_driver_drop", "io_async_fd", "net_bind_resource", "net_panic", "rt_common", "uds_stream",
        "udp", "process_smoke", "signal_usr1"), "full"),
]


def chosen(words):
    """The suites that the words of the command line mean."""
    if words in ([], ["--full"]):
        return SUITES
    if words == ["--short"]:
        return [suite for suite in SUITES if suite.short]
    found = []
    for word in words:
        below = [s for s in SUITES if s.name == word or s.name.startswith(word.rstrip("/") + "/")]
        if not below:
            raise SystemExit(f"conformance: no suite {word}; see --list")
        found += [suite for suite in below if suite not in found]
    return found


SMC_RUN = os.environ.get("SMC_RUN", "smc-run")
