#!/usr/bin/env bash
# register-site.sh NAME KEY.pub: let the holder of this key take part, under this name. Run it beside the SuperLink.
# Check by telephone that the key is the site's own: ssh-keygen -lf KEY.pub prints the same line on both sides.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

[ $# -eq 2 ] || { echo "usage: $0 NAME KEY.pub" >&2; exit 2; }
said=$("$here/flwr.sh" supernode register "$2" --name "$1" --format json) || { echo "$said" >&2; exit 1; }
node=$(grep -o '"node-id": *"\?[0-9]*' <<<"$said" | grep -o '[0-9]*$')
# Flower lists numbers only; this book has the names.
echo "$node $1 $(ssh-keygen -lf "$2" | cut -d' ' -f2)" | tee -a "$STATE/sites.txt"
