"""Scene memory transformer: what was seen and from where, kept as it was and attended to from where the agent stands.

Input: features of the view, ego-motion and pose (`MemoryInputs`). Output: one vector for the heads.
After Fang et al., "Scene Memory Transformer for Embodied Agents in Long-Horizon Tasks", CVPR 2019; EgoMap's paper
names it as related work. Their memory grows with the episode; here a bounded window of the latest scenes is kept
and attended to in full, so there is no need for their factorisation of the memory. It deliberately ignores depth:
unlike a map, it knows where it was, not where things are.

Cost with the default sizes: 16 kB of state per environment. The poses of all scenes change with every step, so a step
encodes its whole window anew: a training unroll of 128 steps of 16 environments attends 2048 times among 32 scenes.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import MOTION_UNIT, AgentConfig, require_length, require_within
from egomap.geometry import motion_between
from egomap.geometry.checks import check_pose, require_shape
from egomap.memory.front import MOST, Front, check_state, common, steps_within
from egomap.memory.lesions import Part
from egomap.memory.protocol import (
    Fitting,
    MemoryInputs,
    MemoryState,
    MemoryTrace,
    ParameterGroups,
    TensorSpec,
    check_episode_start,
)
from egomap.memory.reads import orthogonal
from egomap.memory.shown import Shown

POSE_UNIT = 16 * MOTION_UNIT
"""Map units that distances to scenes are divided by."""
WHERE_SIZE = 5
"""Values of `where_and_when`."""


def where_and_when(pose: Tensor, scenes: Tensor, age: Tensor, *, unit: float, window: int) -> Tensor:
    """Where and when scenes were seen, relative to the agent now.

    Convention: a scene's pose is re-expressed in the agent's current frame, x to its right and y ahead; the turn
    is from the agent's heading to the scene's, counter-clockwise. The agent's own view has (0, 0, 1, 0, 1).

    Args:
        pose: (..., 3) of the agent, x, y (map units), phi (radians, counter-clockwise from +x), in the world.
        scenes: (..., W, 3) poses from which the scenes were seen, in the same world.
        age: (W,) how many steps ago each was seen.
        unit: Map units that distances are divided by.
        window: Steps after which the value for time has fallen to a third.

    Returns:
        (..., W, 5): right / unit, ahead / unit, cos and sin of the turn, exp(-age / window).
    """
    motion = motion_between(pose[..., None, :], scenes)
    turn, when = motion[..., 2:], torch.exp(-age.to(motion.dtype) / window)
    when = when[:, None].expand(*motion.shape[:-1], 1)
    return torch.cat((motion[..., :2] / unit, turn.cos(), turn.sin(), when), -1)


class AttentionBlock(nn.Module):
    """LayerNorm(ReLU(FC(h)) + h) with h = LayerNorm(attention(x to y) + x), several heads.

    Shapes: x (B, Q, size), y (B, W, size), visible (B, W) bool -> (B, Q, size).
    """

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value = nn.Linear(size, size), nn.Linear(size, 2 * size)
        self.out, self.linear = nn.Linear(size, size), nn.Linear(size, size)
        self.norm, self.last_norm = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x: Tensor, y: Tensor, visible: Tensor) -> Tensor:
        """What x makes of y, as far as it is visible."""
        query, key, value = self._split(x, y)
        read = F.scaled_dot_product_attention(query, key, value, attn_mask=visible[:, None, None])
        h = self.norm(self.out(read.transpose(1, 2).flatten(-2)) + x)
        return self.last_norm(F.relu(self.linear(h)) + h)

    def attention(self, x: Tensor, y: Tensor, visible: Tensor) -> Tensor:
        """What x attends to (B, heads, Q, W): to look at."""
        query, key, _ = self._split(x, y)
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        return scores.masked_fill(~visible[:, None, None], -math.inf).softmax(-1)

    def _split(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """Queries (B, heads, Q, head), keys and values (B, heads, W, head)."""
        parts = (self.query(x), *self.key_value(y).chunk(2, -1))
        return [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts]


@dataclass(frozen=True)
class SMTSettings:
    """Sizes of this memory; of an agent: `--agent.settings NAME=VALUE`."""

    size: int = 88
    """Values of a token, a multiple of heads."""
    heads: int = 4
    """Of the attention, 1 or more."""
    window: int = 32
    """Scenes that are attended to, with the present one, 2 or more."""
    pose_unit: float = POSE_UNIT
    """Map units that distances to scenes are divided by, above 0."""

    def validate(self) -> SMTSettings:
        """Return self, or raise a ValueError that names the value out of range."""
        for name, value, least in (
            ("size", self.size, 1),
            ("heads", self.heads, 1),
            ("window", self.window, 2),
        ):
            require_within(name, value, least, MOST)
        return self


class SMTMemory(nn.Module):
    """The latest scenes, each with the pose it was seen from, through an attention encoder and decoder.

    A scene is x_t = ReLU(FC([ReLU(features), ego-motion features])), kept with its pose. At every step each scene i
    of the window becomes a token FC([x_i, where and when it was seen]), relative to the agent's current pose;
    encoder: every token attends to all; decoder: the present one attends to what the encoder made of them; output
    ReLU(FC). Poses are data: no gradient goes to them. A step sees its own episode alone.

    Choices: a window of 32 scenes in place of all; ego-motion, which shows what the last action did, in place
    of the action; 88 values and 4 heads, so that the whole has about as many parameters as the recurrent
    baseline (185 k).

    Shapes: features (..., C, Hf, Wf), pose and ego_motion (..., 3) -> output (..., hidden_size).

    Args:
        feature_shape: (C, Hf, Wf) of the features.
        hidden_size: Values of a scene, and units of the last layer.
        size: Values of a token, a multiple of `heads`.
        heads: Of the attention.
        window: How many scenes are attended to, with the present one; 2 or more.
        motion_unit: As for the recurrent baseline.
        pose_unit: Map units that distances to scenes are divided by.
        use_reward: As for the recurrent baseline.
    """

    Settings = SMTSettings
    ages: Tensor

    def __init__(
        self,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        *,
        hidden_size: int = 128,
        size: int = 88,
        heads: int = 4,
        window: int = 32,
        motion_unit: float = MOTION_UNIT,
        pose_unit: float = POSE_UNIT,
        use_reward: bool = False,
    ) -> None:
        super().__init__()
        if heads < 1 or size < 1 or size % heads:
            raise ValueError(f"size must be a multiple of heads; got {size} and {heads}.")
        if window < 2:
            raise ValueError(f"window must be 2 or more scenes; got {window}.")
        require_length("pose_unit", pose_unit)
        self.window, self.pose_unit, self.output_size = window, float(pose_unit), hidden_size
        self.reduce = Front(feature_shape, hidden_size, motion_unit=motion_unit, use_reward=use_reward)
        self.of_scene = nn.Linear(hidden_size, size)
        self.of_place = nn.Linear(WHERE_SIZE, size, bias=False)
        self.encoder, self.decoder = AttentionBlock(size, heads), AttentionBlock(size, heads)
        self.out = nn.Linear(size, hidden_size)
        orthogonal(self.out, nn.init.calculate_gain("relu"))
        # The oldest first, as scenes lie in the state.
        self.register_buffer("ages", torch.arange(window - 1, -1, -1), persistent=False)

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting, settings: SMTSettings) -> SMTMemory:
        """A new one as an agent's settings, and its own, ask for it."""
        return cls(fitting.feature_shape, **asdict(settings), **common(config))

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """The scenes before the next one (window - 1, H), the oldest first; their poses; how many they are."""
        dtype, earlier = self.out.weight.dtype, self.window - 1
        scenes, poses = TensorSpec((earlier, self.output_size), dtype), TensorSpec((earlier, 3), dtype)
        return scenes, poses, TensorSpec((), torch.int64)

    @property
    def lesions(self) -> dict[str, Part]:
        """The scenes, with their poses."""
        return {"scenes": Part(state=(0, 1, 2))}

    @property
    def shown(self) -> Shown:
        """Nothing but words."""
        return Shown(words={"memory": f"the latest {self.window} scenes and their poses"})

    def initial_state(self, n: int) -> MemoryState:
        """No scenes."""
        device = self.out.weight.device
        return tuple(torch.zeros(n, *spec.shape, dtype=spec.dtype, device=device) for spec in self.state_spec)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: features (N, C, Hf, Wf), pose and ego_motion (N, 3) -> output (N, H), next state."""
        scene = self.reduce(inputs, axes=1)
        pose = self._pose(inputs, axes=1)
        check_state(self, state, len(scene))
        begin = torch.zeros(1, len(scene), dtype=torch.bool, device=scene.device)
        out, state = self._advance(scene[None], pose[None], state, begin, trace)
        return out[0], state

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: features (T, N, C, Hf, Wf), pose and ego_motion (T, N, 3) -> output (T, N, H), last state."""
        scenes = self.reduce(inputs, axes=2)
        poses = self._pose(inputs, axes=2)
        check_episode_start(episode_start, tuple(scenes.shape[:2]))
        check_state(self, state, scenes.shape[1])
        return self._advance(scenes, poses, state, episode_start, None)

    def parameter_groups(self) -> ParameterGroups:
        """Encoder, decoder, and the core: the layers before and after them."""
        core = (self.reduce, self.of_scene, self.of_place, self.out)
        return {
            "encoder": tuple(self.encoder.parameters()),
            "decoder": tuple(self.decoder.parameters()),
            "core": tuple(parameter for part in core for parameter in part.parameters()),
        }

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """How many steps back the decoder looks, on average, and how much of it looks back at all."""
        mean = trace["attended"].mean((0, 1))  # (W,), the oldest first
        return {"lookback": float((mean * self.ages).sum()), "attention_past": float(1 - mean[-1])}

    def _pose(self, inputs: MemoryInputs, *, axes: int) -> Tensor:
        """The pose (..., 3), as data."""
        require_shape("pose", inputs.pose, (*inputs.features.shape[:axes], 3), leading=0)
        check_pose(inputs.pose)
        return inputs.pose.detach().to(self.out.weight.dtype)

    def _advance(
        self,
        scenes: Tensor,
        poses: Tensor,
        state: MemoryState,
        episode_start: Tensor,
        trace: MemoryTrace | None,
    ) -> tuple[Tensor, MemoryState]:
        """Scenes (T, N, H), poses (T, N, 3), episode_start (T, N): output (T, N, H), last state."""
        steps, num_envs = episode_start.shape
        *earlier, count = state
        seen = steps_within(count, episode_start)
        count = count.masked_fill(episode_start[0], 0)
        lines = [
            torch.cat((_kept(old, count).transpose(0, 1), new))  # (window - 1 + T, N, ...), the oldest first
            for old, new in zip(earlier, (scenes.to(poses.dtype), poses), strict=True)
        ]
        last_count = (seen[-1] + 1).clamp(max=self.window - 1)
        last = [_kept(line[1 - self.window :].transpose(0, 1), last_count) for line in lines]

        visible = (self.ages <= seen[..., None]).flatten(0, 1)  # (T * N, W)
        told = where_and_when(
            poses, lines[1].detach().unfold(0, self.window, 1).transpose(-1, -2), self.ages,
            unit=self.pose_unit, window=self.window,
        )  # fmt: skip
        views = self.of_scene(lines[0]).unfold(0, self.window, 1).transpose(-1, -2)  # (T, N, W, size)
        tokens = (views + self.of_place(told)).flatten(0, 1)
        encoded = self.encoder(tokens, tokens, visible)
        decoded = self.decoder(tokens[:, -1:], encoded, visible)
        if trace is not None:
            attention = self.decoder.attention(tokens[:, -1:], encoded, visible)
            trace["attended"] = attention[:, :, 0].detach()  # (N, heads, W)
        out = F.relu(self.out(decoded[:, 0])).view(steps, num_envs, -1)
        return out, (*last, last_count)


def _kept(line: Tensor, count: Tensor) -> Tensor:
    """What is kept (N, W - 1, ...), the oldest first, with zeros in empty places."""
    age = torch.arange(line.shape[1] - 1, -1, -1, device=line.device)
    return line.masked_fill((age >= count[:, None])[..., None], 0.0)
