// Package chart renders charts/kintsugi with Helm's engine (OP-807, OP-T805).
package chart

import (
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const folder = "../../../charts/kintsugi"

// notKubernetes are kinds that others define.
var notKubernetes = map[string]bool{"ServiceMonitor": true, "PrometheusRule": true, "TLSRoute": true, "Certificate": true}

// render gives the objects of the proxy by kind, others by kind and name, each read strictly where Kubernetes has the kind: unknown fields fail.
func render(t *testing.T, values string) (map[string]map[string]any, error) {
	t.Helper()
	chart, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: "front", Namespace: "edge", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	objects := map[string]map[string]any{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range strings.Split(text, "\n---\n") {
			object := map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			if len(object) == 0 {
				continue
			}
			kind := object["kind"].(string)
			if !notKubernetes[kind] {
				if _, _, err := strict.Decode([]byte(document), nil, nil); err != nil {
					t.Errorf("%s: %v\n%s", kind, err, document)
				}
			}
			if name := at(object, "metadata", "name").(string); name != "front-proxy" {
				kind += "/" + name
			}
			if objects[kind] != nil {
				t.Errorf("%s twice", kind)
			}
			objects[kind] = object
		}
	}
	return objects, nil
}

func at(object any, path ...string) any {
	for _, key := range path {
		object = object.(map[string]any)[key]
	}
	return object
}

func must(t *testing.T, values string) map[string]map[string]any {
	t.Helper()
	objects, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestOP_T805_Default(t *testing.T) {
	objects := must(t, "")
	for _, kind := range []string{"ServiceAccount", "ConfigMap", "Service", "Deployment", "PodDisruptionBudget"} {
		if objects[kind] == nil || at(objects[kind], "metadata", "name") != "front-proxy" || at(objects[kind], "metadata", "namespace") != "edge" {
			t.Errorf("%s: %v", kind, objects[kind])
		}
	}
	if len(objects) != 5 {
		t.Errorf("%d objects", len(objects))
	}
	pod := at(objects["Deployment"], "spec", "template", "spec").(map[string]any)
	if pod["enableServiceLinks"] != false || pod["automountServiceAccountToken"] != false {
		t.Error("service links or a token")
	}
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(at(objects["ConfigMap"], "data", "proxy.yaml").(string)), &config); err != nil {
		t.Fatal(err)
	}
	if config["external_url"] != "https://kintsugi.example.test:8443" {
		t.Error(config["external_url"])
	}
	mounts := pod["containers"].([]any)[0].(map[string]any)["volumeMounts"].([]any)
	if len(mounts) != len(pod["volumes"].([]any)) {
		t.Errorf("%v of %v", mounts, pod["volumes"])
	}
}

func TestOP_T805_AllOn(t *testing.T) {
	objects := must(t, `
externalHostname: k.example
proxy:
  replicas: 3
  image: {tag: "1.2.3"}
  extraArgs: [--permit-port-sharing]
  mappings: [{path: /services/, backend: "https://root.kcp:6443", backend_server_ca: /etc/kintsugi/backend-ca/tls.crt}]
  config: {wildcard: deny, listener: {port: 9443}}
  service: {type: LoadBalancer, loadBalancerClass: example.com/own, annotations: {a: b}}
  ingress: {enabled: true, className: nginx, annotations: {c: d}}
  hpa: {enabled: true}
  networkPolicy: {enabled: true}
  monitoring: {enabled: true, rules: true, tokenSecret: reads-metrics}
  gateway: {enabled: true, parentRefs: [{name: edge}]}
  certificateIssuer: {name: own, kind: ClusterIssuer}
  extraDNSNames: [also.example]
  nodeSelector: {zone: a}
  tolerations: [{key: edge, operator: Exists}]
  affinity: {podAntiAffinity: {}}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  priorityClassName: high
  hostAliases: [{ip: 10.0.0.1, hostnames: [root.kcp]}]
  extraVolumes: [{name: more, emptyDir: {}}]
  extraVolumeMounts: [{name: more, mountPath: /more}]
ui: {enabled: true}
etcd: {endpoints: ["https://etcd-0:2379", "https://etcd-1:2379"], prefix: /own/proxy, secret: etcd-client}
tracing: {endpoint: "http://collector:4318", samplingPerMillion: 1000}
workers:
  - {name: messaging, replicas: 2, kubeconfigSecret: own, resources: {limits: {memory: 1Gi}}, config: {data_dir: /elsewhere, roles: {messaging: {}}}}
  - {name: second, kubeconfigSecret: other, config: {roles: {example: {}}}}
`)
	for _, kind := range []string{"Ingress", "HorizontalPodAutoscaler", "NetworkPolicy", "ServiceMonitor", "PrometheusRule", "TLSRoute", "Certificate",
		"Deployment/front-messaging", "ConfigMap/front-messaging", "Deployment/front-second", "ConfigMap/front-second"} {
		if objects[kind] == nil {
			t.Errorf("no %s", kind)
		}
	}
	if _, said := at(objects["Deployment"], "spec").(map[string]any)["replicas"]; said {
		t.Error("replicas beside an autoscaler")
	}
	data := at(objects["ConfigMap"], "data").(map[string]any)
	for _, text := range []string{"wildcard: deny", "port: 9443", "mapping_file:", "address: 0.0.0.0", "ui:\n  enabled: true",
		"store:\n  ca_file: /etc/kintsugi/etcd/ca.crt\n  cert_file: /etc/kintsugi/etcd/tls.crt\n  endpoints:\n  - https://etcd-0:2379\n  - https://etcd-1:2379\n  key_file: /etc/kintsugi/etcd/tls.key\n  prefix: /own/proxy\n  type: etcd\n", "endpoint: http://collector:4318"} {
		if !strings.Contains(data["proxy.yaml"].(string), text) {
			t.Errorf("no %q in %s", text, data["proxy.yaml"])
		}
	}
	pod := at(objects["Deployment"], "spec", "template", "spec").(map[string]any)
	if mounts := pod["containers"].([]any)[0].(map[string]any)["volumeMounts"].([]any); len(mounts) != len(pod["volumes"].([]any)) || len(mounts) != 10 {
		t.Errorf("%v of %v", mounts, pod["volumes"])
	}
	if !strings.Contains(data["path-mapping.yaml"].(string), "backend: https://root.kcp:6443") {
		t.Error(data["path-mapping.yaml"])
	}
	if groups := at(objects["PrometheusRule"], "spec", "groups").([]any); len(groups) < 2 {
		t.Error(groups)
	}
	if names := at(objects["Certificate"], "spec", "dnsNames").([]any); len(names) != 3 || names[2] != "also.example" {
		t.Error(names)
	}
	worker := at(objects["ConfigMap/front-messaging"], "data", "worker.yaml").(string)
	for _, text := range []string{"data_dir: /var/lib/kintsugi", "kind: WorkerConfiguration", "roles:\n  messaging:"} {
		if !strings.Contains(worker, text) {
			t.Errorf("no %q in %s", text, worker)
		}
	}
	if at(objects["Deployment/front-messaging"], "spec", "replicas") != float64(2) {
		t.Error(objects["Deployment/front-messaging"])
	}
	if at(objects["Service"], "spec", "loadBalancerClass") != "example.com/own" {
		t.Error(objects["Service"])
	}
}

const eu = `
etcd: {endpoints: ["https://etcd-0:2379", "https://etcd-1:2379"], secret: etcd-client}
tracing: {endpoint: "http://collector:4318", samplingPerMillion: 1000}
shards:
  - {name: root, secret: root-files}
  - {name: eu, replicas: 3, secret: eu-files, labels: {region: eu-west-1, cloud: aws}, storage: 10Gi, storageClass: fast,
     resources: {limits: {memory: 2Gi}}, extraArgs: [--loops=2], tolerations: [{key: edge, operator: Exists}]}
`

func TestOP_T805_Shards(t *testing.T) {
	objects := must(t, eu)
	for _, kind := range []string{"Service/front-root", "StatefulSet/front-root", "Service/front-eu", "StatefulSet/front-eu", "PodDisruptionBudget/front-eu"} {
		if objects[kind] == nil {
			t.Errorf("no %s", kind)
		}
	}
	if objects["PodDisruptionBudget/front-root"] != nil {
		t.Error("a budget of one process lets nobody drain its node")
	}
	for _, name := range []string{"root", "eu"} {
		set := at(objects["StatefulSet/front-"+name], "spec").(map[string]any)
		pod := at(set, "template", "spec").(map[string]any)
		container := pod["containers"].([]any)[0].(map[string]any)
		if set["serviceName"] != "front-"+name || pod["automountServiceAccountToken"] != false {
			t.Error(set)
		}
		text := strings.Join(strings.Fields(strings.Trim(toText(container["args"]), "[]")), "\n") + "\n"
		for _, argument := range []string{"shard", "--join=/var/lib/kintsugi", "--name=" + name, "--replica=$(POD)", "--bind=0.0.0.0", "--port=6443",
			"--advertise=https://front-" + name + ".edge.svc:6443", "--store=etcd=https://etcd-0:2379,https://etcd-1:2379",
			"--etcd-ca-file=/etc/kintsugi/etcd/ca.crt", "--tracing-endpoint=http://collector:4318"} {
			if !strings.Contains(text, argument+"\n") {
				t.Errorf("no %s in %s", argument, text)
			}
		}
		mounts, volumes := map[string]string{}, map[string]bool{}
		for _, one := range container["volumeMounts"].([]any) {
			mounts[at(one, "name").(string)] = at(one, "mountPath").(string)
		}
		for _, one := range pod["volumes"].([]any) {
			volumes[at(one, "name").(string)] = true
		}
		claims, _ := set["volumeClaimTemplates"].([]any)
		for _, one := range claims {
			volumes[at(one, "metadata", "name").(string)] = true
		}
		for mount := range mounts {
			if !volumes[mount] {
				t.Errorf("%s has no volume", mount)
			}
		}
		if len(mounts) != len(volumes) || mounts["files"] != "/var/lib/kintsugi/pki" {
			t.Errorf("%v of %v", mounts, volumes)
		}
		if _, joins := mounts["root"]; joins != (name == "eu") || (len(claims) == 1) != (name == "eu") {
			t.Errorf("%s: %v, %v", name, mounts, claims)
		}
	}
	eus := at(objects["StatefulSet/front-eu"], "spec").(map[string]any)
	if eus["replicas"] != float64(3) || at(eus["volumeClaimTemplates"].([]any)[0], "spec", "storageClassName") != "fast" {
		t.Error(eus)
	}
	if text := toText(at(eus, "template", "spec", "containers")); !strings.Contains(text, "--labels=cloud=aws,region=eu-west-1") || !strings.Contains(text, "--loops=2") {
		t.Error(text)
	}
}

func toText(value any) string {
	return fmt.Sprint(value)
}

func TestOP_T805_ValuesOfKcpsChart(t *testing.T) {
	objects := must(t, `
externalHostname: k.example
kcpFrontProxy:
  replicas: 5
  image: ghcr.io/own/kintsugi
  tag: v9
  pullPolicy: Always
  v: 4
  extraFlags: [--permit-port-sharing]
  additionalPathMappings: [{path: /services/own, backend: "https://own:6443", backend_server_ca: /ca, proxy_client_cert: /crt, proxy_client_key: /key}]
  service: {type: NodePort, nodePort: 30443, annotations: {a: b}, clusterIP: ""}
  securityContext: {readOnlyRootFilesystem: true}
  podDisruptionBudget: {enabled: true, minAvailable: 2}
  monitoring: {serviceMonitor: {enabled: true}}
  certificateIssuer: {name: kcps, kind: Issuer}
  hostAliases: {enabled: true, values: [{ip: 10.0.0.1, hostnames: [root.kcp]}]}
  profiling: {enabled: true}
  resources: {limits: {cpu: "1"}}
`)
	if at(objects["Deployment"], "spec", "replicas") != float64(5) || at(objects["PodDisruptionBudget"], "spec", "minAvailable") != float64(2) {
		t.Error(objects["Deployment"])
	}
	pod := at(objects["Deployment"], "spec", "template", "spec").(map[string]any)
	container := pod["containers"].([]any)[0].(map[string]any)
	if container["image"] != "ghcr.io/own/kintsugi:v9" || container["imagePullPolicy"] != "Always" {
		t.Error(container["image"])
	}
	if arguments := container["args"].([]any); arguments[2] != "--v=4" || arguments[3] != "--permit-port-sharing" {
		t.Error(arguments)
	}
	if aliases := pod["hostAliases"].([]any); len(aliases) != 1 {
		t.Error(aliases)
	}
	if at(objects["Service"], "spec", "ports").([]any)[0].(map[string]any)["nodePort"] != float64(30443) {
		t.Error(objects["Service"])
	}
	if !strings.Contains(at(objects["ConfigMap"], "data", "path-mapping.yaml").(string), "backend: https://own:6443") {
		t.Error(objects["ConfigMap"])
	}
	for _, kind := range []string{"ServiceMonitor", "Certificate"} {
		if objects[kind] == nil {
			t.Errorf("no %s", kind)
		}
	}
}

func TestOP_T805_BadValuesAreNamed(t *testing.T) {
	for values, named := range map[string]string{
		"proxi: {}":                                          "proxi",
		"externalHostname: ''":                               "externalHostname",
		"externalHostname: 'Not A Host'":                     "externalHostname",
		"proxy: {replicas: two}":                             "replicas",
		"proxy: {replicas: -1}":                              "replicas",
		"proxy: {replica: 2}":                                "replica",
		"proxy: {image: {tag: 'a b'}}":                       "tag",
		"proxy: {image: {pullPolicy: Sometimes}}":            "pullPolicy",
		"proxy: {image: {name: x}}":                          "name",
		"proxy: {verbosity: 11}":                             "verbosity",
		"proxy: {extraArgs: [positional]}":                   "extraArgs",
		"proxy: {mappings: [{path: services}]}":              "mappings",
		"proxy: {mappings: [{path: /a, backend: http://b}]}": "mappings",
		"proxy: {service: {type: ExternalName}}":             "type",
		"proxy: {service: {port: 0}}":                        "port",
		"proxy: {service: {port: '8443'}}":                   "port",
		"proxy: {pdb: {maxUnavailable: 1}}":                  "maxUnavailable",
		"proxy: {hpa: {targetCPU: 200}}":                     "targetCPU",
		"proxy: {monitoring: {interval: often}}":             "interval",
		"topology: {source: static}":                         "source",
		"certificates: {serving: ''}":                        "serving",
		"kcpFrontProxy: {replica: 2}":                        "replica",
		"tracing: {endpoint: 'collector:4318'}":              "endpoint",
		"tracing: {samplingPerMillion: 2000000}":             "samplingPerMillion",
		"workers: [{name: a, kubeconfigSecret: b}]":          "config",
		"proxy: {certificateIssuer: {kind: Own}}":            "kind",
		"etcd: {endpoints: ['etcd:2379']}":                   "endpoints",
		"shards: [{name: eu, secret: a}]":                    "etcd.endpoints",
		"shards: [{name: eu}]":                               "secret",
		"shards: [{name: Eu, secret: a}]":                    "name",
		"shards: [{name: eu, secret: a, storage: much}]":     "storage",
		"shards: [{name: eu, secret: a, replicas: 0}]":       "replicas",
		"etcd: {members: 3}":                                 "members",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v", values, err)
		}
	}
}
