"""Agent-blind reinforcement learning: returns, losses, rollouts, updates."""
