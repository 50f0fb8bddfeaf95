# What this site's scripts share. Anything set in the environment before wins.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
: "${SITE:=north}"                               # your site's name, as agreed
: "${DATA:=$here/rows.csv}"                      # your rows; they are read on this machine only
: "${FRAMEWORK:=jax}"                            # what trains here: jax or torch
: "${SUPERLINK:=fl.example.org:443}"             # the operator's server
: "${SECRETS:=$here/secrets}"                    # your key, and the operator's ca.crt
: "${STATE:=$here/state}"                        # what the site keeps between rounds, such as its best loss alone
: "${RUNTIME_PORT:=9094}"                        # on 127.0.0.1, for processes of this machine
export FLWR_HOME="${FLWR_HOME:-$STATE/flower}"
export FLWR_TELEMETRY_ENABLED="${FLWR_TELEMETRY_ENABLED:-0}"
export FLWR_DISABLE_UPDATE_CHECK="${FLWR_DISABLE_UPDATE_CHECK:-1}"
export LOSSGAP_CACHE="${LOSSGAP_CACHE:-$STATE/cache}"
export LOSSGAP_STATE="${LOSSGAP_STATE:-$STATE}"
export FLWR_SUPEREXEC_TASK_POLL_INTERVAL="${FLWR_SUPEREXEC_TASK_POLL_INTERVAL:-0.2}"   # a second by default
