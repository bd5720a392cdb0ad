package differ

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/plain"
)

func startKube(t *testing.T) *rest.Config {
	t.Helper()
	return plain.StartOne(t)
}

// startOurs makes a workspace that every user may enter, as everybody may speak to a kube-apiserver.
func startOurs(t *testing.T) *rest.Config {
	t.Helper()
	installation := e2e.StartInstallation(t, "--shards", "1", "--regions", "here")
	config := installation.Config(installation.MakeWorkspace("differ", "here"))
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "everybody"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kcp:workspace:access"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:authenticated"}}}
	_, err := e2e.Typed(t, config).RbacV1().ClusterRoleBindings().Create(context.Background(), binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return config
}
