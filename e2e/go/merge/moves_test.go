package merge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
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

// owned waits until the proxy takes the shard for the owner of the cluster that moves.
func owned(t *testing.T, r *Rig, by *Fake) {
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
	r.A.Clusters.Put("cluster", in)
	owned(t, r, r.A)
	var watches []*Recording
	for _, accept := range []string{JSON, TableV1, One, Proto, OnePB} {
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
	owned(t, r, r.B)
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

// A watch that resumes from the middle of a move, which has not been told what was copied, is told, or lists again: at whatever
// loop it comes back, and after the proxy was killed before or after the cluster changed hands.
func TestT110r_resuming_from_the_middle_of_a_move(t *testing.T) {
	begin(t)
	for _, when := range []string{"never", "before", "after"} {
		t.Run("killed "+when, func(t *testing.T) {
			r := NewRig(t, AsKcp(), Set("loops", 4), Set("aggregation.watch.bookmark_idle_ms", 500))
			in := Annotation("kcp.io/cluster", Moving)
			r.Fill(2, 2, 2)
			r.A.Maps.Put("m-1", in)
			r.A.Clusters.Put("cluster", in)
			owned(t, r, r.A)
			w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
			w.UntilSynced(patience)
			copied := r.B.Maps.Put("m-1", in, Data("at", "b"))
			flowing(t, w, r.B, "between")
			cursor := w.UntilMarked(patience)
			for _, e := range ofMoving(w.Events()) {
				if e.Object.Metadata.ResourceVersion == copied {
					t.Fatalf("told before the move: %s", e.Raw)
				}
			}
			kill := func() {
				time.Sleep(2 * time.Second) // what is known of moves is written: a quarter of a second later, and the disk may be busy
				r.Restart(true)
			}
			if when == "before" {
				kill()
			}
			flowing(t, r.All.Watch(t, ConfigMaps.Path()+"?"+newest), r.C, "seen") // somebody watches the move
			r.B.Clusters.Put("cluster", in)
			r.A.Clusters.Delete("cluster")
			r.A.Maps.Delete("m-1")
			if when != "before" {
				w.Until("the copy", patience, func(events []Event) error {
					if !hasVersion(events, copied) {
						return fmt.Errorf("%s", tell(events))
					}
					return nil
				})
			}
			if when == "after" {
				kill()
			}
			for range 12 {
				back := r.Admin(0).Open(t, resumed(cursor), nil)
				eventually(t, patience, "the copy, or 410", func() error {
					events := back.Events()
					if back.Status == http.StatusGone || hasVersion(events, copied) {
						return nil
					}
					if n := len(events); n > 0 && events[n-1].Type == "ERROR" && events[n-1].Object.Code == http.StatusGone {
						return nil
					}
					return fmt.Errorf("%s", tell(events))
				})
				back.Close()
			}
		})
	}
}

func hasVersion(events []Event, version string) bool {
	return slices.ContainsFunc(ofMoving(events), func(e Event) bool { return e.whole().Metadata.ResourceVersion == version })
}
