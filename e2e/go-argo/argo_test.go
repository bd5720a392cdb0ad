// Package argo runs the GitOps engine of Argo CD, unmodified, against a workspace behind the proxy
// (AM-556).
package argo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

const (
	instance = "argocd.test/instance"
	manager  = "argocd-controller"
)

// What a Git repository holds. Argo CD sorts it by wave and kind.
const manifests = `apiVersion: argo.test/v1
kind: Sprocket
metadata: {name: one, namespace: team, annotations: {argocd.argoproj.io/sync-wave: "1"}}
spec: {teeth: 8}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team}
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
kind: Role
metadata: {name: reader, namespace: team}
rules: [{apiGroups: [argo.test], resources: [sprockets], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: robot, namespace: team}]
---
apiVersion: v1
kind: Namespace
metadata: {name: team, annotations: {argocd.argoproj.io/sync-wave: "-1"}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sprockets.argo.test}
spec:
  group: argo.test
  scope: Namespaced
  names: {plural: sprockets, singular: sprocket, kind: Sprocket, listKind: SprocketList}
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
                teeth: {type: integer, minimum: 1}
                material: {type: string, default: brass}
                holes:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [name]
                  items: {type: object, required: [name], properties: {name: {type: string}, size: {type: integer, default: 2}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: migrated, namespace: team, annotations: {argocd.argoproj.io/hook: PostSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded}}
data: {done: "true"}
`

var background = context.Background()

var (
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secret    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	sprocket  = schema.GroupVersionKind{Group: "argo.test", Version: "v1", Kind: "Sprocket"}
)

func plural(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
}

type rig struct {
	t       *testing.T
	config  *rest.Config
	client  *dynamic.DynamicClient
	kubectl *kube.KubectlCmd
	cache   cache.ClusterCache
}

func newRig(t *testing.T, config *rest.Config) rig {
	kubectl := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}
	clusterCache := cache.NewClusterCache(config, cache.SetLogr(logr.Discard()), cache.SetKubectl(kubectl),
		cache.SetPopulateResourceInfoHandler(func(un *unstructured.Unstructured, _ bool) (any, bool) {
			app := un.GetLabels()[instance]
			return app, app != ""
		}))
	return rig{t, config, e2e.Dynamic(t, config), kubectl, clusterCache}
}

// read parses a revision; pairs of old and new text are the commit's changes.
func (r rig) read(changes ...string) []*unstructured.Unstructured {
	r.t.Helper()
	text := strings.NewReplacer(changes...).Replace(manifests)
	if len(changes) > 0 && text == manifests {
		r.t.Fatalf("%q changes nothing", changes)
	}
	objects, err := kube.SplitYAML([]byte(text))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, object := range objects {
		object.SetLabels(map[string]string{instance: "apps"})
	}
	return objects
}

func without(objects []*unstructured.Unstructured, names ...string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return slices.Contains(names, o.GetName()) })
}

// sync does what the application controller does: each step begins with the cache's objects and the last step's results.
func (r rig) sync(objects []*unstructured.Unstructured, options ...sync.SyncOpt) (common.OperationPhase, []common.ResourceSyncResult) {
	r.t.Helper()
	options = append([]sync.SyncOpt{sync.WithServerSideApply(true), sync.WithServerSideApplyManager(manager), sync.WithLogr(logr.Discard())}, options...)
	phase, message, started := common.OperationRunning, "", metav1.Now()
	var results []common.ResourceSyncResult
	e2e.Eventually(r.t, 30*time.Second, "the sync completes", func() error {
		managed, err := r.cache.GetManagedLiveObjs(objects, func(res *cache.Resource) bool { return res.Info == "apps" })
		if err != nil {
			return err
		}
		step, cleanup, err := sync.NewSyncContext("revision", sync.Reconcile(objects, managed, "default", r.cache), r.config, r.config,
			r.kubectl, "default", append(options, sync.WithInitialState(phase, message, results, started))...)
		if err != nil {
			return err
		}
		defer cleanup()
		step.Sync()
		phase, message, results = step.GetState()
		if !phase.Completed() {
			return fmt.Errorf("%s: %s: %v", phase, message, results)
		}
		return nil
	})
	return phase, results
}

// synced asserts that a sync did the wanted thing to every object.
func (r rig) synced(want common.ResultCode, objects []*unstructured.Unstructured, options ...sync.SyncOpt) {
	r.t.Helper()
	phase, results := r.sync(objects, options...)
	if phase != common.OperationSucceeded {
		r.t.Fatalf("%s: %v", phase, results)
	}
	for _, result := range results {
		if result.Status != want || result.HookPhase == common.OperationFailed || result.HookPhase == common.OperationError {
			r.t.Errorf("%v: %s %s: %s", result.ResourceKey, result.Status, result.HookPhase, result.Message)
		}
	}
	if len(results) != len(objects) {
		r.t.Errorf("%d results for %d objects: %v", len(results), len(objects), results)
	}
}

func (r rig) get(gvk schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	return r.client.Resource(plural(gvk)).Namespace("team").Get(background, name, metav1.GetOptions{})
}

func (r rig) field(gvk schema.GroupVersionKind, name string, want any, path ...string) {
	r.t.Helper()
	object, err := r.get(gvk, name)
	if err != nil {
		r.t.Error(err)
		return
	}
	if got, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...); got != want {
		r.t.Errorf("%s %s %v: got %v, want %v", gvk.Kind, name, path, got, want)
	}
}

// gone waits for what Argo CD deletes in the foreground: the garbage collector has the last word.
func (r rig) gone(gvk schema.GroupVersionKind, name string) {
	r.t.Helper()
	e2e.Eventually(r.t, 20*time.Second, name+" is gone", func() error {
		if _, err := r.get(gvk, name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
}

func (r rig) edit(gvk schema.GroupVersionKind, name, patch string) {
	r.t.Helper()
	_, err := r.client.Resource(plural(gvk)).Namespace("team").Patch(background, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r rig) cached(gvk schema.GroupVersionKind, name string) *cache.Resource {
	key := kube.NewResourceKey(gvk.Group, gvk.Kind, "team", name)
	return r.cache.FindResources("team")[key]
}

func (r rig) knows(kind schema.GroupKind) bool {
	return slices.ContainsFunc(r.cache.GetAPIResources(), func(api kube.APIResourceInfo) bool { return api.GroupKind == kind })
}

// follows waits until the cache has by its watches what the server has.
func (r rig) follows(gvk schema.GroupVersionKind, name string) {
	r.t.Helper()
	e2e.Eventually(r.t, 20*time.Second, "the cache follows "+name, func() error {
		live, err := r.get(gvk, name)
		seen := r.cached(gvk, name)
		if apierrors.IsNotFound(err) && seen == nil {
			return nil
		}
		if err != nil || seen == nil || seen.ResourceVersion != live.GetResourceVersion() {
			return fmt.Errorf("server: %v, cache: %v", err, seen)
		}
		return nil
	})
}

// outOfSync names the objects that differ from the live ones, by a dry run on the server and by the published schemas.
func (r rig) outOfSync(objects []*unstructured.Unstructured) (byServer, bySchema []string) {
	r.t.Helper()
	applier, cleanup, err := r.kubectl.ManageServerSideDiffDryRuns(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	defer cleanup()
	live, err := r.cache.GetManagedLiveObjs(objects, func(*cache.Resource) bool { return false })
	if err != nil {
		r.t.Fatal(err)
	}
	parser := diff.WithGVKParser(r.cache.GetGVKParser())
	for _, object := range objects {
		found := live[kube.GetResourceKey(object)]
		if found == nil {
			byServer, bySchema = append(byServer, object.GetName()), append(bySchema, object.GetName())
			continue
		}
		server, err := diff.Diff(object, found, diff.WithServerSideDiff(true), diff.WithManager(manager), parser,
			diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(applier)), diff.WithIgnoreMutationWebhook(true))
		if err != nil {
			r.t.Fatal(err)
		}
		if server.Modified {
			byServer = append(byServer, object.GetName())
		}
		schemas, err := diff.Diff(object, found, diff.WithStructuredMergeDiff(true), diff.WithManager(manager), parser)
		if err != nil {
			r.t.Fatal(err)
		}
		if schemas.Modified {
			bySchema = append(bySchema, object.GetName())
		}
	}
	return byServer, bySchema
}

func (r rig) differ(objects []*unstructured.Unstructured, want ...string) {
	r.t.Helper()
	byServer, bySchema := r.outOfSync(without(objects, "migrated"))
	if !slices.Equal(byServer, want) || !slices.Equal(bySchema, want) {
		r.t.Errorf("out of sync by the server %v, by the schemas %v, want %v", byServer, bySchema, want)
	}
}

func TestArgoCD_AM556(t *testing.T) {
	installation := e2e.StartInstallation(t)
	installation.MakeWorkspace("argo", "us-east-1")
	r := newRig(t, installation.Config("root:argo"))

	// The cache lists and watches everything that discovery names.
	if err := r.cache.EnsureSynced(); err != nil {
		t.Fatal(err)
	}
	defer r.cache.Invalidate()
	info := r.cache.GetClusterInfo()
	if info.SyncError != nil || info.K8SVersion == "" || info.ResourcesCount == 0 || info.APIsCount == 0 {
		t.Errorf("the cache after its first sync: %+v", info)
	}
	if namespaced, err := r.cache.IsNamespaced(configMap.GroupKind()); err != nil || !namespaced {
		t.Errorf("a ConfigMap is namespaced: %v, %v", namespaced, err)
	}
	if r.cache.FindResources("", func(res *cache.Resource) bool { return res.Ref.Kind == "Namespace" && res.Ref.Name == "default" }) == nil {
		t.Error("the cache has no Namespace default")
	}

	// A rehearsal; the definition of a custom resource comes with the same revision.
	r.synced(common.ResultCodeSynced, without(r.read(), "migrated", "one"), sync.WithOperationSettings(true, false, false, false))
	if _, err := r.get(configMap, "settings"); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run made a ConfigMap: %v", err)
	}

	r.synced(common.ResultCodeSynced, r.read())
	r.field(sprocket, "one", int64(8), "spec", "teeth")
	r.field(sprocket, "one", "brass", "spec", "material")
	r.field(secret, "credentials", "Zmlyc3Q=", "data", "token")
	r.gone(configMap, "migrated")
	if !r.knows(sprocket.GroupKind()) {
		t.Error("the cache does not watch the kind Sprocket")
	}
	for _, name := range []string{"settings", "migrated"} {
		r.follows(configMap, name)
	}
	r.follows(sprocket, "one")
	r.differ(r.read())

	r.drift()
	r.wrong()
	r.tree()
	r.prune()
}

// drift is found by both ways of comparing, and a sync puts it right; another's fields stay.
func (r rig) drift() {
	r.edit(configMap, "settings", `{"data":{"color":"blue","extra":"1"}}`)
	r.edit(sprocket, "one", `{"spec":{"material":"steel","holes":[{"name":"axle"}]}}`)
	r.follows(configMap, "settings")
	r.follows(sprocket, "one")
	r.differ(r.read(), "settings")
	r.synced(common.ResultCodeSynced, r.read())
	r.field(configMap, "settings", "red", "data", "color")
	r.field(configMap, "settings", "1", "data", "extra")
	r.field(sprocket, "one", "steel", "spec", "material")
	r.follows(configMap, "settings")
	r.differ(r.read())

	// A commit drops a field and adds an element to a list that somebody else uses too.
	commit := r.read(", shape: round", "", "{teeth: 8}", "{teeth: 9, holes: [{name: pin}]}")
	r.differ(commit, "one", "settings")
	r.synced(common.ResultCodeSynced, commit)
	r.field(configMap, "settings", nil, "data", "shape")
	live, err := r.get(sprocket, "one")
	if err != nil {
		r.t.Fatal(err)
	}
	holes, _, _ := unstructured.NestedSlice(live.Object, "spec", "holes")
	if got := fmt.Sprint(holes); got != "[map[name:axle size:2] map[name:pin size:2]]" {
		r.t.Errorf("the merged list: %s", got)
	}
	r.follows(configMap, "settings")
	r.follows(sprocket, "one")
	r.differ(commit)
	r.synced(common.ResultCodeSynced, r.read())
}

// wrong revisions stop at the wave where the server refuses an object, and the right one heals what they began.
func (r rig) wrong() {
	r.gone(configMap, "migrated")
	phase, results := r.sync(r.read("color: red", "color: black", "{teeth: 8}", "{teeth: 0}"))
	failed := slices.IndexFunc(results, func(result common.ResourceSyncResult) bool { return result.Status == common.ResultCodeSyncFailed })
	if phase != common.OperationFailed || failed < 0 || results[failed].ResourceKey.Name != "one" ||
		!strings.Contains(results[failed].Message, "should be greater than or equal to 1") {
		r.t.Errorf("a wrong custom resource: %s, %v", phase, results)
	}
	if _, err := r.get(configMap, "migrated"); !apierrors.IsNotFound(err) {
		r.t.Errorf("the hook ran after a sync that failed: %v", err)
	}
	r.synced(common.ResultCodeSynced, r.read())
	r.field(configMap, "settings", "red", "data", "color")
	r.field(sprocket, "one", int64(8), "spec", "teeth")
}

// tree is what a user sees of an application: what its objects own.
func (r rig) tree() {
	owner, err := r.get(sprocket, "one")
	if err != nil {
		r.t.Fatal(err)
	}
	child := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "child", "ownerReferences": []any{
		map[string]any{"apiVersion": "argo.test/v1", "kind": "Sprocket", "name": "one", "uid": string(owner.GetUID()), "controller": true, "blockOwnerDeletion": true}}}}}
	if _, err := r.client.Resource(plural(configMap)).Namespace("team").Create(background, child, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.follows(configMap, "child")
	seen := []string{}
	r.cache.IterateHierarchyV2([]kube.ResourceKey{kube.GetResourceKey(owner)}, func(res *cache.Resource, _ map[kube.ResourceKey]*cache.Resource) bool {
		seen = append(seen, res.Ref.Kind+"/"+res.Ref.Name)
		return true
	})
	if !slices.Equal(seen, []string{"Sprocket/one", "ConfigMap/child"}) {
		r.t.Errorf("the tree: %v", seen)
	}
}

// prune leaves what Git dropped until it is told to delete it, and waits for what the dropped object owns.
func (r rig) prune() {
	rest := without(r.read(), "one", "credentials", "migrated")
	phase, results := r.sync(rest)
	codes := map[common.ResultCode]int{}
	for _, result := range results {
		codes[result.Status]++
	}
	if phase != common.OperationSucceeded || codes[common.ResultCodePruneSkipped] != 2 || codes[common.ResultCodeSynced] != len(rest) {
		r.t.Errorf("a sync that may not prune: %v", results)
	}
	if phase, results := r.sync(rest, sync.WithPrune(true)); phase != common.OperationSucceeded {
		r.t.Fatalf("a sync that may prune: %s, %v", phase, results)
	}
	for _, gone := range []struct {
		gvk  schema.GroupVersionKind
		name string
	}{{sprocket, "one"}, {configMap, "child"}, {secret, "credentials"}} {
		r.gone(gone.gvk, gone.name)
		r.follows(gone.gvk, gone.name)
	}
	r.field(configMap, "settings", "red", "data", "color")

	// The application goes, its Namespace and its definition with it.
	if phase, results := r.sync(nil, sync.WithPrune(true)); phase != common.OperationSucceeded {
		r.t.Fatalf("the end: %s, %v", phase, results)
	}
	e2e.Eventually(r.t, 20*time.Second, "the cache is empty of the application", func() error {
		left := r.cache.FindResources("", func(res *cache.Resource) bool { return res.Info == "apps" || res.Ref.Namespace == "team" })
		if len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	if knows := r.knows(sprocket.GroupKind()); knows {
		r.t.Error("the cache still watches the kind Sprocket")
	}
}
