"""What a simulator must give (`egomap.worlds.api`), and any Gymnasium environment behind it. No torch, no ViZDoom."""
