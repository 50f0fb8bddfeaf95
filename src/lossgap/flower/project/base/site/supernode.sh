#!/usr/bin/env bash
# The SuperNode: connects to the operator's server and does this site's share of the training. Runs until it is stopped.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

mkdir -p "$STATE" "$FLWR_HOME"
exec flower-supernode \
    --superlink "$SUPERLINK" --root-certificates "$SECRETS/ca.crt" \
    --auth-supernode-private-key "$SECRETS/site.key" \
    --host 127.0.0.1 --port "$RUNTIME_PORT" \
    --node-config "site=\"$SITE\" data=\"$DATA\" framework=\"$FRAMEWORK\"" \
    "$@"
