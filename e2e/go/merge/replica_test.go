package merge

import (
	"net/http"
	"testing"
	"time"
)

// fixedTable makes replicas that agree by configuration.
func fixedTable(generation int) Option { return Set("topology.generation", generation) }

func TestT54b_a_generation_of_a_moment_ago(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t, fixedTable(7))
	r.Fill(2, 2, 2)
	p2 := r.Replica(fixedTable(8))
	list := p2.All.List(t, ConfigMaps.Path())
	page := p2.All.List(t, query(ConfigMaps.Path(), "limit", "2"))
	if list.Metadata.ResourceVersion[3:9] != "000008" {
		t.Fatal(list.Metadata.ResourceVersion)
	}
	r.B.Maps.Put("b-live")
	learnt := make(chan struct{})
	go func() {
		defer close(learnt)
		time.Sleep(400 * time.Millisecond)
		r.config["topology.generation"] = 8
		r.Configure(r.Shards...)
	}()
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	if waited := w.Headers.Sub(w.Begin); waited < 300*time.Millisecond {
		t.Errorf("headers after %v", waited)
	}
	<-learnt
	w.UntilObjects(1, patience)
	exact := r.All.List(t, query(ConfigMaps.Path(), "resourceVersion", list.Metadata.ResourceVersion, "resourceVersionMatch", "Exact"))
	if len(exact.Items) != 6 {
		t.Errorf("%d items", len(exact.Items))
	}
	// What nobody tells of is 410, not earlier than after the wait.
	for _, path := range []string{query(ConfigMaps.Path(), "resourceVersion", list.Metadata.ResourceVersion[:3]+"000009"+list.Metadata.ResourceVersion[9:]),
		query(ConfigMaps.In()+"/b-1", "resourceVersion", list.Metadata.ResourceVersion[:3]+"000009"+list.Metadata.ResourceVersion[9:])} {
		if _, answer := r.All.Refused(t, http.StatusGone, path); answer.Took < 2500*time.Millisecond || answer.Took > 5*time.Second {
			t.Errorf("after %v", answer.Took)
		}
	}
	// Its token is signed with a key of its own.
	r.All.Refused(t, http.StatusBadRequest, query(ConfigMaps.Path(), "limit", "2", "continue", page.Metadata.Continue))
}
