"""Evaluations of runs, and the paper's tables and figures made again from many of them."""
