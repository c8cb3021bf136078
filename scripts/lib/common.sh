# Shared by the scripts of this folder: sourced, not run. Leaves the shell in the project's root.
# shellcheck shell=bash

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

# A toolchain that rustup installed is found even where no login shell has set the path.
if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
    PATH="$HOME/.cargo/bin:$PATH"
fi

# shellcheck disable=SC2034 # for the scripts that source this
# Where cargo puts what it builds in release.
release_dir="${CARGO_TARGET_DIR:-target}/release"

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
