#!/usr/bin/env bash
# Compares what libsmc_preload.so exports and links with what it may.
#
#   check-exports.sh [LIBRARY [LIST]]
#
# LIST holds one symbol a line; `#` starts a comment. A symbol too few means that a hook has
# vanished, one too many that the library would stand in the way of a program's own symbol. A new
# hook's symbols are added by hand, so that each export is somebody's decision.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

library=${1:-$release_dir/libsmc_preload.so}
list=${2:-smc-preload/exports.txt}
[ -r "$library" ] || die "$library is missing; run cargo build --release first"
[ -r "$list" ] || die "$list is missing"

differences=$(diff \
    <(sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$list" | LC_ALL=C sort -u) \
    <(nm -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u)) || true
if [ -n "$differences" ]; then
    {
        say "check-exports: $library does not export what $list says:"
        sed -n 's/^< /  missing: /p; s/^> /  unexpected: /p' <<<"$differences"
    } >&2
    exit 1
fi

# Every program under smc-run loads the library: it may need nothing that a host may lack.
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
for object in $needed; do
    case $object in
        libc.so.6 | libgcc_s.so.1 | libm.so.6 | ld-linux-*) ;;
        *) die "$library needs $object at load time" ;;
    esac
done
