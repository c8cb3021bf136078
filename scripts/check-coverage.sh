#!/usr/bin/env bash
# Compares docs/coverage.md with the exported symbols and with the tests.
#
#   check-coverage.sh [DOCUMENT [LIST]]
#
# Every symbol of LIST must have a row under "Calls", and no row may name one that is not exported;
# every test that the last columns name must exist.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

document=${1:-docs/coverage.md}
list=${2:-smc-preload/exports.txt}
[ -r "$document" ] || die "$document is missing"
[ -r "$list" ] || die "$list is missing"
faults=0
fault() { say "check-coverage: $*" >&2; faults=$((faults + 1)); }

# The first cell of each row of the section.
# shellcheck disable=SC2016 # the quotes are the document's
named=$(sed -n '/^## Calls/,/^## Flags/p' "$document" | awk -F'|' '/^\| `/ { print $2 }' |
    grep -o '`[^`]*`' | tr -d '`' | LC_ALL=C sort)
doubled=$(uniq -d <<<"$named")
[ -z "$doubled" ] || fault "more than one row for: ${doubled//$'\n'/ }"
exported=$(sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$list" | LC_ALL=C sort -u)
missing=$(LC_ALL=C comm -23 <(printf '%s\n' "$exported") <(sort -u <<<"$named"))
stale=$(LC_ALL=C comm -13 <(printf '%s\n' "$exported") <(sort -u <<<"$named"))
[ -z "$missing" ] || fault "no row for: ${missing//$'\n'/ }"
[ -z "$stale" ] || fault "not exported: ${stale//$'\n'/ }"

# A row without a test proves nothing.
while IFS= read -r row; do
    fault "no test in the row: $row"
done < <(grep '^| ' "$document" | grep -vE '^\| (symbols|flag|option|behaviour|program) \|' |
    grep -vE '[a-z_/]+::[a-z0-9_]+' || true)

while IFS= read -r test; do
    file="tests/tests/${test%%::*}.rs"
    name=${test##*::}
    if [ ! -r "$file" ]; then
        fault "$test: there is no $file"
    # A function, or a line of a list that a macro makes into functions.
    elif ! grep -qE "^ *(fn $name\(|$name\$)" "$file"; then
        fault "$test: not in $file"
    fi
done < <(grep '^| ' "$document" | grep -oE '[a-z_/]+::[a-z0-9_]+' | sort -u)

[ "$faults" -eq 0 ] || die "$faults faults in $document"
