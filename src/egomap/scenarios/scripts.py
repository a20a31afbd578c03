"""The scripts of a map: what happens when the player appears and when a goal is touched.

What comes in: the goals' rewards and a few rules. What goes out: a BEHAVIOR lump. Places are not known here:
a goal is a thing with an id, and the scripts ask the engine where it is.

For whoever plays the maps: ACS global 0 is the reward; global 1 (game variable USER1) counts the goals
reached; global 2 (USER2) is the status, see `RUNNING`, `SOLVED`, `FAILED`. A time-out leaves USER2 at
`RUNNING`.
"""

from __future__ import annotations

from egomap.scenarios.acs import Instruction, Script, assemble, fixed

RUNNING, SOLVED, FAILED = 0, 1, 2

REWARD, PROGRESS, STATUS = 0, 1, 2  # ACS globals
FIRST_GOAL_TID = 20
PILLAR_TID = 30
EXECUTE_ALWAYS, EXIT_NORMAL, THING_DAMAGE = 226, 243, 119  # action specials


def goal_scripts(
    rewards: tuple[float, ...], *, wrong_reward: float | None, hurts: bool, hides_last: bool
) -> bytes:
    """Assemble the scripts of a map whose goals are things FIRST_GOAL_TID, FIRST_GOAL_TID + 1, ...

    Args:
        rewards: What each goal pays, in the order in which they must be reached; the last one ends the
            episode.
        wrong_reward: What a goal out of order pays before it ends the episode as failed; None: nothing
            happens.
        hurts: Keep the player below full health, so that health items can be picked up.
        hides_last: Move the last goal to the thing PILLAR_TID once another goal is reached.
    """
    touched = _touched(rewards, wrong_reward, hurts=hurts, hides_last=hides_last)
    return assemble(
        [
            Script(1, "open", _open(len(rewards))),
            Script(2, "enter", _enter(hurts=hurts)),
            Script(3, "closed", touched, arguments=1),
        ]
    )


def _open(goals: int) -> list[Instruction]:
    """When the map starts: clear the counters and make every goal's pick-up call script 3 with its index."""
    code: list[Instruction] = []
    for variable in (REWARD, PROGRESS, STATUS):
        code += [("push", 0), ("assign_global", variable)]
    for index in range(goals):
        arguments = (FIRST_GOAL_TID + index, EXECUTE_ALWAYS, 3, 0, index, 0, 0)
        code += [*(("push", value) for value in arguments), ("set_thing_special",)]
    return code


def _enter(*, hurts: bool) -> list[Instruction]:
    """When the player appears: a random heading, empty hands."""
    return [
        ("push", 0),
        ("push", 0),
        ("push", fixed(1.0) - 1),
        ("random",),
        ("set_actor_angle",),
        *_ready(hurts=hurts),
    ]


def _ready(*, hurts: bool) -> list[Instruction]:
    """Make the player able to pick up any item: armour is refused over armour, a medikit at full health."""
    if not hurts:
        return [("clear_inventory",)]
    # Two points, since the easiest skill halves damage and would round one point down to none. The inventory
    # goes first, or armour would absorb the damage.
    damage = (0, 2, 0)
    return [("clear_inventory",), *(("push", value) for value in damage), ("special3", THING_DAMAGE)]


def _touched(
    rewards: tuple[float, ...], wrong: float | None, *, hurts: bool, hides_last: bool
) -> list[Instruction]:
    """When the goal of index local 0 is touched: pay, count, end the episode with the last or a wrong one."""
    code: list[Instruction] = [
        # The exit takes effect in the next tic: nothing may be paid until then.
        ("push_global", STATUS),
        ("jump_if", "end"),
        ("push_local", 0),
        ("push_global", PROGRESS),
        ("ne",),
        ("jump_if", "wrong"),
    ]
    for index, reward in enumerate(rewards):
        code += [("push_local", 0), ("push", index), ("ne",), ("jump_if", f"not {index}")]
        code += [("push", fixed(reward)), ("add_global", REWARD), ("label", f"not {index}")]
    code += [("push", 1), ("add_global", PROGRESS)]
    code += [("push_global", PROGRESS), ("push", len(rewards)), ("lt",), ("jump_if", "more")]
    code += [*_finish(SOLVED), ("label", "more")]
    if hides_last:
        code += _reveal(FIRST_GOAL_TID + len(rewards) - 1)
    code += [*_ready(hurts=hurts), ("jump", "end"), ("label", "wrong")]
    if wrong is not None:
        code += [("push", fixed(wrong)), ("add_global", REWARD), *_finish(FAILED)]
    return [*code, ("label", "end"), ("terminate",)]


def _finish(status: int) -> list[Instruction]:
    return [
        ("push", status),
        ("assign_global", STATUS),
        ("push", 0),
        ("special1", EXIT_NORMAL),
        ("jump", "end"),
    ]


def _reveal(tid: int) -> list[Instruction]:
    """Move the hidden pick-up `tid` into the pillar."""
    return [
        ("push", tid),
        ("push", PILLAR_TID),
        ("actor_x",),
        ("push", PILLAR_TID),
        ("actor_y",),
        ("push", 0),
        ("push", 0),
        ("set_actor_position",),
        ("drop",),
    ]
