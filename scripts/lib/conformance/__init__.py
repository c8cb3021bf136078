"""Test suites that others wrote, bare and under smc-run; see scripts/conformance.sh."""
