"""Agents: perception, memory and heads wired together; nothing here needs ViZDoom."""
