package merge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestT90c_rights_of_callers(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	may := map[string]string{"u1": "abc", "u2": "a"}
	for _, f := range r.Shards {
		f.Set(func(b *Behavior) {
			b.Deny = func(user string) bool { return strings.HasPrefix(user, "u") && !strings.Contains(may[user], f.Name) }
		})
	}
	u1, u2, u3 := r.User("u1"), r.User("u2"), r.User("u3")
	w := u1.Watch(t, ConfigMaps.Path()+"?watch=1")
	w.UntilObjects(3, patience)
	for _, u := range []*Client{u2, u3} {
		u.Refused(t, http.StatusForbidden, ConfigMaps.Path())
		u.Refused(t, http.StatusForbidden, ConfigMaps.Path()+"?watch=1")
		u.Refused(t, http.StatusForbidden, ConfigMaps.Path()+"?"+newest)
	}
	for _, f := range r.Shards {
		for _, s := range f.Streams() {
			if s.User == "u3" || s.User == "u2" && f != r.A {
				t.Errorf("%s watches %s", s.User, f.Name)
			}
		}
	}
}

func TestT90p_rights_of_callers_partial(t *testing.T) {
	begin(t)
	r := NewRig(t, PartialPolicy())
	r.Fill(1, 1, 1)
	for _, f := range r.Shards {
		f.Set(func(b *Behavior) {
			b.Deny = func(user string) bool { return user == "u3" || user == "u2" && f.Name != "a" }
		})
	}
	u2, u3 := r.User("u2"), r.User("u3")
	answer := u2.Get(ConfigMaps.Path())
	if answer.Status != http.StatusOK || len(answer.Header.Values("Warning")) == 0 {
		t.Fatalf("%s %v", answer, answer.Header)
	}
	same(t, ModelOf(answer.Object(t).Items), Union(r.A.Maps))
	u3.Refused(t, http.StatusForbidden, ConfigMaps.Path())
}

func TestT100_cursors_of_the_example(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t, Set("topology.generation", 7))
	if rv := r.All.List(t, Deployments.Path()).Metadata.ResourceVersion; !strings.HasPrefix(rv, "120000007830422") {
		t.Errorf("deployments: %s", rv)
	}
	if rv := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion; !strings.HasPrefix(rv, "120000007111506") {
		t.Errorf("configmaps: %s", rv)
	}
}

func TestT101_markers_stay_outside(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.A.Maps.Put("a-forged", Annotation("kcp.io/cluster", "b"), Annotation("mine", "yes"), Data("v", "1"))
	item := r.All.List(t, ConfigMaps.Path()).Items[0]
	if item.Marker() != "a" || item.Metadata.Annotations["mine"] != "yes" {
		t.Errorf("%+v", item)
	}
	one := r.All.At("/clusters/a")
	text := r.All.Get(ConfigMaps.Path()).Body
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	answer := one.Do(http.MethodPut, ConfigMaps.In()+"/a-forged", list.Items[0], "Content-Type", JSON)
	if answer.Status != http.StatusOK {
		t.Fatal(answer)
	}
	check := func(how string) {
		t.Helper()
		annotations, _ := r.A.Maps.Get("a-forged")["metadata"].(map[string]any)["annotations"].(map[string]any)
		if _, stored := annotations["kcp.io/cluster"]; stored || annotations["mine"] != "yes" {
			t.Errorf("%s: stored with %v", how, annotations)
		}
	}
	check("JSON")
	typed := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "a-forged",
		Namespace: Namespace, Annotations: map[string]string{"kcp.io/cluster": "a", "mine": "yes"}}, Data: map[string]string{"v": "2"}}
	answer = one.Do(http.MethodPut, ConfigMaps.In()+"/a-forged", encodeProto(typed), "Content-Type", Proto)
	if answer.Status != http.StatusOK {
		t.Fatal(answer)
	}
	check("protobuf")
	w := r.All.Watch(t, ConfigMaps.Path()+"?watch=1")
	if e := w.UntilObjects(1, patience)[0]; e.Object.Marker() != "a" || e.Object.Metadata.Annotations["mine"] != "yes" {
		t.Errorf("%s", e.Raw)
	}
}

func TestT91_writes_with_the_version_that_was_read(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.B.Maps.Put("b-1", Data("v", "1"))
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(r.All.Get(ConfigMaps.Path()).Body, &list); err != nil {
		t.Fatal(err)
	}
	one := r.All.At("/clusters/b")
	if answer := one.Do(http.MethodPut, ConfigMaps.In()+"/b-1", list.Items[0], "Content-Type", JSON); answer.Status != http.StatusOK {
		t.Error(answer)
	}
	if answer := one.Do(http.MethodPut, ConfigMaps.In()+"/b-1", list.Items[0], "Content-Type", JSON); answer.Status != http.StatusConflict {
		t.Error(answer)
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodPut, http.MethodPatch} {
		if answer := r.All.Do(method, ConfigMaps.In(), []byte("{}"), "Content-Type", JSON); answer.Status != http.StatusMethodNotAllowed {
			t.Errorf("T92: %s: %s", method, answer)
		}
	}
}

func TestT102_shard_selectors_are_the_servers_business(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	const selector = "shardRange(object.metadata.uid, '0x0', '0x8')"
	r.All.List(t, query(ConfigMaps.Path(), "shardSelector", selector))
	r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "shardSelector", selector)).UntilObjects(3, patience)
	for _, f := range r.Shards {
		for _, watch := range []bool{false, true} {
			if !slices.ContainsFunc(f.Asked(watch), func(e Entry) bool { return e.Query.Get("shardSelector") == selector }) {
				t.Errorf("%s was not asked with it (watch %v)", f.Name, watch)
			}
		}
	}
	token := r.All.List(t, query(ConfigMaps.Path(), "limit", "1", "shardSelector", selector)).Metadata.Continue
	r.All.Refused(t, http.StatusBadRequest, query(ConfigMaps.Path(), "limit", "1", "continue", token))
}

func TestT104_a_proxy_in_a_circle(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	// Its own credential is trusted as a client.
	write(t, r.path("client-ca.crt"), append(slices.Clone(r.front.PEM), r.clients.PEM...))
	self := &Fake{Name: "self", UID: "uid-self", address: fmt.Sprintf("127.0.0.1:%d/clusters/self", r.Port)}
	r.Configure(append(slices.Clone(r.Shards), self)...)
	one := r.All.At("/clusters/self")
	eventually(t, patience, "508", func() error {
		if answer := one.Get(ConfigMaps.Path()); answer.Status != http.StatusLoopDetected {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
}

func TestT111_gzipped_watches(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	for _, f := range r.Shards {
		f.Set(func(b *Behavior) { b.GzipWatch = true })
	}
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	typed := r.All.Watch(t, ConfigMaps.Path()+"?"+newest, "Accept", Proto)
	typed.UntilSynced(patience)
	scribbleAll(r, 200)
	for _, one := range []*Recording{w, typed} {
		modelled(t, one, Object{}, r, patience)
		orderly(t, one.Objects())
	}
	for _, f := range r.Shards {
		for _, e := range f.Asked(true) {
			if got := e.Header.Get("Accept-Encoding"); got != "" && got != "identity" {
				t.Errorf("%s was asked for %s", f.Name, got)
			}
		}
	}
}

func TestT111l_gzipped_lists(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(300, 0, 2000)
	want := Union(r.Maps()...)
	r.A.Set(func(b *Behavior) { b.GzipList = true })
	r.C.Set(func(b *Behavior) { b.GzipList, b.RefuseInitial = true, http.StatusUnprocessableEntity })
	for _, accept := range []string{JSON, Proto} {
		same(t, ModelOf(r.All.List(t, ConfigMaps.Path(), "Accept", accept).Items), want)
	}
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	modelled(t, w, Object{}, r, patience)
}

func TestT89_forged_identities(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	r.User("honest", "people").List(t, ConfigMaps.Path(), "X-Remote-User", "root", "X-Remote-Group", "system:masters", "X_remote_user", "root")
	asked := r.A.Asked(false)
	last := asked[len(asked)-1].Header
	if got := last.Values("X-Remote-User"); !slices.Equal(got, []string{"honest"}) || slices.Contains(last.Values("X-Remote-Group"), "system:masters") ||
		len(last.Values("X_remote_user")) != 0 {
		t.Errorf("%v", last)
	}
}

func TestT96_audit_ids(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	answer := r.All.Get(ConfigMaps.Path(), "Audit-ID", "my-own-id")
	if answer.Header.Get("Audit-ID") != "my-own-id" {
		t.Errorf("%v", answer.Header)
	}
	own := r.All.Get(ConfigMaps.Path()).Header.Get("Audit-ID")
	for _, f := range r.Shards {
		var seen []string
		for _, e := range f.Asked(false) {
			seen = append(seen, e.Header.Get("Audit-ID"))
		}
		if !slices.Contains(seen, "my-own-id") || own == "" || !slices.Contains(seen, own) {
			t.Errorf("%s saw %v, not %s", f.Name, seen, own)
		}
	}
}
