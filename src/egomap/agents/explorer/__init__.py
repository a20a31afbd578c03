"""Explorer: the agent that knows only what it has seen, and its walker."""
