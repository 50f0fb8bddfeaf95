#!/usr/bin/env bash
# The key by which the operator knows this site. The private half never leaves this machine.
set -euo pipefail
umask 077
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

mkdir -p "$SECRETS"
if [ -e "$SECRETS/site.key" ]; then
    echo "$SECRETS/site.key is there already. Move it away first if you want a new one; the operator must then register it." >&2
    exit 1
fi
ssh-keygen -q -t ecdsa -b 384 -N "" -C "$SITE" -f "$SECRETS/site.key"
echo "Send $SECRETS/site.key.pub to the operator. Its fingerprint, to compare by telephone:"
ssh-keygen -lf "$SECRETS/site.key.pub"
