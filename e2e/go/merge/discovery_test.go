package merge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kintsugi.dev/e2e"
)

const (
	discoveryV2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	mixedGroup  = "mix.example.test"
)

// mixedVersion lets a shard serve gadgets of mixedGroup in one version, with these verbs, and an OpenAPI document of it.
func (f *Fake) mixedVersion(version, document string, verbs ...string) *Intercept {
	gv := mixedGroup + "/" + version
	return f.On(func(w http.ResponseWriter, r *http.Request, e Entry) bool {
		aggregated := strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList")
		versions := []any{map[string]any{"groupVersion": gv, "version": version}}
		group := map[string]any{"name": mixedGroup, "versions": versions, "preferredVersion": versions[0]}
		switch e.Path {
		case "/apis":
			if !aggregated {
				answerJSON(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{group}})
				return true
			}
			w.Header().Set("Content-Type", discoveryV2)
			_, _ = w.Write(must(json.Marshal(map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": map[string]any{},
				"items": []any{map[string]any{"metadata": map[string]any{"name": mixedGroup}, "versions": []any{map[string]any{"version": version,
					"freshness": "Current", "resources": []any{map[string]any{"resource": "gadgets", "singularResource": "gadget", "scope": "Namespaced",
						"responseKind": map[string]any{"group": mixedGroup, "version": version, "kind": "Gadget"}, "verbs": verbs,
						"subresources": []any{map[string]any{"subresource": "status", "verbs": []string{"get"}}}}}}}}}})))
		case "/apis/" + mixedGroup:
			answerJSON(w, http.StatusOK, map[string]any{"kind": "APIGroup", "apiVersion": "v1", "name": mixedGroup, "versions": versions,
				"preferredVersion": versions[0]})
		case "/apis/" + gv:
			answerJSON(w, http.StatusOK, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": []any{
				map[string]any{"name": "gadgets", "singularName": "gadget", "namespaced": true, "kind": "Gadget", "verbs": verbs},
				map[string]any{"name": "gadgets/status", "singularName": "", "namespaced": true, "kind": "Gadget", "verbs": []string{"get"}}}})
		case "/openapi/v3":
			answerJSON(w, http.StatusOK, map[string]any{"paths": map[string]any{
				"apis/" + gv:     map[string]any{"serverRelativeURL": "/openapi/v3/apis/" + gv + "?hash=" + f.Name},
				"apis/common/v1": map[string]any{"serverRelativeURL": "/openapi/v3/apis/common/v1?hash=" + f.Name}}})
		case "/openapi/v3/apis/" + gv:
			w.Header().Set("ETag", `"`+f.Name+`"`)
			answerJSON(w, http.StatusOK, map[string]any{"openapi": "3.0.0", "paths": map[string]any{"/" + gv: map[string]any{}}})
		case "/openapi/v3/apis/common/v1":
			w.Header().Set("ETag", `"`+f.Name+`"`)
			answerJSON(w, http.StatusOK, map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": document}, "paths": map[string]any{}})
		case "/version":
			answerJSON(w, http.StatusOK, map[string]string{"major": "1", "minor": "x", "gitVersion": document})
		default:
			if !strings.HasPrefix(e.Path, "/apis/"+mixedGroup) && !strings.HasPrefix(e.Path, "/openapi/") {
				return false
			}
			answerStatus(w, notFound())
		}
		return true
	})
}

type foundGroup struct {
	Metadata struct{ Name string }
	Versions []struct {
		Version, Freshness string
		Resources          []struct {
			Resource     string
			Verbs        []string
			Subresources []any
		}
	}
}

// mixed is what discovery of a proxy says of mixedGroup; "": nothing.
func mixed(t *testing.T, c *Client) (string, string) {
	t.Helper()
	answer := c.Get("/apis", "Accept", discoveryV2)
	var list struct{ Items []foundGroup }
	if err := json.Unmarshal(answer.Body, &list); err != nil || answer.Status != http.StatusOK || answer.Header.Get("Content-Type") != discoveryV2 {
		t.Fatalf("%s %v", answer, answer.Header)
	}
	var out []string
	for _, one := range list.Items {
		for _, v := range one.Versions {
			if one.Metadata.Name != mixedGroup {
				continue
			}
			if len(v.Resources) != 1 || v.Resources[0].Resource != "gadgets" || len(v.Resources[0].Subresources) != 0 {
				t.Errorf("%s: %+v", v.Version, v.Resources)
				continue
			}
			slices.Sort(v.Resources[0].Verbs)
			out = append(out, fmt.Sprint(v.Version, " ", v.Freshness, " ", v.Resources[0].Verbs))
		}
	}
	return strings.Join(out, "; "), answer.Header.Get("ETag")
}

// AGG-1601 to 1603: shards that serve one group in different versions, one of which goes away.
func TestT94v_versions_differ_between_shards(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.A.mixedVersion("v1beta1", "v1.33.2", "list", "create", "get", "watch")
	r.B.mixedVersion("v1", "v1.9.11+k3s1", "list", "watch", "delete")
	c := r.C.mixedVersion("v2alpha1", "v1.36.0-rc.1", "list")
	const all = "v1 Current [list watch]; v1beta1 Current [get list watch]; v2alpha1 Current [list]"
	got, tag := mixed(t, r.All)
	if got != all {
		t.Errorf("%s, not %s", got, all)
	}
	other := r.Replica()
	if theirs, theirTag := mixed(t, other.All); theirs != all || theirTag != tag || tag == "" {
		t.Errorf("P2: %s %s, not %s", theirs, theirTag, tag)
	}
	if answer := r.All.Get("/apis", "Accept", discoveryV2, "If-None-Match", tag); answer.Status != http.StatusNotModified || len(answer.Body) != 0 {
		t.Errorf("%s", answer)
	}
	var group struct {
		Versions         []struct{ Version string }
		PreferredVersion struct{ Version string }
	}
	answer := r.All.Get("/apis/" + mixedGroup)
	if err := json.Unmarshal(answer.Body, &group); err != nil || len(group.Versions) != 3 || group.Versions[0].Version != "v1" ||
		group.PreferredVersion.Version != "v1" {
		t.Errorf("%s", answer)
	}
	var resources struct {
		Resources []struct {
			Name  string
			Verbs []string
		}
	}
	answer = r.All.Get("/apis/" + mixedGroup + "/v1beta1")
	if err := json.Unmarshal(answer.Body, &resources); err != nil || len(resources.Resources) != 1 || len(resources.Resources[0].Verbs) != 3 {
		t.Errorf("%s", answer)
	}
	r.All.Refused(t, http.StatusNotFound, "/apis/"+mixedGroup+"/v7")
	if answer := r.All.Get("/version"); !strings.Contains(string(answer.Body), "v1.9.11+k3s1") {
		t.Errorf("the oldest is v1.9: %s", answer)
	}

	// A version of two shards has the verbs of both.
	again := r.A.mixedVersion("v1", "v1.33.2", "list", "get", "delete")
	r.A.mutexed(func() { r.A.intercept = []*Intercept{again} })
	if got, now := mixed(t, r.All); got != "v1 Current [list]; v2alpha1 Current [list]" || now == tag {
		t.Errorf("%s", got)
	}
	// What nobody can say now stays, and says so.
	r.C.Stop()
	if got, _ := mixed(t, r.All); got != "v1 Current [list]; v2alpha1 Stale [list]" {
		t.Errorf("%s", got)
	}
	r.C.Start(t)
	eventually(t, patience, "it is back", func() error {
		if got, _ := mixed(t, r.All); got != "v1 Current [list]; v2alpha1 Current [list]" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	c.Off()
	r.C.mixedVersion("v1", "v1.33.2", "list", "watch")
	if got, _ := mixed(t, r.All); got != "v1 Current [list]" {
		t.Errorf("%s", got)
	}
}

// AGG-1601: what not all serve is not there.
func TestT94w_intersection(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t, Set("aggregation.discovery", "intersection"))
	r.A.mixedVersion("v1", "v1.1.1", "list", "watch")
	r.B.mixedVersion("v1", "v1.1.1", "list", "get")
	c := r.C.mixedVersion("v1alpha1", "v1.1.1", "list")
	if got, _ := mixed(t, r.All); got != "" {
		t.Errorf("%s", got)
	}
	if answer := r.All.Get("/apis"); strings.Contains(string(answer.Body), mixedGroup) {
		t.Errorf("%s", answer)
	}
	c.Off()
	r.C.mixedVersion("v1", "v1.1.1", "list", "watch")
	if got, _ := mixed(t, r.All); got != "v1 Current [list]" {
		t.Errorf("%s", got)
	}
}

// AGG-1602: a shard that says nothing holds discovery up for five seconds at most.
func TestT94x_a_silent_shard(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	for _, f := range r.Shards {
		f.mixedVersion("v1", "v1.1.1", "list")
	}
	before, _ := mixed(t, r.All)
	r.B.Blackhole(true)
	defer r.B.Blackhole(false)
	clock := e2e.StartClock()
	if got, _ := mixed(t, r.All); got != before || before == "" {
		t.Errorf("%s, not %s", got, before)
	}
	if took := clock.Spent(); took > 9*time.Second {
		t.Errorf("after %v", took)
	}
}

// AGG-1604: documents with hashes of our own.
func TestT95h_hashes_of_open_api(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.A.mixedVersion("v1", "first", "list")
	r.B.mixedVersion("v1beta1", "second", "list")
	r.C.mixedVersion("v2alpha1", "first", "list")
	other := r.Replica()
	links := func(c *Client) map[string]string {
		t.Helper()
		var root struct {
			Paths map[string]struct{ ServerRelativeURL string }
		}
		answer := c.Get("/openapi/v3")
		if err := json.Unmarshal(answer.Body, &root); err != nil {
			t.Fatalf("%s", answer)
		}
		out := map[string]string{}
		for key, one := range root.Paths {
			out[key] = one.ServerRelativeURL
		}
		return out
	}
	ours, theirs := links(r.All), links(other.All)
	for _, key := range []string{"apis/" + mixedGroup + "/v1", "apis/" + mixedGroup + "/v1beta1", "apis/" + mixedGroup + "/v2alpha1", "apis/common/v1"} {
		link := ours[key]
		if link == "" || link != theirs[key] || !strings.HasPrefix(link, "/clusters/*/openapi/v3/"+key+"?hash=") {
			t.Fatalf("%s: %q, P2 %q", key, link, theirs[key])
		}
		for _, f := range r.Shards {
			if strings.HasSuffix(link, "?hash="+f.Name) {
				t.Errorf("the hash of a shard: %s", link)
			}
		}
		path, hash, _ := strings.Cut(strings.TrimPrefix(link, "/clusters/*"), "?hash=")
		answer := r.All.Get(path + "?hash=" + hash)
		if answer.Status != http.StatusOK || answer.Header.Get("Cache-Control") != "public, immutable" || strings.Trim(answer.Header.Get("ETag"), `"`) != hash {
			t.Errorf("%s: %s %v", key, answer, answer.Header)
		}
		if again := r.All.Get(path+"?hash="+hash, "If-None-Match", answer.Header.Get("ETag")); again.Status != http.StatusNotModified {
			t.Errorf("%s: %s", key, again)
		}
		if moved := r.All.Get(path + "?hash=OLD"); moved.Status != http.StatusMovedPermanently || moved.Header.Get("Location") != link {
			t.Errorf("%s: %s %v", key, moved, moved.Header)
		}
		if plain := r.All.Get(path); plain.Status != http.StatusOK || plain.Header.Get("Cache-Control") == "public, immutable" {
			t.Errorf("%s without a hash: %s %v", key, plain, plain.Header)
		}
	}
	answer := r.All.Get("/openapi/v3/apis/common/v1")
	if !strings.Contains(string(answer.Body), "first") {
		t.Errorf("not the first slot's: %s", answer)
	}
	atLeast(t, r, "openapi_differences_total", "", 1)
	// The first slot lacks it: the next one's counts, and has another hash.
	r.A.mutexed(func() { r.A.intercept = nil })
	r.A.On(func(w http.ResponseWriter, _ *http.Request, e Entry) bool {
		if e.Path == "/openapi/v3" {
			answerJSON(w, http.StatusOK, map[string]any{"paths": map[string]any{}})
		} else if strings.HasPrefix(e.Path, "/openapi/") {
			answerStatus(w, notFound())
		}
		return strings.HasPrefix(e.Path, "/openapi/")
	})
	now := links(r.All)
	if now["apis/common/v1"] == ours["apis/common/v1"] || now["apis/"+mixedGroup+"/v1"] != "" ||
		now["apis/"+mixedGroup+"/v1beta1"] != ours["apis/"+mixedGroup+"/v1beta1"] {
		t.Errorf("%v, was %v", now, ours)
	}
	if answer := r.All.Get("/openapi/v3/apis/common/v1"); !strings.Contains(string(answer.Body), "second") {
		t.Errorf("%s", answer)
	}
}
