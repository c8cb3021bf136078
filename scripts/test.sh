#!/usr/bin/env bash
# Runs all tests and checks.
#
#   scripts/test.sh             everything
#   scripts/test.sh STAGE…      only these stages
#   scripts/test.sh --list      the stages, in their order
#
# A stage that fails does not stop the ones after it; the exit status is 0 only when none failed.
# A stage whose tool is not installed is skipped, and the summary says so. Each stage's output is
# kept in target/test-logs.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

stages=(
    format lint docs unit loom build exports layers size coverage deps shell fuzz instructions black-box
    conformance
)
# Exit status by which a stage says that it cannot run here.
readonly skipped=77
# No single cargo test run may take longer, so that a hang is a failure and not a stuck machine.
readonly limit=1200

# Everything but the unit and loom tests is built in the release profile, so that dependencies
# are compiled once.
stage_format() { cargo fmt --all --check; }
stage_lint() { cargo clippy --release --workspace --all-targets --locked -- -D warnings; }
stage_docs() {
    RUSTDOCFLAGS="-D warnings" \
        cargo doc --release --workspace --no-deps --document-private-items --locked
}
# With debug assertions and overflow checks.
stage_unit() {
    timeout "$limit" cargo test --locked -p smc-core --features mock
    timeout "$limit" cargo test --locked -p smc-run
}
# The same code with loom's atomics: every interleaving of the models is run.
stage_loom() {
    RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}" \
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        timeout "$limit" cargo test --release --locked -p smc-core \
        --target-dir "${CARGO_TARGET_DIR:-target}/loom" --test 'loom_*'
}
stage_build() { cargo build --release --workspace --locked; }
stage_exports() { scripts/check-exports.sh; }
stage_layers() { scripts/check-layers.sh; }
stage_size() { scripts/check-size.sh; }
stage_coverage() { scripts/check-coverage.sh; }
stage_deps() {
    scripts/check-deps.sh
    if [ -f deny.toml ] && cargo deny --version >/dev/null 2>&1; then
        # Advisories need a database from the network: asked for where it can be had.
        cargo deny --offline check bans licenses sources
    else
        say "cargo-deny is not installed: licences and sources checked only"
    fi
}
stage_shell() {
    if ! command -v shellcheck >/dev/null; then
        say "shellcheck is not installed"
        return "$skipped"
    fi
    shellcheck -x scripts/*.sh scripts/lib/*.sh .ci/run
}
stage_fuzz() {
    if [ ! -d fuzz ]; then
        say "there are no fuzz targets"
        return "$skipped"
    fi
    if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
        say "cargo-fuzz with a nightly toolchain is not installed"
        return "$skipped"
    fi
    local target
    for target in $(cargo +nightly fuzz list); do
        cargo +nightly fuzz run "$target" -- -max_total_time="${FUZZ_SECONDS:-10}" -rss_limit_mb=2048
    done
}
stage_instructions() {
    if ! command -v valgrind >/dev/null; then
        say "valgrind is not installed"
        return "$skipped"
    fi
    scripts/check-instructions.sh
}
# Programs bare and under smc-run: the differential, application and fault tests.
stage_black-box() {
    cargo build --release --locked -p smc-run -p smc-preload
    local log failed
    log=$(mktemp)
    if timeout "$limit" cargo test --release --locked -p smc-tests --no-fail-fast 2>&1 | tee "$log"; then
        rm -f "$log"
        return 0
    fi
    failed=$(sed -nE 's/^test ([A-Za-z0-9_:]+) \.\.\. FAILED$/\1/p' "$log" | sort -u)
    rm -f "$log"
    # Nothing that can be named: a build or a run that did not end.
    [ -n "$failed" ] || return 1
    # These compare what two processes see at the same moment, on a machine that others use too. What
    # fails is run once more, alone, and must pass; it is named all the same, since it is a race to
    # be understood.
    say "failed at the first try, run again alone: $(tr '\n' ' ' <<<"$failed")"
    # shellcheck disable=SC2086 # one word for each test
    timeout "$limit" cargo test --release --locked -p smc-tests --no-fail-fast -- \
        --exact --test-threads 1 $failed
}

# Suites that others wrote, the short form of it.
stage_conformance() { timeout "$limit" scripts/conformance.sh --short; }

usage() { say "usage: scripts/test.sh [--list | STAGE…]"; }

case ${1:-} in
    --list) printf '%s\n' "${stages[@]}"; exit 0 ;;
    -h | --help) usage; exit 0 ;;
esac
if [ "$#" -gt 0 ]; then
    for stage in "$@"; do
        [[ " ${stages[*]} " == *" $stage "* ]] || die "no stage $stage; see --list"
    done
    stages=("$@")
fi

logs="${CARGO_TARGET_DIR:-target}/test-logs"
mkdir -p "$logs"
failures=0
summary=()

for stage in "${stages[@]}"; do
    say "=== $stage"
    started=$SECONDS
    set +e
    (
        set -e
        "stage_$stage"
    ) 2>&1 </dev/null | tee "$logs/$stage.log"
    status=${PIPESTATUS[0]}
    set -e
    took="$((SECONDS - started)) s"
    case $status in
        0) verdict="ok" ;;
        "$skipped") verdict="SKIPPED: $(tail -n 1 "$logs/$stage.log")" ;;
        *) verdict="FAILED"; failures=$((failures + 1)) ;;
    esac
    summary+=("$(printf '%-10s %7s  %s' "$stage" "$took" "$verdict")")
done

say ""
say "=== summary"
printf '%s\n' "${summary[@]}"
for stage in "${stages[@]}"; do
    # cargo's own closing lines, the failed tests first.
    case $stage in
        unit | loom | black-box)
            say "--- $stage"
            grep -hE '^test .*FAILED|^test result:|^error(:|\[)' "$logs/$stage.log" || say "no test ran"
            ;;
    esac
done
if [ "$failures" -gt 0 ]; then
    say "FAILED: $failures of ${#stages[@]} stages"
    exit 1
fi
say "all ${#stages[@]} stages passed or were skipped as said above"
