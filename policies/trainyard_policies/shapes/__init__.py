"""What shape a manifest has, by the schemas of the pinned CRDs and of Kubernetes itself.

`generate` builds `shapes.json` from a cluster's CRDs and OpenAPI, and it is checked
in; `check` compares a manifest with it. A CRD's schema lacks the values that
Kubernetes accepts (`imagePullPolicy: Sometimes` is valid for it), so a pod
template must match both.
"""
