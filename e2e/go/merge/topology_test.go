package merge

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// added counts the ADDED events of one shard.
func added(events []Event, shard string) int {
	return len(pick(events, func(e Event) bool { return e.Type == "ADDED" && e.Object.Marker() == shard }))
}

func TestT71_a_shard_joins_open_watches(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	var watches []*Recording
	clients := []*Client{r.All, r.Admin(0)}
	for n := range 100 {
		watches = append(watches, clients[n%2].Watch(t, ConfigMaps.Path()+"?"+newest+fmt.Sprintf("&labelSelector=!x%d", n%2)))
	}
	for _, w := range watches {
		w.UntilSynced(patience)
	}
	before := watches[0].Cursor()
	d := r.AddFake("d")
	for n := range 1000 {
		d.Maps.Put(fmt.Sprint("d-", n))
	}
	r.Join(d)
	for _, w := range watches {
		w.Until("objects of the new shard", 40*time.Second, func(events []Event) error {
			if got := added(events, "d"); got != 1000 {
				return fmt.Errorf("%d", got)
			}
			return nil
		})
	}
	flowing(t, watches[0], d, "live")
	cursor := watches[0].UntilMarked(patience)
	if len(cursor) != 15+20*4 || cursor[3:9] != fmt.Sprintf("%06d", number6(before[3:9])+1) {
		t.Errorf("%s after %s", cursor, before)
	}
	if shown := r.Metrics("kintsugi_slot_generation", ""); int(shown) != number6(cursor[3:9]) {
		t.Errorf("metrics say %v", shown)
	}
	for _, w := range watches {
		if w.Ended() {
			t.Error(w.Fault())
		}
		once(t, w)
	}
	model := Model{}.Apply(watches[0].Events())
	d.Maps.Delete("d-1")
	again := r.All.Watch(t, resumed(cursor))
	again.Until("model equal", patience, func(events []Event) error { return model.Apply(events).Equal(Union(r.Maps()...)) })
	orderly(t, again.Objects())
}

func number6(text string) int {
	n := 0
	for _, c := range text {
		n = 10*n + int(c-'0')
	}
	return n
}

func TestT71b_cut_in_the_middle_of_a_new_shard(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	d := r.AddFake("d")
	for n := range 200 {
		d.Maps.Put(fmt.Sprint("d-", n))
	}
	d.Set(func(b *Behavior) { b.EventPause = 20 * time.Millisecond })
	r.Join(d)
	w.Until("some objects of the new shard and a bookmark", patience, func(events []Event) error {
		if got := added(events, "d"); got < 20 {
			return fmt.Errorf("%d", got)
		}
		if r.A.Maps.Put("a-tick"); len(w.Cursor()) != 95 {
			return fmt.Errorf("%s", w.Cursor())
		}
		return nil
	})
	w.Close()
	cursor := w.Cursor()
	if cursor[75:] != fmt.Sprintf("%020d", 1) {
		t.Fatalf("the slot has begun: %s", cursor)
	}
	d.Maps.Delete(w.Objects()[len(w.Objects())-1].Object.Metadata.Name)
	gone(t, r.All.Open(t, resumed(cursor), nil))
}

func testLeaves(t *testing.T, mode string) {
	begin(t)
	r := NewRig(t, Set("aggregation.resync.mode", mode))
	r.Fill(2, 2, 1000)
	i := StartInformer(t, r.Rest(), true, ConfigMaps)
	i.Equals(t, patience, r.Maps()...)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	flowing(t, w, r.C, "live")
	offline := w.UntilMarked(patience)
	empty := r.All.Watch(t, Widgets.Path()+"?"+newest)
	empty.UntilSynced(patience)
	r.Leave(r.C)
	if mode == "expire" {
		gone(t, w)
	} else {
		w.Until("DELETED for each object", patience, func(events []Event) error {
			return (Model{}).Apply(events).Equal(Union(r.Maps()...))
		})
		if got := len(pick(w.Events(), func(e Event) bool { return e.Type == "DELETED" && e.Object.Marker() == "c" })); got != 1001 || w.Ended() {
			t.Errorf("%d objects are deleted", got)
		}
	}
	i.Equals(t, 40*time.Second, r.Maps()...)
	again := r.All.Open(t, resumed(offline), nil)
	if again.Status == http.StatusOK && mode == "diff" {
		again.Until("410 or the deletions", patience, func(events []Event) error {
			if n := len(events); n > 0 && events[n-1].Object.Code == http.StatusGone {
				return nil
			}
			return Model{}.Apply(w.Events()).Apply(events).Equal(Union(r.Maps()...))
		})
	} else {
		gone(t, again)
	}
	if c := i.Counts(); mode == "diff" && (c.WatchLists != 1 || c.Lists != 0) {
		t.Error(i)
	}
	flowing(t, r.All.Watch(t, ConfigMaps.Path()+"?watch=1"), r.B, "after")
}

func TestT72_a_shard_leaves_expire(t *testing.T) { testLeaves(t, "expire") }

func TestT72d_a_shard_leaves_diff(t *testing.T) { testLeaves(t, "diff") }

// Who waits for its 410 still has the shard's objects: they must not come again when the shard is back meanwhile.
func TestT72e_a_shard_is_back_before_the_410(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.resync.mode", "expire"), Set("aggregation.resync.spread_ms", 4000))
	r.Fill(2, 2, 20)
	var all []*Recording
	for range 8 {
		w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
		w.UntilSynced(patience)
		all = append(all, w)
	}
	before := r.All.List(t, Deployments.Path()).Metadata.ResourceVersion[3:9]
	r.Leave(r.C)
	eventually(t, patience, "a generation without the shard", func() error {
		answer := r.All.Get(Deployments.Path()) // 503 if the shard leaves just now
		if answer.Status != http.StatusOK || answer.Object(t).Metadata.ResourceVersion[3:9] == before {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	r.Shards = append(r.Shards, r.C)
	r.Join(r.C)
	for _, w := range all {
		gone(t, w)
		if got := added(w.Events(), "c"); got != 20 {
			t.Errorf("%d objects were added", got)
		}
	}
}

func TestT73_a_shard_moves(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	flowing(t, w, r.B, "before")
	r.B.Move(t)
	r.B.Maps.Put("b-during")
	r.Readdress(r.B)
	eventually(t, patience, "lists at the new address", func() error {
		r.B.Reset()
		r.All.Get(ConfigMaps.Path())
		if len(r.B.Asked(false)) == 0 {
			return fmt.Errorf("not asked")
		}
		return nil
	})
	r.B.Cut(false) // the old address goes
	flowing(t, w, r.B, "after")
	modelled(t, w, list, r, patience)
	orderly(t, w.Objects())
	if w.Ended() {
		t.Error(w.Fault())
	}
	if after := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion; after[3:9] != list.Metadata.ResourceVersion[3:9] {
		t.Errorf("another generation: %s after %s", after, list.Metadata.ResourceVersion)
	}
}

// A Partition over plain servers is an object of the root that the proxy serves itself.
func TestT74_a_partition_of_plain_servers(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t, Names("a", "b", "c", "d"))
	d := r.Shards[3]
	r.Fill(2, 2, 20, 10)
	label := func(in ...*Fake) {
		for _, f := range r.Shards {
			f.Labels = map[string]string{"region": "us"}
			if slices.Contains(in, f) {
				f.Labels["region"] = "eu"
			}
		}
		r.Configure(r.Shards...)
	}
	label(r.A, r.B, r.C)
	own := NewClient(t, fmt.Sprintf("https://127.0.0.1:%d/clusters/root", r.Port), r.serving.Pool(), &r.admin, 0)
	answer := own.Do(http.MethodPost, "/apis/topology.kcp.io/v1alpha1/partitions", []byte(`{"apiVersion":"topology.kcp.io/v1alpha1",
		"kind":"Partition","metadata":{"name":"eu"},"spec":{"selector":{"matchLabels":{"region":"eu"}}}}`), "Content-Type", JSON)
	if answer.Status != http.StatusCreated {
		t.Fatalf("%s", answer)
	}
	eu := r.All.At("/partitions/root/eu/clusters/*")
	before := Union(r.A.Maps, r.B.Maps, r.C.Maps)
	eventually(t, patience, "three shards", func() error {
		answer := eu.Get(ConfigMaps.Path())
		if answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		return ModelOf(answer.Object(t).Items).Equal(before)
	})
	if _, answer := eu.Refused(t, http.StatusMethodNotAllowed, ConfigMaps.Path()+"/a-1/status"); answer.Status == 0 {
		t.Error("no answer")
	}
	if got := eu.Get("/api/v1/namespaces/" + Namespace + "/configmaps/b-1"); got.Status != http.StatusOK {
		t.Errorf("GET: %s", got)
	}
	offline := eu.List(t, ConfigMaps.Path())
	open := eu.Watch(t, ConfigMaps.Path()+"?"+newest)
	open.UntilSynced(patience)
	cursor := open.UntilMarked(patience)
	label(r.A, r.B, d)
	after := Union(r.A.Maps, r.B.Maps, d.Maps)
	eventually(t, patience, "d's objects come and c's go", func() error {
		return Model{}.Apply(open.Events()).Equal(after)
	})
	if open.Ended() {
		t.Fatal(open.Fault())
	}
	flowing(t, open, d, "after")
	if got := open.UntilMarked(patience); len(got) < len(cursor) || len(got) == len(cursor) && got < cursor {
		t.Errorf("%s after %s", got, cursor)
	}
	late := eu.Watch(t, resumed(offline.Metadata.ResourceVersion))
	gone(t, late)
	again := eu.Watch(t, ConfigMaps.Path()+"?"+newest)
	again.UntilSynced(patience)
	eventually(t, patience, "the present state", func() error {
		return Model{}.Apply(again.Events()).Equal(Union(r.A.Maps, r.B.Maps, d.Maps))
	})
	eu.At("/partitions/root/nowhere/clusters/*").Nowhere(t, ConfigMaps.Path())
}

func TestT75_many_shards_restart(t *testing.T) {
	begin(t)
	names := make([]string, sized(20, 50))
	for n := range names {
		names[n] = fmt.Sprintf("s%02d", n)
	}
	r := NewRig(t, Names(names...))
	for _, f := range r.Shards {
		f.Maps.Put(f.Name + "-1")
	}
	var informers []*Informer
	for n := range sized(20, 200) {
		informers = append(informers, StartInformer(t, r.Rest(), n%2 == 0, ConfigMaps))
	}
	for _, i := range informers {
		i.Equals(t, 40*time.Second, r.Maps()...)
	}
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	most := 0
	for n := range sized(10, 60) {
		f, next := r.Shards[n%len(r.Shards)], time.After(time.Duration(sized(0, 1))*time.Second)
		before := len(f.Accepted())
		f.Stop()
		f.Maps.Put(fmt.Sprint(f.Name, "-r", n))
		f.Start(t)
		flowing(t, w, f, "back")
		got := len(f.Accepted()) - before
		if most = max(most, got); got > 8 {
			t.Errorf("%d connects to %s", got, f.Name)
		}
		<-next
	}
	for _, i := range informers {
		i.Equals(t, 40*time.Second, r.Maps()...)
		if c := i.Counts(); c.Lists != 0 || c.WatchLists != 1 || c.Watches != 0 {
			t.Error(i)
		}
	}
	t.Logf("at most %d connects to a shard that restarted", most)
}

func TestT76_one_name_on_two_shards(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.A.Maps.Put("x")
	r.B.Maps.Put("x")
	list := r.All.List(t, ConfigMaps.Path())
	same(t, ModelOf(list.Items), Union(r.Maps()...))
	if len(list.Items) != 2 || list.Items[0].Marker() == list.Items[1].Marker() {
		t.Errorf("%v", ModelOf(list.Items))
	}
}

func TestT76c_collisions_are_counted(t *testing.T) {
	plainOnly(t)
	begin(t)
	r := NewRig(t)
	r.A.Maps.Put("x")
	r.B.Maps.Put("x")
	r.All.Watch(t, ConfigMaps.Path()+"?"+newest).UntilSynced(patience)
	atLeast(t, r, "key_collisions_total", `reason="name",resource="configmaps"`, 1)
	before := r.Metrics("kintsugi_key_collisions_total", `shard="c"`)
	r.C.Maps.Put("x")
	counted(t, r, "the one of c as well", series{{"key_collisions_total", `shard="c"`}: before + 1, {"key_collisions_total", ""}: 2})
}

func TestT77_deleting_one_of_two(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.A.Maps.Put("x")
	r.B.Maps.Put("x")
	keyed := StartKeyed(t, r.Rest(), ConfigMaps, false)
	w := r.All.Watch(t, ConfigMaps.Path()+"?watch=1")
	w.UntilObjects(2, patience)
	r.A.Maps.Delete("x")
	if events := w.UntilObjects(3, patience); events[2].Type != "DELETED" || events[2].Object.Key() != "a/t/x" {
		t.Error(tell(events))
	}
	keyed.Equals(t, patience, r.B.Maps)
}

func TestT78q_clusters_of_the_system_are_qualified(t *testing.T) {
	begin(t)
	r := NewRig(t, AsKcp(), Set("aggregation.system_clusters", "qualify"))
	r.Fill(1, 1, 1)
	want := Union(r.Maps()...)
	for _, f := range r.Shards {
		key := f.Name + ":system:admin/" + Namespace + "/everywhere"
		want[key] = f.Maps.Put("everywhere", Annotation("kcp.io/cluster", "system:admin"))
	}
	for _, accept := range []string{JSON, Proto} {
		same(t, ModelOf(r.All.List(t, ConfigMaps.Path(), "Accept", accept).Items), want)
	}
	table := r.All.List(t, ConfigMaps.Path(), "Accept", TableV1)
	rows := map[string]bool{}
	for _, row := range table.Rows {
		rows[row.Object.Key()] = true
	}
	var watches []*Recording
	for _, accept := range []string{JSON, Proto} {
		watches = append(watches, r.All.Watch(t, ConfigMaps.Path()+"?"+newest, "Accept", accept))
	}
	for _, w := range watches {
		w.UntilSynced(patience)
	}
	want["b:system:admin/"+Namespace+"/everywhere"] = r.B.Maps.Put("everywhere", Data("v", "1"))
	r.C.Maps.Delete("everywhere")
	delete(want, "c:system:admin/"+Namespace+"/everywhere")
	for _, w := range watches {
		objects := w.UntilObjects(8, patience)
		got := Model{}
		for _, e := range objects {
			got[e.Object.Key()] = e.Object.Metadata.ResourceVersion
			if e.Type == "DELETED" {
				delete(got, e.Object.Key())
			}
		}
		same(t, got, want)
	}
	if !rows["a:system:admin/"+Namespace+"/everywhere"] || len(rows) != 6 {
		t.Errorf("%v", rows)
	}
}

func TestT78_clusters_of_the_system_are_left_out(t *testing.T) {
	begin(t)
	r := NewRig(t, AsKcp())
	r.Fill(1, 1, 1)
	want := Union(r.Maps()...)
	for _, f := range r.Shards {
		f.Maps.Put("everywhere", Annotation("kcp.io/cluster", "system:admin"))
	}
	same(t, ModelOf(r.All.List(t, ConfigMaps.Path()).Items), want)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	r.B.Maps.Put("everywhere", Data("v", "1"))
	flowing(t, w, r.C, "live")
	r.B.Maps.Put("b-last")
	w.Until("the last", patience, func(events []Event) error {
		if n := len(w.Objects()); n < 5 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	for _, e := range w.Objects() {
		if e.Object.Marker() == "system:admin" {
			t.Errorf("%s", e.Raw)
		}
	}
}
