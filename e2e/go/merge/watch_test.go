package merge

import (
	"fmt"
	"math/rand"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kintsugi.dev/e2e"
)

// watching starts a watch at the newest list.
func watching(t *testing.T, r *Rig, resource Resource, more ...string) *Recording {
	t.Helper()
	list := r.All.List(t, resource.Path())
	return r.All.Watch(t, query(resource.Path(), append([]string{"watch", "true", "resourceVersion", list.Metadata.ResourceVersion}, more...)...))
}

func TestT31_every_change_once_in_order(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	w := watching(t, r, ConfigMaps)
	want := map[string][]string{}
	for _, f := range r.Shards {
		name := f.Name + "-new"
		want[f.Name] = []string{"ADDED@" + f.Maps.Put(name), "MODIFIED@" + f.Maps.Put(name, Data("v", "1")), "DELETED@" + f.Maps.Delete(name)}
	}
	got := map[string][]string{}
	for _, e := range w.UntilObjects(9, patience) {
		got[e.Object.Marker()] = append(got[e.Object.Marker()], e.Type+"@"+e.Object.Metadata.ResourceVersion)
	}
	for shard, events := range want {
		if strings.Join(got[shard], " ") != strings.Join(events, " ") {
			t.Errorf("%s: %v, not %v", shard, got[shard], events)
		}
	}
}

func TestT32_headers_come_at_once(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	at := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	path := query(ConfigMaps.Path(), "watch", "1", "resourceVersion", at)
	clock := e2e.StartClock()
	healthy := r.All.Watch(t, path)
	silent := make(chan struct{})
	defer close(silent)
	r.C.Set(func(b *Behavior) { b.HoldHeaders = silent })
	// Another selector, so that nothing is shared with the watch before.
	held := r.All.Watch(t, path+"&labelSelector=app")
	if d := clock.Of(healthy.Headers.Sub(healthy.Begin)); d > 500*time.Millisecond {
		t.Errorf("headers of a healthy watch after %v", d)
	}
	if d := clock.Of(held.Headers.Sub(held.Begin)); d > 2*time.Second {
		t.Errorf("headers with a silent shard after %v", d)
	}
	r.A.Maps.Put("a-live", Labels("app", "x"))
	held.UntilObjects(1, patience)
	healthy.UntilObjects(1, patience)
}

// scribble makes random writes on one shelf.
func scribble(s *Shelf, seed int64, writes int) {
	random := rand.New(rand.NewSource(seed))
	for n := range writes {
		name := fmt.Sprintf("%s-%d", s.fake.Name, random.Intn(40))
		if random.Intn(4) == 0 {
			s.Delete(name)
		} else {
			s.Put(name, Data("n", fmt.Sprint(n)))
		}
	}
}

// scribbleAll makes random writes on all shards at once.
func scribbleAll(r *Rig, writes int) {
	var group sync.WaitGroup
	for n, f := range r.Shards {
		group.Go(func() { scribble(f.Maps, int64(n), writes) })
	}
	group.Wait()
}

// orderly checks that no event comes twice and no object goes back.
func orderly(t *testing.T, events []Event) {
	t.Helper()
	last, seen := map[string]string{}, map[string]bool{}
	for _, e := range events {
		key, rv := e.Object.Key(), e.Object.Metadata.ResourceVersion
		if seen[key+"@"+rv] {
			t.Fatalf("%s at %s comes twice", key, rv)
		}
		seen[key+"@"+rv] = true
		if older(rv, last[key]) {
			t.Fatalf("%s at %s after %s", key, rv, last[key])
		}
		last[key] = rv
	}
}

func TestT33_thousands_of_writes(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(5, 5, 5)
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", list.Metadata.ResourceVersion))
	scribbleAll(r, 1000)
	w.Until("model equal", patience, func(events []Event) error { return ModelOf(list.Items).Apply(events).Equal(Union(r.Maps()...)) })
	orderly(t, w.Objects())
}

func TestT34_state_and_then_events(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 2, 1)
	for _, start := range []string{"", "&resourceVersion=0"} {
		w := r.All.Watch(t, ConfigMaps.Path()+"?watch=1&allowWatchBookmarks=true"+start)
		want := Union(r.Maps()...)
		for _, e := range w.UntilObjects(len(want), patience) {
			if e.Type != "ADDED" {
				t.Error(e.Type)
			}
		}
		same(t, Model{}.Apply(w.Objects()), want)
		r.B.Maps.Put("b-live" + fmt.Sprint(len(start)))
		w.UntilObjects(len(want)+1, patience)
		w.UntilMarked(patience)
		for _, e := range w.Bookmarks() {
			if e.Object.End() {
				t.Error("an end of initial events that nobody asked for")
			}
		}
	}
}

func TestT35_no_bookmarks_unasked(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.watch.bookmark_idle_ms", 300))
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	var watches []*Recording
	for _, q := range []string{"watch=1&resourceVersion=" + cursor, "watch=1&allowWatchBookmarks=false&resourceVersion=" + cursor,
		strings.Replace(newest, "&allowWatchBookmarks=true", "", 1)} {
		watches = append(watches, r.All.Watch(t, ConfigMaps.Path()+"?"+q))
	}
	with := r.All.Watch(t, ConfigMaps.Path()+"?watch=1&allowWatchBookmarks=true&resourceVersion="+cursor)
	for n := range 100 {
		r.Shards[n%3].Maps.Put(fmt.Sprint("m-", n))
	}
	watches[0].UntilObjects(100, patience)
	watches[1].UntilObjects(100, patience)
	watches[2].UntilObjects(103, patience)
	with.Until("idle bookmarks beside them", patience, func([]Event) error {
		if got := len(with.Bookmarks()); got < 4 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	for n, w := range watches {
		if len(w.Bookmarks()) != 0 {
			t.Errorf("watch %d: %s", n, tell(w.Bookmarks()))
		}
	}
}

func TestT36_bookmarks_are_few_and_well_formed(t *testing.T) {
	begin(t)
	const idle = 700
	r := NewRig(t, Set("aggregation.watch.bookmark_idle_ms", idle))
	r.Fill(1, 1, 1)
	w := watching(t, r, ConfigMaps, "allowWatchBookmarks", "true")
	w.Until("three idle bookmarks", patience, func([]Event) error {
		if got := len(w.Bookmarks()); got < 3 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	marks := w.Bookmarks()
	// The shards send five each second.
	if d := marks[2].At.Sub(w.Begin); d < 2*idle*9/10*time.Millisecond {
		t.Errorf("three idle bookmarks after %v", d)
	}
	before := len(marks)
	begun := time.Now()
	for n := range 100 {
		r.Shards[n%3].Maps.Put(fmt.Sprint("m-", n))
		time.Sleep(8 * time.Millisecond) // a burst that lasts
	}
	w.UntilObjects(100, patience)
	w.UntilMarked(patience)
	took := time.Since(begun)
	if got, most := len(w.Bookmarks())-before, int(took/(200*time.Millisecond))+3; got > most {
		t.Errorf("%d bookmarks in %v, %d are allowed", got, took, most)
	}
	for _, e := range w.Bookmarks() {
		if e.Object.Kind != "ConfigMap" || e.Object.APIVersion != "v1" {
			t.Errorf("%s", e.Raw)
		}
		meta := e.Object.Metadata
		if meta.Name != "" || meta.UID != "" || len(meta.Annotations) != 0 || len(meta.Labels) != 0 || len(meta.ResourceVersion) != 75 {
			t.Errorf("%s", e.Raw)
		}
	}
	r.A.Widgets.Put("a-w")
	custom := r.All.Watch(t, Widgets.Path()+"?"+newest).UntilSynced(patience)
	if custom.Object.Kind != "Widget" || custom.Object.APIVersion != "example.test/v1" {
		t.Errorf("%s", custom.Raw)
	}
}

func TestT37_watches_end_in_order(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	clock := e2e.StartClock()
	long := watching(t, r, ConfigMaps, "timeoutSeconds", "5", "allowWatchBookmarks", "true")
	short := watching(t, r, ConfigMaps, "timeoutSeconds", "3", "allowWatchBookmarks", "true")
	brief := watching(t, r, ConfigMaps, "timeoutSeconds", "1")
	for w, least := range map[*Recording]time.Duration{long: 4500 * time.Millisecond, short: 2500 * time.Millisecond, brief: time.Second} {
		w.UntilEnd(patience)
		lived := w.EndedAt().Sub(w.Begin)
		if w.Fault() != nil || lived < least-20*time.Millisecond || clock.Of(lived) > least+4*time.Second {
			t.Errorf("%s ended after %v: %v", w.Path, lived, w.Fault())
		}
	}
	events := long.Events()
	if len(events) == 0 || events[len(events)-1].Type != "BOOKMARK" {
		t.Errorf("no bookmark at the end: %s", tell(events))
	}
	for _, w := range []*Recording{long, short} { // one about 2 s before, and one at the end
		if first := w.Bookmarks()[0]; len(w.Bookmarks()) != 2 || w.EndedAt().Sub(first.At) < 1500*time.Millisecond {
			t.Errorf("%s: %s, the first %v before the end", w.Path, tell(w.Events()), w.EndedAt().Sub(first.At))
		}
	}
	if len(brief.Events()) != 0 {
		t.Errorf("%s", tell(brief.Events()))
	}
}

func TestT38_watch_of_one_name(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	for _, path := range []string{query(ConfigMaps.Path(), "watch", "1", "fieldSelector", "metadata.name=b-1"),
		"/api/v1/watch/configmaps?fieldSelector=metadata.name%3Db-1"} {
		w := r.All.Watch(t, path)
		w.UntilObjects(1, patience)
		r.B.Maps.Put("b-2", Data("v", path))
		r.B.Maps.Put("b-1", Data("v", path))
		if events := w.UntilObjects(2, patience); events[1].Object.Metadata.Name != "b-1" {
			t.Error(tell(events))
		}
	}
	if r.Source == "static" {
		w := r.All.Watch(t, "/api/v1/watch/namespaces/t/configmaps/b-1")
		if events := w.UntilObjects(1, patience); events[0].Object.Metadata.Name != "b-1" {
			t.Error(tell(events))
		}
	}
}

// A name can be at any shard that the URL covers (AGG-203): the owner is known where that is only one, as of a Partition, or where
// the proxy stores the kind itself.
func TestT38o_streams_of_a_watch_of_one_name(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	for _, f := range r.Shards {
		f.Labels = map[string]string{"name": f.Name}
	}
	r.Configure(r.Shards...)
	own := NewClient(t, fmt.Sprintf("https://127.0.0.1:%d/clusters/root", r.Port), r.serving.Pool(), &r.admin, 0)
	const partitions = "/apis/topology.kcp.io/v1alpha1/partitions"
	if answer := own.Do(http.MethodPost, partitions, []byte(`{"apiVersion":"topology.kcp.io/v1alpha1","kind":"Partition",
		"metadata":{"name":"b"},"spec":{"selector":{"matchLabels":{"name":"b"}}}}`), "Content-Type", JSON); answer.Status != http.StatusCreated {
		t.Fatalf("%s", answer)
	}
	only := r.All.At("/partitions/root/b/clusters/*")
	eventually(t, patience, "the Partition", func() error {
		answer := only.Get(ConfigMaps.Path())
		if answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		return ModelOf(answer.Object(t).Items).Equal(Union(r.B.Maps))
	})
	paths := []string{query(ConfigMaps.Path(), "watch", "1", "fieldSelector", "metadata.name=b-1"), "/api/v1/watch/namespaces/t/configmaps/b-1"}
	for _, path := range paths {
		for n, c := range []*Client{only, r.All} {
			for _, f := range r.Shards {
				f.Reset()
			}
			w := c.Watch(t, path)
			w.UntilObjects(1, patience)
			version := r.B.Maps.Put("b-1", Data("v", path+c.Base))
			if last := w.UntilObjects(2, patience)[1].Object.Metadata; last.Name != "b-1" || last.ResourceVersion != version {
				t.Error(tell(w.Events()))
			}
			want := []int{n, 1, n}
			eventually(t, patience, "streams", func() error {
				got := []int{len(r.A.Asked(true)), len(r.B.Asked(true)), len(r.C.Asked(true))}
				if !slices.Equal(got, want) {
					return fmt.Errorf("%s below %s: %v, not %v", path, c.Base, got, want)
				}
				return nil
			})
			w.Close()
		}
	}
	for _, f := range r.Shards {
		f.Reset()
	}
	w := own.Watch(t, partitions+"?watch=1&fieldSelector=metadata.name%3Db")
	w.UntilObjects(1, patience)
	for _, f := range r.Shards {
		if asked := f.Log(func(e Entry) bool { return strings.Contains(e.Path, "partitions") }); len(asked) > 0 {
			t.Errorf("%s was asked", f.Name)
		}
	}
}

func TestT39_selector_transitions(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.B.Maps.Put("b-1", Labels("app", "web"))
	w := r.All.Watch(t, ConfigMaps.Path()+"?watch=1&labelSelector=app%3Dweb")
	w.UntilObjects(1, patience)
	out := r.B.Maps.Put("b-1", Labels("app", "db"))
	in := r.B.Maps.Put("b-1", Labels("app", "web"))
	events := w.UntilObjects(3, patience)
	if events[1].Type != "DELETED" || events[1].Object.Metadata.ResourceVersion != out || events[2].Type != "ADDED" ||
		events[2].Object.Metadata.ResourceVersion != in {
		t.Error(tell(events))
	}
}

func TestT40_T108_table_watches(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest, "Accept", Kubectl)
	end := w.UntilSynced(patience)
	if end.Object.Kind != "Table" || end.Row().Kind != "PartialObjectMetadata" || len(end.Row().Metadata.ResourceVersion) != 75 {
		t.Errorf("%s", end.Raw)
	}
	r.C.Maps.Put("c-live")
	r.A.Maps.Put("a-live")
	w.UntilObjects(8, patience)
	w.UntilMarked(patience)
	for n, e := range w.Events() {
		if (len(e.Object.Columns) != 0) != (n == 0) || e.Object.Kind != "Table" || len(e.Object.Rows) != 1 {
			t.Errorf("event %d: %s", n, e.Raw)
		}
	}
	got := Model{}
	for _, e := range w.Objects() {
		got[e.Row().Key()] = e.Row().Metadata.ResourceVersion
	}
	same(t, got, Union(r.Maps()...))
}

func testWatchMedia(t *testing.T, accept, contentType, kind string) {
	r := NewRig(t)
	r.Fill(2, 2, 2)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest, "Accept", accept)
	if got := w.Header.Get("Content-Type"); !strings.HasPrefix(got, contentType) {
		t.Errorf("Content-Type %s", got)
	}
	w.UntilSynced(patience)
	r.C.Maps.Put("c-1", Data("v", "live"))
	r.A.Maps.Delete("a-1")
	w.Until("live events", patience, func(events []Event) error { return (Model{}).Apply(events).Equal(Union(r.Maps()...)) })
	w.UntilMarked(patience)
	for _, e := range w.Events() {
		if e.Object.Kind != kind {
			t.Errorf("%s %s", e.Type, e.Object.Kind)
		}
	}
}

func TestT41_partial_metadata_watch(t *testing.T) {
	begin(t)
	testWatchMedia(t, One, JSON, "PartialObjectMetadata")
}

func TestT41p_protobuf_watch(t *testing.T) {
	begin(t)
	testWatchMedia(t, Proto, Proto+";stream=watch", "ConfigMap")
}

func TestT41q_protobuf_partial_metadata_watch(t *testing.T) {
	begin(t)
	testWatchMedia(t, OnePB, Proto+";stream=watch", "PartialObjectMetadata")
}

func TestT43_equal_watches_share_streams(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	var watches []*Recording
	for range 20 {
		watches = append(watches, watching(t, r, ConfigMaps))
	}
	others := map[string]*Recording{
		"selector":      watching(t, r, ConfigMaps, "labelSelector", "app=web"),
		"Accept":        r.All.Watch(t, ConfigMaps.Path()+"?watch=1", "Accept", TableV1),
		"includeObject": r.All.Watch(t, ConfigMaps.Path()+"?watch=1&includeObject=None", "Accept", TableV1),
	}
	u2 := r.User("someone-else", "system:masters", "system:kcp:admin")
	others["user"] = u2.Watch(t, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion))
	r.A.Maps.Put("a-live")
	r.B.Maps.Put("b-live", Labels("app", "web"))
	for _, w := range watches {
		w.UntilObjects(2, patience)
	}
	others["user"].UntilObjects(2, patience)
	others["selector"].UntilObjects(1, patience)
	others["Accept"].UntilObjects(8, patience)
	others["includeObject"].UntilObjects(8, patience)
	for _, f := range r.Shards {
		eventually(t, patience, "five streams at "+f.Name, func() error {
			if got := len(f.Streams()); got != 5 {
				return fmt.Errorf("%d", got)
			}
			return nil
		})
	}
}

// Typed clients send a `timeout` with each watch, never the same.
func TestT43c_typed_informers_share_streams(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	var informers []*Informer
	for range 6 {
		informers = append(informers, StartInformer(t, r.Rest(), true, ConfigMaps))
	}
	for _, i := range informers {
		i.Equals(t, patience, r.Maps()...)
	}
	eventually(t, patience, "one stream to each shard", func() error {
		for _, f := range r.Shards {
			if n := len(pickStreams(f.Streams(), ConfigMaps)); n != 1 {
				return fmt.Errorf("%d to %s", n, f.Name)
			}
		}
		return nil
	})
	if n := r.Metrics("kintsugi_watch_groups", ""); n != 1 {
		t.Errorf("%v groups", n)
	}
	r.A.Maps.Put("a-live")
	for _, i := range informers {
		i.Equals(t, patience, r.Maps()...)
	}
}

func pickStreams(all []*Stream, resource Resource) []*Stream {
	return slices.DeleteFunc(all, func(s *Stream) bool { return s.Resource != resource })
}
