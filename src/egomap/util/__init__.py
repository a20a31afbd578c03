"""Helpers for every layer: files, untrusted input, addresses, digests, cores, bars. They import no other room."""
