"""EgoMap: projective mapping and structured egocentric memory for deep reinforcement learning.

The way of one observation: `scenarios` make worlds, `envs` serve them, `geometry` and `memory` map what is
seen, `agents` act on it, `rl` and `training` learn, `evaluation` and `analysis` measure and show.
"""

__version__ = "0.1.0"
