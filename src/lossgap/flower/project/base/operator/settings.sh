# What the operator's scripts share. Anything set in the environment before wins.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
: "${SECRETS:=$here/secrets}"                    # certificates and their keys; nobody but the operator reads it
: "${STATE:=$here/state}"                        # registrations, runs, checkpoints; back it up
: "${SUPERLINK_HOST:=127.0.0.1}"                 # keep it: see "The one port" in README.md
: "${SUPERLINK_PORT:=8000}"
export FLWR_HOME="${FLWR_HOME:-$STATE/flower}"   # Flower's own files
export FLWR_TELEMETRY_ENABLED="${FLWR_TELEMETRY_ENABLED:-0}"
export FLWR_DISABLE_UPDATE_CHECK="${FLWR_DISABLE_UPDATE_CHECK:-1}"
export LOSSGAP_CACHE="${LOSSGAP_CACHE:-$STATE/cache}"
export LOSSGAP_OPERATOR_STATE="${LOSSGAP_OPERATOR_STATE:-$STATE}"
export FLWR_SUPEREXEC_TASK_POLL_INTERVAL="${FLWR_SUPEREXEC_TASK_POLL_INTERVAL:-0.2}"   # a second by default
