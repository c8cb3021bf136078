#!/usr/bin/env bash
# Checks which module imports which, and where atomics and unsafe code may stand.
#
#   check-layers.sh [TREE]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/lib/layers.py" "${1:-$here/..}"
