#!/usr/bin/env bash
# Each registered site: number, name, and whether it is online. `flwr.sh supernode unregister NUMBER` takes one out.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

"$here/flwr.sh" supernode list --format json | python3 -c '
import json, sys
names = dict(line.split()[:2] for line in open(sys.argv[1]))
for node in json.load(sys.stdin)["nodes"]:
    print(node["node-id"], names.get(node["node-id"], "?"), node["status"])' "$STATE/sites.txt"
