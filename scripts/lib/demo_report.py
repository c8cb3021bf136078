"""Prints what scripts/demo.sh measured: the rates, their ratio, and the part that the ring carried."""

import csv
import json
import pathlib
import statistics
import sys


def rates(path):
    """The median rate of each test in redis-benchmark's CSV reports."""
    found = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            if row and row[0] in ("SET", "GET"):
                found.setdefault(row[0], []).append(float(row[1]))
    return {name: statistics.median(values) for name, values in found.items()}


def carried(path):
    """Bytes through the ring and through TCP, from the clients' summaries."""
    ring = tcp = 0
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            summary = json.loads(line)
            ring += summary["smc"]["tx_bytes"] + summary["smc"]["rx_bytes"]
            tcp += summary["tcp_bytes"]["tx"] + summary["tcp_bytes"]["rx"]
    return ring, tcp


def main():
    folder = pathlib.Path(sys.argv[1])
    tcp, smc = rates(folder / "tcp.csv"), rates(folder / "smc.csv")
    print()
    print("redis-benchmark -c 200 -d 1024, requests per second, medians")
    print(f"{'':6}{'TCP':>12}{'smc-run':>12}{'ratio':>8}")
    for name in ("SET", "GET"):
        print(f"{name:6}{tcp[name]:12.0f}{smc[name]:12.0f}{smc[name] / tcp[name]:7.2f}x")
    ring, rest = carried(folder / "client.jsonl")
    share = ring / (ring + rest) if ring + rest else 0
    print(f"\nThe ring carried {share:.2%} of {ring + rest:,} bytes.")
    if share < 0.99:
        sys.exit("demo: NOT ACCELERATED: the ring should have carried at least 99 %")


main()
