#!/bin/sh
# Compares what the built preload library exports with exports.txt; with --update, writes the file.
# A symbol too many would shadow a function of the program, one too few would miss its calls.
set -eu
here=$(dirname -- "$0")
library=${SMC_PRELOAD_LIB:-$here/../target/release/libsmc_preload.so}
[ -f "$library" ] || { echo "check-exports: no library at $library" >&2; exit 1; }
exported() { nm -D --defined-only -- "$library" | awk '{ print $3 }' | LC_ALL=C sort; }
if [ "${1-}" = --update ]; then
    exported >"$here/exports.txt"
else
    exported | diff -u -- "$here/exports.txt" -
fi
needed=$(readelf -d -- "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -Ev '^(libc\.so\.6|libgcc_s\.so\.1|ld-linux-.*)$' || true)
if [ -n "$needed" ]; then
    echo "check-exports: the library must need nothing but libc: $needed" >&2
    exit 1
fi
