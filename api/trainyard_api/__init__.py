"""The vocabulary that all packages share, free of I/O.

`names` holds groups, kinds, label keys and other constants of the wire;
`quantity` Kubernetes quantities; `merge` the strategic merge patch; `errors`
field paths and field errors as the API server prints them; `json_reader` typed
reading of untyped JSON, whose types are in `json_types`; `documents` YAML as
kubectl reads it; `certificates` keys and X.509 certificates.

Called by every other room; imports none of them.
"""
