#!/usr/bin/env bash
# Checks the dependencies' licences and sources from what cargo knows, without a network.
#
# cargo-deny does more where it is installed; this is the part that needs nothing.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

cargo metadata --quiet --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu |
    python3 scripts/lib/licences.py
