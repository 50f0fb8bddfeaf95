#!/usr/bin/env bash
# The SuperLink: the sites connect to it, and it runs the server app. Runs until it is stopped.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

mkdir -p "$STATE" "$FLWR_HOME"
# Dependencies are installed by hand, once, and not by whoever starts a run.
exec flower-superlink \
    --host "$SUPERLINK_HOST" --port "$SUPERLINK_PORT" \
    --ssl-ca-certfile "$SECRETS/ca.crt" --ssl-certfile "$SECRETS/server.crt" --ssl-keyfile "$SECRETS/server.key" \
    --enable-supernode-auth \
    --database "$STATE/superlink.db" \
    --disable-runtime-dependency-installation
