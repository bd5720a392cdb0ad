package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var (
	apiBindings    = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apibindings"}
	endpointSlices = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiexportendpointslices"}
)

// traveller sends what kcp's kubectl plugins send when a user goes from workspace to workspace
// (TP-136), with client-go, and notes every answer that is not a success.
type traveller struct {
	t            *testing.T
	installation *Installation
	user         string // impersonated; "" is the administrator
	mutex        sync.Mutex
	failures     []string // "GET /clusters/… 404"
}

func (v *traveller) RoundTrip(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err == nil && response.StatusCode >= 300 {
		v.mutex.Lock()
		v.failures = append(v.failures, fmt.Sprintf("%s %s %d", request.Method, request.URL.Path, response.StatusCode))
		v.mutex.Unlock()
	}
	return response, err
}

// failed gives the failures since the last call.
func (v *traveller) failed() []string {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	failures := v.failures
	v.failures = nil
	return failures
}

func (v *traveller) config(path string) *rest.Config {
	config := v.installation.Config(path)
	config.Impersonate.UserName = v.user
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return v.RoundTrip(next, request) })
	})
	return config
}

func (v *traveller) resource(path string, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	return Dynamic(v.t, v.config(path)).Resource(resource)
}

func pathOf(t *testing.T, workspace *unstructured.Unstructured) string {
	t.Helper()
	text, _, _ := unstructured.NestedString(workspace.Object, "spec", "URL")
	address, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	path, found := strings.CutPrefix(address.Path, "/clusters/")
	if !found {
		t.Fatalf("%q is not the URL of a workspace", text)
	}
	return path
}

// use asks whether a workspace is there: its groups, its object in the parent, its bindings.
func (v *traveller) use(path string) error {
	client, err := discovery.NewDiscoveryClientForConfig(v.config(path))
	if err != nil {
		return err
	}
	groups, err := client.ServerGroups()
	denied := apierrors.IsForbidden(err) || (err == nil && len(groups.Groups) == 0)
	if err != nil && !denied {
		return err
	}
	absent := false
	if at := strings.LastIndex(path, ":"); at >= 0 {
		_, err := v.resource(path[:at], Workspaces).Get(context.Background(), path[at+1:], metav1.GetOptions{})
		absent = apierrors.IsNotFound(err)
	}
	switch {
	case denied && absent:
		return fmt.Errorf("workspace %q not found", path)
	case denied:
		return fmt.Errorf("access to workspace %q denied", path)
	}
	_, err = v.resource(path, apiBindings).List(context.Background(), metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

func (v *traveller) create(parent, name string) *unstructured.Unstructured {
	v.t.Helper()
	ctx := context.Background()
	client := v.resource(parent, Workspaces)
	made, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
		"metadata": map[string]any{"name": name, "creationTimestamp": nil},
		"spec":     map[string]any{}, "status": map[string]any{}}}, metav1.CreateOptions{})
	if err != nil {
		v.t.Fatalf("workspace %s:%s: %v", parent, name, err)
	}
	Eventually(v.t, time.Minute, "workspace "+name, func() error {
		found, err := client.Get(ctx, made.GetName(), metav1.GetOptions{})
		if err != nil {
			v.t.Fatal(err)
		}
		made = found
		if phase, _, _ := unstructured.NestedString(found.Object, "status", "phase"); phase != "Ready" {
			return fmt.Errorf("status %v", found.Object["status"])
		}
		return nil
	})
	return made
}

func (v *traveller) tree(path string, depth int, lines *[]string) {
	v.t.Helper()
	ctx := context.Background()
	found, err := v.resource(path, Workspaces).List(ctx, metav1.ListOptions{})
	if err != nil {
		v.t.Fatalf("workspaces of %s: %v", path, err)
	}
	for _, resource := range []schema.GroupVersionResource{endpointSlices, apiBindings} {
		if _, err := v.resource(path, resource).List(ctx, metav1.ListOptions{Limit: 500}); err != nil {
			v.t.Fatalf("%s of %s: %v", resource.Resource, path, err)
		}
	}
	for i := range found.Items {
		workspace := &found.Items[i]
		*lines = append(*lines, strings.Repeat(" ", depth)+workspace.GetName())
		v.tree(pathOf(v.t, workspace), depth+1, lines)
	}
}

// home asks for workspaces/~ in root; client-go waits as Retry-After says.
func (v *traveller) home() *unstructured.Unstructured {
	v.t.Helper()
	home, err := v.resource("root", Workspaces).Get(context.Background(), "~", metav1.GetOptions{})
	if err != nil {
		v.t.Fatalf("home workspace of %q: %v", v.user, err)
	}
	return home
}

func TestRequestsOfKcpsWorkspacePlugin(t *testing.T) {
	installation := StartInstallation(t, "--shards", "2")
	admin := &traveller{t: t, installation: installation}
	if err := admin.use("root"); err != nil {
		t.Fatal(err)
	}
	foo := admin.create("root", "foo")
	if kind, _, _ := unstructured.NestedStringMap(foo.Object, "spec", "type"); kind["name"] != "universal" || kind["path"] != "root" {
		t.Errorf("type %v", kind)
	}
	if path := pathOf(t, foo); path != "root:foo" {
		t.Errorf("path %s", path)
	}
	if err := admin.use("root:foo"); err != nil {
		t.Fatal(err)
	}
	admin.create("root:foo", "bar")
	var lines []string
	admin.tree("root", 0, &lines)
	if got := strings.Join(lines, "\n"); got != "foo\n bar" {
		t.Errorf("tree:\n%s", got)
	}
	home := admin.home()
	if path := pathOf(t, home); path != "kvdk2spgmbix" {
		t.Errorf("home at %s", path)
	}
	for _, path := range []string{pathOf(t, home), "user:kcp-admin"} {
		if err := admin.use(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, failure := range admin.failed() {
		// The home is made at the first request; `user` is no workspace.
		if !strings.HasSuffix(failure, "/workspaces/~ 429") && !strings.Contains(failure, "/clusters/user/") {
			t.Errorf("not served: %s", failure)
		}
	}
	if err := admin.use("root:absent"); err == nil || err.Error() != `workspace "root:absent" not found` {
		t.Errorf("an absent workspace: %v", err)
	}

	zoe := &traveller{t: t, installation: installation, user: "zoe"}
	if err := zoe.use("root:foo"); err == nil || err.Error() != `access to workspace "root:foo" denied` {
		t.Errorf("a workspace of another: %v", err)
	}
	path := pathOf(t, zoe.home())
	zoe.failed()
	Eventually(t, 10*time.Second, "the home can be entered", func() error { return zoe.use(path) })
	zoe.create(path, "mine")
	lines = nil
	zoe.tree(path, 0, &lines)
	if len(lines) != 1 || lines[0] != "mine" {
		t.Errorf("tree: %q", lines)
	}
}

// bind does what `kubectl kcp bind apiexport <path>:<name>` does.
func (v *traveller) bind(consumer, path, name string) {
	v.t.Helper()
	ctx := context.Background()
	client, err := discovery.NewDiscoveryClientForConfig(v.config(consumer))
	if err != nil {
		v.t.Fatal(err)
	}
	lists, err := discovery.ServerPreferredResources(client)
	if err != nil {
		v.t.Fatal(err)
	}
	preferred := ""
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if resource.Name == "apibindings" && strings.HasPrefix(list.GroupVersion, "apis.kcp.io/") {
				preferred = list.GroupVersion
			}
		}
	}
	if preferred != "apis.kcp.io/v1alpha2" {
		v.t.Fatalf("the preferred version of APIBindings is %q", preferred)
	}
	bindings := v.resource(consumer, apiBindings)
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": preferred, "kind": "APIBinding", "metadata": map[string]any{"name": name, "creationTimestamp": nil},
		"spec":   map[string]any{"reference": map[string]any{"export": map[string]any{"path": path, "name": name}}},
		"status": map[string]any{}}}
	// An export of another shard is known a moment after it was made.
	Eventually(v.t, 10*time.Second, "the export can be bound", func() error {
		_, err := bindings.Create(ctx, binding, metav1.CreateOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			v.t.Fatal(err)
		}
		return err
	})
	Eventually(v.t, 30*time.Second, "bound", func() error {
		found, err := bindings.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			v.t.Fatal(err)
		}
		if phase, _, _ := unstructured.NestedString(found.Object, "status", "phase"); phase != "Bound" {
			return fmt.Errorf("status %v", found.Object["status"])
		}
		return nil
	})
}

// export makes a schema and an APIExport of widgets.example.com.
func (v *traveller) export(path string) {
	v.t.Helper()
	apis := func(version, resource string) dynamic.ResourceInterface {
		return v.resource(path, schema.GroupVersionResource{Group: "apis.kcp.io", Version: version, Resource: resource})
	}
	ctx := context.Background()
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	_, err := apis("v1alpha1", "apiresourceschemas").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": map[string]any{"name": "v1.widgets.example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced",
			"names":    map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": open}}}}}, metav1.CreateOptions{})
	if err != nil {
		v.t.Fatal(err)
	}
	_, err = apis("v1alpha2", "apiexports").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": map[string]any{"name": "widgets"},
		"spec": map[string]any{"resources": []any{map[string]any{"group": "example.com", "name": "widgets",
			"schema": "v1.widgets.example.com", "storage": map[string]any{"crd": map[string]any{}}}}}}}, metav1.CreateOptions{})
	if err != nil {
		v.t.Fatal(err)
	}
}

func TestRequestsOfKcpsBindPlugin(t *testing.T) {
	installation := StartInstallation(t, "--shards", "2")
	admin := &traveller{t: t, installation: installation}
	admin.create("root", "prov")
	admin.create("root", "consumer")
	if err := admin.use("root:prov"); err != nil {
		t.Fatal(err)
	}
	admin.export("root:prov")
	admin.bind("root:consumer", "root:prov", "widgets")
	widgets := admin.resource("root:consumer", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
	Eventually(t, 10*time.Second, "widgets are served", func() error {
		_, err := widgets.List(context.Background(), metav1.ListOptions{})
		return err
	})
	if err := admin.use("root:consumer"); err != nil {
		t.Fatal(err)
	}
	var lines []string
	admin.tree("root", 0, &lines)
	if got := strings.Join(lines, " "); got != "consumer prov" {
		t.Errorf("tree: %s", got)
	}
}
