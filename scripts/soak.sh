#!/usr/bin/env bash
# Long runs of random use, checked at every byte.
#
#   scripts/soak.sh demote [COUNT]     until COUNT connections have left shared memory in mid-stream
#   scripts/soak.sh random [MINUTES]   all kinds of use at once, and an end of every third pair is killed
#
# The first line that is printed has the seed; --seed N behind it runs the same choices again, and
# each fault names the pair of processes that alone can be run again by --only N; --bare runs it
# without smc-run, to try the soak itself. The last lines count what was done of each kind.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

cargo build --release --locked -p smc-run -p smc-preload
cargo build --release --locked -p smc-tests --bin smc-soak
exec "${CARGO_TARGET_DIR:-target}/release/smc-soak" "$@"
