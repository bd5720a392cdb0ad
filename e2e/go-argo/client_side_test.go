package argo

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

// threeWay names the objects that differ from the live ones by what was applied last.
func (r rig) threeWay(objects []*unstructured.Unstructured) (modified []string) {
	r.t.Helper()
	live, err := r.cache.GetManagedLiveObjs(objects, func(*cache.Resource) bool { return false })
	if err != nil {
		r.t.Fatal(err)
	}
	for _, object := range without(objects, "migrated") {
		result, err := diff.Diff(object, live[kube.GetResourceKey(object)], diff.WithLogr(logr.Discard()))
		if err != nil {
			r.t.Fatal(err)
		}
		if result.Modified {
			modified = append(modified, object.GetName())
		}
	}
	return modified
}

func (r rig) managers(gvk schema.GroupVersionKind, name string) (names []string) {
	r.t.Helper()
	object, err := r.get(gvk, name)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, entry := range object.GetManagedFields() {
		names = append(names, fmt.Sprint(entry.Manager, " ", entry.Operation))
	}
	slices.Sort(names)
	return names
}

// An application that is applied on the client moves to the server-side apply, and is replaced in the end.
func TestArgoCD_AM556_ClientSideApply(t *testing.T) {
	installation := e2e.StartInstallation(t)
	installation.MakeWorkspace("argo", "us-east-1")
	r := newRig(t, installation.Config("root:argo"))
	if err := r.cache.EnsureSynced(); err != nil {
		t.Fatal(err)
	}
	defer r.cache.Invalidate()
	clientSide := []sync.SyncOpt{sync.WithServerSideApply(false), sync.WithServerSideApplyManager("kubectl-client-side-apply")}
	r.synced(common.ResultCodeSynced, r.read(), clientSide...)
	r.field(sprocket, "one", "brass", "spec", "material")
	if applied := r.managers(configMap, "settings"); !slices.Equal(applied, []string{"kubectl-client-side-apply Update"}) {
		t.Errorf("managers: %v", applied)
	}
	r.follows(configMap, "settings")
	if modified := r.threeWay(r.read()); modified != nil {
		t.Errorf("out of sync: %v", modified)
	}

	r.edit(configMap, "settings", `{"data":{"color":"blue","extra":"1"}}`)
	r.follows(configMap, "settings")
	commit := r.read(", shape: round", "")
	if modified := r.threeWay(commit); !slices.Equal(modified, []string{"settings"}) {
		t.Errorf("out of sync: %v", modified)
	}
	r.synced(common.ResultCodeSynced, commit, clientSide...)
	r.field(configMap, "settings", "red", "data", "color")
	r.field(configMap, "settings", "1", "data", "extra")
	r.field(configMap, "settings", nil, "data", "shape")

	// The fields of the client's apply become the server-side one's: what Git drops then is dropped.
	r.synced(common.ResultCodeSynced, r.read())
	r.synced(common.ResultCodeSynced, r.read("color: red, ", ""))
	r.field(configMap, "settings", nil, "data", "color")
	r.field(configMap, "settings", "round", "data", "shape")
	if applied := r.managers(configMap, "settings"); !slices.Equal(applied, []string{"argocd-controller Apply", "kubectl-edit Update"}) {
		t.Errorf("managers: %v", applied)
	}
	r.synced(common.ResultCodeSynced, without(r.read(), "migrated"), append(clientSide, sync.WithReplace(true))...)
	r.field(configMap, "settings", "red", "data", "color")
	r.field(configMap, "settings", nil, "data", "extra")
}

// An Argo CD that may not see everything asks what it may, and watches that; long lists come in pages.
func TestArgoCD_AM556_FewRights(t *testing.T) {
	installation := e2e.StartInstallation(t)
	installation.MakeWorkspace("argo", "us-east-1")
	admin := installation.Config("root:argo")
	typed := e2e.Typed(t, admin)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
		{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "few"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "argo"}}}
	if _, err := typed.RbacV1().ClusterRoles().Create(background, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := typed.RbacV1().ClusterRoleBindings().Create(background, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const count = 120
	for i := range count {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("m-", i)}}}
		if _, err := e2e.Dynamic(t, admin).Resource(plural(configMap)).Namespace("default").Create(background, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(admin)
	config.Impersonate.UserName = "argo"
	few := newRig(t, config)
	few.cache.Invalidate(cache.SetRespectRBAC(cache.RespectRbacStrict), cache.SetListPageSize(50))
	if err := few.cache.EnsureSynced(); err != nil {
		t.Fatal(err)
	}
	defer few.cache.Invalidate()
	kinds := map[string]int{}
	for _, found := range few.cache.FindResources("") {
		kinds[found.Ref.Kind]++
	}
	if len(kinds) != 1 || kinds["ConfigMap"] < count {
		t.Errorf("the cache has %v", kinds)
	}
	if err := e2e.Dynamic(t, admin).Resource(plural(configMap)).Namespace("default").Delete(background, "m-7", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, 20*time.Second, "the cache follows", func() error {
		if found := few.cache.FindResources("default")[kube.NewResourceKey("", "ConfigMap", "default", "m-7")]; found != nil {
			return fmt.Errorf("still there")
		}
		return nil
	})
}
