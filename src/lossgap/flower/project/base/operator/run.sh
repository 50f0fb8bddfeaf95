#!/usr/bin/env bash
# run.sh [flwr run options]: start a run, follow it, and end with 0 only if it was completed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

look_up() { python3 -c 'import json, sys; print(eval("json.load(sys.stdin)" + sys.argv[1]))' "$1"; }

run=$("$here/flwr.sh" run "$here/.." --format json "$@" | look_up '["run-id"]')
echo "Run $run."
"$here/flwr.sh" log "$run" --stream || true
# flwr's own exit code is 0 for a failed run as well, so the list of runs is asked.
while true; do
    status=$("$here/flwr.sh" list --run-id "$run" --format json | look_up '["runs"][0]["status"]')
    case "$status" in finished:*) break ;; esac
    sleep 2
done
echo "Run $run: $status."
[ "$status" = "finished:completed" ]
