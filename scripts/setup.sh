#!/usr/bin/env bash
# Installs what building, testing and benchmarking smc-run need on Debian 12.
#
# Idempotent: when everything is there it only looks, and needs no privilege. No service is
# started by it: servers installed here stay off.
set -euo pipefail

# What the build needs.
build_packages=(build-essential cmake pkg-config libclang-dev libibverbs-dev binutils)
# Programs that the tests and benchmarks run.
program_packages=(
    redis-server redis-tools nginx-light wrk apache2-utils qperf sockperf iperf3 memcached
    curl socat iproute2 procps util-linux python3 libjemalloc2 libtcmalloc-minimal4 eatmydata
    faketime libproxychains4 liburing-dev gnuplot-nox shellcheck ca-certificates strace valgrind
    stress-ng tcl rsync haproxy postgresql openssl
)

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# The packages among the arguments that are not installed.
missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
            printf '%s\n' "$package"
    done
}

# Runs a command with the privilege to install.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

policy=/usr/sbin/policy-rc.d
policy_saved=
restore_policy() {
    [ -n "$policy_saved" ] || return 0
    as_root rm -f "$policy"
    if [ "$policy_saved" = moved ]; then as_root mv "$policy.smc-setup" "$policy"; fi
    policy_saved=
}

# Debian starts a server when its package is installed; exit status 101 of policy-rc.d forbids it.
forbid_service_start() {
    trap restore_policy EXIT
    if [ -e "$policy" ]; then
        as_root mv "$policy" "$policy.smc-setup"
        policy_saved=moved
    else
        policy_saved=absent
    fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
}

install_packages() {
    local -a missing
    mapfile -t missing < <(missing_packages "${build_packages[@]}" "${program_packages[@]}")
    [ "${#missing[@]}" -gt 0 ] || return 0
    command -v apt-get >/dev/null ||
        die "this is not Debian; install the equivalents of: ${missing[*]}"
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        die "no root and no sudo; as root run: apt-get install ${missing[*]}"
    fi
    say "installing ${missing[*]}"
    forbid_service_start
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
    restore_policy
}

# True when version $1 is at least version $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

check_rust() {
    local wanted found
    wanted=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
    if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
        PATH="$HOME/.cargo/bin:$PATH"
    fi
    command -v cargo >/dev/null ||
        die "Rust is missing (Debian's is too old); get it from https://rustup.rs:" \
            "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
    # Where rustup manages the toolchain, this first call installs the one the project names.
    found=$(cargo --version | cut -d ' ' -f 2)
    at_least "$found" "$wanted" ||
        die "cargo $found is too old, $wanted is needed; get it from https://rustup.rs"
}

cd "$(dirname "$0")/.."
install_packages
check_rust
say "ready"
