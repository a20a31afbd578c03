"""What only our mazes have: a plan, legs to their goals, a planner and an explorer who know their rules."""
