// Package helm runs Helm, unmodified, against a workspace behind the proxy (AM-556).
package helm

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"

	e2e "kintsugi.dev/e2e"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	widgets    = schema.GroupVersionResource{Group: "helm.test", Version: "v1", Resource: "widgets"}
)

const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.helm.test
spec:
  group: helm.test
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                size: {type: integer, minimum: 1}
`

const settings = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-settings
  labels: {app.kubernetes.io/instance: {{ .Release.Name }}}
data:
  revision: {{ .Release.Revision | quote }}
  size: {{ .Values.size | quote }}
  served: {{ .Capabilities.APIVersions.Has "rbac.authorization.k8s.io/v1/ClusterRole" | quote }}
  before: {{ with lookup "v1" "Namespace" "" "default" }}{{ .metadata.name }}{{ end }}
`

const blob = `apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-blob
stringData:
  large: {{ repeat 200000 "k" | quote }}
`

const account = `apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .Release.Name }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .Release.Name }}
rules:
  - {apiGroups: [helm.test], resources: [widgets], verbs: [get]}
`

const widget = `apiVersion: helm.test/v1
kind: Widget
metadata:
  name: {{ .Release.Name }}
spec:
  size: {{ .Values.size }}
`

const hook = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: pre-upgrade}
`

func newChart() *chart.Chart {
	file := func(name, text string) *common.File { return &common.File{Name: name, Data: []byte(text)} }
	return &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: "v2", Name: "things", Version: "0.1.0", Type: "application"},
		Values:   map[string]any{"size": 1},
		Files:    []*common.File{file("crds/widgets.yaml", crd)},
		Templates: []*common.File{file("templates/settings.yaml", settings), file("templates/blob.yaml", blob),
			file("templates/account.yaml", account), file("templates/widget.yaml", widget), file("templates/hook.yaml", hook)},
	}
}

type rig struct {
	t      *testing.T
	config *action.Configuration
	client *dynamic.DynamicClient
}

func (r rig) get(resource schema.GroupVersionResource, name string, path ...string) string {
	r.t.Helper()
	object, err := r.client.Resource(resource).Namespace("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	var value any = object.Object
	for _, key := range path {
		value = value.(map[string]any)[key]
	}
	return fmt.Sprint(value)
}

func (r rig) want(got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("got %q, want %q", got, want)
	}
}

func TestHelm_AM556(t *testing.T) {
	installation := e2e.StartInstallation(t)
	installation.MakeWorkspace("helm", "us-east-1")
	rest := installation.Config("root:helm")
	flags := genericclioptions.NewConfigFlags(false)
	kubeconfig, server, namespace, cache := installation.Kubeconfig(), rest.Host, "default", t.TempDir()
	flags.KubeConfig, flags.APIServer, flags.Namespace, flags.CacheDir = &kubeconfig, &server, &namespace, &cache
	config := action.NewConfiguration()
	if err := config.Init(flags, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	r := rig{t, config, e2e.Dynamic(t, rest)}
	install := func(dry action.DryRunStrategy) error {
		run := action.NewInstall(config)
		run.ReleaseName, run.Namespace, run.Timeout = "one", namespace, 30*time.Second
		run.WaitStrategy, run.ServerSideApply, run.ForceConflicts, run.DryRunStrategy = kube.StatusWatcherStrategy, true, true, dry
		_, err := run.Run(newChart(), nil)
		return err
	}

	// What its definition is not there for yet, a dry run cannot know; Helm says so.
	if err := install(action.DryRunServer); err == nil || !strings.Contains(err.Error(), "ensure CRDs are installed first") {
		t.Errorf("dry run: %v", err)
	}
	if found := r.get(configMaps, "one-settings", "data", "size"); !strings.Contains(found, "not found") {
		t.Errorf("a dry run made %q", found)
	}
	if err := install(action.DryRunNone); err != nil {
		t.Fatal(err)
	}
	r.want(r.get(configMaps, "one-settings", "data", "served"), "true")
	r.want(r.get(configMaps, "one-settings", "data", "before"), "default")
	r.want(r.get(widgets, "one", "spec", "size"), "1")
	if length := len(r.get(secrets, "one-blob", "data", "large")); length < 200000 {
		t.Errorf("the large Secret has %d bytes", length)
	}

	// Somebody else owns a field by now: Helm takes it back by force.
	patch := []byte(`{"apiVersion":"v1","kind":"ConfigMap","data":{"size":"7"}}`)
	force := true
	_, err := r.client.Resource(configMaps).Namespace("default").Patch(context.Background(), "one-settings",
		"application/apply-patch+yaml", patch, metav1.PatchOptions{FieldManager: "other", Force: &force})
	if err != nil {
		t.Fatal(err)
	}
	upgrade := func(values map[string]any, force bool) error {
		run := action.NewUpgrade(config)
		run.Namespace, run.Timeout, run.WaitStrategy, run.ForceConflicts = namespace, 30*time.Second, kube.StatusWatcherStrategy, force
		_, err := run.Run("one", newChart(), values)
		return err
	}
	rehearsal := action.NewUpgrade(config)
	rehearsal.Namespace, rehearsal.DryRunStrategy, rehearsal.ForceConflicts = namespace, action.DryRunServer, true
	rehearsal.WaitStrategy = kube.StatusWatcherStrategy
	made, err := rehearsal.Run("one", newChart(), map[string]any{"size": 9})
	if err != nil || !strings.Contains(made.(*release.Release).Manifest, "before: default") {
		t.Errorf("dry run of an upgrade: %v", err)
	}
	r.want(r.get(widgets, "one", "spec", "size"), "1")
	if err := upgrade(map[string]any{"size": 2}, false); err == nil || !strings.Contains(err.Error(), "conflict") {
		t.Errorf("an upgrade over another's field: %v", err)
	}
	if err := upgrade(map[string]any{"size": 3}, true); err != nil {
		t.Fatal(err)
	}
	r.want(r.get(configMaps, "one-settings", "data", "size"), "3")
	r.want(r.get(widgets, "one", "spec", "size"), "3")
	r.want(r.get(configMaps, "one-hook", "metadata", "name"), "one-hook")
	if err := upgrade(map[string]any{"size": 0}, true); err == nil || !strings.Contains(err.Error(), "greater than or equal to 1") {
		t.Errorf("a wrong custom resource: %v", err)
	}

	rollback := action.NewRollback(config)
	rollback.Version, rollback.WaitStrategy, rollback.Timeout, rollback.ForceConflicts = 1, kube.StatusWatcherStrategy, 30*time.Second, true
	if err := rollback.Run("one"); err != nil {
		t.Fatal(err)
	}
	r.want(r.get(widgets, "one", "spec", "size"), "1")
	listed, err := action.NewList(config).Run()
	if err != nil || len(listed) != 1 || listed[0].(*release.Release).Version != 5 {
		t.Errorf("releases: %v, %v", listed, err)
	}
	history, err := r.client.Resource(secrets).Namespace("default").List(context.Background(), metav1.ListOptions{LabelSelector: "owner=helm,name=one"})
	if err != nil || len(history.Items) != 5 {
		t.Errorf("history: %v, %v", len(history.Items), err)
	}

	uninstall := action.NewUninstall(config)
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, 30*time.Second
	if _, err := uninstall.Run("one"); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{r.get(configMaps, "one-settings"), r.get(secrets, "one-blob"), r.get(widgets, "one")} {
		if !strings.Contains(gone, "not found") {
			t.Errorf("left over: %.200s", gone)
		}
	}
}
