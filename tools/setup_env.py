"""Create the virtual environment and install egomap into it, with a CPU build of torch where no GPU is.

Usage: python tools/setup_env.py VENV

The order matters: torch first, then the package, so that nothing pulls gigabytes of CUDA libraries onto a
machine that cannot use them. Three sources are tried without a GPU: a wheel that pip was told of
(PIP_FIND_LINKS or pip's own configuration), uv's knowledge of PyTorch's CPU builds, and plain pip.

An environment that an interrupted set-up left without pip is made again; a folder of anything else is refused.
"""

from __future__ import annotations  # an older Python must get as far as the sentence about its age

import shutil
import subprocess
import sys
import venv
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
TORCH = "torch>=2.4,<2.13.1"
EXTRAS = ".[kernels,video,miniworld,dev]"


def succeeds(*command: str | Path, quiet: bool = False) -> bool:
    output = subprocess.DEVNULL if quiet else None
    parts = [str(part) for part in command]
    try:
        return subprocess.run(parts, cwd=PROJECT, stdout=output, stderr=output, check=False).returncode == 0
    except OSError:
        return False  # there is no such program


def ready_environment(folder: Path) -> Path:
    """The interpreter of the environment in `folder`, which is made unless it is there and has pip."""
    python = folder.absolute() / "bin" / "python"
    if not succeeds(python, "-m", "pip", "--version", quiet=True):
        print(f"Creating {folder} ...", flush=True)
        venv.create(folder, with_pip=True, clear=True)
    return python


def install_torch(python: Path) -> None:
    if succeeds(python, "-c", "import torch", quiet=True):
        return
    pip = (python, "-m", "pip", "install", "-q")
    if shutil.which("nvidia-smi"):
        return  # the package's own requirement brings the CUDA build
    if succeeds(*pip, "--no-index", "--no-deps", TORCH, quiet=True):
        return
    if succeeds(*pip, "uv", quiet=True) and succeeds(
        python,
        "-m",
        "uv",
        "pip",
        "install",
        "-q",
        "--python",
        python,
        "--torch-backend",
        "cpu",
        TORCH,
        quiet=True,
    ):
        return
    print("No CPU build of torch could be had; pip's default build follows, and it is large.", flush=True)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    if sys.version_info < (3, 11):
        print(
            f"egomap needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.11"
        )
        return 2
    folder = Path(sys.argv[1])
    if folder.exists() and not folder.is_dir():
        print(f"{folder} is a file; give a folder for the environment.")
        return 2
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        print(f"{folder} holds other files; give a new or empty folder for the environment.")
        return 2
    try:
        python = ready_environment(folder)
    except subprocess.CalledProcessError:
        print("This Python cannot make environments with pip; on Debian and Ubuntu: apt install python3-venv")
        return 2
    print("Installing torch (CPU build where there is no GPU) ...", flush=True)
    install_torch(python)
    print("Installing egomap and its dependencies (about a minute) ...", flush=True)
    return 0 if succeeds(python, "-m", "pip", "install", "-q", "-e", EXTRAS) else 1


if __name__ == "__main__":
    sys.exit(main())
