#!/bin/sh
# Apply what `make manifests` has written, one wave after the other: kubectl.sh FOLDER
set -eu
folder=${1:?Say what to apply: $0 FOLDER}

applied() {
  # Not every node leads to a webhook in the moment in which its pod is ready.
  for _ in 1 2 3 4 5; do
    kubectl apply --server-side --filename "$1" && return
    sleep 3
  done
  return 1
}

for wave in "$folder"/wave-*; do
  applied "$wave"
  for deployment in "$wave"/deployment-*.yaml; do
    [ ! -e "$deployment" ] || kubectl wait --for=condition=Available --timeout=5m --filename "$deployment"
  done
done
