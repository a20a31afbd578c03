"""Simulators beside Doom, each an extra: MiniWorld, which draws our mazes, and Memory Maze, which has its own."""
