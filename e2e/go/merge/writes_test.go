package merge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kintsugi.dev/e2e"
)

// AGG-1505, 1506: writes go to one cluster, and come out as the shard's answer; merged URLs take none.
func TestT92w_writes_are_of_one_cluster(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	const warning = `299 - "unknown field \"spec.x\""`
	r.B.On(func(w http.ResponseWriter, _ *http.Request, e Entry) bool {
		if e.Method == http.MethodGet || strings.HasSuffix(e.Path, "/subjectaccessreviews") {
			return false
		}
		w.Header().Set("Warning", warning)
		w.Header().Set("X-Kubernetes-PF-FlowSchema-UID", "flow")
		answerJSON(w, http.StatusOK, map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "b-1"}})
		return true
	})
	type write struct{ method, path, query, contentType, body string }
	const strict = "dryRun=All&fieldManager=m&fieldValidation=Strict&force=true"
	writes := []write{
		{http.MethodPatch, "/b-1", strict, "application/apply-patch+yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {annotations: {kcp.io/cluster: x}}\n"},
		{http.MethodPatch, "/b-1", "fieldManager=m", "application/json-patch+json", `[{"op":"remove","path":"/metadata/annotations/kcp.io~1cluster"}]`},
		{http.MethodPatch, "/b-1", "", "application/merge-patch+json", `{"metadata":{"annotations":{"kcp.io/cluster":null}}}`},
		{http.MethodPatch, "/b-1", "", "application/strategic-merge-patch+json", `{"data":{"a":"b"}}`},
		{http.MethodPut, "/b-1/status", strict, JSON, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b-1"}}`},
		{http.MethodPost, "", "dryRun=All&fieldValidation=Strict", JSON, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generateName":"b-"}}`},
		{http.MethodDelete, "/b-1", "propagationPolicy=Foreground", JSON, `{"preconditions":{"uid":"7"}}`},
		{http.MethodDelete, "", "labelSelector=a%3Db&dryRun=All", JSON, ""},
	}
	one, merged := r.All.At("/clusters/b"), []*Client{r.All}
	own := r.All.At("/clusters/root")
	if answer := own.Do(http.MethodPost, "/apis/topology.kcp.io/v1alpha1/partitions", []byte(`{"apiVersion":"topology.kcp.io/v1alpha1",
		"kind":"Partition","metadata":{"name":"all"},"spec":{}}`), "Content-Type", JSON); answer.Status != http.StatusCreated {
		t.Fatalf("%s", answer)
	}
	part := r.All.At("/partitions/root/all/clusters/*")
	eventually(t, patience, "the Partition", func() error {
		if answer := part.Get(ConfigMaps.Path()); answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	merged = append(merged, part)
	for _, w := range writes {
		path := ConfigMaps.In() + w.path
		if w.query != "" {
			path += "?" + w.query
		}
		before := len(r.B.Log(nil))
		answer := one.Do(w.method, path, []byte(w.body), "Content-Type", w.contentType)
		if answer.Status != http.StatusOK || answer.Header.Get("Warning") != warning {
			t.Errorf("%s %s: %s %v", w.method, path, answer, answer.Header)
		}
		seen := slices.DeleteFunc(r.B.Log(nil)[before:], func(e Entry) bool { return e.Method != w.method })
		if len(seen) != 1 || string(seen[0].Body) != w.body || seen[0].Header.Get("Content-Type") != w.contentType || seen[0].Query.Encode() != sortedQuery(w.query) {
			t.Errorf("%s %s came as %+v", w.method, path, seen)
		}
		for _, c := range merged {
			count := 0
			for _, f := range r.Shards {
				count -= len(f.Log(func(e Entry) bool { return e.Method == w.method }))
			}
			answer := c.Do(w.method, path, []byte(w.body), "Content-Type", w.contentType)
			if answer.Status != http.StatusMethodNotAllowed || answer.Object(t).Kind != "Status" {
				t.Errorf("%s %s%s: %s", w.method, c.Base, path, answer)
			}
			for _, f := range r.Shards {
				count += len(f.Log(func(e Entry) bool { return e.Method == w.method }))
			}
			if count != 0 {
				t.Errorf("%s %s%s reached a shard", w.method, c.Base, path)
			}
		}
	}
}

func sortedQuery(text string) string {
	parts := strings.Split(text, "&")
	slices.Sort(parts)
	return strings.Join(parts, "&")
}

// AGG-607: a list over a shard that is ten times slower ends by its deadline, whatever comes of it.
func TestT66l_a_list_over_a_slow_shard(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.list.deadline_ms", 5000))
	r.Fill(2000, 2, 2)
	r.A.Slow(300 * time.Millisecond)
	defer r.A.Slow(0)
	clock := e2e.StartClock()
	answer := r.All.Get(ConfigMaps.Path())
	if took := clock.Spent(); took > 9*time.Second {
		t.Errorf("after %v: %s", took, answer)
	}
	if answer.Status == http.StatusOK && answer.Err == nil {
		same(t, ModelOf(answer.Object(t).Items), Union(r.Maps()...))
	}
	flowing(t, r.All.Watch(t, ConfigMaps.Path()+"?watch=1&labelSelector=!slow"), r.B, "fast")
}
