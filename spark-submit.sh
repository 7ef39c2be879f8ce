#!/usr/bin/env bash
# Runs the autoscaler's job and keeps it running:
#
#   ./spark-submit.sh --config FILE [spark-submit options]
#   ./spark-submit.sh --job FILE [spark-submit options] [-- options of the job]
#
# The second form runs any other job, once and in the foreground, with the same Spark settings; all that follows is about the
# first. The configuration is checked first. Without --master the job runs in one local process. When the job ends by itself it is
# started again after a pause (1, 2, 4 ... 30 s; from 1 s again after five minutes of health), unless its exit code says that
# this would not help: 78 (settings), 74 (told to end; rows of the audit are not written). After 77 (another controller has taken
# over) it waits, once it is started again, until that one has ended. SIGTERM and Ctrl-C end the job in order; the workers go on.
# Its output is appended to logs/job.log below the configured state_dir, which is begun anew at 16 MiB (job.log.1 to job.log.3
# are kept); what this script does is said here.
#
# Environment: AUTOSCALER_PYTHON (interpreter with the package; else .venv, else python3), AUTOSCALER_SPARK_SUBMIT,
# AUTOSCALER_JAVA_OPTIONS (further options of the driver's JVM), AUTOSCALER_STOP_TIMEOUT_S (45), AUTOSCALER_CLASS_ARCHIVE
# (file, local masters only: the first orderly end writes Java's classes there, some 200 MB, which takes it half a minute;
# later starts read them, which saves about half of the JVM's processor time until the first decision).
set -uo pipefail

readonly SETTINGS=78 FENCED=77 UNWRITTEN=74
readonly HEALTHY_S=300 LONGEST_PAUSE_S=30
readonly LOG_BYTES=$((16 << 20)) LOG_LOOK_S=5
readonly QUIET_S=60 # after which it is said that there is no decision yet; then after twice as long, and so on
readonly READ_CYCLE='
import json, sys
c = json.loads(sys.stdin.readline())
now, asked = ("?" if c[n] is None else c[n] for n in ("consumers_now", "consumers"))
number = f"{now}" if asked in (now, "?") else f"{now} → {asked}"
print("group {}: {} consumers{}, {}: {}".format(c["group"], number, " advised" * (c["mode"] == "advise"), c["reason"], c["detail"]))
'
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P) || exit 1
readonly here
job=$here/jobs/autoscale.py

say() {
    printf '%s spark-submit.sh: %s\n' "$(date '+%F %T')" "$*" >&2
    [[ -n ${log:-} ]] || return 0
    if [[ ${AUTOSCALER_LOG_FORMAT:-} == json ]]; then
        local said=${*//\\/\\\\}
        printf '{"time": "%s", "level": "INFO", "logger": "spark-submit.sh", "message": "%s"}\n' \
            "$(date -u '+%FT%T+00:00')" "${said//\"/\\\"}" >>"$log"
    else
        printf '%s spark-submit.sh: %s\n' "$(date '+%F %T')" "$*" >>"$log"
    fi
}

usage() {
    printf 'usage: %s --config FILE [spark-submit options]\n' "$0"
    printf '       %s --job FILE [spark-submit options] [-- options of the job]\n' "$0"
}

misused() {
    usage >&2
    exit "$SETTINGS"
}

# --- what to run ------------------------------------------------------------------------------------------------------
config='' master='' once='' added='' options=() own=()
while (($#)); do
    case $1 in
        --config) [[ $# -ge 2 ]] || misused; config=$2; shift ;;
        --config=*) config=${1#*=} ;;
        --job) [[ $# -ge 2 ]] || misused; once=1 job=$2; shift ;;
        --job=*) once=1 job=${1#*=} ;;
        --) shift; own=("$@"); break ;;
        --master) [[ $# -ge 2 ]] || misused; master=$2; options+=("$1" "$2"); shift ;;
        --jars) [[ $# -ge 2 ]] || misused; added=$2; shift ;;
        --jars=*) added=${1#*=} ;;
        --master=*) master=${1#*=}; options+=("$1") ;;
        -h | --help) usage; exit 0 ;;
        *) options+=("$1") ;;
    esac
    shift
done
if [[ -n $once ]]; then [[ -z $config ]] || misused; else [[ -n $config && ${#own[@]} -eq 0 ]] || misused; fi
[[ -f $job ]] || { say "there is no job $job"; exit "$SETTINGS"; }

python=${AUTOSCALER_PYTHON:-}
[[ -z $python && -x $here/.venv/bin/python ]] && python=$here/.venv/bin/python
python=$(command -v "${python:-python3}") || { say "no Python found: run 'make install', or set AUTOSCALER_PYTHON"; exit "$SETTINGS"; }
if ! "$python" -c 'import autoscaler.cli' 2>/dev/null; then
    say "$python does not have the package: run 'make install', or set AUTOSCALER_PYTHON to an interpreter that has it"
    exit "$SETTINGS"
fi
if [[ -z $once ]]; then "$python" -m autoscaler.cli validate --config "$config" || exit $?; fi

# One start of Python answers all: where Spark is, where the state lies, and the jars, as the class path of a local master and as
# the list that any other brings to its executors as well.
facts=$("$python" - "$config" ${own[@]+"${own[@]}"} <<'PYTHON'
import sys
from autoscaler import jars
from autoscaler.errors import AutoscalerError, Exit, SettingsError
from autoscaler.config.places import scheme_of
from autoscaler.config.settings import load

try:
    home = jars.spark_home()
    settings = load(sys.argv[1]) if sys.argv[1] else None
    places = (settings.checkpoint_place, settings.tables_place) if settings else sys.argv[2:]
    bundles = () if any((home / "jars").glob("delta-spark_*.jar")) else jars.needed(map(scheme_of, places))
    brought = sorted(str(jar) for b in bundles for jar in jars.fetch(b).glob("*.jar"))
    print(home, settings.root if settings else "", jars.class_path(*bundles), ",".join(brought), settings.log.format if settings else "", sep="\n")
    jars.java()
except AutoscalerError as e:
    sys.stderr.write("\n".join(e.problems if isinstance(e, SettingsError) else [str(e)]) + "\n")
    sys.exit(Exit.SETTINGS if isinstance(e, SettingsError) else Exit.FAILED)
PYTHON
) || exit $?
{ read -r home; read -r state; read -r class_path; read -r jars; read -r AUTOSCALER_LOG_FORMAT; } <<<"$facts"
export AUTOSCALER_LOG_FORMAT SPARK_HOME=$home PYSPARK_PYTHON=$python PYSPARK_DRIVER_PYTHON=$python PYTHONUNBUFFERED=1
# The launcher is a JVM of its own that lives for half a second: it is not worth optimising code for.
export SPARK_LAUNCHER_OPTS="${SPARK_LAUNCHER_OPTS:-} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"

if [[ -z $once ]]; then
    mkdir -p "$state/logs" || { say "cannot make $state/logs: state_dir must be writable"; exit "$SETTINGS"; }
    log=$state/logs/job.log
    cycles=$state/logs/cycles.jsonl
    standing=$state/logs/supervisor.json
    exec 9>>"$state/supervisor.lock" # held by the job too: it must be gone before another starts
    if command -v flock >/dev/null && ! flock --timeout "${AUTOSCALER_LOCK_TIMEOUT_S:-20}" 9; then
        say "another spark-submit.sh runs on $state: stop it first, or give this one another state_dir"
        exit "$SETTINGS"
    fi
fi

archive=${AUTOSCALER_CLASS_ARCHIVE:-} archiving=''
if [[ -n $archive && -f $archive ]]; then
    classes=-XX:SharedArchiveFile=$archive
elif [[ -n $archive ]]; then
    classes=-XX:ArchiveClassesAtExit=$archive.new # complete only when the JVM has ended: renamed then
    archiving=1 AUTOSCALER_STOP_TIMEOUT_S=${AUTOSCALER_STOP_TIMEOUT_S:-180}
fi
log4j=$here/conf/log4j2.properties
[[ $AUTOSCALER_LOG_FORMAT != json ]] || log4j+=,$here/conf/log4j2-json.properties # on top of it
log4j="\"-Dlog4j2.configurationFile=$log4j\"" # in quotes for Spark's launcher: the path may hold spaces
command=("${AUTOSCALER_SPARK_SUBMIT:-$SPARK_HOME/bin/spark-submit}" --properties-file "$here/conf/spark.conf")
[[ -n $master ]] || command+=(--master 'local[4]')
case ${master:-local} in # local-cluster is not local: its executors are processes with directories of their own
    local | local\[*)
        command+=(--driver-java-options "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m -Xshare:auto ${classes:-} $log4j ${AUTOSCALER_JAVA_OPTIONS:-}")
        export AUTOSCALER_PYTHON=$python # executors elsewhere have no package when their workers start
        export PYSPARK_PYTHON=$here/jobs/worker_python.sh PYSPARK_DRIVER_PYTHON=$here/jobs/worker_python.sh
        [[ -n $class_path ]] && command+=(--driver-class-path "$class_path")
        ;;
    *)
        command+=(--driver-java-options "-Xss4m $log4j ${AUTOSCALER_JAVA_OPTIONS:-}")
        added=$jars${added:+${jars:+,}$added}
        ;;
esac
[[ -n $added ]] && command+=(--jars "$added")
command+=(${options[@]+"${options[@]}"} "$job")
[[ -z $once ]] || exec "${command[@]}" ${own[@]+"${own[@]}"}
command+=(--config "$config")

# --- run it, and again --------------------------------------------------------------------------------------------------
child='' stopping='' killed=''

# The Python driver is a child of the JVM that spark-submit becomes. Only the driver knows how to end in order: a JVM that
# is told to end takes Spark away below it.
drivers() {
    local pid
    if compgen -G "/proc/$1/task/*/children" >/dev/null; then
        for pid in $(cat "/proc/$1"/task/*/children 2>/dev/null); do
            tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$job" && echo "$pid"
        done
    else
        pgrep -P "$1" -f "$job"
    fi
    return 0
}

signal_job() { # NAME
    local found
    found=$(drivers "$child")
    # shellcheck disable=SC2086  several pids are several words
    kill -s "$1" ${found:-$child} 2>/dev/null
    return 0
}

stop() {
    if [[ -n $stopping ]]; then
        say 'told to stop again: killing the job'
        killed=1
    fi
    stopping=1
    [[ -n $child ]] || return 0
    [[ -n $killed ]] && { signal_job KILL; kill -s KILL "$child" 2>/dev/null; return 0; }
    say 'stopping the job'
    signal_job TERM
}
trap stop TERM INT HUP

rotate() { # the job appends to its log, so that it may be emptied while the job writes
    (($(wc -c <"$log" || echo 0) < LOG_BYTES)) && return
    mv -f "$log.2" "$log.3"
    mv -f "$log.1" "$log.2"
    cp -f "$log" "$log.1" && : >"$log"
} 2>/dev/null

# Says on the terminal, but not in the log, which has it, that the first decision is made, or what the log says while there is none.
tell_start() { # reads and sets cycles_from, quiet_until, began
    local first size
    size=$(wc -c 2>/dev/null <"$cycles" || echo 0)
    ((size >= cycles_from)) || cycles_from=0 # the file was begun anew
    first=$(tail -c "+$((cycles_from + 1))" "$cycles" 2>/dev/null | head -n 1 | "$python" -c "$READ_CYCLE" 2>/dev/null)
    if [[ -n $first ]]; then
        began=''
        printf '%s spark-submit.sh: first decision, %s\n' "$(date '+%F %T')" "$first" >&2
    elif ((SECONDS - began >= quiet_until)); then
        printf '%s spark-submit.sh: no decision yet after %s s; the log says last: %s\n' "$(date '+%F %T')" "$((SECONDS - began))" \
            "$(tail -n 1 "$log" | cut -c 1-400)" >&2
        quiet_until=$((quiet_until * 2))
    fi
}

# If this script is killed outright, the job must not run on without it: the pipe's end tells the watcher. It looks after the
# log meanwhile.
exec 8> >(
    trap '' TERM INT HUP
    exec 9>&-
    last='' began='' cycles_from=0 quiet_until=0
    while true; do
        if read -r -t "$LOG_LOOK_S" pid; then
            last=$pid began=${pid:+$SECONDS} quiet_until=$QUIET_S
            cycles_from=$(wc -c 2>/dev/null <"$cycles" || echo 0)
        elif (($? <= 128)); then
            break
        fi # above: time is up
        rotate
        [[ -z $began ]] || tell_start
    done
    [[ -n $last ]] || exit 0
    found=$(drivers "$last")
    # shellcheck disable=SC2086
    kill -s KILL $found "$last" 2>/dev/null
)

# For 'autoscaler status': what this script is doing, in one small file that is replaced as a whole.
note() { # STATE [PAUSE]
    local now again=null
    now=$(date +%s)
    [[ -z ${2:-} ]] || again=$((now + $2))
    printf '{"t":%s,"state":"%s","started_at":%s,"restarts":%s,"exit_code":%s,"ended_at":%s,"ran_s":%s,"again_at":%s}\n' \
        "$now" "$1" "$started_at" "$restarts" "$last_code" "$ended_at" "${ran_s:-null}" "$again" >"$standing.new" &&
        mv -f "$standing.new" "$standing"
} 2>/dev/null

launch() {
    set -m # a process group of its own: Ctrl-C is for this script, which ends the job in order
    "${command[@]}" </dev/null >>"$log" 2>&1 8>&- &
    child=$!
    set +m
    echo "$child" >&8
}

await() { # sets code
    code=0
    local since=$SECONDS deadline=''
    while kill -0 "$child" 2>/dev/null; do
        if [[ -n $stopping ]]; then # a bounded wait: the caller that stops this script waits for it
            deadline=${deadline:-$((SECONDS + ${AUTOSCALER_STOP_TIMEOUT_S:-45}))}
            if ((SECONDS >= deadline)); then
                say 'the job did not end in time: killing it'
                signal_job KILL
                kill -s KILL "$child" 2>/dev/null
            fi
            nap .2
        fi
        [[ -n $stopping ]] && continue
        wait "$child"
        code=$?
    done
    wait "$child" # a signal may have ended the wait above in place of the child
    local again=$?
    ((again == 127)) || code=$again
    echo >&8
    child=''
    if [[ -n $archiving && $code -eq 0 && -f $archive.new ]]; then
        mv -f "$archive.new" "$archive"
    fi
    ran_s=$((SECONDS - since))
}

nap() { # SECONDS; a signal ends it
    sleep "$1" 8>&- 9>&- &
    local sleeper=$!
    wait "$sleeper"
    kill "$sleeper" 2>/dev/null
    return 0
}

last_words() { # what the job itself said last
    tail -n 40 "$log" | grep -v -e ' spark-submit.sh: ' -e '"logger": "spark-submit.sh"' | tail -n 5 >&2
    return 0
}

# A function, called in a line that also ends: bash has then read all of this file, which an upgrade may replace while it runs.
main() {
    pause=1 restarts=0 started_at=null last_code=null ended_at=null
    while [[ -z $stopping ]]; do
        say "starting the job; its output goes to $log, 'autoscaler status --config $config' shows what it does"
        started_at=$(date +%s)
        note running
        launch
        await
        last_code=$code ended_at=$(date +%s)
        note ended
        [[ -n $stopping ]] && break
        case $code in
            0) say 'the job ended'; exit 0 ;;
            "$UNWRITTEN") say "the job was told to end, and could not write rows of its audit, see the end of $log"; last_words; exit "$code" ;;
            "$SETTINGS") say "the job refused its settings, see the end of $log"; last_words; exit "$code" ;;
            "$FENCED") say 'another controller has taken over: the next start waits until that one has ended; stop one of the two' ;;
        esac
        ((ran_s >= HEALTHY_S)) && pause=1
        # One that does not get going says why in its last lines, so that an operator need not look for the file.
        ((ran_s >= HEALTHY_S)) || last_words
        say "the job ended with exit code $code after $ran_s s, see the end of $log; starting it again in $pause s"
        note waiting "$pause"
        restarts=$((restarts + 1))
        code=0 # of no interest any more
        nap "$pause"
        pause=$((pause * 2 > LONGEST_PAUSE_S ? LONGEST_PAUSE_S : pause * 2))
    done
    case ${code:-0} in
        143) code=0 ;; # the JVM had no driver yet and ended as it was told
    esac
    last_code=${code:-0} ended_at=$(date +%s)
    note ended
    ((last_code == UNWRITTEN)) && { say "the job could not write rows of its audit, see the end of $log"; last_words; }
    say "stopped (exit code ${code:-0})"
    exit "${code:-0}"
}

main; exit
