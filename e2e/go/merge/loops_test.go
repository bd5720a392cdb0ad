package merge

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// followers are clients on connections of their own, so that several loops of the proxy have some of them.
func followers(t *testing.T, r *Rig, count int, accept string) []*Recording {
	t.Helper()
	at := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	var out []*Recording
	for range count {
		out = append(out, r.Admin(0).Watch(t, resumed(at), "Accept", accept))
	}
	return out
}

func oneStreamEach(t *testing.T, r *Rig) {
	t.Helper()
	eventually(t, patience, "one stream to each shard", func() error {
		for _, f := range r.Shards {
			if n := len(f.Streams()); n != 1 {
				return fmt.Errorf("%d to %s", n, f.Name)
			}
		}
		return nil
	})
}

// toldOnce waits until a client has every event of each shard, and sees that none came twice or before another.
func toldOnce(t *testing.T, w *Recording, want map[string][]string) {
	t.Helper()
	sorted := func() map[string][]string {
		got := map[string][]string{}
		for _, e := range w.Objects() {
			shard := e.Object.Marker()
			got[shard] = append(got[shard], e.Object.Metadata.ResourceVersion)
		}
		return got
	}
	w.Until("all events", patience, func([]Event) error {
		for shard, versions := range sorted() {
			if n := len(want[shard]); len(versions) < n {
				return fmt.Errorf("%s: %d of %d", shard, len(versions), n)
			}
		}
		if w.Ended() {
			return fmt.Errorf("it has ended: %v", w.Fault())
		}
		return nil
	})
	for shard, versions := range sorted() {
		if !slices.Equal(versions, want[shard]) {
			t.Fatalf("%s: %v, not %v", shard, versions, want[shard])
		}
	}
}

// testLoops writes while streams end in every way and clients leave, so that the loop which has a stream changes.
func testLoops(t *testing.T, accept string) {
	r := NewRig(t, Set("loops", 4), Set("aggregation.watch.group_linger_ms", 100))
	for _, f := range r.Shards {
		f.Set(func(b *Behavior) { b.BookmarkEvery = 50 * time.Millisecond })
	}
	r.Fill(2, 2, 2)
	all := followers(t, r, 16, accept)
	want := map[string][]string{}
	put := func(count int) {
		for range count {
			for _, f := range r.Shards {
				want[f.Name] = append(want[f.Name], f.Maps.Put(f.Name+"-1", Data("n", fmt.Sprint(len(want[f.Name])))))
			}
		}
	}
	put(5)
	oneStreamEach(t, r)
	for _, w := range all {
		toldOnce(t, w, want)
	}
	if n := r.Metrics("kintsugi_watch_relayed_streams", ""); n != 3*(r.Metrics("kintsugi_watch_groups", "")-1) || n == 0 {
		t.Errorf("%v streams are read from another loop", n)
	}
	if n := r.Metrics("kintsugi_watch_group_streams", ""); n != 3 {
		t.Errorf("%v streams to shards", n)
	}
	for name, end := range map[string]func(f *Fake){
		"ends":       func(f *Fake) { f.EndAll(EndStream) },
		"is torn":    func(f *Fake) { f.TearAll() },
		"is cut":     func(f *Fake) { f.Cut(true) },
		"is drained": func(f *Fake) { f.Goaway() },
	} {
		t.Log("a stream ", name)
		put(1)
		end(r.A)
		put(3)
		end(r.B)
		put(1)
		for _, w := range all {
			toldOnce(t, w, want)
		}
		oneStreamEach(t, r)
	}
	for len(all) > 1 { // whoever is left goes on, on whatever loop
		put(1)
		all[0].Close()
		all = all[1:]
		put(1)
		toldOnce(t, all[len(all)-1], want)
		time.Sleep(150 * time.Millisecond) // the groups of loops that nobody reads on fall asleep
	}
	oneStreamEach(t, r)
	put(3)
	toldOnce(t, all[0], want)
	if n := r.Metrics("kintsugi_watch_relayed_streams", ""); n != 0 {
		t.Errorf("%v streams are read from another loop", n)
	}
}

func TestT43l_loops_share_streams(t *testing.T) {
	begin(t)
	testLoops(t, JSON)
}

func TestT43m_loops_share_streams_of_protobuf(t *testing.T) {
	begin(t)
	testLoops(t, Proto+";stream=watch")
}

// A history that a shard has lost is repaired on every loop, and none of them loses its clients.
func TestT43n_loops_repair_what_a_shard_forgot(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("loops", 4))
	r.Fill(3, 3, 3)
	var all []*Recording
	for range 12 {
		w := r.Admin(0).Watch(t, ConfigMaps.Path()+"?"+newest)
		w.UntilSynced(patience)
		all = append(all, w)
	}
	oneStreamEach(t, r)
	refusing := r.B.Answer(0, http.StatusServiceUnavailable, nil, "")
	r.B.Cut(true)
	r.B.Maps.Delete("b-2")
	r.B.Maps.Put("b-4")
	r.B.Forget()
	refusing.Off()
	for _, w := range all {
		w.Until("the model of the shards", patience, func(events []Event) error {
			return Model{}.Apply(events).Equal(Union(r.Maps()...))
		})
		if w.Ended() {
			t.Errorf("it has ended: %v", w.Fault())
		}
	}
	oneStreamEach(t, r)
}

// A client's first row has the columns, whichever loop has had them from the shard, and although no list tells them.
func TestT43t_loops_share_streams_of_tables(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("loops", 4))
	r.Fill(1, 1, 1)
	at := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	for _, f := range r.Shards {
		f.On(func(w http.ResponseWriter, _ *http.Request, e Entry) bool {
			if !collectionPath(e.Path) || e.Watch() {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
	}
	for round, readers := range []int{1, 16} { // one loop has had them before the others begin
		var all []*Recording
		for range readers {
			all = append(all, r.Admin(0).Watch(t, resumed(at), "Accept", TableV1))
		}
		for _, f := range r.Shards {
			f.Maps.Put(f.Name+"-1", Data("n", fmt.Sprint(round)))
		}
		for _, w := range all {
			for n, e := range w.UntilObjects(3, patience) {
				if has := bytes.Contains(e.Raw, []byte(`"columnDefinitions":[`)); has != (n == 0) {
					t.Fatalf("event %d of round %d has columns: %v", n, round, has)
				}
			}
		}
		oneStreamEach(t, r)
		at = all[0].UntilMarked(patience) // those who come now are where the streams are
	}
}
