#!/usr/bin/env bash
# Print the kubeconfig with which a manager's Kueue comes to this cluster, a worker:
#
#   kubeconfig.sh [SERVER] | kubectl --context=manager create secret generic west \
#     --namespace=kueue-system --from-file=kubeconfig=/dev/stdin --dry-run=client --output=yaml |
#     kubectl --context=manager apply --filename=-
#
# SERVER is the address that the manager reaches this cluster by; the current context's if
# left out. NAMESPACE is the one of this cluster's Kueue (kueue-system). The token ends after
# DURATION (8760h): run it again before that.
set -euo pipefail
here() { kubectl config view --minify --raw --flatten --output="jsonpath={.clusters[0].cluster.$1}"; }

authority=$(here certificate-authority-data)
server=${1:-$(here server)}
token=$(kubectl create token trainyard-multikueue --namespace="${NAMESPACE:-kueue-system}" --duration="${DURATION:-8760h}")
cat <<KUBECONFIG
apiVersion: v1
kind: Config
clusters:
  - name: worker
    cluster: {server: "$server", certificate-authority-data: "$authority"}
users:
  - name: manager
    user: {token: "$token"}
contexts:
  - name: worker
    context: {cluster: worker, user: manager}
current-context: worker
KUBECONFIG
