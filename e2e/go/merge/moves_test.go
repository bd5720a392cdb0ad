package merge

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// ofMoving are the events of objects of the cluster that moves, as rows or objects.
func ofMoving(events []Event) []Event {
	var out []Event
	for _, e := range events {
		if o := e.whole(); o.Marker() == Moving {
			out = append(out, e)
		}
	}
	return out
}

// whole is the object of an event, whatever its form.
func (e Event) whole() Object {
	if e.Object.Kind == "Table" {
		return e.Row()
	}
	return e.Object
}

// applied is the model of events in any form.
func applied(events []Event) Model {
	out := Model{}
	for _, e := range events {
		switch o := e.whole(); e.Type {
		case "ADDED", "MODIFIED":
			out[o.Key()] = o.Metadata.ResourceVersion
		case "DELETED":
			delete(out, o.Key())
		}
	}
	return out
}

func TestT110_a_logical_cluster_moves(t *testing.T) {
	begin(t)
	const count = 20
	r := NewRig(t, AsKcp())
	r.Fill(2, 2, 2)
	in := Annotation("kcp.io/cluster", Moving)
	name := func(n int) string { return fmt.Sprint("m-", n) }
	for n := range count {
		r.A.Maps.Put(name(n), in, Data("at", "a"))
	}
	r.A.Maps.Put("left-behind", in)
	owned := func(by *Fake) {
		t.Helper()
		base := NewClient(t, fmt.Sprintf("https://127.0.0.1:%d/clusters/%s", r.Port, Moving), r.serving.Pool(), &r.admin, 0)
		eventually(t, patience, "the cluster at "+by.Name, func() error {
			by.Reset()
			base.Get(ConfigMaps.Path())
			if len(by.Asked(false)) == 0 {
				return fmt.Errorf("not asked")
			}
			return nil
		})
	}
	r.A.Clusters.Put("cluster", in)
	owned(r.A)
	var watches []*Recording
	for _, accept := range []string{JSON, TableV1, PartialJSON, Proto, PartialPB} {
		watches = append(watches, r.All.Watch(t, ConfigMaps.Path()+"?"+newest, "Accept", accept))
	}
	informer := StartInformer(t, r.Rest(), true, ConfigMaps)
	for _, w := range watches {
		w.UntilSynced(patience)
	}
	informer.Equals(t, patience, r.Maps()...)

	// Its objects are copied, it is the other shard's, and the first shard clears them away.
	for n := range count {
		r.B.Maps.Put(name(n), in, Data("at", "b"))
	}
	r.C.Maps.Put("c-between")
	r.B.Clusters.Put("cluster", in)
	r.A.Clusters.Delete("cluster")
	owned(r.B)
	r.B.Maps.Put(name(0), Data("at", "b again"))
	for n := range count {
		r.A.Maps.Delete(name(n))
	}
	r.A.Maps.Delete("left-behind")
	r.B.Maps.Delete(name(1))
	r.A.Maps.Put("a-after")
	r.B.Maps.Put("b-after")
	for _, w := range watches {
		w.Until("model equal", patience, func(events []Event) error { return applied(events).Equal(Union(r.Maps()...)) })
		deleted := map[string]int{}
		for _, e := range ofMoving(w.Events()) {
			if e.Type == "DELETED" {
				deleted[e.whole().Metadata.Name]++
			}
		}
		if len(deleted) != 2 || deleted["left-behind"] != 1 || deleted[name(1)] != 1 {
			t.Errorf("%s: deleted are %v", w.Header.Get("Content-Type"), deleted)
		}
		// From the copy on, only the new shard's versions come, each object's in their order.
		last := map[string]string{}
		for _, e := range ofMoving(w.Events()) {
			o := e.whole()
			if strings.HasPrefix(last[o.Metadata.Name], "2") && older(o.Metadata.ResourceVersion, last[o.Metadata.Name]) {
				t.Errorf("%s at %s after %s", o.Metadata.Name, o.Metadata.ResourceVersion, last[o.Metadata.Name])
			}
			last[o.Metadata.Name] = o.Metadata.ResourceVersion
		}
		if w.Ended() {
			t.Error(w.Fault())
		}
	}
	informer.Equals(t, patience, r.Maps()...)
	if c := informer.Counts(); c.WatchLists != 1 || c.Lists != 0 {
		t.Error(informer)
	}
}

// A shard whose clusters have all moved goes: nothing of them is deleted.
func TestT110b_the_first_shard_goes(t *testing.T) {
	begin(t)
	r := NewRig(t, AsKcp())
	in := Annotation("kcp.io/cluster", Moving)
	r.Fill(2, 2, 2)
	r.C.Maps.Put("m-1", in)
	r.C.Clusters.Put("cluster", in)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	r.B.Maps.Put("m-1", in)
	flowing(t, w, r.A, "between")
	r.B.Clusters.Put("cluster", in)
	w.Until("its object at the new shard", patience, func(events []Event) error {
		if n := len(ofMoving(events)); n != 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	r.Leave(r.C)
	w.Until("model equal", patience, func(events []Event) error { return applied(events).Equal(Union(r.Maps()...)) })
	for _, e := range ofMoving(w.Events()) {
		if e.Type == "DELETED" {
			t.Error(e.Raw)
		}
	}
	if answer := r.All.Get(ConfigMaps.Path()); answer.Status != http.StatusOK {
		t.Error(answer)
	}
}
