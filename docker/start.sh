#!/usr/bin/env bash
# Starts the job that docker/build.sh has put beside this script, with the arguments of spark-submit.sh.
#
# Only $TMPDIR (/tmp) and the configured state_dir are written to: the rest may be read-only, and the user any.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/autoscaler.XXXXXX")
cp -R "$here/kernels" "$scratch/kernels" # the compiler's cache is taken only from a directory that can be written
export HOME=$scratch XDG_CACHE_HOME=$here/cache NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=$scratch/kernels
export SPARK_LOCAL_DIRS=$scratch PYTHONDONTWRITEBYTECODE=1
cd "$scratch" # Spark leaves files where it is started
exec "$here/spark-submit.sh" "$@"
