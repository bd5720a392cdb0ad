// Package flux runs the server-side apply engine of Flux, unmodified, against a workspace behind the proxy
// (AM-556).
package flux

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	ssaerrors "github.com/fluxcd/pkg/ssa/errors"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	e2e "kintsugi.dev/e2e"
)

// What a Git repository holds. The order is wrong on purpose: Flux finds the stages itself.
const manifests = `apiVersion: flux.test/v1
kind: Gadget
metadata: {name: one, namespace: team}
spec: {region: us-east-1}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team, labels: {tier: front}}
data: {color: red, shape: round}
---
apiVersion: v1
kind: Secret
metadata: {name: credentials, namespace: team}
stringData: {token: first}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: readers
  namespace: team
  annotations: {force.flux.test: enabled}
roleRef: {kind: ClusterRole, name: gadget-reader}
subjects: [{kind: ServiceAccount, name: robot, namespace: team}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gadget-reader}
rules: [{apiGroups: [flux.test], resources: [gadgets], verbs: [get, list]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.flux.test}
spec:
  group: flux.test
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                region:
                  type: string
                  x-kubernetes-validations: [{rule: self == oldSelf, message: the region is immutable}]
                size: {type: integer, minimum: 1, default: 4}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

var subjects = []string{"Namespace/team", "CustomResourceDefinition/gadgets.flux.test", "ClusterRole/gadget-reader",
	"Gadget/team/one", "ConfigMap/team/settings", "Secret/team/credentials", "ServiceAccount/team/robot", "RoleBinding/team/readers"}

type rig struct {
	t       *testing.T
	manager *ssa.ResourceManager
	options ssa.ApplyOptions
}

var background = context.Background()

func newRig(t *testing.T, config *rest.Config) rig {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := client.New(config, client.Options{Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	poller := polling.NewStatusPoller(kube, mapper, polling.Options{})
	manager := ssa.NewResourceManager(kube, poller, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.test"})
	manager.SetConcurrency(4)
	options := ssa.DefaultApplyOptions()
	options.WaitInterval, options.WaitTimeout = 50*time.Millisecond, 30*time.Second
	return rig{t, manager, options}
}

// read parses a revision as kustomize-controller does; pairs of old and new text are the commit's changes.
func (r rig) read(changes ...string) []*unstructured.Unstructured {
	r.t.Helper()
	text := strings.NewReplacer(changes...).Replace(manifests)
	if len(changes) > 0 && text == manifests {
		r.t.Fatalf("%q changes nothing", changes)
	}
	objects, err := utils.ReadObjects(strings.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		r.t.Fatal(err)
	}
	r.manager.SetOwnerLabels(objects, "apps", "flux-system")
	return objects
}

func (r rig) apply(options ssa.ApplyOptions, changes ...string) map[string]ssa.Action {
	r.t.Helper()
	changed, err := r.manager.ApplyAllStaged(background, r.read(changes...), options)
	if err != nil {
		r.t.Fatal(err)
	}
	return changed.ToMap()
}

func find(objects []*unstructured.Unstructured, subject string) *unstructured.Unstructured {
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return utils.FmtUnstructured(o) == subject })
	return objects[at]
}

func (r rig) live(subject string) *unstructured.Unstructured {
	r.t.Helper()
	wanted := find(r.read(), subject)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(wanted.GroupVersionKind())
	if err := r.manager.Client().Get(background, client.ObjectKeyFromObject(wanted), object); err != nil {
		r.t.Fatal(err)
	}
	return object
}

func (r rig) versions() map[string]string {
	r.t.Helper()
	versions := map[string]string{}
	for _, subject := range subjects {
		versions[subject] = r.live(subject).GetResourceVersion()
	}
	return versions
}

func (r rig) field(object *unstructured.Unstructured, want any, path ...string) {
	r.t.Helper()
	if got, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...); got != want {
		r.t.Errorf("%s %v: got %v, want %v", utils.FmtUnstructured(object), path, got, want)
	}
}

// only asserts that the named subjects saw the action and all the others none.
func (r rig) only(changed map[string]ssa.Action, action ssa.Action, named ...string) {
	r.t.Helper()
	want := map[string]ssa.Action{}
	for _, subject := range subjects {
		want[subject] = ssa.UnchangedAction
	}
	for _, subject := range named {
		want[subject] = action
	}
	if !maps.Equal(changed, want) {
		r.t.Errorf("changes: got %v, want %v", changed, want)
	}
}

// edit is somebody at a terminal.
func (r rig) edit(subject, patch string) {
	r.t.Helper()
	object := r.live(subject)
	err := r.manager.Client().Patch(background, object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kubectl-edit"))
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestFlux_AM556(t *testing.T) {
	installation := e2e.StartInstallation(t)
	installation.MakeWorkspace("flux", "us-east-1")
	r := newRig(t, installation.Config("root:flux"))

	// flux diff: a definition and a Namespace would be made, what lives in the Namespace cannot be tried yet.
	objects := r.read()
	for _, subject := range subjects[:3] {
		entry, _, _, err := r.manager.Diff(background, find(objects, subject), ssa.DefaultDiffOptions())
		if err != nil || entry.Action != ssa.CreatedAction {
			t.Errorf("diff of %s: %v, %v", subject, entry, err)
		}
	}
	if _, _, _, err := r.manager.Diff(background, find(objects, "ConfigMap/team/settings"), ssa.DefaultDiffOptions()); !apierrors.IsNotFound(err) {
		t.Errorf("diff of a ConfigMap in no Namespace: %v", err)
	}
	gone := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	if err := r.manager.Client().Get(background, client.ObjectKey{Name: "team"}, gone); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run made the Namespace: %v", err)
	}

	r.only(r.apply(r.options), ssa.CreatedAction, subjects...)
	if err := r.manager.Wait(r.read(), ssa.WaitOptions{Interval: 50 * time.Millisecond, Timeout: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	r.field(r.live("Gadget/team/one"), int64(4), "spec", "size")
	r.field(r.live("Secret/team/credentials"), "Zmlyc3Q=", "data", "token")

	// Nothing new in Git: nothing is written.
	before := r.versions()
	r.only(r.apply(r.options), ssa.UnchangedAction)
	if after := r.versions(); !maps.Equal(before, after) {
		t.Errorf("a reconciliation of nothing wrote: %v, then %v", before, after)
	}

	r.drift()
	r.commit()
	r.immutable()
	r.status()
	r.prune()
}

// drift is found by a dry run and put right; what others added stays until Flux may take it over.
func (r rig) drift() {
	r.edit("ConfigMap/team/settings", `{"metadata":{"labels":{"tier":null}},"data":{"color":"blue","extra":"1"}}`)
	r.edit("Secret/team/credentials", `{"data":{"token":"c2Vjb25k"}}`)
	r.edit("Gadget/team/one", `{"spec":{"size":7}}`)
	r.edit("Namespace/team", `{"metadata":{"annotations":{"note":"mine"}}}`)
	entry, live, merged, err := r.manager.Diff(background, find(r.read(), "ConfigMap/team/settings"), ssa.DefaultDiffOptions())
	if err != nil || entry.Action != ssa.ConfiguredAction {
		r.t.Fatalf("diff: %v, %v", entry, err)
	}
	r.field(live, "blue", "data", "color")
	r.field(merged, "red", "data", "color")
	r.field(merged, "1", "data", "extra")
	r.field(merged, "front", "metadata", "labels", "tier")
	_, live, merged, err = r.manager.Diff(background, find(r.read(), "Secret/team/credentials"), ssa.DefaultDiffOptions())
	if err != nil {
		r.t.Fatal(err)
	}
	r.field(live, "*** (before)", "data", "token")
	r.field(merged, "*** (after)", "data", "token")
	r.field(r.live("ConfigMap/team/settings"), "blue", "data", "color")

	r.only(r.apply(r.options), ssa.ConfiguredAction, "ConfigMap/team/settings", "Secret/team/credentials")
	r.field(r.live("ConfigMap/team/settings"), "red", "data", "color")
	r.field(r.live("ConfigMap/team/settings"), "1", "data", "extra")
	r.field(r.live("Secret/team/credentials"), "Zmlyc3Q=", "data", "token")
	r.field(r.live("Gadget/team/one"), int64(7), "spec", "size")

	// Flux rewrites the managed fields: edits become its own, and what Git does not say goes.
	cleanup := r.options
	cleanup.Cleanup = ssa.ApplyCleanupOptions{Annotations: []string{"note"}, FieldManagers: []ssa.FieldManager{
		{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate}}}
	r.only(r.apply(cleanup), ssa.ConfiguredAction, "ConfigMap/team/settings", "Gadget/team/one", "Namespace/team")
	r.field(r.live("ConfigMap/team/settings"), nil, "data", "extra")
	r.field(r.live("Gadget/team/one"), int64(4), "spec", "size")
	r.field(r.live("Namespace/team"), nil, "metadata", "annotations", "note")
	for _, subject := range subjects {
		for _, managed := range r.live(subject).GetManagedFields() {
			if strings.HasPrefix(managed.Manager, "kubectl") {
				r.t.Errorf("%s: %s still owns %s", subject, managed.Manager, managed.FieldsV1)
			}
		}
	}
	r.only(r.apply(cleanup), ssa.UnchangedAction)
}

// commit drops a field from Git, adds one, and asks for what no schema allows.
func (r rig) commit() {
	changed := r.apply(r.options, "{color: red, shape: round}", "{color: green}", "{region: us-east-1}", "{region: us-east-1, size: 2}")
	r.only(changed, ssa.ConfiguredAction, "ConfigMap/team/settings", "Gadget/team/one")
	r.field(r.live("ConfigMap/team/settings"), nil, "data", "shape")
	r.field(r.live("Gadget/team/one"), int64(2), "spec", "size")
	before := r.versions()
	_, err := r.manager.ApplyAllStaged(background, r.read("{color: red, shape: round}", "{color: black}", "{region: us-east-1}", "{region: us-east-1, size: 0}"), r.options)
	if err == nil || !strings.Contains(err.Error(), "should be greater than or equal to 1") {
		r.t.Errorf("a wrong custom resource: %v", err)
	}
	_, err = r.manager.ApplyAllStaged(background, r.read("{region: us-east-1}", "{region: us-east-1, sizes: 1}"), r.options)
	if err == nil || !strings.Contains(err.Error(), "field not declared in schema") {
		r.t.Errorf("a misspelt field: %v", err)
	}
	if after := r.versions(); !maps.Equal(before, after) {
		r.t.Errorf("a revision that failed wrote: %v, then %v", before, after)
	}
	r.only(r.apply(r.options), ssa.ConfiguredAction, "ConfigMap/team/settings", "Gadget/team/one")
}

// immutable fields stop a revision, unless objects may be made anew.
func (r rig) immutable() {
	moved := []string{"{region: us-east-1}", "{region: eu-west-1}"}
	uid := r.live("Gadget/team/one").GetUID()
	if _, err := r.manager.ApplyAllStaged(background, r.read(moved...), r.options); err == nil ||
		!ssaerrors.IsImmutableError(err) || !strings.Contains(err.Error(), "the region is immutable") {
		r.t.Errorf("a changed region: %v", err)
	}
	forced := r.options
	forced.Force = true
	r.only(r.apply(forced, moved...), ssa.CreatedAction, "Gadget/team/one")
	r.field(r.live("Gadget/team/one"), "eu-west-1", "spec", "region")
	if r.live("Gadget/team/one").GetUID() == uid {
		r.t.Error("force kept the object")
	}

	other := append(moved, "name: gadget-reader}\nsubjects", "name: view}\nsubjects")
	uid = r.live("RoleBinding/team/readers").GetUID()
	if _, err := r.manager.ApplyAllStaged(background, r.read(other...), r.options); err == nil || !apierrors.IsInvalid(err) {
		r.t.Errorf("a changed roleRef: %v", err)
	}
	forced = r.options
	forced.ForceSelector = map[string]string{"force.flux.test": "enabled"}
	r.only(r.apply(forced, other...), ssa.CreatedAction, "RoleBinding/team/readers")
	r.field(r.live("RoleBinding/team/readers"), "view", "roleRef", "name")
	if r.live("RoleBinding/team/readers").GetUID() == uid {
		r.t.Error("force kept the binding")
	}
}

// status is what health checks wait for: a controller writes it through its subresource.
func (r rig) status() {
	report := func(kind, reason string) {
		r.t.Helper()
		object := r.live("Gadget/team/one")
		object.Object["status"] = map[string]any{"observedGeneration": object.GetGeneration(), "conditions": []any{map[string]any{
			"type": kind, "status": "True", "reason": reason, "message": reason, "lastTransitionTime": "2030-01-01T00:00:00Z"}}}
		if err := r.manager.Client().Status().Update(background, object); err != nil {
			r.t.Fatal(err)
		}
	}
	gadget := []*unstructured.Unstructured{find(r.read(), "Gadget/team/one")}
	options := ssa.WaitOptions{Interval: 50 * time.Millisecond, Timeout: 30 * time.Second, FailFast: true}
	report("Stalled", "OutOfSteam")
	if err := r.manager.Wait(gadget, options); err == nil || !strings.Contains(err.Error(), "Gadget/team/one status: 'Failed'") {
		r.t.Errorf("wait for a stalled object: %v", err)
	}
	report("Ready", "Steaming")
	if err := r.manager.Wait(gadget, options); err != nil {
		r.t.Error(err)
	}
	// The status is not what Git says: no drift.
	entry, _, _, err := r.manager.Diff(background, r.read("us-east-1", "eu-west-1")[0], ssa.DefaultDiffOptions())
	if err != nil || entry.Action != ssa.UnchangedAction {
		r.t.Errorf("diff beside a status: %v, %v", entry, err)
	}
}

// prune deletes by inventory what is Flux's own and not marked to stay; then everything, definitions last.
func (r rig) prune() {
	r.edit("Secret/team/credentials", `{"metadata":{"annotations":{"prune.flux.test":"disabled"}}}`)
	r.edit("ServiceAccount/team/robot", `{"metadata":{"labels":{"kustomize.test/name":"others"}}}`)
	options := ssa.DefaultDeleteOptions()
	options.Inclusions = r.manager.GetOwnerLabels("apps", "flux-system")
	options.Exclusions = map[string]string{"prune.flux.test": "disabled"}
	stale := []*unstructured.Unstructured{}
	for _, subject := range subjects[3:] {
		stale = append(stale, find(r.read(), subject))
	}
	deleted, err := r.manager.DeleteAll(background, stale, options)
	if err != nil {
		r.t.Fatal(err)
	}
	want := map[string]ssa.Action{"Gadget/team/one": ssa.DeletedAction, "ConfigMap/team/settings": ssa.DeletedAction, "RoleBinding/team/readers": ssa.DeletedAction,
		"Secret/team/credentials": ssa.SkippedAction, "ServiceAccount/team/robot": ssa.SkippedAction}
	if !maps.Equal(deleted.ToMap(), want) {
		r.t.Errorf("deleted: %v", deleted)
	}
	wait := ssa.WaitOptions{Interval: 50 * time.Millisecond, Timeout: 30 * time.Second}
	if err := r.manager.WaitForSetTermination(deleted, wait); err != nil {
		r.t.Error(err)
	}
	r.field(r.live("Secret/team/credentials"), "Zmlyc3Q=", "data", "token")

	deleted, err = r.manager.DeleteAll(background, r.read(), ssa.DefaultDeleteOptions())
	if err != nil {
		r.t.Fatal(err)
	}
	if len(deleted.Entries) != len(subjects) {
		r.t.Errorf("deleted: %v", deleted)
	}
	if err := r.manager.WaitForSetTermination(deleted, wait); err != nil {
		r.t.Error(err)
	}
}
