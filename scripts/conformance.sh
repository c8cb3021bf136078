#!/usr/bin/env bash
# Runs test suites that others wrote, bare and under smc-run, and compares test by test.
#
#   scripts/conformance.sh --full       all suites, an hour or more; without words the same
#   scripts/conformance.sh SUITE…       these; a name such as `python` or `redis/unit` means all below it
#   scripts/conformance.sh --short      the few of a short form, about three minutes
#   scripts/conformance.sh --list       the suites
#
# Under smc-run connections take a ring as soon as they can. A test whose outcome differs is run
# again both ways before it counts; a difference that is understood stands with its reason in
# tests/conformance/known-differences.txt. Where the suite has connections that can be accelerated
# the statistics must show that some were. A suite that cannot be obtained is skipped, and said to be.
#
# What is fetched (Debian packages and sources, published crates) and every log stay in
# target/conformance. As root each run gets network and process namespaces of its own.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

case ${1:-} in
    --list | -h | --help) ;;
    *)
        scripts/setup.sh
        cargo build --release --locked -p smc-run -p smc-preload
        ;;
esac
# Debian's own interpreter: its test suite is that of this version.
SMC_RUN=$(realpath -m "$release_dir/smc-run") DATA=$(realpath -m "${CARGO_TARGET_DIR:-target}/conformance") \
    PYTHONPATH=scripts/lib PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 -m conformance "$@"
