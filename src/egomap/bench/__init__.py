"""Throughput of each part against the ceilings of this machine."""
