#!/usr/bin/env bash
# Puts all that the job needs into one directory: what docker/Dockerfile does in its first stage, and works without an engine too.
#
#   docker/build.sh DIRECTORY
#
# From a clone; needs Python 3.11 or later and Java 17 or later. Nothing is written there afterwards: the directory may belong to
# another user, or be mounted to read. docker/start.sh starts it.
set -euo pipefail

directory=${1:?usage: docker/build.sh DIRECTORY}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p "$directory/conf"
cp -R jobs "$directory/"
cp conf/spark.conf conf/log4j2.properties "$directory/conf/"
cp spark-submit.sh docker/start.sh "$directory/"
find "$directory/jobs" -name __pycache__ -type d -prune -exec rm -rf {} +

python3 -m venv "$directory/.venv"
python=$directory/.venv/bin/python
"$python" -m pip install --disable-pip-version-check --no-input --no-cache-dir --quiet ".[controller,kubernetes]"
cd / # or Python would find the clone's package
# Machine code for any processor of this kind, not for the one that builds
NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=$directory/kernels "$python" -m autoscaler.adapters.kernels
XDG_CACHE_HOME=$directory/cache "$python" -m autoscaler.jars delta
rm -rf "$directory/cache/kafka-autoscaler/ivy"
