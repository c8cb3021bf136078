"""Obtains what the suites are made of; each function gives a folder, or raises Unavailable."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys

DATA = pathlib.Path(os.environ.get("DATA", "target/conformance"))


class Unavailable(Exception):
    """The suite cannot be had here; the text says why."""


class Broken(Exception):
    """The suite is here, and cannot be built."""


def call(*command, cwd=None, seconds=900, failure=Unavailable, **more):
    """Runs a command for its output, with more environment."""
    try:
        done = subprocess.run(
            [str(word) for word in command], cwd=cwd, timeout=seconds, check=False, text=True,
            env={**os.environ, **more}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise failure(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise failure(f"{' '.join(str(word) for word in command[:3])}: {last}")
    return done.stdout


def once(function):
    """Keeps the folder of a source once it is complete."""

    @functools.cache
    @functools.wraps(function)
    def wrapped(*args):
        folder = DATA / "sources" / "-".join([function.__name__, *args])
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            function(folder, *args)
            (folder / ".complete").touch()
        return folder.resolve()

    return wrapped


@once
def python_tests(folder):
    """The package `test` of the system's Python: the interpreter's part and the test suite's."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    call("apt-get", "download", f"libpython{version}-testsuite", cwd=folder)
    call("dpkg-deb", "-x", next(folder.glob("*.deb")), folder / "unpacked")
    library = f"usr/lib/python{version}/test"
    shutil.copytree(folder / "unpacked" / library, folder / "test")
    shutil.copytree(f"/{library}", folder / "test", dirs_exist_ok=True)
    shutil.rmtree(folder / "unpacked")


@once
def debian_source(folder, package):
    """The unpacked source of a Debian package, in the version that is installed or a later one."""
    indices = call(
        "apt-get", "indextargets", "--format", "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)",
        "Identifier: Packages", "Origin: Debian",
    )
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True)
    (folder / "sources.list").write_text(indices, encoding="utf-8")
    private = {
        "Dir::Etc::SourceList": (folder / "sources.list").resolve(),
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": lists.resolve(),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root",
    }
    options = [word for key, value in private.items() for word in ("-o", f"{key}={value}")]
    call("apt-get", *options, "update", cwd=folder)
    call("apt-get", *options, "source", "--download-only", package, cwd=folder)
    call("dpkg-source", "-x", next(folder.glob("*.dsc")).name, "tree", cwd=folder)
    shutil.rmtree(lists)


@once
def redis_tests(folder):
    """redis's own tests, around the programs that Debian built."""
    tree = debian_source("redis") / "tree"
    shutil.copytree(tree / "tests", folder / "tests")
    (folder / "src").mkdir()
    for program in ("server", "cli", "benchmark", "check-aof", "check-rdb"):
        found = shutil.which(f"redis-{program}")
        if found is None:
            raise Unavailable(f"redis-{program} is not installed")
        (folder / "src" / f"redis-{program}").symlink_to(found)
    shutil.copy(tree / "redis.conf", folder)


@once
def crate(folder, name, version):
    """A published crate as its author packed it, outside of any workspace."""
    manifest = folder / "Cargo.toml"
    (folder / "src").mkdir()
    (folder / "src" / "lib.rs").touch()
    manifest.write_text(
        '[package]\nname = "scratch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
        f'[dependencies]\n{name} = "={version}"\n',
        encoding="utf-8",
    )
    metadata = json.loads(
        call("cargo", "metadata", "--format-version", "1", "--manifest-path", manifest)
    )
    found = next(package for package in metadata["packages"] if package["name"] == name)
    shutil.copytree(pathlib.Path(found["manifest_path"]).parent, folder / "crate")
    with open(folder / "crate" / "Cargo.toml", "a", encoding="utf-8") as text:
        text.write("\n[workspace]\n")


def crate_programs(name, version, targets, features):
    """The test programs of a crate, built: name to path."""
    folder = crate(name, version) / "crate"
    command = ["cargo", "test", "--no-run", "--message-format", "json-render-diagnostics",
               "--target-dir", DATA / "cargo", *targets]
    if features:
        command += ["--features", features]
    built = {}
    # The crate may be older than the compiler and forbid what that warns of.
    output = call(*command, cwd=folder, seconds=1800, failure=Broken, RUSTFLAGS="--cap-lints warn")
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("profile", {}).get("test") and message.get("executable"):
            built[message["target"]["name"]] = message["executable"]
    return folder, built
