"""How a training process is connected with the status server; the golden corpus has whole JobSets."""

from tests.support.core_values import replicated_job, runtime, trainjob
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import Settings, new_info
from trainyard_operator.core.build.plugins.trainjobstatus import TrainJobStatusPlugin

ON = Settings(
    feature_gates=frozenset({"TrainJobStatus"}),
    operator_namespace="system",
    service_name="svc",
    status_server_port=1,
    status_server_ca="PEM",
)


def test_it_does_nothing_while_its_gate_is_off():
    info = new_info(trainjob(), runtime({}), Settings())
    plugin = TrainJobStatusPlugin()
    assert (plugin.enforce_ml_policy(info), plugin.build(info)) == (info, ())


def test_every_container_of_the_trainer_and_no_other_is_told_where_to_report():
    jobs = [
        replicated_job("other", None, [{"name": "node"}]),
        replicated_job(containers=[{"name": "node"}, {"name": "side"}]),
    ]
    (config_map, jobset) = plugins.ALL.build(trainjob(), runtime({}, jobs), ON)
    assert config_map["metadata"]["name"] == "tj-tls-config"
    assert config_map["data"] == {"ca.crt": "PEM"}
    other, trainer = (j["template"]["spec"]["template"]["spec"] for j in jobset["spec"]["replicatedJobs"])
    assert other == {"containers": [{"name": "node", "resources": {}}]}
    path = "trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/tj/status"
    told = {
        "env": [
            {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": f"https://svc.system.svc:1/apis/{path}"},
            {"name": "KUBEFLOW_TRAINER_SERVER_CA_CERT", "value": "/var/run/secrets/kubeflow/trainer/ca.crt"},
            {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": "/var/run/secrets/kubeflow/trainer/token"},
        ],
        "volumeMounts": [
            {
                "name": "kubeflow-trainer-token",
                "mountPath": "/var/run/secrets/kubeflow/trainer",
                "readOnly": True,
            }
        ],
        "resources": {},
    }
    assert trainer["containers"] == [{"name": "node", **told}, {"name": "side", **told}]
    assert [volume["name"] for volume in trainer["volumes"]] == ["kubeflow-trainer-token"]
