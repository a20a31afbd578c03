"""Offline test of memories: what each can learn, with dense labels and without RL, of what an explorer must know."""
