#!/bin/sh
# Makes the archive that trainyard.yaml names, for the platform that this runs on:
#
#   examples/kubectl-plugin/archive.sh kubectl-trainyard-linux-amd64.tar.gz
#
# It holds the command with the packages that it needs, and `kubectl-trainyard` to start it.
set -eu
archive=${1:?Say where the archive goes: $0 kubectl-trainyard-linux-amd64.tar.gz}
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# What the command needs, with the part of the operator that it shares.
python3 -m pip install --quiet --require-hashes --target "$folder/lib" \
  -r "$root/requirements/cli.txt" -r "$root/requirements/operator.txt"
python3 -m pip install --quiet --no-deps --upgrade --target "$folder/lib" "$root"
cp "$root/examples/kubectl-plugin/kubectl-trainyard" "$folder/"
cp "$root/LICENSE" "$folder/"
tar -C "$folder" -czf "$archive" kubectl-trainyard LICENSE lib
sha256sum "$archive"
