package merge

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"kintsugi.dev/e2e"
)

// once checks that there is exactly one end of the initial events, behind all ADDED events of the start.
func once(t *testing.T, w *Recording) {
	t.Helper()
	ends := pick(w.Events(), func(e Event) bool { return e.Type == "BOOKMARK" && e.Object.End() })
	if len(ends) != 1 {
		t.Errorf("%d ends of the initial events", len(ends))
	}
}

func TestT44_one_end_of_initial_events(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(500, 500, 500)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	events := w.Events()
	for n, e := range events[:1500] {
		if e.Type != "ADDED" {
			t.Fatalf("event %d is %s", n, e.Type)
		}
	}
	if len(events) < 1501 || !events[1500].Object.End() {
		t.Errorf("%s", tell(events))
	}
	same(t, Model{}.Apply(events), Union(r.Maps()...))
	r.B.Maps.Put("b-live")
	w.UntilObjects(1501, patience)
	w.UntilMarked(patience)
	once(t, w)
}

func TestT45_a_slow_shard_delays_only_the_end(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	gate := make(chan struct{})
	r.C.Set(func(b *Behavior) { b.HoldInitial = gate })
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilObjects(6, patience)
	r.A.Maps.Put("a-live")
	w.UntilObjects(7, patience)
	for _, e := range w.Bookmarks() {
		if e.Object.End() || e.Object.Metadata.ResourceVersion[55:] != "00000000000000000000" {
			t.Errorf("%s", e.Raw)
		}
	}
	close(gate)
	end := w.UntilSynced(patience)
	w.UntilObjects(10, patience)
	if end.Object.Metadata.ResourceVersion[55:] != fmt.Sprintf("%020d", r.C.RV()) {
		t.Errorf("%s at %d", end.Raw, r.C.RV())
	}
	once(t, w)
}

func TestT46a_no_end_from_a_quiet_shard(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	r.C.Set(func(b *Behavior) { b.NoEndBookmark = true })
	clock := e2e.StartClock()
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	if d := clock.Of(w.Events()[len(w.Events())-1].At.Sub(w.Headers)); d > 6*time.Second { // silence_ms is 2,000
		t.Errorf("ended after %v", d)
	}
	same(t, Model{}.Apply(w.Events()), Union(r.Maps()...))
	r.C.Maps.Put("c-live")
	r.C.Maps.Delete("c-1")
	w.Until("model equal", patience, func(events []Event) error { return (Model{}).Apply(events).Equal(Union(r.Maps()...)) })
	once(t, w)
	if n := r.Metrics("kintsugi_watchlist_emulated_total", ""); n < 1 {
		t.Errorf("watchlist_emulated_total is %v", n)
	}
}

func TestT46b_no_end_and_an_object_vanished(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	r.C.Set(func(b *Behavior) { b.NoEndBookmark = true })
	path := ConfigMaps.Path() + "?" + newest
	w := r.All.Watch(t, path)
	w.UntilObjects(9, patience)
	r.C.Maps.Delete("c-1") // an event that is not ADDED
	w.UntilEnd(patience)
	events := w.Events()
	last := events[len(events)-1]
	if last.Type != "ERROR" || last.Object.Code != http.StatusTooManyRequests || w.Fault() != nil {
		t.Fatalf("%s", tell(events))
	}
	again := r.All.Watch(t, path)
	again.UntilSynced(patience)
	same(t, Model{}.Apply(again.Events()), Union(r.Maps()...))
}

func TestT46c_nothing_from_an_empty_shard(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3)
	r.C.Set(func(b *Behavior) { b.NoEndBookmark, b.NoBookmarks = true, true })
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	r.C.Maps.Put("c-live")
	w.Until("model equal", patience, func(events []Event) error { return (Model{}).Apply(events).Equal(Union(r.Maps()...)) })
	once(t, w)
}

func TestT46d_nothing_from_a_shard_that_answers_no_probe(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.watchlist.initial_deadline_ms", 3000), Set("aggregation.watchlist.give_up_ms", 5000))
	r.Fill(3, 3, 3)
	gate := make(chan struct{})
	defer close(gate)
	r.C.Set(func(b *Behavior) {
		b.NoEndBookmark, b.SilentInitial, b.NoBookmarks, b.HoldList = true, true, true, gate
	})
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilEnd(patience)
	events := w.Events()
	if last := events[len(events)-1]; last.Type != "ERROR" || last.Object.Code != http.StatusTooManyRequests ||
		last.Object.Details.RetryAfterSeconds == 0 || w.Fault() != nil {
		t.Errorf("%v, %s", w.Fault(), tell(events))
	}
}

func testEmulated(t *testing.T, change func(*Behavior)) {
	r := NewRig(t)
	r.Fill(3, 3, 3)
	r.C.Set(change)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	same(t, Model{}.Apply(w.Events()), Union(r.Maps()...))
	r.C.Maps.Put("c-live")
	r.A.Maps.Delete("a-1")
	w.Until("model equal", patience, func(events []Event) error { return (Model{}).Apply(events).Equal(Union(r.Maps()...)) })
	once(t, w)
}

func TestT47_a_shard_refuses_initial_events(t *testing.T) {
	begin(t)
	testEmulated(t, func(b *Behavior) { b.RefuseInitial = http.StatusUnprocessableEntity })
}

func TestT47b_a_shard_ignores_initial_events(t *testing.T) {
	begin(t)
	testEmulated(t, func(b *Behavior) { b.IgnoreInitial = true })
}

func TestT49_informers_need_one_request(t *testing.T) {
	begin(t)
	r := NewRig(t)
	for _, f := range r.Shards {
		for n := range 6667 {
			f.Maps.Put(fmt.Sprintf("%s-%d", f.Name, n), Data("v", "0"))
		}
	}
	i := StartInformer(t, r.Rest(), true, ConfigMaps)
	i.Equals(t, 60*time.Second, r.Maps()...)
	if c := i.Counts(); c.WatchLists != 1 || c.Lists != 0 {
		t.Errorf("%s; evictions %v (slow %v)", i, r.Metrics("kintsugi_watch_evictions_total", ""), r.Metrics("kintsugi_watch_evictions_total", `reason="slow"`))
	}
}

func TestT50_writes_during_the_initial_events(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(100, 100, 100)
	for _, f := range r.Shards {
		f.Set(func(b *Behavior) { b.EventPause = 5 * time.Millisecond })
	}
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	for n := range 100 {
		r.Shards[n%3].Maps.Put(fmt.Sprintf("%s-%d", r.Shards[n%3].Name, n%20+1), Data("v", fmt.Sprint("live", n)))
		if n%10 == 0 {
			r.Shards[n%3].Maps.Delete(fmt.Sprintf("%s-%d", r.Shards[n%3].Name, n%7+50))
		}
		time.Sleep(5 * time.Millisecond)
	}
	end := w.UntilSynced(patience).Object.Metadata.ResourceVersion
	w.Until("model equal", patience, func(events []Event) error { return (Model{}).Apply(events).Equal(Union(r.Maps()...)) })
	behind := false
	for _, e := range w.Events() {
		if e.Type == "BOOKMARK" {
			behind = behind || e.Object.End()
			continue
		}
		slot := map[string]int{"a": 0, "b": 1, "c": 2}[e.Object.Marker()]
		if rv := fmt.Sprintf("%020s", e.Object.Metadata.ResourceVersion); behind && e.Type != "ERROR" && rv <= end[15+20*slot:35+20*slot] {
			t.Errorf("%s %s@%s comes behind the end at %s", e.Type, e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion, end)
		}
	}
}

func TestT50b_a_shard_dies_during_its_initial_events(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(5, 5, 40)
	r.C.Set(func(b *Behavior) { b.EventPause = 20 * time.Millisecond })
	i := StartInformer(t, r.Rest(), false, ConfigMaps)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.Until("half of it", patience, func(events []Event) error {
		if len(events) < 20 {
			return fmt.Errorf("%d", len(events))
		}
		return nil
	})
	r.C.Set(func(b *Behavior) { b.EventPause = 0 })
	r.C.Stop()
	for _, e := range w.Objects() {
		if e.Object.Marker() == "c" {
			r.C.Maps.Delete(e.Object.Metadata.Name)
			break
		}
	}
	r.C.Start(t)
	i.Equals(t, 40*time.Second, r.Maps()...)
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.counts.Lists > 0 || i.counts.WatchLists > 4 {
		t.Errorf("%d lists, %d WatchLists, refused %v", i.counts.Lists, i.counts.WatchLists, i.counts.Codes)
	}
}

func TestT105_watchlist_refused(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.watchlist.mode", "refuse"))
	r.Fill(2, 2, 2)
	r.A.Maps.Put("x")
	r.B.Maps.Put("x")
	s, _ := r.All.Refused(t, http.StatusUnprocessableEntity, ConfigMaps.Path()+"?"+newest)
	if len(s.Details.Causes) == 0 || s.Details.Causes[0].Field != "sendInitialEvents" {
		t.Errorf("%+v", s)
	}
	keyed := StartKeyed(t, r.Rest(), ConfigMaps, true)
	keyed.Equals(t, patience, r.Maps()...)
	if c := keyed.Counts(); c.Lists == 0 {
		t.Error(keyed)
	}
	scribbleAll(r, 50)
	keyed.Equals(t, patience, r.Maps()...)
}

// fillBig puts objects of 40 KB on the shards in turn.
func fillBig(r *Rig, count int) {
	big := strings.Repeat("0123456789", 4000)
	for n := range count {
		r.Shards[n%3].Maps.Put(fmt.Sprintf("%s-%d", r.Shards[n%3].Name, n), Data("v", big))
	}
}

func TestT109c_a_slow_client_is_not_a_slow_shard(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.watchlist.silence_ms", 500), Set("aggregation.watchlist.initial_deadline_ms", 1000),
		Set("aggregation.watchlist.give_up_ms", 1500))
	fillBig(r, 300)
	hold := make(chan struct{})
	w := r.Admin(64<<10).Open(t, ConfigMaps.Path()+"?"+newest, hold)
	if w.Status != http.StatusOK {
		t.Fatalf("%d %s", w.Status, w.Refusal)
	}
	time.Sleep(4 * time.Second) // it takes nothing for longer than shards may need
	close(hold)
	w.UntilSynced(patience)
	same(t, Model{}.Apply(w.Events()), Union(r.Maps()...))
	for _, e := range w.Events() {
		if e.Type == "ERROR" {
			t.Errorf("%s", e.Raw)
		}
	}
}

func TestT109_slow_initial_events_hold_up_nobody(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.watchlist.silence_ms", 30_000))
	fillBig(r, 120)
	begin := make(chan struct{})
	slow := r.Admin(64<<10).Open(t, ConfigMaps.Path()+"?"+newest, begin)
	if slow.Status != http.StatusOK {
		t.Fatalf("%d %s", slow.Status, slow.Refusal)
	}
	var group sync.WaitGroup
	others := make([]*Recording, 3)
	for n := range others {
		group.Go(func() { others[n] = r.Admin(0).Open(t, ConfigMaps.Path()+"?"+newest, nil) })
	}
	group.Wait()
	for _, w := range others {
		w.UntilSynced(60 * time.Second)
		w.Close()
	}
	close(begin)
	slow.UntilSynced(60 * time.Second)
	same(t, Model{}.Apply(slow.Events()), Union(r.Maps()...))
}

// manyInitial opens 300 watches over these clients, whose initial events C holds back, and returns the most of them that C
// had to serve at once. All of them end in order.
func manyInitial(t *testing.T, r *Rig, clients []*Client) int {
	t.Helper()
	r.Fill(1, 1, 1)
	gate := make(chan struct{})
	r.C.Set(func(b *Behavior) { b.HoldInitial = gate })
	const many = 300
	var mutex sync.Mutex
	codes := map[int]int{}
	var running []*Recording
	var group sync.WaitGroup
	for n := range many {
		group.Go(func() {
			w := clients[n%len(clients)].Open(t, ConfigMaps.Path()+"?"+newest, nil)
			mutex.Lock()
			defer mutex.Unlock()
			codes[w.Status]++
			if w.Status == http.StatusOK {
				running = append(running, w)
			} else if w.Status == http.StatusTooManyRequests && w.Header.Get("Retry-After") != "1" {
				t.Errorf("%s %s", w.Header, w.Refusal)
			}
		})
	}
	eventually(t, patience, "initial streams", func() error {
		if got := len(r.C.Streams()); got < 1 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	most := 0
	for range 50 {
		most = max(most, len(r.C.Streams()))
		time.Sleep(5 * time.Millisecond)
	}
	close(gate)
	group.Wait()
	for _, w := range running {
		w.UntilSynced(40 * time.Second)
	}
	t.Logf("%v, at most %d at once", codes, most)
	if codes[http.StatusOK] == 0 || codes[http.StatusOK]+codes[http.StatusTooManyRequests] != many {
		t.Errorf("%v", codes)
	}
	return most
}

func TestT109b_many_initial_streams_wait_or_are_refused(t *testing.T) {
	begin(t)
	r := NewRig(t)
	if most := manyInitial(t, r, []*Client{r.Admin(0), r.Admin(0)}); most > 8 {
		t.Errorf("%d initial streams of one identity", most)
	}
}

// The limits are those of the process, however its clients are spread over its loops.
func TestT109d_initial_streams_of_all_loops_count(t *testing.T) {
	begin(t)
	for identities, limit := range map[int]int{1: 8, 3: 16} {
		t.Run(fmt.Sprint(identities), func(t *testing.T) {
			r := NewRig(t, Set("loops", 4))
			var clients []*Client
			for n := range identities {
				pair := r.front.Sign(t, fmt.Sprintf("user-%d", n), []string{"system:masters"}, true, aDay)
				for range 12 / identities {
					clients = append(clients, NewClient(t, r.All.Base, r.serving.Pool(), &pair, 0))
				}
			}
			if most := manyInitial(t, r, clients); most > limit || most < limit/2 {
				t.Errorf("%d initial streams", most)
			}
		})
	}
}

func TestT44b_one_bookmark_at_the_end(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(20, 20, 20)
	for _, accept := range []string{JSON, Proto} {
		w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest, "Accept", accept)
		end := w.UntilSynced(patience)
		time.Sleep(500 * time.Millisecond) // nothing changes
		for _, e := range w.Bookmarks()[1:] {
			t.Errorf("one more %v after the end: %s", e.At.Sub(end.At), e.Raw)
		}
	}
}
