"""The commands: one module each, with a function of its name, which tyro makes flags of.

A module may have `main(arguments)` besides, where its flags depend on what is given. Heavy parts are imported by the
command that needs them, once its flags are known to be good.
"""

COMMANDS = (
    "doctor",
    "generate",
    "train",
    "evaluate",
    "bench",
    "reproduce",
    "inspect",
    "play",
    "probe",
    "offline",
    "agents",
    "export",
    "push",
)
"""In the order of `egomap --help`."""
