"""A planner that is carried off its way finds another."""

from __future__ import annotations

from pathlib import Path

from egomap.agents.planner import PlannerAgent
from egomap.config import ScenarioConfig
from egomap.envs import DoomEnv
from egomap.scenarios import generate


def test_on_the_wrong_side_of_an_item(tmp_path: Path) -> None:
    # In this episode the player drifts past the wrong side of item 3, which its way passes between item and wall;
    # from there no sequence of actions along the old way leads on.
    config = ScenarioConfig(task="ordered-items", items=6, size=5, cell=160, train=16, test=0, seed=3)
    env = DoomEnv(task="ordered-items", scenarios=generate(config, tmp_path / "set"))
    try:
        observation, info = env.reset(seed=20, options={"layout": 15})
        planner = PlannerAgent()
        planner.begin(0, env.world.layout, 0)
        ended = False
        while not ended:
            action = planner.act(0, observation["pose"])
            observation, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
    finally:
        env.close()
    assert info["success"] and info["return"] > 3.4
