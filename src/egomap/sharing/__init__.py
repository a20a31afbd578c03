"""Agents for others: an exported folder with its card, and a hub."""
