package merge

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"kintsugi.dev/e2e"
)

func resumed(rv string, more ...string) string {
	return query(ConfigMaps.Path(), append([]string{"watch", "1", "allowWatchBookmarks", "true", "resourceVersion", rv}, more...)...)
}

// away follows 9 objects until a bookmark, leaves, and comes back at another client after 100 writes; each has to come once.
func away(t *testing.T, r *Rig, back *Client) *Recording {
	t.Helper()
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	r.B.Maps.Put("b-live")
	w.UntilObjects(10, patience)
	cursor := w.UntilMarked(patience)
	w.Close()
	model := Model{}.Apply(w.Events())
	for n := range 100 {
		r.Shards[n%3].Maps.Put(fmt.Sprint("m-", n))
	}
	again := back.Watch(t, resumed(cursor))
	orderly(t, again.UntilObjects(100, patience))
	same(t, model.Apply(again.Events()), Union(r.Maps()...))
	return again
}

func TestT51_resume_at_a_bookmark(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	away(t, r, r.All)
}

func TestT52_resume_at_an_event(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.watch.group_linger_ms", 30_000))
	r.Fill(3, 3, 3)
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	for n := range 30 {
		r.Shards[n%3].Maps.Put(fmt.Sprint("m-", n))
	}
	w.UntilObjects(30, patience)
	last := w.Objects()[29].Object.Metadata.ResourceVersion
	w.Close()
	model := ModelOf(list.Items).Apply(w.Events())
	for n := range 30 {
		r.Shards[n%3].Maps.Put(fmt.Sprint("n-", n))
	}
	again := r.All.Watch(t, resumed(last))
	again.Until("model equal", patience, func(events []Event) error { return model.Apply(events).Equal(Union(r.Maps()...)) })
	orderly(t, again.Objects())
}

func TestT52b_resume_at_an_event_that_nobody_delivered(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	gone(t, r.All.Open(t, resumed("1002"), nil))
}

func TestT52c_resume_at_a_number_of_two_shards(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.watch.group_linger_ms", 30_000))
	r.A.store.rv = 2000 // as b's first
	r.A.Maps.Put("a-0")
	r.B.Maps.Put("b-0")
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	one := r.A.Maps.Put("a-1")
	w.UntilObjects(1, patience)
	r.C.Maps.Put("c-1")
	w.UntilObjects(2, patience)
	if two := r.B.Maps.Put("b-1"); one != two {
		t.Fatalf("%s and %s", one, two)
	}
	w.UntilObjects(3, patience)
	w.Close()
	model := ModelOf(list.Items).Apply(w.Events()[:1]) // as if the client had seen a's event only
	again := r.All.Watch(t, resumed(one))
	again.Until("model equal", patience, func(events []Event) error { return model.Apply(events).Equal(Union(r.Maps()...)) })
}

func TestT52d_resume_at_an_event_of_a_catch_up_that_was_cut(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	for _, form := range []string{JSON, Proto} {
		list := r.All.List(t, ConfigMaps.Path())
		for n := range 30 {
			r.Shards[n%3].Maps.Put(fmt.Sprint("m-", n), Data("v", form))
		}
		// The group is younger than what is missed: that comes over streams of the client's own.
		live := r.All.Watch(t, resumed(r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion), "Accept", form)
		behind := make(chan struct{})
		r.C.Set(func(b *Behavior) { b.HoldHeaders = behind })
		w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion), "Accept", form)
		w.UntilObjects(20, patience)
		r.A.Maps.Put("a-live", Data("v", form))
		w.UntilObjects(21, patience)
		w.Close()
		live.UntilObjects(1, patience)
		model := ModelOf(list.Items).Apply(w.Events())
		last := w.Objects()[20].Object.Metadata.ResourceVersion
		r.C.Set(func(b *Behavior) { b.HoldHeaders = nil })
		close(behind)
		r.B.Maps.Put("b-live", Data("v", form))
		again := r.All.Open(t, resumed(last), nil, "Accept", form)
		again.Until("410, or no miss", patience, func(events []Event) error {
			if again.Status == http.StatusGone || len(events) > 0 && events[0].Type == "ERROR" && events[0].Object.Code == http.StatusGone {
				return nil
			}
			return model.Apply(events).Equal(Union(r.Maps()...))
		})
		t.Logf("%s: %s", form, tell(again.Events()))
		again.Close()
		live.Close()
	}
}

// crowd is informers and RetryWatchers that follow all shards.
func crowd(t *testing.T, r *Rig, informers, retries int) ([]*Informer, []*Retry) {
	t.Helper()
	var all []*Informer
	var retry []*Retry
	list := r.All.List(t, ConfigMaps.Path())
	for n := range informers {
		all = append(all, StartInformer(t, r.Rest(), n%2 == 0, ConfigMaps))
	}
	for range retries {
		retry = append(retry, StartRetry(t, r.Rest(), list.Metadata.ResourceVersion, ModelOf(list.Items)))
	}
	for _, i := range all {
		i.Equals(t, patience, r.Maps()...)
	}
	return all, retry
}

// writing changes objects of all shards until stopped.
func writing(r *Rig, each time.Duration, more ...*Fake) (stop func()) {
	shards := append(slices.Clone(r.Shards), more...)
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(each):
			}
			f := shards[n%len(shards)]
			if n%11 == 0 {
				f.Maps.Delete(fmt.Sprint(f.Name, "-", n%17))
			} else {
				f.Maps.Put(fmt.Sprint(f.Name, "-", n%17), Data("n", fmt.Sprint(n)))
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
	}
}

func TestT53_an_orderly_restart_lists_nothing(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(5, 5, 5)
	informers, retries := crowd(t, r, 50, 50)
	before := map[*Informer]Counts{}
	for _, i := range informers {
		before[i] = i.Counts()
	}
	stop := writing(r, 10*time.Millisecond)
	r.Restart(false)
	time.Sleep(300 * time.Millisecond) // writes after the restart
	stop()
	for _, i := range informers {
		i.Equals(t, 40*time.Second, r.Maps()...)
		if c := i.Counts(); c.Lists != before[i].Lists || c.WatchLists != before[i].WatchLists {
			t.Errorf("listed again: %s", i)
		}
	}
	for _, w := range retries {
		w.Equals(t, 40*time.Second, r.Maps()...)
	}
}

func TestT53b_a_kill_ends_in_equal_models(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(5, 5, 5)
	informers, _ := crowd(t, r, 50, 0)
	before := 0
	for _, i := range informers {
		before += i.Counts().Taken
	}
	stop := writing(r, 10*time.Millisecond)
	r.Restart(true)
	time.Sleep(300 * time.Millisecond)
	stop()
	for _, i := range informers {
		i.Equals(t, 60*time.Second, r.Maps()...)
	}
	after := 0
	for _, i := range informers {
		after += i.Counts().Taken
	}
	if after-before > len(informers) { // all of them had an event within the last D
		t.Errorf("%d relists of %d informers", after-before, len(informers))
	}
}

// V15.
func TestT55_a_version_older_than_a_history(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	old := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	i := StartInformer(t, r.Rest(), false, ConfigMaps)
	i.Equals(t, patience, r.Maps()...)
	r.C.Maps.Put("c-live")
	r.C.Forget()
	r.C.Maps.Put("c-more")
	gone(t, r.All.Open(t, resumed(old), nil))
	i.Equals(t, patience, r.Maps()...)
}

func TestT56_a_version_of_the_future(t *testing.T) {
	begin(t)
	// Servers wait 3 s for such a revision before they answer.
	r := NewRig(t, Set("aggregation.list.first_byte_ms", 6000))
	r.Fill(2, 2, 2)
	now := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	future := now[:35] + fmt.Sprintf("%020d", r.B.RV()+1_000_000) + now[55:]
	for _, f := range r.Shards {
		f.Set(func(b *Behavior) { b.TooLargeWait = 3 * time.Second })
	}
	for _, path := range []string{query(ConfigMaps.Path(), "resourceVersion", future),
		query(ConfigMaps.Path(), "resourceVersion", future, "resourceVersionMatch", "NotOlderThan")} {
		clock := e2e.StartClock()
		s, answer := r.All.Refused(t, http.StatusGatewayTimeout, path)
		if s.Reason != "Timeout" || s.Details.RetryAfterSeconds != 1 || answer.Header.Get("Retry-After") != "1" ||
			len(s.Details.Causes) == 0 || s.Details.Causes[0].Reason != "ResourceVersionTooLarge" {
			t.Errorf("%s %v", answer, answer.Header)
		}
		if answer.Took < 2500*time.Millisecond || clock.Of(answer.Took) > 8*time.Second {
			t.Errorf("after %v", answer.Took)
		}
	}
	w := r.All.Watch(t, resumed(future))
	r.B.Maps.Put("b-live")
	r.A.Maps.Put("a-live")
	r.C.Maps.Put("c-live")
	w.UntilObjects(2, patience)
	for _, e := range w.Objects() {
		if e.Object.Marker() == "b" {
			t.Errorf("%s", tell(w.Objects()))
		}
	}
}

func TestT56b_initial_events_of_the_future(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	now := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	future := now[:35] + fmt.Sprintf("%020d", r.B.RV()+1_000_000) + now[55:]
	w := r.All.Open(t, ConfigMaps.Path()+"?"+newest+"&resourceVersion="+future, nil)
	var s Object
	if w.Status == http.StatusOK {
		w.UntilEnd(patience)
		if events := w.Events(); len(events) > 0 {
			s = events[len(events)-1].Object
		}
	} else if parsed, err := parse(w.Refusal); err == nil {
		s = parsed
	}
	if s.Details.RetryAfterSeconds != 1 || w.Status != http.StatusOK && w.Header.Get("Retry-After") != "1" {
		t.Errorf("%v %+v", w.Header, s.Details)
	}
	if s.Code != http.StatusGatewayTimeout || len(s.Details.Causes) == 0 || s.Details.Causes[0].Reason != "ResourceVersionTooLarge" {
		t.Errorf("%d %s %s", w.Status, w.Refusal, tell(w.Events()))
	}
}

func versionsOfNobody(t *testing.T, r *Rig) []WrongVersion {
	t.Helper()
	return VersionsOfNobody(r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion, r.All.List(t, Widgets.Path()).Metadata.ResourceVersion)
}

func TestT57g_versions_of_nobody_by_name(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t, Set("aggregation.cursor.future_wait_ms", 200))
	r.Fill(1, 1, 1)
	for _, one := range versionsOfNobody(t, r) {
		r.All.Refused(t, one.Code, query(ConfigMaps.In()+"/a-1", "resourceVersion", one.Version))
	}
}

func TestT57_versions_of_nobody(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.cursor.future_wait_ms", 200))
	r.Fill(1, 1, 1)
	for _, one := range versionsOfNobody(t, r) {
		for what, path := range map[string]string{
			"exact":      query(ConfigMaps.Path(), "resourceVersion", one.Version, "resourceVersionMatch", "Exact"),
			"not older":  query(ConfigMaps.Path(), "resourceVersion", one.Version, "resourceVersionMatch", "NotOlderThan"),
			"plain":      query(ConfigMaps.Path(), "resourceVersion", one.Version),
			"first page": query(ConfigMaps.Path(), "resourceVersion", one.Version, "limit", "1"),
			"initial":    ConfigMaps.Path() + "?" + newest + "&" + query("", "resourceVersion", one.Version)[1:],
			"watch":      query(ConfigMaps.Path(), "watch", "1", "resourceVersion", one.Version),
		} {
			w := r.All.Open(t, path, nil)
			code, text := w.Status, w.Refusal
			if code == http.StatusOK {
				w.Until("an event", patience, func(events []Event) error {
					if len(events) == 0 {
						return fmt.Errorf("none")
					}
					return nil
				})
				code, text = w.Events()[0].Object.Code, w.Events()[0].Raw
			}
			if code != one.Code || what != "watch" && what != "initial" && w.Status != one.Code {
				t.Errorf("%s, %s (%d digits): %d %s", what, short(one.Version), len(one.Version), code, text[:min(len(text), 200)])
			}
			w.cancel()
		}
	}
}

func TestT58_a_shard_was_restored(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(5, 5, 5)
	for n := range 100 {
		r.C.Maps.Put(fmt.Sprint("c-", n%10), Data("n", fmt.Sprint(n)))
	}
	i := StartInformer(t, r.Rest(), false, ConfigMaps)
	i.Equals(t, patience, r.Maps()...)
	w := watching(t, r, ConfigMaps, "allowWatchBookmarks", "true")
	r.C.Maps.Put("c-last")
	w.UntilObjects(1, patience)
	before := w.UntilMarked(patience)
	r.C.Stop()
	r.C.Rollback(60)
	r.C.Maps.Put("c-other")
	r.C.Start(t)
	gone(t, w)
	i.Equals(t, 40*time.Second, r.Maps()...)
	after := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	if after[3:9] <= before[3:9] {
		t.Errorf("generation %s after %s", after[3:9], before[3:9])
	}
	gone(t, r.All.Open(t, resumed(before), nil))
}

func TestT112_an_informer_of_another_installation(t *testing.T) {
	begin(t)
	first, second := NewRig(t), NewRig(t, Names("x", "y", "z"))
	first.Fill(3, 3, 3)
	second.Fill(2, 2, 2)
	old := first.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	gone(t, second.All.Open(t, resumed(old), nil))
	second.All.Refused(t, http.StatusGone, query(ConfigMaps.Path(), "resourceVersion", old, "resourceVersionMatch", "NotOlderThan"))
	gone(t, second.All.Open(t, ConfigMaps.Path()+"?"+newest+"&resourceVersion="+old, nil))
}
