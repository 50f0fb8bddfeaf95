#!/usr/bin/env bash
# make-certificates.sh HOST...: a certificate authority of your own, and a server certificate for these names.
# HOST is what the sites will write in their settings: a name such as fl.example.org, or an address.
set -euo pipefail
umask 077
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

mkdir -p "$SECRETS"
cd "$SECRETS"
if [ -e server.key ] && [ "${1:-}" != "--renew" ]; then
    echo "$SECRETS holds certificates already. '$0 --renew HOST...' makes a new server certificate from the same authority." >&2
    exit 1
fi
[ "${1:-}" != "--renew" ] || shift

if [ ! -e ca.key ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -sha384 -days 3650 -subj "/CN=my-federation CA" \
        -addext "basicConstraints=critical,CA:TRUE,pathlen:0" -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -keyout ca.key -out ca.crt 2>/dev/null
fi

names="IP:127.0.0.1,DNS:localhost"               # the server app and the operator come this way
for host in "$@"; do
    case "$host" in
        *[!0-9.]*) case "$host" in *:*) names="$names,IP:$host" ;; *) names="$names,DNS:$host" ;; esac ;;
        *) names="$names,IP:$host" ;;
    esac
done
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -sha384 -subj "/CN=my-federation" \
    -keyout server.key -out server.csr 2>/dev/null
printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n' \
    "$names" > server.ext
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 825 -sha384 \
    -extfile server.ext -out server.crt 2>/dev/null
rm server.csr server.ext
chmod 644 ca.crt server.crt
echo "Made for $names, valid until $(openssl x509 -in server.crt -noout -enddate | cut -d= -f2)."
echo "Give $SECRETS/ca.crt to every site. Keep ca.key off this machine once the certificates are made."
