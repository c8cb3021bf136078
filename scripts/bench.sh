#!/usr/bin/env bash
# Measures workloads over bare TCP and under smc-run, by turns, and prints the ratios.
#
#   scripts/bench.sh --quick          the short list, some minutes
#   scripts/bench.sh                  everything, with docs/performance.md and its charts
#   scripts/bench.sh --only NAME      workloads whose label contains NAME; may be repeated
#   scripts/bench.sh --list           the workloads
#
# Also: --bare (nothing under smc-run), --runs N, --seconds S (for each measurement), --json FILE, --docs FOLDER.
#
# As root each run gets a network namespace of its own with congestion control cubic.
set -euo pipefail

invoked_from=$PWD
# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

arguments=()
report=yes
while [ "$#" -gt 0 ]; do
    case $1 in
        --quick | --list | --only | --docs) report=no ;;
    esac
    case $1 in
        --json | --docs)
            [ "$#" -gt 1 ] || die "$1 needs a value"
            # Relative to where the caller is, not to the project.
            arguments+=("$1" "$(cd "$invoked_from" && realpath -m -- "$2")")
            shift 2
            ;;
        *) arguments+=("$1"); shift ;;
    esac
done
if [ "$report" = yes ]; then arguments+=(--docs docs); fi

cargo build --release --locked -p smc-run -p smc-preload -p smc-tests --bins --lib
exec "$release_dir/smc-bench" "${arguments[@]}"
