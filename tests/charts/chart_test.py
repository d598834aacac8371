"""What the chart renders: each toggle, the schema, and that it is what Kubernetes accepts."""

import base64
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import kubernetes_validate
import yaml

from bare_objects import bare_objects
from chart import CHART, CI_VALUES, ROOT, helm, named, render

KUBERNETES = "1.34"
# Kinds that Kubernetes' own schemas do not know.
FOREIGN = {"ServiceMonitor", "PodMonitor", "PrometheusRule", "GNNJob"}


class UniqueKeys(yaml.SafeLoader):
    """Refuses two equal keys, of which others take the last."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(set(keys)) != len(keys):
            raise AssertionError(f"{node.start_mark}: two equal keys among {keys}")
        return super().construct_mapping(node, deep)


def nulls(value, path=""):
    """Paths of what is null."""
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in nulls(each, f"{path}.{key}")]
    if isinstance(value, list):
        return [found for i, each in enumerate(value) for found in nulls(each, f"{path}[{i}]")]
    return [path] if value is None else []


class Render(unittest.TestCase):
    def test_lints_with_every_ci_file(self):
        self.assertGreaterEqual(len(CI_VALUES), 3)
        for file in CI_VALUES:
            ran = helm("lint", "--strict", CHART, "--values", file)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_every_object_is_valid_for_kubernetes(self):
        for file in CI_VALUES:
            for item in render(files=[file], monitoring=True):
                if item["kind"] not in FOREIGN:
                    kubernetes_validate.validate(item, KUBERNETES, strict=True)

    def test_no_field_is_null_or_given_twice(self):
        for file in CI_VALUES:
            ran = helm("template", "gnn-operator", CHART, "--values", file, "--api-versions", "monitoring.coreos.com/v1")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            for item in yaml.load_all(ran.stdout, UniqueKeys):
                self.assertEqual(nulls(item), [], f"{file.name}: {item and item['kind']}")

    def test_a_parent_chart_may_switch_it_off(self):
        with tempfile.TemporaryDirectory() as folder:
            parent = Path(folder)
            (parent / "Chart.yaml").write_text(
                "{apiVersion: v2, name: parent, version: 1.0.0, dependencies: "
                "[{name: gnn-operator, version: 0.1.0, condition: gnn-operator.enabled}]}",
                encoding="utf-8",
            )
            shutil.copytree(CHART, parent / "charts/gnn-operator")
            for enabled in ("true", "false"):
                ran = helm("template", "x", parent, "--set", f"gnn-operator.enabled={enabled}")
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertEqual("kind: Deployment" in ran.stdout, enabled == "true")

    def test_a_misspelt_value_is_refused_by_name(self):
        for value, name in (
            ("controler.workers=2", "controler"),
            ("controller.loglevel=debug", "loglevel"),
            ("jobs.networkPolicy.egress.rule=x", "rule"),
            ("networkPolicy.apiServer.cidr=10.0.0.0/8", "cidr"),
        ):
            ran = helm("template", "x", CHART, "--set", value)
            self.assertNotEqual(ran.returncode, 0, value)
            self.assertRegex(ran.stderr, f"additional properties '{name}' not allowed", value)

    def test_values_out_of_range_are_refused(self):
        for value in (
            "replicaCount=-1", "controller.progress=maybe", "image.digest=latest", "metrics.port=0", "health.port=0",
            "networkPolicy.apiServer.cidrs={here}", "jobs.podMetadata.allowedKeys={gnn.dev/node}", "jobs.podMetadata.allowedKeys={*}",
            "jobs.podMetadata.allowedKeys={app.kubernetes.io/name}", "networkPolicy.dnsPorts={}", "revisionHistoryLimit=-1",
            "podLabels.app\\.kubernetes\\.io/name=x", "podLabels.app\\.kubernetes\\.io/component=x",
            "commonLabels.app\\.kubernetes\\.io/instance=x", "commonLabels.helm\\.sh/chart=x", "tests.image.digest=latest",
            "metrics.serviceMonitor.scrapeTimeout=fast", "metrics.prometheusRule.runbookUrl=runbooks.md",
        ):
            self.assertNotEqual(helm("template", "x", CHART, "--set", value).returncode, 0, value)

    def test_generated_files_are_up_to_date(self):
        for generator in ("chart_schema.py", "dashboards.py", "chart_readme.py"):
            ran = subprocess.run(
                [sys.executable, ROOT / "tools/generate" / generator, "--check"], capture_output=True, text=True, check=False
            )
            self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_names_are_cut_to_what_kubernetes_allows(self):
        for item in render(release="r" * 53):
            self.assertLessEqual(len(item["metadata"]["name"]), 63 if item["kind"] != "CustomResourceDefinition" else 253)

    def test_a_release_named_like_the_chart_is_not_named_twice(self):
        self.assertEqual(named(render(), "Deployment")[0]["metadata"]["name"], "gnn-operator")
        self.assertEqual(named(render(release="a"), "Deployment")[0]["metadata"]["name"], "a-gnn-operator")

    def test_long_names_that_begin_alike_stay_apart(self):
        names = [f"{'n' * 52}{end}" for end in "ab"]
        for first, second in ([f"fullnameOverride={name}" for name in names], [f"nameOverride={name}" for name in names]):
            mine, others = ({(item["kind"], item["metadata"]["name"]) for item in render(value)} for value in (first, second))
            shared = {kind for kind, _ in mine & others}
            self.assertLessEqual(shared, {"CustomResourceDefinition"})

    def test_names_can_be_overridden(self):
        for value, name in (("nameOverride=trainer", "a-trainer"), ("fullnameOverride=gnn", "gnn")):
            objects = render(value, release="a")
            deployment = named(objects, "Deployment")[0]
            self.assertEqual(deployment["metadata"]["name"], name)
            self.assertIn(f"--lease-name={name}", deployment["spec"]["template"]["spec"]["containers"][0]["args"])
            own = [item["metadata"]["name"] for item in objects if item["kind"] != "CustomResourceDefinition"]
            self.assertEqual([each for each in own if not each.startswith(name)], [], value)

    def test_extra_objects_are_templates(self):
        extra = named(render(files=[CHART / "ci/everything-values.yaml"], monitoring=True), "ConfigMap", "-extra")
        self.assertEqual([item["metadata"]["name"] for item in extra], ["gnn-operator-extra"])


class Crd(unittest.TestCase):
    def test_the_charts_copy_is_the_manifests_file(self):
        self.assertEqual(
            (CHART / "files/gnnjobs.gnn.dev.yaml").read_bytes(),
            (ROOT / "manifests/crds/gnnjobs.gnn.dev.yaml").read_bytes(),
        )

    def test_renders_the_same_spec_and_is_kept_by_default(self):
        source = yaml.safe_load((ROOT / "manifests/crds/gnnjobs.gnn.dev.yaml").read_text(encoding="utf-8"))
        crd = named(render(), "CustomResourceDefinition")[0]
        self.assertEqual(crd["spec"], source["spec"])
        self.assertEqual(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep")

    def test_can_be_left_out_or_not_kept(self):
        self.assertEqual(named(render("crds.enabled=false"), "CustomResourceDefinition"), [])
        crd = named(render("crds.keep=false"), "CustomResourceDefinition")[0]
        self.assertNotIn("helm.sh/resource-policy", crd["metadata"].get("annotations") or {})


MACHINES = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}


def hook_pod(objects):
    return named(objects, "Job", "-release")[0]["spec"]["template"]["spec"]


def waiting_pod(objects):
    return named(objects, "Pod", "-test")[0]["spec"]


class Deployment(unittest.TestCase):
    def pod(self, *values):
        return named(render(*values), "Deployment")[0]["spec"]["template"]["spec"]

    def test_passes_pod_security_restricted(self):
        objects = render()
        for spec in (self.pod(), hook_pod(objects), waiting_pod(objects)):
            self.assertTrue(spec["securityContext"]["runAsNonRoot"])
            self.assertEqual(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault")
            container = spec["containers"][0]["securityContext"]
            self.assertFalse(container["allowPrivilegeEscalation"])
            self.assertTrue(container["readOnlyRootFilesystem"])
            self.assertEqual(container["capabilities"], {"drop": ["ALL"]})

    def test_user_and_groups_are_the_images_or_the_clusters(self):
        for values, ids in (((), {"runAsUser": 65532, "runAsGroup": 65532}), (("podSecurity.userFromCluster=true",), {})):
            objects = render(*values)
            own = named(objects, "Deployment")[0]["spec"]["template"]["spec"]
            for spec in (own, hook_pod(objects), waiting_pod(objects)):
                context = dict(spec["securityContext"])
                self.assertTrue(context.pop("runAsNonRoot"))
                self.assertEqual(context, {**ids, "seccompProfile": {"type": "RuntimeDefault"}})
            told = "--job-user-from-cluster" in own["containers"][0]["args"]
            self.assertEqual(told, not ids, "jobs' pods follow")

    def test_security_contexts_can_be_added_to_and_changed(self):
        objects = render("podSecurityContext.runAsUser=1000", "securityContext.readOnlyRootFilesystem=false")
        own = named(objects, "Deployment")[0]["spec"]["template"]["spec"]
        for spec in (own, hook_pod(objects), waiting_pod(objects)):
            self.assertEqual(spec["securityContext"], {
                "runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"},
            })  # fmt: skip
            self.assertEqual(spec["containers"][0]["securityContext"], {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": False, "capabilities": {"drop": ["ALL"]},
            })  # fmt: skip

    def test_on_openshift_the_cluster_chooses_users_and_groups(self):
        objects = render(files=[CHART / "values-openshift.yaml"])
        own = named(objects, "Deployment")[0]["spec"]["template"]["spec"]
        job = named(objects, "GNNJob")[0]["spec"]["workers"]["template"]
        for spec in (own, hook_pod(objects), waiting_pod(objects), job):
            self.assertNotRegex(json.dumps(spec), "runAs(User|Group)|fsGroup")
        self.assertIn("--job-user-from-cluster", own["containers"][0]["args"])

    def test_is_replaced_and_probed_as_the_values_say(self):
        deployment = named(render(
            "strategy.type=Recreate", "revisionHistoryLimit=0", "deploymentAnnotations.a=b", "health.livenessProbe.failureThreshold=9",
            "health.readinessProbe.timeoutSeconds=3",
        ), "Deployment")[0]  # fmt: skip
        self.assertEqual(deployment["metadata"]["annotations"], {"a": "b"})
        self.assertEqual(deployment["spec"]["strategy"], {"type": "Recreate"})
        self.assertEqual(deployment["spec"]["revisionHistoryLimit"], 0)
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["livenessProbe"], {
            "httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 10, "failureThreshold": 9,
        })  # fmt: skip
        self.assertEqual(container["readinessProbe"], {
            "httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5, "timeoutSeconds": 3,
        })  # fmt: skip
        plain = named(render(), "Deployment")[0]
        self.assertNotIn("strategy", plain["spec"])
        self.assertNotIn("annotations", plain["metadata"])
        self.assertNotIn("annotations", plain["spec"]["template"]["metadata"])

    def test_pods_carry_the_annotations_of_metrics_and_the_users(self):
        pod = named(render("metrics.annotations=true", "podAnnotations.a=b"), "Deployment")[0]["spec"]["template"]["metadata"]
        self.assertEqual(pod["annotations"], {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "a": "b"})

    def test_takes_tag_and_digest(self):
        self.assertEqual(self.pod("image.tag=v1")["containers"][0]["image"], "gnn-controller:v1")
        digest = "sha256:" + "a" * 64
        image = self.pod("image.registry=r.example.com", "image.tag=v1", f"image.digest={digest}")["containers"][0]["image"]
        self.assertEqual(image, f"r.example.com/gnn-controller@{digest}")

    def test_elects_a_leader_in_its_own_namespace(self):
        arguments = self.pod()["containers"][0]["args"]
        self.assertIn("--leader-elect", arguments)
        self.assertIn("--lease-namespace=gnn-system", arguments)

    def test_the_release_hook_takes_the_same_lease(self):
        def lease(arguments):
            return sorted(each for each in arguments if "--lease" in each or "--leader" in each)

        hook = hook_pod(render())["containers"][0]["args"]
        self.assertEqual(lease(hook), lease(self.pod()["containers"][0]["args"]))
        self.assertEqual(len(lease(hook)), 3)

    def test_a_release_that_stops_using_kueue_deletes_the_workloads_of_jobs(self):
        self.assertEqual(named(render(), "Job", "-workloads"), [], "no Kueue is in the cluster")
        self.assertEqual(named(render("kueue.enabled=true", kueue=True), "Job", "-workloads"), [])
        for namespaces, binding in ((None, "ClusterRoleBinding"), (["a", "b"], "RoleBinding")):
            values = [] if namespaces is None else ["controller.watchNamespaces={a,b}"]
            objects = render(*values, kueue=True)
            hook = named(objects, "Job", "-workloads")[0]
            arguments = hook["spec"]["template"]["spec"]["containers"][0]["args"]
            self.assertIn("--only-workloads", arguments)
            self.assertIn("--leader-elect", arguments)
            bindings = named(objects, binding, "-workloads")
            self.assertEqual([each["metadata"].get("namespace") for each in bindings], namespaces or [None])
            role = named(objects, "ClusterRole", "-workloads")[0]
            self.assertEqual(role["rules"][0]["verbs"], ["list", "patch", "delete"])
            for each in (hook, role, *bindings):
                self.assertEqual(each["metadata"]["annotations"]["helm.sh/hook"], "post-upgrade")

    def test_jobs_name_only_queues_of_volcano_that_are_allowed(self):
        def queues(*values):
            arguments = self.pod("gangScheduling.volcano.enabled=true", *values)["containers"][0]["args"]
            return json.loads(next(a for a in arguments if a.startswith("--volcano-queues=")).partition("=")[2])

        self.assertEqual(queues(), {})
        self.assertEqual(queues("gangScheduling.volcano.queues.team={a,b}"), {"team": ["a", "b"]})

    def test_names_its_namespaces(self):
        arguments = self.pod("controller.watchNamespaces={a,b}")["containers"][0]["args"]
        self.assertEqual([a for a in arguments if a.startswith("--namespace")], ["--namespace=a", "--namespace=b"])

    def fence(self, *values):
        arguments = self.pod(*values)["containers"][0]["args"]
        return json.loads(next(a for a in arguments if a.startswith("--job-fence=")).partition("=")[2])

    def test_the_jobs_fence_lets_in_the_controller_and_prometheus_and_nothing_out(self):
        fence = self.fence()
        own, prometheus = fence["metricsFrom"]
        self.assertEqual(own["podSelector"]["matchLabels"]["app.kubernetes.io/component"], "controller")
        self.assertEqual(own["namespaceSelector"]["matchLabels"], {"kubernetes.io/metadata.name": "gnn-system"})
        self.assertEqual(prometheus["namespaceSelector"]["matchLabels"], {"kubernetes.io/metadata.name": "monitoring"})
        self.assertEqual(fence["egress"], [])

    def test_the_jobs_fence_says_what_values_say(self):
        self.assertEqual(self.fence("jobs.networkPolicy.metricsFrom=null", "jobs.networkPolicy.egress.enabled=false"), {})
        port = "jobs.networkPolicy.egress.rules[0].ports[0]"
        fence = self.fence(f"{port}.port=443", f"{port}.protocol=TCP")
        self.assertEqual(fence["egress"], [{"ports": [{"port": 443, "protocol": "TCP"}]}])

    def test_mounts_extra_volumes(self):
        spec = self.pod(
            "controller.extraVolumes[0].name=ca", "controller.extraVolumes[0].configMap.name=bundle",
            "controller.extraVolumeMounts[0].name=ca", "controller.extraVolumeMounts[0].mountPath=/ca",
        )
        self.assertEqual(spec["volumes"], [{"name": "ca", "configMap": {"name": "bundle"}}])
        self.assertEqual(spec["containers"][0]["volumeMounts"], [{"name": "ca", "mountPath": "/ca"}])
        self.assertNotIn("volumes", self.pod())

    def test_other_pods_have_no_token_unless_told(self):
        self.assertFalse(named(render(), "ServiceAccount")[0]["automountServiceAccountToken"])

    def test_pods_have_their_token_whatever_the_account_says(self):
        for automount in ("true", "false"):
            objects = render(f"serviceAccount.automount={automount}")
            account = named(objects, "ServiceAccount")[0]
            self.assertEqual(account["automountServiceAccountToken"], automount == "true")
            for spec in (named(objects, "Deployment")[0]["spec"]["template"]["spec"], hook_pod(objects), waiting_pod(objects)):
                self.assertTrue(spec["automountServiceAccountToken"])

    def test_pods_that_run_once_go_where_the_controller_may(self):
        """Else `helm uninstall` hangs where every node is tainted."""
        required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
        objects = render(
            "nodeSelector.pool=control", "tolerations[0].key=control", "tolerations[0].operator=Exists",
            "priorityClassName=system-cluster-critical", f"{required}.key=kubernetes.io/arch", f"{required}.operator=In",
            f"{required}.values[0]=amd64", "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=x",
        )
        controller = named(objects, "Deployment")[0]["spec"]["template"]["spec"]
        self.assertEqual(controller["nodeSelector"], {**MACHINES, "pool": "control"})
        self.assertEqual(set(controller["affinity"]), {"nodeAffinity", "podAntiAffinity"})
        for spec in (hook_pod(objects), waiting_pod(objects)):
            for field in ("nodeSelector", "tolerations", "priorityClassName"):
                self.assertEqual(spec[field], controller[field], field)
            self.assertEqual(spec["affinity"], {"nodeAffinity": controller["affinity"]["nodeAffinity"]})
        worker = named(objects, "GNNJob")[0]["spec"]["workers"]["template"]
        self.assertEqual([worker["nodeSelector"], worker["tolerations"]], [controller["nodeSelector"], controller["tolerations"]])
        self.assertNotIn("priorityClassName", worker, "the CRD refuses system- classes")

    def test_pods_go_to_the_machines_that_the_images_are_for(self):
        for values, selector in (
            ((), MACHINES), (("nodeSelector.kubernetes\\.io/arch=null",), {"kubernetes.io/os": "linux"}),
            (("nodeSelector=null",), None),
        ):  # fmt: skip
            objects = render(*values)
            own = named(objects, "Deployment")[0]["spec"]["template"]["spec"]
            worker = named(objects, "GNNJob")[0]["spec"]["workers"]["template"]
            for spec in (own, hook_pod(objects), waiting_pod(objects), worker):
                self.assertEqual(spec.get("nodeSelector"), selector)

    def test_affinity_may_be_null(self):
        self.assertNotIn("affinity", hook_pod(render("affinity=null")))

    def test_the_budget_is_there_only_with_more_than_one_replica(self):
        (budget,) = named(render(), "PodDisruptionBudget")
        self.assertEqual(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow")
        self.assertEqual(named(render("replicaCount=1"), "PodDisruptionBudget"), [])
        self.assertEqual(named(render("podDisruptionBudget.enabled=false"), "PodDisruptionBudget"), [])

    def test_selectors_hold_only_what_never_changes(self):
        selector = named(render("commonLabels.team=x"), "Deployment")[0]["spec"]["selector"]["matchLabels"]
        self.assertEqual(
            set(selector),
            {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"},
        )


class Rbac(unittest.TestCase):
    def rules(self, *values):
        objects = render(*values)
        return [
            (item["kind"], item["metadata"].get("namespace"), rule)
            for item in objects if item["kind"] in ("Role", "ClusterRole") for rule in item["rules"]
        ]

    def test_is_least_privilege(self):
        for kind, _, rule in self.rules():
            for field in ("apiGroups", "resources", "verbs"):
                self.assertNotIn("*", rule[field])
            for resource in ("pods/exec", "nodes", "serviceaccounts", "roles", "clusterroles"):
                self.assertNotIn(resource, rule["resources"], kind)

    def test_secrets_can_be_created_and_never_read(self):
        for values in ((), ("controller.watchNamespaces={a}",), ("kueue.enabled=true",)):
            rules = [rule for _, _, rule in self.rules(*values) if "secrets" in rule["resources"]]
            self.assertEqual(rules, [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}])

    def test_network_policies_are_the_operators_only_where_jobs_have_them(self):
        def rules(*values):
            return [rule["verbs"] for _, _, rule in self.rules(*values) if "networkpolicies" in rule["resources"]]

        self.assertEqual(rules(), [["get", "list", "watch", "create", "patch"]])
        for values in ((), ("controller.watchNamespaces={a}",)):
            self.assertEqual(rules("jobs.networkPolicy.enabled=false", *values), [])

    def test_each_gang_scheduler_adds_its_groups_and_nothing_else(self):
        def groups(*values):
            return [rule for _, _, rule in self.rules(*values) if "podgroups" in rule["resources"]]

        def arguments(objects):
            return named(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["args"]

        def policed(objects):
            rules = named(objects, "ValidatingAdmissionPolicy", "-controller")[0]["spec"]["matchConstraints"]["resourceRules"]
            return [rule["apiGroups"] for rule in rules if rule["resources"] == ["podgroups"]]

        self.assertEqual(groups(), [])
        self.assertEqual(policed(render()), [])
        self.assertFalse([each for each in arguments(render()) if "gang" in each])
        for provider, group in (
            ("native", "scheduling.k8s.io"), ("coscheduling", "scheduling.x-k8s.io"), ("volcano", "scheduling.volcano.sh"),
        ):  # fmt: skip
            toggle = f"gangScheduling.{provider}.enabled=true"
            verbs = ["get", "list", "watch", "create", "delete"]
            self.assertEqual(groups(toggle), [{"apiGroups": [group], "resources": ["podgroups"], "verbs": verbs}])
            self.assertEqual(policed(render(toggle)), [[group]])
            self.assertIn(f"--gang-provider={provider.capitalize()}", arguments(render(toggle)))
            roles = self.rules(toggle, "controller.watchNamespaces={a}")
            self.assertEqual([where for _, where, rule in roles if "podgroups" in rule["resources"]], ["a"])
        schedulers = "gangScheduling.coscheduling.schedulerNames={x,y}"
        named_ones = arguments(render("gangScheduling.coscheduling.enabled=true", schedulers))
        self.assertEqual([each for each in named_ones if "scheduler=" in each],
                         ["--coscheduling-scheduler=x", "--coscheduling-scheduler=y"])  # fmt: skip

    def test_kueue_adds_its_workloads_and_what_they_name_and_nothing_else(self):
        def kueues(*values):
            return [(kind, where, rule) for kind, where, rule in self.rules(*values) if "kueue.x-k8s.io" in rule["apiGroups"]]

        def arguments(*values):
            return named(render(*values), "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["args"]

        self.assertEqual(kueues("kueue.manageJobsWithoutQueueName=true"), [])
        self.assertFalse([each for each in arguments("kueue.manageJobsWithoutQueueName=true") if "kueue" in each])
        toggle = "kueue.enabled=true"
        everywhere = [rule for _, _, rule in kueues(toggle)]
        verbs = {resource: set(rule["verbs"]) for rule in everywhere for resource in rule["resources"]}
        self.assertEqual(verbs, {
            "workloads": {"get", "list", "watch", "create", "patch", "delete"}, "workloads/status": {"patch"},
            "resourceflavors": {"get"}, "workloadpriorityclasses": {"get"},
        })  # fmt: skip
        classes = [rule["verbs"] for _, _, rule in self.rules(toggle) if "priorityclasses" in rule["resources"]]
        self.assertEqual(classes, [["get", "list"]])
        in_one = {resource: where for _, where, rule in kueues(toggle, "controller.watchNamespaces={a}")
                  for resource in rule["resources"]}  # fmt: skip
        self.assertEqual(in_one["workloads"], "a")
        self.assertNotEqual(in_one["resourceflavors"], "a")
        self.assertIn("--kueue", arguments(toggle))
        self.assertNotIn("--kueue-manage-jobs-without-queue-name", arguments(toggle))
        self.assertIn("--kueue-manage-jobs-without-queue-name", arguments(toggle, "kueue.manageJobsWithoutQueueName=true"))
        policy = named(render(toggle), "ValidatingAdmissionPolicy", "-controller")[0]["spec"]
        policed = [rule["resources"] for rule in policy["matchConstraints"]["resourceRules"]]
        self.assertIn(["workloads", "workloads/status"], policed)

    def test_is_namespaced_when_namespaces_are_named(self):
        objects = render("controller.watchNamespaces={team-a,team-b}")
        cluster = [item["metadata"]["name"] for item in named(objects, "ClusterRole")]
        self.assertEqual(sorted(cluster), ["gnn-operator-editor", "gnn-operator-viewer"])
        roles = {item["metadata"]["namespace"] for item in named(objects, "Role", "gnn-operator")}
        self.assertEqual(roles, {"team-a", "team-b"})

    def test_editor_and_viewer_are_aggregated_unless_told_not_to(self):
        editor = named(render(), "ClusterRole", "-editor")[0]["metadata"]["labels"]
        self.assertEqual(editor["rbac.authorization.k8s.io/aggregate-to-edit"], "true")
        editor = named(render("rbac.aggregate=false"), "ClusterRole", "-editor")[0]["metadata"]["labels"]
        self.assertNotIn("rbac.authorization.k8s.io/aggregate-to-edit", editor)

    def test_the_policy_to_the_lease_names_the_lease(self):
        role = named(render(), "Role", "-leader-election")[0]
        named_rules = [rule for rule in role["rules"] if "update" in rule["verbs"]]
        self.assertEqual(named_rules[0]["resourceNames"], ["gnn-operator"])

    def test_an_own_service_account_must_be_named(self):
        ran = helm("template", "x", CHART, "--set", "serviceAccount.create=false")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("serviceAccount.name", ran.stderr)


class NetworkPolicy(unittest.TestCase):
    """The controller's own; those of jobs are the controller's work."""

    def policy(self, *values):
        return named(render(*values), "NetworkPolicy")[0]["spec"]

    def test_fences_the_controller_alone(self):
        policy = self.policy()
        self.assertEqual(policy["podSelector"], named(render(), "Deployment")[0]["spec"]["selector"])
        self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])

    def test_keeps_the_readers_of_metrics_from_the_probes_port(self):
        container = named(render("health.port=9999"), "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
        self.assertIn("--health-bind-address=:9999", container["args"])
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        probed = {ports[container[probe]["httpGet"]["port"]] for probe in ("livenessProbe", "readinessProbe")}
        self.assertEqual(probed, {9999})
        admitted = {port["port"] for rule in self.policy("health.port=9999")["ingress"] for port in rule["ports"]}
        self.assertEqual(admitted, {8080})

    def test_lets_in_only_the_http_port(self):
        scrapers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        port = [{"port": 8888, "protocol": "TCP"}]
        self.assertEqual(self.policy("metrics.port=8888")["ingress"], [{"ports": port, "from": [scrapers]}])
        self.assertEqual(self.policy("metrics.port=8888", "networkPolicy.metricsFrom=null")["ingress"], [{"ports": port}])
        ingress = self.policy("networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus")["ingress"]
        self.assertEqual([rule["from"] for rule in ingress], [[{"podSelector": {"matchLabels": {"app": "prometheus"}}}]])

    def test_lets_out_names_the_api_server_and_agents(self):
        names, api_server, agents = self.policy()["egress"]
        self.assertEqual(names, {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]})
        # No addresses: on Cilium those of a rule never mean a node's, and the API server may run on one.
        self.assertEqual(api_server, {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]})
        self.assertEqual(agents, {
            "to": [{"namespaceSelector": {}, "podSelector": {
                "matchLabels": {"app.kubernetes.io/name": "gnn-operator"},
                "matchExpressions": [{
                    "key": "app.kubernetes.io/component", "operator": "In", "values": ["worker", "prepare"],
                }],
            }}],
            "ports": [{"port": 9400, "protocol": "TCP"}],
        })

    def test_name_servers_may_listen_on_other_ports(self):
        names = self.policy("networkPolicy.dnsPorts={53,5353}")["egress"][0]["ports"]
        self.assertEqual([(each["port"], each["protocol"]) for each in names],
                         [(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")])  # fmt: skip

    def test_the_api_servers_address_can_be_told(self):
        api_server = self.policy("networkPolicy.apiServer.cidrs={10.9.0.1/32}", "networkPolicy.apiServer.ports={8443}")["egress"][1]
        self.assertEqual(api_server, {"to": [{"ipBlock": {"cidr": "10.9.0.1/32"}}], "ports": [{"port": 8443, "protocol": "TCP"}]})


class Admission(unittest.TestCase):
    """What it refuses is tested on a real API server, in tests/integration/api."""

    def policy(self):
        return named(render(), "ValidatingAdmissionPolicy", "-worker-pods")[0]["spec"]

    def test_looks_into_every_kind_of_container(self):
        policy = self.policy()
        containers = next(each["expression"] for each in policy["variables"] if each["name"] == "containers")
        for field in ("object.spec.containers", "object.spec.?initContainers", "object.spec.?ephemeralContainers"):
            self.assertIn(field, containers)
        for each in policy["validations"]:
            self.assertNotRegex(each["expression"], r"object\.spec\.\??\w*[cC]ontainers", each["message"])

    def test_is_asked_when_a_container_is_put_into_a_running_pod(self):
        rule = self.policy()["matchConstraints"]["resourceRules"][0]
        self.assertEqual(set(rule["resources"]), {"pods", "pods/ephemeralcontainers"})
        self.assertEqual(set(rule["operations"]), {"CREATE", "UPDATE"})

    def test_lets_an_older_pod_get_rid_of_its_finalizer(self):
        condition = self.policy()["matchConditions"][0]["expression"]
        for part in ('request.operation == "CREATE"', "object.spec != oldObject.spec", '"gnn.dev/job-uid" in oldObject'):
            self.assertIn(part, condition)


    def test_allows_the_keys_of_pods_that_the_controller_allows(self):
        policies = render("jobs.podMetadata.allowedKeys={team,example.com/*}")
        for suffix in ("-pod-metadata", "-worker-pods"):
            variables = {
                each["name"]: each["expression"]
                for each in named(policies, "ValidatingAdmissionPolicy", suffix)[0]["spec"]["variables"]
            }
            self.assertEqual((variables["keys"], variables["prefixes"]), ('["team"]', '["example.com/"]'))
        container = named(policies, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
        self.assertIn("--job-allowed-keys=team,example.com/*", container["args"])

    def test_names_the_account_that_the_controller_has(self):
        for values, user in (
            ((), "gnn-system:gnn-operator"),
            (("serviceAccount.create=false", "serviceAccount.name=mine"), "gnn-system:mine"),
        ):
            for suffix in ("-controller", "-worker-labels"):
                conditions = named(render(*values), "ValidatingAdmissionPolicy", suffix)[0]["spec"]["matchConditions"]
                self.assertIn(f'"system:serviceaccount:{user}"', conditions[-1]["expression"])

    def test_namespaces_that_it_does_not_watch_are_another_releases(self):
        selector = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
        for suffix in ("-worker-labels", "-worker-pods"):
            def bound(*values, suffix=suffix):
                return named(render(*values), "ValidatingAdmissionPolicyBinding", suffix)[0]["spec"].get("matchResources")

            self.assertIsNone(bound())
            self.assertEqual(
                bound("controller.watchNamespaces={a,b}"), {"namespaceSelector": {"matchExpressions": [selector]}}
            )


class Toggles(unittest.TestCase):
    def test_each_turns_its_object_on_and_off(self):
        for value, kind, suffix in (
            ("networkPolicy.enabled", "NetworkPolicy", ""),
            ("admissionPolicy.enabled", "ValidatingAdmissionPolicy", ""),
            ("hooks.releasePods", "Job", "-release"),
            ("hooks.releaseWorkloads", "Job", "-workloads"),
            ("rbac.create", "ClusterRole", ""),
            ("serviceAccount.create", "ServiceAccount", ""),
            ("metrics.serviceMonitor.enabled", "ServiceMonitor", ""),
            ("metrics.podMonitor.enabled", "PodMonitor", ""),
            ("metrics.prometheusRule.enabled", "PrometheusRule", ""),
            ("dashboards.enabled", "ConfigMap", ""),
        ):
            on = render(f"{value}=true", monitoring=True, kueue=True)
            off = render(f"{value}=false", "serviceAccount.name=x", monitoring=True, kueue=True)
            self.assertGreaterEqual(len(named(on, kind, suffix)), 1, value)
            self.assertEqual(named(off, kind, suffix), [], value)

    def test_monitoring_without_its_api_says_what_to_do(self):
        for value in ("metrics.serviceMonitor", "metrics.podMonitor", "metrics.prometheusRule"):
            ran = helm("template", "x", CHART, "--set", f"{value}.enabled=true")
            self.assertIn("install the Prometheus operator or set it to false", ran.stderr)

    def alerts(self, *values, chart=CHART):
        ran = helm("template", "ops", chart, "--namespace", "gnn", "--api-versions", "monitoring.coreos.com/v1",
                   "--set", "metrics.prometheusRule.enabled=true", *(word for value in values for word in ("--set", value)))  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stderr)
        objects = [item for item in yaml.safe_load_all(ran.stdout) if item]
        groups = named(objects, "PrometheusRule")[0]["spec"]["groups"]
        alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
        self.assertGreater(len(alerts), 5)
        return alerts, named(objects, "ConfigMap", "-runbooks")[0]

    def test_alerts_name_the_sites_own_runbooks(self):
        page = "https://wiki.example.org/gnn"
        for alert in self.alerts(f"metrics.prometheusRule.runbookUrl={page}")[0]:
            self.assertEqual(alert["annotations"]["runbook_url"], f"{page}#{alert['alert'].lower()}")

    def test_each_alert_names_a_command_that_shows_its_runbook(self):
        alerts, runbooks = self.alerts()
        self.assertEqual(set(runbooks["data"]), {alert["alert"] for alert in alerts})
        for alert in alerts:
            name = alert["alert"]
            self.assertEqual(
                alert["annotations"]["runbook"],
                f"kubectl get configmap ops-gnn-operator-runbooks --namespace gnn --output jsonpath='{{.data.{name}}}'",
            )
            self.assertNotIn("runbook_url", alert["annotations"], "no link is better than one that leads nowhere")
            text = runbooks["data"][name]
            self.assertTrue(text.startswith(f"{name}\n") and len(text) > 100, name)
            self.assertNotRegex(text, r"\]\(|<release namespace>")

    def test_a_package_that_names_its_source_has_alerts_link_there(self):
        with tempfile.TemporaryDirectory() as folder:
            chart = shutil.copytree(CHART, Path(folder) / "gnn-operator")
            with open(chart / "Chart.yaml", "a", encoding="utf-8") as file:
                file.write("sources: [https://example.org/gnn]\n")
            for alert in self.alerts(chart=chart)[0]:
                self.assertEqual(
                    alert["annotations"]["runbook_url"],
                    f"https://example.org/gnn/blob/v0.1.0/docs/runbooks.md#{alert['alert'].lower()}",
                )

    def test_monitors_scrape_as_the_values_say(self):
        for monitor, kind, endpoints in (
            ("serviceMonitor", "ServiceMonitor", "endpoints"), ("podMonitor", "PodMonitor", "podMetricsEndpoints"),
        ):  # fmt: skip
            on = f"metrics.{monitor}.enabled=true"
            (plain,) = named(render(on, monitoring=True), kind)[0]["spec"][endpoints]
            self.assertNotIn("scrapeTimeout", plain)
            values = [f"metrics.{monitor}.{name}" for name in (
                "interval=20s", "scrapeTimeout=9s", "relabelings[0].targetLabel=a", "metricRelabelings[0].action=drop",
            )]  # fmt: skip
            (told,) = named(render(on, *values, monitoring=True), kind)[0]["spec"][endpoints]
            self.assertEqual(told, {
                **plain, "interval": "20s", "scrapeTimeout": "9s",
                "relabelings": [*plain.get("relabelings", []), {"targetLabel": "a"}],
                "metricRelabelings": [*plain.get("metricRelabelings", []), {"action": "drop"}],
            })  # fmt: skip

    def test_no_word_of_a_pod_becomes_a_series_of_somebody_else(self):
        """Prometheus' own rules, played: who exports it is a user's image in the namespace "mine"."""
        monitor = named(render("metrics.podMonitor.enabled=true", monitoring=True), "PodMonitor")[0]["spec"]
        (endpoint,) = monitor["podMetricsEndpoints"]

        def relabeled(labels, rules):
            for rule in rules:
                value = ";".join(labels.get(each, "") for each in rule.get("sourceLabels", []))
                regex = re.compile(rule.get("regex", "(?s:(.*))"))
                action = rule.get("action", "replace")
                if action in ("keep", "drop") and bool(regex.fullmatch(value)) != (action == "keep"):
                    return None
                if action == "labeldrop":
                    labels = {name: text for name, text in labels.items() if not regex.fullmatch(name)}
                if action == "replace" and value:
                    labels[rule["targetLabel"]] = value
            return labels

        def scraped(sample, **pod_labels):
            meta = {f"__meta_kubernetes_pod_label_gnn_dev_{name}": value for name, value in pod_labels.items()}
            target = relabeled({**meta, "namespace": "mine", "pod": "p", "container": "worker", "job": "gnn-system/jobs"},
                               endpoint["relabelings"])  # fmt: skip
            target = {name: value for name, value in target.items() if not name.startswith("__")}
            self.assertFalse(endpoint["honorLabels"])
            renamed = {f"exported_{name}" if name in target else name: value for name, value in sample.items()}
            return relabeled({**renamed, **target}, endpoint["metricRelabelings"])

        loss = {"__name__": "gnn_train_loss", "job": "arxiv", "node": "1", "rank": "3"}
        series = {**loss, "namespace": "mine", "pod": "p", "container": "worker"}
        self.assertEqual(scraped(loss, job="arxiv", node="1"), series)
        forged = {**loss, "namespace": "victim", "job": "theirs", "node": "0", "pod": "q"}
        self.assertEqual(scraped(forged, job="arxiv", node="1"), series)
        served = {"__name__": "gnn_server_ready", "job": "theirs", "server": "7"}
        self.assertEqual(scraped(served, job="arxiv", server="2")["server"], "2")
        self.assertEqual(scraped(served)["job"], "gnn-system/jobs", "a pod without the label is of no job")
        for name in ("gnnjob_condition", "gnn_operator_build_info", "kube_pod_info", "leader_election_master_status", "gnn_"):
            self.assertIsNone(scraped({**forged, "__name__": name}, job="arxiv"), name)

    def test_the_pod_monitor_has_limits(self):
        monitor = named(render("metrics.podMonitor.enabled=true", monitoring=True), "PodMonitor")[0]["spec"]
        self.assertGreater(monitor["sampleLimit"], 0)
        self.assertGreater(monitor["labelLimit"], 0)

    def test_dashboards_carry_the_sidecars_label(self):
        own = ("dashboards.label=grafana", "dashboards.labelValue=gnn")
        for values, label, content in (((), "grafana_dashboard", "1"), (own, "grafana", "gnn")):
            maps = named(render("dashboards.enabled=true", *values), "ConfigMap")
            self.assertEqual(len(maps), 4)
            for item in maps:
                self.assertEqual(item["metadata"]["labels"][label], content)
                self.assertEqual("grafana_dashboard" in item["metadata"]["labels"], not values)


class HelmTest(unittest.TestCase):
    def hooks(self, *values):
        """The job, and the pod that waits for it."""
        hooks = [item for item in render(*values) if (item["metadata"].get("annotations") or {}).get("helm.sh/hook") == "test"]
        job, pod = sorted(hooks, key=lambda item: item["metadata"]["annotations"]["helm.sh/hook-weight"])
        self.assertEqual((job["kind"], pod["kind"]), ("GNNJob", "Pod"))
        self.assertEqual(pod["spec"]["containers"][0]["args"][-1], job["metadata"]["name"])
        return job, pod

    def worker_image(self, *values):
        return self.hooks(*values)[0]["spec"]["workers"]["template"]["image"]

    def test_runs_its_job_in_a_namespace_that_is_watched(self):
        for watched, chosen in (([], "gnn-system"), (["team-a", "gnn-system"], "gnn-system"), (["team-a", "team-b"], "team-a")):
            value = f"controller.watchNamespaces={{{','.join(watched)}}}" if watched else "controller.watchNamespaces=null"
            job, pod = self.hooks(value)
            self.assertEqual(job["metadata"]["namespace"], chosen)
            self.assertIn(f"--namespace={chosen}", pod["spec"]["containers"][0]["args"])
            # The pod's account is in the release's namespace; it may read the job where the job is.
            self.assertEqual(pod["metadata"]["namespace"], "gnn-system")
            if watched:
                bindings = named(render(value), "RoleBinding", "gnn-operator")
                binding = next(item for item in bindings if item["metadata"]["namespace"] == chosen)
                self.assertEqual(binding["subjects"], [
                    {"kind": "ServiceAccount", "name": pod["spec"]["serviceAccountName"], "namespace": "gnn-system"},
                ])

    def test_runs_a_job_of_the_image_beside_the_controllers(self):
        self.assertEqual(self.worker_image("image.registry=r.example", "image.tag=v2"), "r.example/gnn-worker:v2")

    def test_does_not_take_the_controllers_digest_for_the_workers(self):
        self.assertEqual(self.worker_image("image.digest=sha256:" + "a" * 64), "gnn-worker:0.1.0")

    def test_runs_the_image_it_is_told(self):
        self.assertEqual(self.worker_image("tests.image.repository=w", "tests.image.tag=v1"), "w:v1")
        digest = "sha256:" + "b" * 64
        self.assertEqual(self.worker_image("image.registry=r.example", f"tests.image.digest={digest}"), f"r.example/gnn-worker@{digest}")
        self.assertEqual(self.worker_image("image.registry=r.example", "tests.image.registry=s.example"), "s.example/gnn-worker:0.1.0")


class Package(unittest.TestCase):
    """What people have who have nothing but the package."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        ran = helm("package", CHART, "--destination", cls.folder.name)
        if ran.returncode != 0:
            raise RuntimeError(ran.stderr)
        with tarfile.open(next(Path(cls.folder.name).glob("*.tgz"))) as package:
            package.extractall(cls.folder.name, filter="data")
        cls.files = Path(cls.folder.name) / "gnn-operator"
        cls.chart = yaml.safe_load((cls.files / "Chart.yaml").read_text(encoding="utf-8"))

    def annotation(self, name):
        return yaml.safe_load(self.chart["annotations"][f"artifacthub.io/{name}"])

    def test_has_the_licence_and_the_values_for_openshift_and_no_test_values(self):
        self.assertEqual((self.files / "LICENSE").read_bytes(), (ROOT / "LICENSE").read_bytes())
        self.assertTrue((self.files / "values-openshift.yaml").is_file())
        self.assertFalse((self.files / "ci").exists())

    def test_has_the_runbooks_of_the_docs(self):
        self.assertEqual((self.files / "files/runbooks.md").read_bytes(), (ROOT / "docs/runbooks.md").read_bytes())

    def test_names_no_file_that_it_lacks(self):
        notes = helm("install", "x", self.files, "--dry-run=client", "--namespace", "gnn-system").stdout.partition("NOTES:")[2]
        self.assertIn("kubectl apply", notes)
        for name, text in (("notes", notes), ("README", (self.files / "README.md").read_text(encoding="utf-8")),
                           ("values", (self.files / "values.yaml").read_text(encoding="utf-8"))):  # fmt: skip
            self.assertNotRegex(text, r"\]\((?!https?:)|\b(manifests|scripts|charts|tools)/", name)
            for path in re.findall(r"[\w./-]+\.(?:yaml|md|tpl)\b", text):
                self.assertTrue((self.files / path).exists() or path == "docs/runbooks.md", f"{name}: {path}")
        self.assertNotIn("gnn.dev/docs", "".join(
            file.read_text(encoding="utf-8") for file in self.files.rglob("*") if file.is_file()
        ))  # fmt: skip

    def test_the_job_of_the_notes_is_valid(self):
        notes = helm("install", "x", self.files, "--dry-run=client", "--namespace", "gnn-system").stdout.partition("NOTES:")[2]
        job = yaml.safe_load(re.search(r"<<'JOB'\n(.*?)^JOB$", notes, re.DOTALL | re.MULTILINE)[1])
        self.assertEqual(self.problems(job), [])

    @staticmethod
    def problems(job):
        schema = json.loads((ROOT / "docs/schemas/gnn.dev/gnnjob_v1alpha1.json").read_text(encoding="utf-8"))
        return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(job)]

    def test_tells_artifact_hub_what_it_asks(self):
        self.assertTrue(self.chart["maintainers"][0]["name"])
        head, _, data = self.chart["icon"].partition(",")
        self.assertEqual(head, "data:image/svg+xml;base64")
        self.assertEqual(ElementTree.fromstring(base64.b64decode(data)).tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(self.chart["annotations"]["artifacthub.io/category"], "ai-machine-learning")
        self.assertEqual(self.chart["annotations"]["artifacthub.io/operator"], "true")
        version = self.chart["appVersion"]
        self.assertEqual([each["image"] for each in self.annotation("images")], [f"gnn-controller:{version}", f"gnn-worker:{version}"])
        source = yaml.safe_load((self.files / "files/gnnjobs.gnn.dev.yaml").read_text(encoding="utf-8"))
        (crd,) = self.annotation("crds")
        self.assertEqual((crd["name"], crd["kind"]), (source["metadata"]["name"], source["spec"]["names"]["kind"]))
        self.assertIn(crd["version"], [each["name"] for each in source["spec"]["versions"]])
        for example in self.annotation("crdsExamples"):
            self.assertEqual(self.problems(example), [])
        kinds = {each["kind"] for each in self.annotation("changes")}
        self.assertLessEqual(kinds, {"added", "changed", "deprecated", "removed", "fixed", "security"})

    def test_that_is_published_names_its_sources_and_its_images(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run(
                [sys.executable, ROOT / "tools/generate/chart_package.py", "--source", "https://example.org/gnn/",
                 "--registry", "registry.example.com/gnn", "--output", folder],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(made.returncode, 0, made.stderr)
            package = next(Path(folder).glob("*.tgz"))
            self.assertEqual(helm("lint", "--strict", package).returncode, 0)
            chart = yaml.safe_load(helm("show", "chart", package).stdout)
            rendered = helm("template", "x", package, "--api-versions", "monitoring.coreos.com/v1",
                            "--set", "metrics.prometheusRule.enabled=true").stdout  # fmt: skip
        self.assertEqual((chart["home"], chart["sources"]), ("https://example.org/gnn", ["https://example.org/gnn"]))
        listed = {each["image"] for each in yaml.safe_load(chart["annotations"].pop("artifacthub.io/images"))}
        chart["annotations"].pop("artifacthub.io/links")
        self.assertEqual(set(re.findall(r"^ *image: (\S+)$", rendered, re.MULTILINE)), listed)
        self.assertIn("https://example.org/gnn/blob/v0.1.0/docs/runbooks.md#gnnjobstalled", rendered)
        for name, text in chart["annotations"].items():
            self.assertEqual(yaml.safe_load(text), yaml.safe_load(self.chart["annotations"][name]), name)

    def test_describes_every_value(self):
        rows = re.findall(r"^\| `(\S+)` \|.*\| (.*) \|$", (self.files / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertGreater(len(rows), 80)
        self.assertEqual([name for name, meaning in rows if not meaning], [])


class Manifests(unittest.TestCase):
    def test_kustomize_gives_the_charts_objects(self):
        """manifests/ is the chart's default rendering without Helm's own labels, annotations and hooks."""

        built = subprocess.run(
            [sys.executable, ROOT / "tools/generate/manifests.py", "--check"], capture_output=True, text=True, check=False
        )
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertEqual(bare_objects("kustomize"), bare_objects("chart"))


class Samples(unittest.TestCase):
    def test_name_the_image_that_goes_with_the_chart(self):
        version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
        samples = sorted((ROOT / "manifests/samples").glob("*.yaml"))
        self.assertGreaterEqual(len(samples), 5)
        for sample in samples:
            images = re.findall(r"^ *(?:- )?image: (\S+)$", sample.read_text(encoding="utf-8"), re.MULTILINE)
            self.assertEqual(set(images), {f"gnn-worker:{version}"}, sample.name)


if __name__ == "__main__":
    unittest.main()
