"""The whole operator, Kopf and all, against an API server in memory."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support import objects
from tests.support.fake_api import FakeApi, eventually, run
from trainyard_api import names
from trainyard_api.webhook_paths import MUTATE_TRAINJOB
from trainyard_kube.credentials import Credentials
from trainyard_kube.resources import LEASES, SECRETS, WEBHOOK_CONFIGURATIONS
from trainyard_operator import main
from trainyard_operator.main import Operator
from trainyard_operator.serve import certificate_keeper, certificates
from trainyard_operator.settings import load
from trainyard_operator.watch import kopf_thread
from trainyard_operator.watch.cache import Key
from trainyard_operator.watch.kopf_thread import KopfThread
from trainyard_operator.work import ca_rollout

from . import companions
from .admission_reviews import body

LEASE = LEASES.path("trainyard-system", names.OPERATOR)
SECRET = SECRETS.path("trainyard-system", names.WEBHOOK_CERTIFICATE)
CONFIGURATIONS = [resource.path(name=name) for resource, name in WEBHOOK_CONFIGURATIONS]


LOCAL = {
    f"{server}.{field}": value
    for server in ("metrics", "webhook", "statusServer")
    for field, value in (("host", "127.0.0.1"), ("port", 0))
}


@asynccontextmanager
async def operator(
    credentials: Credentials, identity: str = "one", options: Mapping[str, Any] | None = None
) -> AsyncIterator[Operator]:
    """One replica; `options` are fields of the configuration."""
    told = {**LOCAL, "leaderElection.identity": identity, **(options or {})}
    settings = load(None, {field: ("", value) for field, value in told.items()})
    running = Operator(settings, credentials)
    task = asyncio.create_task(running.run())
    try:
        yield running
    finally:
        running.stopping.set()
        await task


async def probe(running: Operator, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{running.probes.port}{path}") as answer,
    ):
        return answer.status, await answer.text()


def holder(api: FakeApi) -> str:
    lease = api.objects.get(LEASE, {"spec": {"holderIdentity": "nobody"}})
    found: str = lease["spec"]["holderIdentity"]
    return found


def called(api: FakeApi, path: str) -> dict[str, Any]:
    config: dict[str, Any] = api.objects[path]["webhooks"][0]["clientConfig"]
    return config


def test_it_follows_trainjobs_from_its_start_to_its_stop() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        api.put(f"{objects.JOBS}/early", objects.trainjob("early"))
        webhooks_of_ours(api)
        async with api.client() as client:
            async with operator(client.credentials) as running:
                await eventually(lambda: f"{objects.JOBSETS}/early" in api.objects)
                await eventually(lambda: not running.unready())
                assert await probe(running, "/readyz") == (200, "ok\n")
                assert await probe(running, "/healthz") == (200, "ok\n")
                api.put(f"{objects.JOBS}/late", objects.trainjob("late"))
                await eventually(lambda: f"{objects.JOBSETS}/late" in api.objects)
                assert holder(api) == "one"
                assert SECRET in api.objects
                for path in CONFIGURATIONS:
                    await eventually(lambda path=path: "caBundle" in called(api, path))
            assert holder(api) == "", "the Lease is free for the next one"
        touched = {path for _, path in api.writes() if "trainjobs" in path}
        assert touched == set(), "no finalizer, no annotation, no write that nobody asked for"

    run(test)


def test_a_replica_to_which_the_api_server_says_nothing_is_not_ready_and_in_the_end_not_alive() -> None:
    async def test() -> None:
        async with FakeApi().client() as client, operator(client.credentials) as running:
            await eventually(lambda: not running.unready())
            for watch in (running.jobsets, running.sweep):
                watch.heard -= 200
            assert [reason.rsplit(" for ", 1)[0] for reason in running.unready()] == [
                "the API server has sent nothing about JobSets",
                "the API server has sent nothing about TrainJobs and runtimes",
            ]
            assert running.dead() == []
            running.jobsets.heard -= 500
            assert (await probe(running, "/readyz"))[0] == 503
            assert (await probe(running, "/healthz"))[0] == 503

    run(test)


def test_a_job_of_mpi_in_a_gang_gets_what_it_needs_before_its_jobset() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", companions.runtime())
        async with api.client() as client, operator(client.credentials) as running:
            await eventually(lambda: running.workers.running)
            api.put(f"{objects.JOBS}/tj", objects.trainjob())
            await eventually(lambda: f"{objects.JOBSETS}/tj" in api.objects)
            assert all(path in api.objects for path in companions.BESIDE)
        assert [request for request in api.whole if "/namespaces/team/secrets" in request[1]] == []

    run(test)


def test_a_standby_is_ready_and_takes_over_when_the_leader_stops() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        async with api.client() as client:
            async with operator(client.credentials) as leader:
                await eventually(lambda: leader.workers.running)
                standby_context = operator(client.credentials, "two")
                standby = await standby_context.__aenter__()
                await eventually(lambda: standby.synced and not standby.unready())
                assert not standby.workers.running
            try:
                await eventually(lambda: standby.workers.running)
                api.put(f"{objects.JOBS}/tj", objects.trainjob())
                await eventually(lambda: f"{objects.JOBSETS}/tj" in api.objects)
            finally:
                await standby_context.__aexit__(None, None, None)

    run(test)


def webhooks_of_ours(api: FakeApi) -> None:
    service = {"namespace": "trainyard-system", "name": "trainyard-operator"}
    for path in CONFIGURATIONS:
        api.put(path, {"webhooks": [{"name": "w", "clientConfig": {"service": service}}]})


@pytest.mark.parametrize("with_files", [True, False])
def test_a_certificate_of_others_or_none_means_no_secret_and_no_ca_bundle(
    with_files: bool, tmp_path: Path
) -> None:
    issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(issued.certificate)
    (tmp_path / "tls.key").write_bytes(issued.key)
    options = {"certManagement.folder": str(tmp_path)} if with_files else {"webhook.enabled": False}

    async def test() -> None:
        api = FakeApi()
        webhooks_of_ours(api)
        async with api.client() as client, operator(client.credentials, options=options) as running:
            await eventually(lambda: running.workers.running and not running.unready())
            assert (running.webhook.good_until is not None) is with_files
        assert {path for _, path in api.writes()} <= {LEASE, LEASE.rsplit("/", 1)[0]}

    run(test)


def test_a_stopping_replica_releases_its_lease_before_any_other_task_ends() -> None:
    async def test() -> None:
        api = FakeApi()
        held_by: list[str] = []
        async with api.client() as client:
            async with operator(client.credentials) as running:
                await eventually(lambda: running.workers.running)
                for task in running.tasks:
                    task.set_name("task")  # which of them is the election does not hang on a name
                    task.add_done_callback(lambda _: held_by.append(holder(api)))
            assert held_by == [""] * len(running.tasks)

    run(test)


def test_the_lease_is_renewed_while_every_connection_of_other_work_is_taken() -> None:
    async def hold(running: Operator) -> None:
        async for _ in running.client.watch("/apis/held", params={}):
            pass

    async def test() -> None:
        api = FakeApi()
        times = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "1s"}
        options = {f"leaderElection.{field}": value for field, value in times.items()}
        async with api.client() as client, operator(client.credentials, options=options) as running:
            await eventually(lambda: running.elector.leading)
            held = [asyncio.create_task(hold(running)) for _ in range(200)]
            await asyncio.sleep(0.5)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(running.client.get("/version"), 0.5)
            renewed = {api.objects[LEASE]["spec"]["renewTime"]}
            async with asyncio.timeout(10):
                while len(renewed) < 4:
                    await asyncio.sleep(0.1)
                    renewed.add(api.objects[LEASE]["spec"]["renewTime"])
            assert running.elector.safe
            for task in held:
                task.cancel()
            await asyncio.gather(*held, return_exceptions=True)

    run(test)


@pytest.mark.long
def test_in_a_pod_webhooks_are_answered_for_a_while_after_the_lease_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "LINGER", 5.0)

    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            pod = replace(client.credentials, in_cluster=True)
            async with operator(pod) as running:
                await eventually(lambda: running.workers.running and not running.unready())
                trusted = ssl.create_default_context(
                    cadata=(running.certificates.authorities or b"").decode()
                )
                running.stopping.set()
                await eventually(lambda: holder(api) == "" and running.webhook.closing)
                assert await probe(running, "/readyz") == (503, "stopping\n")
                async with (
                    aiohttp.ClientSession() as session,
                    session.post(
                        f"https://127.0.0.1:{running.webhook.port}{MUTATE_TRAINJOB}",
                        data=body(objects.trainjob()),
                        ssl=trusted,
                    ) as answer,
                ):
                    assert (answer.status, answer.headers["Connection"]) == (200, "close")
            with pytest.raises(OSError, match="onnect"):
                await asyncio.open_connection("127.0.0.1", running.webhook.port)

    run(test)


def test_in_a_pod_the_tasks_end_while_it_lingers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "LINGER", 0.1)

    async def test() -> None:
        api = FakeApi()
        closing: list[bool] = []
        async with api.client() as client:
            async with operator(replace(client.credentials, in_cluster=True)) as running:

                async def slow() -> None:
                    try:
                        await asyncio.Event().wait()
                    finally:
                        await eventually(lambda: running.webhook.closing)
                        closing.append(True)

                await eventually(lambda: running.workers.running and not running.unready())
                running.tasks.append(asyncio.create_task(slow()))
                await asyncio.sleep(0)
            assert closing == [True]

    run(test)


def test_servers_end_in_order_however_long_the_tasks_take(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(30)

    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            async with operator(client.credentials) as running:
                await eventually(lambda: running.workers.running and not running.unready())
                running.tasks.append(asyncio.create_task(slow()))
                await asyncio.sleep(0)
                monkeypatch.setattr(main, "STOP_TIMEOUT", 2.0)
            for server in (running.webhook, running.probes):
                with pytest.raises(OSError, match="onnect"):
                    await asyncio.open_connection("127.0.0.1", server.port)

    run(test)


def test_a_leader_whose_workers_cannot_be_started_says_so_is_not_alive_and_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise KeyError("spec")

    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, operator(client.credentials) as running:
            with monkeypatch.context() as fault:
                fault.setattr(running.workers, "start", broken)
                await eventually(lambda: bool(running.dead()))
                reason = "the workers could not be started: KeyError: 'spec'"
                assert await probe(running, "/healthz") == (503, f"{reason}\n")
            await eventually(lambda: running.workers.running)
            await eventually(lambda: running.dead() == [])

    run(test)
    assert "the workers could not be started; trying again" in caplog.text


def test_a_leader_whose_start_of_the_workers_is_cancelled_is_not_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cancelled() -> None:
        raise asyncio.CancelledError

    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, operator(client.credentials) as running:
            monkeypatch.setattr(running.workers, "start", cancelled)
            await eventually(lambda: bool(running.dead()))
            assert running.dead() == ["the workers could not be started: CancelledError"]

    run(test)


def test_a_task_that_is_cancelled_before_the_process_stops_is_restarted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled = "task upstream was cancelled and is restarted"

    async def test() -> None:
        api = FakeApi()
        restarted = asyncio.Event()

        async def step() -> None:
            restarted.set()

        async with api.client() as client, operator(client.credentials) as running:
            await eventually(lambda: running.workers.running)
            task = next(task for task in running.tasks if task.get_name() == "upstream")
            monkeypatch.setattr(running.upstream, "step", step)
            task.cancel()
            await eventually(lambda: cancelled in caplog.text)
            task.cancel()  # also while it waits to be restarted
            await eventually(restarted.is_set)
            assert (task.done(), task.cancelling()) == (False, 0)
        assert all(ended.done() for ended in running.tasks)

    run(test)
    assert caplog.text.count(cancelled) == 2


def test_beside_upstreams_controller_it_is_unready_and_writes_nothing() -> None:
    async def test() -> None:
        api = FakeApi()
        renewed = datetime.now(UTC).isoformat()
        lease = {"holderIdentity": "up", "leaseDurationSeconds": 15, "renewTime": renewed}
        api.put(LEASES.path(names.KUBEFLOW_NAMESPACE, names.TRAINER_LEASE), {"spec": lease})
        api.put(f"{objects.JOBS}/tj", objects.trainjob())
        async with api.client() as client, operator(client.credentials) as running:
            await eventually(lambda: running.synced)
            code, text = await probe(running, "/readyz")
            assert code == 503
            assert "up holds Lease kubeflow-system/trainer.kubeflow.org" in text
            assert api.writes() == []

    run(test)


def test_beside_upstreams_controller_it_serves_its_metrics_with_the_certificate_that_is_there() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            async with operator(client.credentials) as before:
                await eventually(lambda: before.metrics_server.good_until is not None)
            renewed = datetime.now(UTC).isoformat()
            lease = {"holderIdentity": "up", "leaseDurationSeconds": 15, "renewTime": renewed}
            api.put(LEASES.path(names.KUBEFLOW_NAMESPACE, names.TRAINER_LEASE), {"spec": lease})
            written = api.writes()
            async with operator(client.credentials) as running:
                await eventually(
                    lambda: running.metrics_server.good_until == before.metrics_server.good_until
                )
                assert "up holds Lease" in running.upstream.reason
                assert api.writes() == written

    run(test)


def test_without_upstreams_crds_it_waits_and_says_for_what() -> None:
    async def test() -> None:
        api = FakeApi()
        api.missing.add("/apis/trainer.kubeflow.org")
        async with api.client() as client, operator(client.credentials) as running:
            await eventually(lambda: "CRDs missing" in running.kopf.reason)
            code, text = await probe(running, "/readyz")
            assert code == 503
            assert "trainjobs, trainingruntimes, clustertrainingruntimes" in text
            assert (await probe(running, "/healthz"))[0] == 200

    run(test)


def test_kopfs_streams_are_opened_again_when_one_of_them_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_thread, "FIRST_RETRY", 0.05)
    monkeypatch.setattr(kopf_thread, "END_TIMEOUT", 0.3)

    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        async with api.client() as client, operator(client.credentials) as running:
            await eventually(lambda: running.workers.running and not running.unready())
            fatal = {"type": "ERROR", "object": {"code": 500, "message": "fatal to Kopf"}}
            api.say("/apis/trainer.kubeflow.org/v1alpha1/trainjobs", fatal)
            await eventually(lambda: running.kopf.reason != "")
            api.put(f"{objects.JOBS}/tj", objects.trainjob())
            await eventually(lambda: f"{objects.JOBSETS}/tj" in api.objects)
            await eventually(lambda: running.kopf.reason == "")

    run(test)


def test_kopf_ends_if_it_is_told_to_before_its_thread_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Event()
    threads: list[threading.Thread] = []
    in_thread = KopfThread._thread

    def late(kopf: KopfThread, *arguments: Any) -> None:
        threads.append(threading.current_thread())
        begin.wait()
        in_thread(kopf, *arguments)

    monkeypatch.setattr(KopfThread, "_thread", late)

    async def test() -> None:
        async with FakeApi().client() as client:
            kopf = KopfThread(
                client, client.credentials, lambda *_: None, started=lambda: None, restarted=lambda: None
            )
            following = asyncio.create_task(kopf.run())
            await eventually(lambda: len(threads) == 1)
            following.cancel()
            await asyncio.sleep(0)
            begin.set()
            await asyncio.gather(following, return_exceptions=True)
            await eventually(lambda: not threads[0].is_alive())

    run(test)


def test_a_kopf_that_does_not_stop_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_thread, "START_TIMEOUT", 0.1)
    monkeypatch.setattr(kopf_thread, "END_TIMEOUT", 0.1)
    threads: list[threading.Thread] = []

    async def stuck(**_: Any) -> None:
        threads.append(threading.current_thread())
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    monkeypatch.setattr("kopf.operator", stuck)

    async def test() -> None:
        async with FakeApi().client() as client:
            kopf = KopfThread(
                client, client.credentials, lambda *_: None, started=lambda: None, restarted=lambda: None
            )
            following = asyncio.create_task(kopf.run())
            await eventually(lambda: len(threads) == 2)
            await eventually(lambda: not threads[0].is_alive(), within=30.0)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await eventually(lambda: not threads[1].is_alive(), within=30.0)

    run(test)


def test_with_the_gate_on_a_job_is_told_where_to_report_and_whom_to_trust() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        gate = {"featureGates.TrainJobStatus": True}
        async with api.client() as client, operator(client.credentials, options=gate) as running:
            await eventually(lambda: running.workers.running and not running.unready())
            api.put(f"{objects.JOBS}/tj", objects.trainjob())
            await eventually(lambda: f"{objects.JOBSETS}/tj" in api.objects)
            told = api.objects["/api/v1/namespaces/team/configmaps/tj-tls-config"]["data"]["ca.crt"]
            assert told.encode() == running.certificates.authorities
            pod = api.objects[f"{objects.JOBSETS}/tj"]["spec"]["replicatedJobs"][0]["template"]["spec"][
                "template"
            ]["spec"]
            env = {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"]}
            path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/tj/status"
            port = running.settings.status_server.port
            assert env["KUBEFLOW_TRAINER_SERVER_URL"] == (
                f"https://trainyard-operator.trainyard-system.svc:{port}{path}"
            )
            trusted = ssl.create_default_context(cadata=told)
            url = f"https://127.0.0.1:{running.status.port}{path}"
            async with aiohttp.ClientSession() as session, session.post(url, ssl=trusted) as answer:
                assert answer.status == 401

    run(test)


def test_with_the_gate_on_and_no_authority_in_the_folder_it_says_so_and_starts_no_job(tmp_path: Path) -> None:
    issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(issued.certificate)
    (tmp_path / "tls.key").write_bytes(issued.key)
    options = {"featureGates.TrainJobStatus": True, "certManagement.folder": str(tmp_path)}

    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, operator(client.credentials, options=options) as running:
            missing = "ca.crt is missing next to the certificate: training processes need it"
            await eventually(lambda: running.elector.leading and running.unready() == [missing])
            assert not running.workers.running

    run(test)


def test_a_job_that_runs_when_cert_manager_renews_its_authority_is_told_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((certificate_keeper, "FOLDER_INTERVAL"), (ca_rollout, "INTERVAL")):
        monkeypatch.setattr(module, name, 0.1)
    options = {"featureGates.TrainJobStatus": True, "certManagement.folder": str(tmp_path)}

    def renew() -> str:
        issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
        for name, content in (
            ("tls.crt", issued.certificate),
            ("tls.key", issued.key),
            ("ca.crt", issued.authorities),
        ):
            (tmp_path / name).write_bytes(content)
        return issued.authorities.decode()

    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        first = renew()
        async with api.client() as client, operator(client.credentials, options=options) as running:
            api.put(f"{objects.JOBS}/tj", objects.trainjob())
            await eventually(lambda: f"{objects.JOBSETS}/tj" in api.objects)

            def told() -> str:
                found: str = api.objects["/api/v1/namespaces/team/configmaps/tj-tls-config"]["data"]["ca.crt"]
                return found

            assert told() == first
            jobset = api.objects[f"{objects.JOBSETS}/tj"]["metadata"]["resourceVersion"]
            second = renew()
            await eventually(lambda: told() == second)
            assert api.objects[f"{objects.JOBSETS}/tj"]["metadata"]["resourceVersion"] == jobset
            assert running.workers.running

    run(test)


def test_a_task_or_a_worker_that_is_stuck_is_no_life() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, operator(client.credentials) as running:
            await eventually(lambda: running.workers.running)
            assert await probe(running, "/healthz") == (200, "ok\n")
            long_ago = time.monotonic() - 1000
            for part in (running.jobsets, running.revisions, running.kopf, running.sweep, running.elector):
                part.beat = long_ago
            running.kopf.beat = time.monotonic()  # its own thread sets it all the time
            running.queue._since[Key("team", "tj")] = long_ago
            code, text = await probe(running, "/healthz")
            assert code == 503
            assert text.splitlines() == [
                "the watch of JobSets has shown no sign of life for 1000 s",
                "the watch of revisions has shown no sign of life for 1000 s",
                "the sweep has shown no sign of life for 1000 s",
                "the election has shown no sign of life for 1000 s",
                "a worker has been busy with one TrainJob for 1000 s",
            ]

    run(test)


def test_finished_jobs_are_deleted_where_the_settings_say_so() -> None:
    async def test() -> None:
        api = FakeApi()
        ended = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name in ("old", "kept"):
            api.put(f"{objects.JOBS}/{name}", {**objects.trainjob(name), "status": {"conditions": [ended]}})
        kept = api.objects[f"{objects.JOBS}/kept"]
        kept["metadata"]["annotations"] = {"trainyard.dev/retention": "keep"}
        options = {"retention.afterFinished": "1s"}
        async with api.client() as client, operator(client.credentials, options=options):
            await eventually(lambda: f"{objects.JOBS}/old" not in api.objects)
            assert f"{objects.JOBS}/kept" in api.objects

    run(test)
