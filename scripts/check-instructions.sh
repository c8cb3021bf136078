#!/usr/bin/env bash
# Compares the instructions of the hot paths with those of tests/instructions.txt.
#
#   scripts/check-instructions.sh            fails where a path differs by more than 5 %
#   scripts/check-instructions.sh --update   writes the table anew
#
# Times vary with the machine and its load; instructions do not. A path that has become cheaper fails
# as well, so that the table stays true: update it, and say why in the commit.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

table=tests/instructions.txt
operations=(send writev recv epoll_wait poll foreign)
calls=2000

command -v valgrind >/dev/null || die "valgrind is not installed; see scripts/setup.sh"
cargo build --release --locked -p smc-preload
cargo build --release --locked -p smc-tests --bin hotpath
built=${CARGO_TARGET_DIR:-target}/release

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Instructions for one call of an operation.
count() {
    local operation=$1 output collected
    output=$(
        LD_PRELOAD=$built/libsmc_preload.so SMC_ATTACH_AFTER=0 SMC_SUMMARY=$folder/summary \
            timeout 120 valgrind --tool=callgrind --callgrind-out-file="$folder/profile" \
            --toggle-collect=counted "$built/hotpath" "$operation" --calls "$calls" 2>&1
    ) || die "$operation: $output"
    # Both ends belong to one process: two connections, or the ring was not used.
    grep -q '"smcd":2,' "$folder/summary" || die "$operation: the connection was not accelerated"
    rm -f "$folder/summary"
    collected=$(sed -nE 's/^.*Collected : ([0-9]+)$/\1/p' <<<"$output")
    [ -n "$collected" ] || die "$operation: valgrind counted nothing"
    printf '%d' $((collected / calls))
}

declare -A counted
for operation in "${operations[@]}"; do
    counted[$operation]=$(count "$operation")
done

if [ "${1:-}" = --update ]; then
    {
        printf '# Instructions of one call on the hot path (100 bytes), both ends in one thread;\n'
        printf '# foreign: read of a file that is no socket. scripts/check-instructions.sh --update\n'
        for operation in "${operations[@]}"; do
            printf '%-12s %d\n' "$operation" "${counted[$operation]}"
        done
    } >"$table"
    say "wrote $table"
    exit 0
fi

status=0
for operation in "${operations[@]}"; do
    wanted=$(awk -v name="$operation" '$1 == name { print $2 }' "$table")
    [ -n "$wanted" ] || die "$operation is not in $table"
    found=${counted[$operation]}
    difference=$(((found - wanted) * 1000 / wanted))
    verdict=ok
    if [ "${difference#-}" -gt 50 ]; then
        verdict="NOT within 5 %"
        status=1
    fi
    printf '%-12s %6d wanted %6d  %s\n' "$operation" "$found" "$wanted" "$verdict"
done
exit "$status"
