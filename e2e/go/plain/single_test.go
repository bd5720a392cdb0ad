package plain

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

// put makes a ConfigMap on one server, by the proxy.
func (r *rig) put(t *testing.T, server, ns, name string) *corev1.ConfigMap {
	t.Helper()
	made, err := e2e.Typed(t, r.config(r.server(server).home(name).cluster)).CoreV1().ConfigMaps(ns).Create(context.Background(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%s/%s on %s: %v", ns, name, server, err)
	}
	return made
}

// ask sends a bare request below clusters/*.
func (r *rig) ask(t *testing.T, method, path string, header ...string) (*http.Response, []byte) {
	t.Helper()
	client, err := rest.HTTPClientFor(r.config("*"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, r.base()+"/clusters/*"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n+1 < len(header); n += 2 {
		request.Header.Set(header[n], header[n+1])
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, body
}

// T18, T76: a name is read where it is; one that is on several servers is nobody's.
func testGet(t *testing.T, r *rig) {
	ctx := context.Background()
	ns := r.namespace(t, "get")
	made := r.put(t, "b", ns, "only")
	r.put(t, "a", ns, "same")
	r.put(t, "b", ns, "same")
	all := e2e.Typed(t, r.config("*")).CoreV1().ConfigMaps(ns)
	found, err := all.Get(ctx, "only", metav1.GetOptions{})
	if err != nil || found.ResourceVersion != made.ResourceVersion || found.Annotations[marker] != "b" {
		t.Errorf("only: %v %v", found, err)
	}
	if _, err = all.Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("none: %v", err)
	}
	if _, err = all.Get(ctx, "same", metav1.GetOptions{}); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), "a, b") {
		t.Errorf("same: %v", err)
	}
	list, err := all.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found, err = all.Get(ctx, "only", metav1.GetOptions{ResourceVersion: list.ResourceVersion}); err != nil || found.Name != "only" {
		t.Errorf("at the list's version: %v", err)
	}
	path := "/api/v1/namespaces/" + ns + "/configmaps/only"
	for version, want := range map[string]int{"abc": 400, "0": 200, "1": 200, list.ResourceVersion + "0": 410} {
		if answer, body := r.ask(t, "GET", path+"?resourceVersion="+version); answer.StatusCode != want {
			t.Errorf("at %s: %s %s", version, answer.Status, body)
		}
	}
	answer, body := r.ask(t, "GET", path, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	table := &metav1.Table{}
	if err := json.Unmarshal(body, table); err != nil || len(table.Rows) != 1 || !strings.Contains(string(table.Rows[0].Object.Raw), `"kcp.io/cluster":"b"`) {
		t.Errorf("Table: %s %s", answer.Status, body)
	}
	for _, refused := range []string{"DELETE " + path, "PUT " + path, "GET " + path + "/status", "POST /api/v1/namespaces"} {
		method, path, _ := strings.Cut(refused, " ")
		if answer, body := r.ask(t, method, path); answer.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s %s", refused, answer.Status, body)
		}
	}
}

// T38: the old paths of watches are those of their lists.
func testOldWatchPaths(t *testing.T, r *rig) {
	ns := r.namespace(t, "oldpaths")
	r.put(t, "a", ns, "x")
	r.put(t, "b", ns, "x")
	r.put(t, "b", ns, "y")
	all := "/api/v1/watch/namespaces/" + ns + "/configmaps"
	for path, want := range map[string]int{query(all, "timeoutSeconds", "2", "fieldSelector", r.selector(ns)): 3,
		query(all+"/x", "timeoutSeconds", "2"): 2} {
		_, body := r.ask(t, "GET", path)
		added := 0
		for lines := bufio.NewScanner(strings.NewReader(string(body))); lines.Scan(); {
			if strings.Contains(lines.Text(), `"type":"ADDED"`) {
				added++
			}
		}
		if added != want {
			t.Errorf("%s: %d events, want %d\n%s", path, added, want, body)
		}
	}
}

// T91, T101, AGG-1505: what was read with a marker is written where the marker says, and stored without.
func testWrites(t *testing.T, r *rig) {
	ctx := context.Background()
	ns := r.namespace(t, "writes")
	r.put(t, "a", ns, "forged")
	home := r.servers[0].home("forged")
	direct := e2e.Typed(t, r.servers[0].config(home.prefix)).CoreV1().ConfigMaps(ns)
	made, err := direct.Get(ctx, "forged", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := made.Annotations[marker] // shards that are no plain servers mark objects, too
	patch := []byte(`{"metadata":{"annotations":{"kcp.io/cluster":"b"}}}`)
	if _, err := direct.Patch(ctx, "forged", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	all, options := r.everywhere(t, ns)
	access := r.config(home.cluster)
	for name, config := range map[string]*rest.Config{"JSON": access, "protobuf": e2e.ProtobufOnly(access)} {
		t.Run(name, func(t *testing.T) {
			list, err := all.List(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			read := &list.Items[slices.IndexFunc(list.Items, func(one corev1.ConfigMap) bool { return one.Name == "forged" })]
			if read.Annotations[marker] != home.marker {
				t.Fatalf("marked %q", read.Annotations[marker])
			}
			stale := read.DeepCopy()
			read.Data = map[string]string{"written-as": name}
			client := e2e.Typed(t, config).CoreV1().ConfigMaps(ns)
			if _, err = client.Update(ctx, read, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			stored, err := direct.Get(ctx, "forged", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if stored.Annotations[marker] != own || stored.Data["written-as"] != name {
				t.Errorf("stored %v %v", stored.Annotations, stored.Data)
			}
			stale.Data = map[string]string{"stale": "yes"}
			if _, err = client.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("at a stale version: %v", err)
			}
			copied := stale.DeepCopy()
			copied.ObjectMeta = metav1.ObjectMeta{Name: "copy-" + strings.ToLower(name), Annotations: map[string]string{marker: "b", "kept": "yes"}}
			made, err := client.Create(ctx, copied, metav1.CreateOptions{})
			if err != nil || made.Annotations["kept"] != "yes" || made.Annotations[marker] != own || len(made.Annotations) > 2 {
				t.Errorf("created %v: %v", made.Annotations, err)
			}
		})
	}
}

// U5: everything that a typed client does with one server.
func testOneServer(t *testing.T, r *rig) {
	ctx := context.Background()
	ns := r.namespace(t, "one")
	for _, s := range r.servers {
		t.Run(s.name, func(t *testing.T) {
			client := e2e.Typed(t, e2e.ProtobufOnly(r.config(s.homes[0].cluster)))
			maps := client.CoreV1().ConfigMaps(ns)
			before, err := maps.List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stream, err := maps.Watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(120)), ResourceVersion: before.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Stop()
			made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"},
				Data: map[string]string{"large": strings.Repeat("y", 300_000)}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			made.Data = map[string]string{"a": "b"}
			if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
			if _, err = maps.Patch(ctx, "x", types.StrategicMergePatchType, []byte(`{"data":{"c":"d"}}`), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			if err = maps.Delete(ctx, "x", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			seen := []string{}
			for timeout := time.After(time.Minute); len(seen) < 4; {
				select {
				case event := <-stream.ResultChan():
					seen = append(seen, string(event.Type))
					if event.Type == watch.Error || event.Type == "" {
						t.Fatalf("after %v: %v", seen, event.Object)
					}
				case <-timeout:
					t.Fatalf("only %v came", seen)
				}
			}
			if fmt.Sprint(seen) != "[ADDED MODIFIED MODIFIED DELETED]" {
				t.Errorf("events %v", seen)
			}
			if _, err = client.Discovery().ServerPreferredResources(); err != nil {
				t.Error(err)
			}
		})
	}
}

// FP-149: every server knows who asks, whichever way it is told; nobody becomes somebody else on the way.
func testIdentity(t *testing.T, r *rig) {
	ctx := context.Background()
	for _, s := range r.servers {
		review, err := e2e.Typed(t, r.config(s.homes[0].cluster)).AuthenticationV1().SelfSubjectReviews().Create(ctx,
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		user := review.Status.UserInfo
		if user.Username != "alice" || !slices.Contains(user.Groups, admins) || slices.Contains(user.Groups, "system:masters") {
			t.Errorf("%s takes the caller for %v", s.name, user)
		}
	}
	forged := r.config(r.server("b").homes[0].cluster) // a plain b is told by Impersonate-User itself
	forged.Impersonate = rest.ImpersonationConfig{UserName: "root", Groups: []string{"system:masters"}}
	if _, err := e2e.Typed(t, forged).CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("impersonation at b: %v", err)
	}
	forged = r.config("*")
	forged.Impersonate = rest.ImpersonationConfig{UserName: "root"}
	if _, err := e2e.Typed(t, forged).CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("impersonation at *: %v", err)
	}
	nobody := r.config(r.server("b").homes[0].cluster)
	nobody.CertFile, nobody.KeyFile = "", ""
	if _, err := e2e.Typed(t, nobody).CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("without a certificate at b: %v", err)
	}
}
