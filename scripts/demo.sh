#!/usr/bin/env bash
# Shows what smc-run does, on redis: installs what is missing, builds, runs redis-server and
# redis-benchmark bare and under smc-run by turns, and prints the ratio and the proof that the
# ring carried the bytes. Stops everything it started and leaves nothing but the build.
#
#   scripts/demo.sh [ROUNDS]
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

rounds=${1:-3}
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "ROUNDS is a positive number"

scripts/setup.sh
cargo build --release --locked -p smc-run -p smc-preload
smc_run=$(realpath "$release_dir/smc-run")

folder=$(mktemp -d "${TMPDIR:-/tmp}/smc-demo.XXXXXX")
server=
stop_server() {
    [ -n "$server" ] || return 0
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}
cleanup() {
    stop_server
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_server [PREFIX…]: starts redis-server, under the prefix command where one is given.
start_server() {
    port=$(free_port)
    "$@" redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no \
        --dir "$folder" --daemonize no --loglevel warning >>"$folder/server.log" 2>&1 &
    server=$!
    local try
    for try in $(seq 100); do
        if redis-cli -h 127.0.0.1 -p "$port" ping >/dev/null 2>&1; then return 0; fi
        kill -0 "$server" 2>/dev/null || die "redis-server ended: $(tail -n 3 "$folder/server.log")"
        sleep 0.1
    done
    die "redis-server did not answer after $try tries"
}

# load OUTPUT [PREFIX…]: runs redis-benchmark once and appends its rates to OUTPUT.
load() {
    local output=$1
    shift
    "$@" redis-benchmark -h 127.0.0.1 -p "$port" -c 200 -d 1024 -n 100000 -t set,get --csv \
        >"$folder/report" 2>"$folder/client.log" ||
        die "redis-benchmark failed: $(tail -n 3 "$folder/client.log")"
    cat "$folder/report" >>"$output"
}

for round in $(seq "$rounds"); do
    say "round $round of $rounds: TCP"
    start_server
    load "$folder/tcp.csv"
    stop_server
    say "round $round of $rounds: smc-run"
    start_server "$smc_run" --summary "$folder/server.jsonl" --
    load "$folder/smc.csv" "$smc_run" --summary "$folder/client.jsonl" --
    stop_server
done

python3 scripts/lib/demo_report.py "$folder"
