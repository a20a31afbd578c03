"""Looking into an agent's memory: recorded episodes as a page, figures, a video, a window, and probes."""
