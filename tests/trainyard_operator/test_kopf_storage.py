"""Kopf neither compares objects nor keeps anything on them."""

from typing import Any, cast

import kopf

from tests.support.objects import trainjob
from trainyard_operator.watch.kopf_thread import kopf_settings


def test_nothing_of_an_object_is_compared_and_nothing_is_kept_on_it():
    persistence = kopf_settings(streaming=True).persistence
    diff, progress = persistence.diffbase_storage, persistence.progress_storage
    body, handler = kopf.Body(cast(Any, trainjob())), cast(Any, "handler")
    patch = kopf.Patch()
    assert diff.build(body=body) == {}
    assert diff.fetch(body=body) is None
    assert progress.fetch(key=handler, body=body) is None
    diff.store(body=body, patch=patch, essence=kopf.BodyEssence())
    progress.store(key=handler, record={}, body=body, patch=patch)
    progress.touch(body=body, patch=patch, value="now")
    progress.purge(key=handler, body=body, patch=patch)
    assert progress.clear(essence=kopf.BodyEssence()) == {}
    assert patch == {}
