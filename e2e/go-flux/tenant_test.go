package flux

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

const tenants = `apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer, namespace: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: enter}
rules: [{nonResourceURLs: ["/"], verbs: [access]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: enter}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: enter}
subjects: [{kind: ServiceAccount, name: deployer, namespace: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer, namespace: tenant}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create, patch]}]
`

// A reconciliation on behalf of a tenant impersonates the tenant's service account.
func TestFlux_AM556_Tenant(t *testing.T) {
	installation := e2e.StartInstallation(t)
	installation.MakeWorkspace("flux", "us-east-1")
	admin := installation.Config("root:flux")
	r := newRig(t, admin)
	parse := func(text string) []*unstructured.Unstructured {
		objects, err := utils.ReadObjects(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return objects
	}
	if _, err := r.manager.ApplyAllStaged(background, parse(tenants), r.options); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(admin)
	config.Impersonate.UserName = "system:serviceaccount:tenant:deployer"
	tenant := newRig(t, config)
	settings := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: tenant}\ndata: {a: '1'}\n"
	apply := func(text string) (*ssa.ChangeSet, error) {
		return tenant.manager.ApplyAllStaged(background, parse(text), tenant.options)
	}
	if _, err := apply(settings); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant without rights: %v", err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "deployer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "deployer"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "deployer", Namespace: "tenant"}}}
	if _, err := e2e.Typed(t, admin).RbacV1().RoleBindings("tenant").Create(background, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, 10*time.Second, "the tenant applies", func() error {
		_, err := apply(settings)
		return err
	})
	changed, err := apply(settings)
	if err != nil || changed.ToMap()["ConfigMap/tenant/settings"] != ssa.UnchangedAction {
		t.Errorf("the tenant again: %v, %v", changed, err)
	}
	for _, other := range []string{strings.Replace(settings, "namespace: tenant", "namespace: default", 1), strings.Replace(settings, "kind: ConfigMap", "kind: Secret", 1),
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: more}\n"} {
		if _, err := apply(other); !apierrors.IsForbidden(err) {
			t.Errorf("the tenant oversteps: %v", err)
		}
	}
	// It may not delete either: pruning says so.
	if _, err := tenant.manager.DeleteAll(background, parse(settings), ssa.DefaultDeleteOptions()); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("the tenant prunes: %v", err)
	}
}
