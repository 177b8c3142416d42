#!/usr/bin/env bash
# What a pull request is held to, for any pipeline: pull-request.sh BASE [FOLDER]
# Writes FOLDER/report.md for those who review it. Exit code 1: it cannot be rolled out.
# Without PULUMI_BACKEND_URL no stack is previewed. Cluster and state are found as by hand
# (KUBECONFIG, PULUMI_ACCESS_TOKEN or PULUMI_CONFIG_PASSPHRASE): give rights to read, and no more.
set -euo pipefail
export SINCE=${1:?Say what the branch is merged into: $0 origin/main}
folder=${2:-results}
mkdir -p "$folder"
code=0

make verify || code=1
make verify FORMAT=junit > "$folder/verify.xml" 2> /dev/null || true

if [ -n "${PULUMI_BACKEND_URL:-}" ]; then
  export RESULTS=$folder
  # A variable, for the shell goes on where a command in the head of a loop fails.
  stacks=$(make stacks) || code=1
  for STACK in $(tr -d '[]",' <<< "$stacks"); do
    export STACK
    .github/scripts/keep "$folder" "$STACK" make preview || code=1
    # Who is touched is worth knowing and holds nobody up.
    .github/scripts/keep "$folder/impact" "$STACK" make impact FORMAT=json > /dev/null || true
  done
fi

make report > "$folder/report.md"
exit "$code"
