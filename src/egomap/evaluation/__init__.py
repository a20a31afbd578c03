"""How well agents play: the runner, statistics, and the tables of the paper."""
