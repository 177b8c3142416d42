"""What shape a manifest has, by the schemas of the pinned CRDs and of Kubernetes itself.

`shapes.json` is made by `made` from a cluster's CRDs and OpenAPI and checked
in; `read` gives it; `check` holds a manifest against it. A CRD's schema leaves
out the values that Kubernetes takes (`imagePullPolicy: Sometimes` meets it), so
a pod template is held to both.
"""
