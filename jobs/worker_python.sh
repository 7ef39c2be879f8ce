#!/bin/sh
# The Python that Spark is told to use where all of it runs on this machine: spark-submit.sh names it as PYSPARK_PYTHON and
# PYSPARK_DRIVER_PYTHON. Spark starts some of its processes from its own daemon, whatever spark.python.daemon.module says, and some
# without any: here the first come from ours, and what the others print is JSON where the job's log is.
if [ "${1:-}" = -m ]; then
    case ${2:-} in
        pyspark.daemon)
            shift 2
            set -- -m autoscaler.streaming.daemon "$@"
            ;;
        pyspark.*)
            if [ "${AUTOSCALER_LOG_FORMAT:-}" = json ]; then
                shift
                set -- -m autoscaler.streaming.daemon alone "$@"
            fi
            ;;
    esac
fi
exec "$AUTOSCALER_PYTHON" "$@"
