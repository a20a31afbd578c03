"""Pictures and numbers of what an agent remembers."""
