#!/usr/bin/env bash
# flwr.sh ARGUMENTS...: the flwr command, talking to this federation's SuperLink. `flwr.sh list`, `flwr.sh stop RUN`, …
# Use it in place of plain flwr, which starts a SuperLink of its own in your home folder when none is configured.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

mkdir -p "$FLWR_HOME"
cat > "$FLWR_HOME/.config.$$" <<END
[superlink]
default = "here"

[superlink.here]
address = "127.0.0.1:$SUPERLINK_PORT"
root-certificates = "$SECRETS/ca.crt"
END
mv "$FLWR_HOME/.config.$$" "$FLWR_HOME/config.toml"
exec flwr "$@"
