#!/usr/bin/env bash
# Fails when a Rust file of the project (or of the tree given) has more than 500 lines.
set -euo pipefail

limit=500
cd "${1:-$(dirname "$0")/..}"

long=$(find . \( -name target -o -name .git \) -prune -o -name '*.rs' -exec wc -l {} + |
    awk -v limit="$limit" '$2 != "total" && $1 > limit { print "  " $2 ": " $1 " lines" }')
if [ -n "$long" ]; then
    printf 'check-size: files above %d lines; split them by concept:\n%s\n' "$limit" "$long" >&2
    exit 1
fi
