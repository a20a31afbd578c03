"""How a weight changes while the budget is spent.

Input: a setting, and which share of the budget is spent. Output: what the setting is worth then.
"""

from __future__ import annotations


def falling(start: float, decay: float, spent: float) -> float:
    """What is left of `start` when a share `spent` of the budget is spent.

    Args:
        start: At the beginning.
        decay: Share of the budget at which it has fallen linearly to 0; 0: it does not fall.
        spent: Share of the budget, 0 to 1.
    """
    return start * max(0.0, 1 - spent / decay) if decay else start
