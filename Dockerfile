# egomap on the CPU, with the native kernels and video. Build it, and check the machine:
#
#   docker build -t egomap .
#   docker run --rm egomap
#
# Train into a folder of the host:
#
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/runs:/data/runs" egomap \
#       train --preset quick --run runs/quick --auto-resume
#
# Engines share their pictures through /dev/shm. Docker gives it 64 MB, room for 128 engines; --shm-size gives more.
#
# For CUDA: torch's CUDA wheels bring their libraries, so the base image may stay. Build with --build-arg
# TORCH_INDEX=https://download.pytorch.org/whl/cu126 (the index of your CUDA version), and run with --gpus all, which
# needs NVIDIA's container toolkit on the host.
FROM python:3.11-slim

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

# Nothing from apt is needed: ViZDoom's and OpenCV's wheels bring their libraries, imageio-ffmpeg its ffmpeg.
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    NUMBA_CACHE_DIR=/tmp/numba \
    EGOMAP_CACHE=/data/cache

# torch first, so that nothing chooses another build of it. The bound is that of pyproject.toml.
RUN pip install --index-url "$TORCH_INDEX" "torch>=2.4,<2.13.1"

COPY pyproject.toml README.md LICENSE /opt/egomap/
COPY src /opt/egomap/src
RUN pip install "/opt/egomap[kernels,video]" && rm -rf /opt/egomap

# Run folders and generated mazes. Writable for every --user, who has no home of their own: caches go to /tmp.
RUN mkdir -p /data/runs /data/cache && chmod -R a+rwX /data
WORKDIR /data
VOLUME /data

ENTRYPOINT ["egomap"]
CMD ["doctor"]
