#!/bin/sh
# Tests built packages on a machine with a GPU that has Python, torch, NumPy, pytest and pytest-xdist, and nothing else:
#
#     sh tests/gpu/run_on_device.sh FOLDER [STEP...]
#
# FOLDER holds the wheels and the JSON files that build_packages.py made. Steps, all by default, in order:
# measure examples cases hazards device ops contractions attention images errors frameworks launch contexts streams memory
# core two_devices upstream_gpu upstream_cpu.
# Prints one line per step and the failures; full logs go to $OUT (or ./gpu-logs). Exit code 1 when a step fails.
set -u
folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
logs=${OUT:-gpu-logs}
mkdir -p "$logs"
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
python3 -m pip install -q --no-index --no-deps --no-cache-dir --target "$site" "$folder"/*.whl || exit 2
export AOT_TEST_SITE="$site" AOT_TEST_FOLDER="$(cd "$folder" && pwd)" AOT_TEST_GPU=required PYTHONUNBUFFERED=1
jobs=${JOBS:-6}
failed=0

# tests NAME JOBS FILE: one pytest run; no settings or conftest from outside tests/gpu.
tests() {
    timeout "${STEP_LIMIT:-240}" python3 -m pytest "$here/$3" -n "$2" -q -rfE --tb=short -p no:cacheprovider \
        --confcutdir="$here" -o addopts= -o filterwarnings=default >"$logs/$1.log" 2>&1
    code=$?
    [ $code -eq 0 ] || failed=1
    echo "== $1: exit $code: $(tail -n 1 "$logs/$1.log")"
    grep -E '^(FAILED|ERROR)|left a dead CUDA context|^\[gw.*crashed' "$logs/$1.log" | cut -c1-220 | head -n "${SHOWN:-25}"
}

# plain NAME COMMAND...: a script that prints its own table.
plain() {
    name=$1
    shift
    timeout "${STEP_LIMIT:-240}" "$@" >"$logs/$name.log" 2>&1
    code=$?
    [ $code -eq 0 ] || failed=1
    echo "== $name: exit $code"
    cut -c1-220 "$logs/$name.log"
}

[ $# -gt 0 ] || set -- measure examples cases hazards device ops contractions attention images errors frameworks launch contexts streams memory core two_devices upstream_gpu upstream_cpu
for step in "$@"; do
    case $step in
    measure) plain measure python3 "$here/measure.py" ;;
    examples) tests examples "$jobs" test_examples_gpu.py ;;
    cases) tests cases "$jobs" test_cases_gpu.py ;;
    hazards) tests hazards "$jobs" test_hazards_gpu.py ;;
    device) tests device "$jobs" test_device_ops_gpu.py ;;
    ops) tests ops "$jobs" test_tensor_ops_gpu.py ;;
    contractions) tests contractions "$jobs" test_contractions_gpu.py ;;
    attention) tests attention 1 test_attention_gpu.py ;;
    images) tests images 1 test_images_gpu.py ;;
    errors) tests errors 2 test_errors_gpu.py ;;
    frameworks) tests frameworks 1 test_frameworks_gpu.py ;;
    launch) tests launch 2 test_launch_gpu.py ;;
    contexts) tests contexts 2 test_contexts_gpu.py ;;
    streams) tests streams 1 test_streams_gpu.py ;;
    memory) tests memory 0 test_memory_gpu.py ;;
    core) tests core 0 test_core_gpu.py ;;
    two_devices) tests two_devices 0 test_two_devices.py ;;
    upstream_*) plain "$step" python3 "$here/../upstream/run.py" "$folder/$step.json" ;;
    *)
        echo "unknown step '$step'" >&2
        exit 2
        ;;
    esac
done
# One file for all logs: some places hand back only a few files.
(cd "$logs" && tar -czf logs.tar.gz ./*.log && rm -f ./*.log)
exit $failed
