package merge

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// numbers makes cursors sequence numbers although the slots fit into vectors.
func numbers() Option { return Set("aggregation.cursor.mode", "sequence") }

// sequenceOf checks that a cursor is a sequence number.
func sequenceOf(t *testing.T, cursor string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil || n < 1<<44 {
		t.Errorf("cursor %s", short(cursor))
	}
	return n
}

func wide(count int) Option {
	var names []string
	for n := range count {
		names = append(names, fmt.Sprintf("s%02d", n))
	}
	return Names(names...)
}

func TestT107_seventy_shards(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t, wide(70), numbers(), Set("aggregation.watch.bookmark_min_interval_ms", 50))
	for _, f := range r.Shards {
		f.Maps.Put(f.Name+"-1", Data("v", "0"))
	}
	first := r.All.List(t, ConfigMaps.Path())
	second := r.All.List(t, ConfigMaps.Path())
	if first.Metadata.ResourceVersion != second.Metadata.ResourceVersion {
		t.Errorf("unchanged: %s, then %s", first.Metadata.ResourceVersion, second.Metadata.ResourceVersion)
	}
	same(t, ModelOf(first.Items), Union(r.Maps()...))
	at := sequenceOf(t, first.Metadata.ResourceVersion)

	// Pages are of one version, whoever mints between them.
	other := r.All.List(t, Widgets.Path())
	all, each := pages(t, r.All, ConfigMaps.Path(), 11)
	complete(t, all, each, Union(r.Maps()...))
	for _, page := range each {
		if n := sequenceOf(t, page.Metadata.ResourceVersion); n < at {
			t.Errorf("%d after %d", n, at)
		}
	}
	page := r.All.List(t, query(ConfigMaps.Path(), "limit", "11"))
	r.Shards[3].Maps.Put("s03-more")
	later := r.All.List(t, ConfigMaps.Path())
	if sequenceOf(t, later.Metadata.ResourceVersion) <= sequenceOf(t, page.Metadata.ResourceVersion) {
		t.Errorf("%s after %s", later.Metadata.ResourceVersion, page.Metadata.ResourceVersion)
	}
	next := r.All.List(t, query(ConfigMaps.Path(), "limit", "100", "continue", page.Metadata.Continue))
	if next.Metadata.ResourceVersion != page.Metadata.ResourceVersion || len(next.Items) != 59 {
		t.Errorf("%d items at %s, page 0 at %s", len(next.Items), next.Metadata.ResourceVersion, page.Metadata.ResourceVersion)
	}
	again := r.All.List(t, query(ConfigMaps.Path(), "resourceVersion", page.Metadata.ResourceVersion, "resourceVersionMatch", "Exact"))
	if len(again.Items) != 70 {
		t.Errorf("%d items at the page's version", len(again.Items))
	}

	// T13, T51
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	for n := range 40 {
		r.Shards[n].Maps.Put(fmt.Sprint(r.Shards[n].Name, "-", n))
		time.Sleep(10 * time.Millisecond)
	}
	w.UntilObjects(111, patience)
	cursor := w.UntilMarked(patience)
	last := at
	for _, e := range w.Bookmarks() {
		n := sequenceOf(t, e.Object.Metadata.ResourceVersion)
		if n < last {
			t.Errorf("%d after %d", n, last)
		}
		last = n
	}
	w.Close()
	model := Model{}.Apply(w.Events())
	for n := range 100 {
		r.Shards[n%70].Maps.Put(fmt.Sprint("m-", n))
	}
	resumedWatch := r.All.Watch(t, resumed(cursor))
	orderly(t, resumedWatch.UntilObjects(100, patience))
	same(t, model.Apply(resumedWatch.Events()), Union(r.Maps()...))

	// Of another resource, and of nobody.
	gone(t, r.All.Open(t, resumed(other.Metadata.ResourceVersion), nil))
	gone(t, r.All.Open(t, resumed(strconv.FormatUint(last+1<<30, 10)), nil))
	if r.Metrics("kintsugi_cursor_vectors", "") == 0 {
		t.Error("no vectors are counted")
	}
}

func TestT107b_sequence_cursors_are_of_one_process(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t, numbers())
	r.Fill(2, 2, 2)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	sequenceOf(t, cursor)
	p2 := r.Replica()
	p2.All.List(t, ConfigMaps.Path())
	gone(t, p2.All.Open(t, resumed(cursor), nil))
	p2.All.Refused(t, http.StatusGone, query(ConfigMaps.Path(), "resourceVersion", cursor, "resourceVersionMatch", "Exact"))
	r.Restart(false)
	gone(t, r.All.Open(t, resumed(cursor), nil))
	if now := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion; sequenceOf(t, now)>>44 <= sequenceOf(t, cursor)>>44 {
		t.Errorf("%s after a restart, %s before", now, cursor)
	}
}

func TestT107c_a_journal_survives_restarts(t *testing.T) {
	begin(t)
	r := NewRig(t, numbers(), Set("aggregation.cursor.journal", "cursors.journal"), Set("aggregation.cursor.journal_bytes", 1<<17))
	r.Fill(3, 3, 3)
	page := r.All.List(t, query(ConfigMaps.Path(), "limit", "2"))
	list := r.All.List(t, ConfigMaps.Path())
	for n, kill := range []bool{false, true, true} {
		r.Restart(kill)
		name := fmt.Sprint("b-new-", n)
		r.B.Maps.Put(name)
		w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
		w.UntilObjects(n+1, patience)
		w.Close()
	}
	rest := r.All.List(t, query(ConfigMaps.Path(), "limit", "500", "continue", page.Metadata.Continue))
	if len(rest.Items) != 7 || rest.Metadata.ResourceVersion != page.Metadata.ResourceVersion {
		t.Errorf("%d items at %s", len(rest.Items), rest.Metadata.ResourceVersion)
	}
	// What somebody made of the file never keeps the proxy from starting.
	if err := r.process.Stop(); err != nil {
		t.Error(err)
	}
	write(t, r.path("cursors.journal"), []byte(strings.Repeat("garbage", 1000)))
	r.StartProxy()
	r.Ready(-1)
	gone(t, r.All.Open(t, resumed(list.Metadata.ResourceVersion), nil))
}

func TestT107d_native_numbers_that_look_like_cursors(t *testing.T) {
	begin(t)
	r := NewRig(t, numbers(), Set("aggregation.allow_partial", true))
	r.Fill(2, 2, 2)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	w := r.All.Watch(t, resumed(cursor))
	r.A.Maps.Put("a-live")
	w.UntilObjects(1, patience)
	r.C.store.mutex.Lock()
	r.C.store.rv = 1<<44 - 1
	r.C.store.mutex.Unlock()
	r.C.Maps.Put("c-large")
	if answer := r.All.Get(ConfigMaps.Path()); answer.Status == http.StatusOK && answer.Err == nil { // or cut off: its items come last
		t.Errorf("%s", answer)
	}
	s, _ := r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path())
	if len(s.Details.Causes) != 1 || s.Details.Causes[0].Field != "c" {
		t.Errorf("%+v", s)
	}
	r.All.Refused(t, http.StatusServiceUnavailable, query(ConfigMaps.Path(), "limit", "1"))
	if r.Metrics("kintsugi_shard_failures_total", `shard="c",reason="sequence"`) < 2 {
		t.Error("not counted")
	}
	partial := r.All.Get(ConfigMaps.Path()+"?limit=500", "X-Kintsugi-Partial", "true")
	if partial.Status != http.StatusOK || len(partial.Object(t).Items) != 5 || len(partial.Header["Warning"]) != 1 {
		t.Errorf("%s %v", partial, partial.Header)
	}
	r.B.Maps.Put("b-live")
	w.UntilObjects(2, patience)
	for _, e := range w.Objects() {
		if e.Object.Marker() == "c" {
			t.Errorf("%s", tell(w.Objects()))
		}
	}
	if !allAsKcp {
		r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.In()+"/c-large")
	}
}

func TestT107e_versions_in_sequence_mode(t *testing.T) {
	begin(t)
	r := NewRig(t, numbers())
	r.Fill(2, 2, 2)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	vector := "1" + "20" + "000001" + "830422" + strings.Repeat("00000000000000001002", 3)
	for _, one := range []WrongVersion{{"abc", 400}, {"01", 400}, {strings.Repeat("9", 2049), 400}, {vector, 410},
		{"17592186044416", 410}, {"18446744073709551615", 410}, {"99999999999999999999", 410}, {cursor + "0", 410}} {
		for _, path := range []string{query(ConfigMaps.Path(), "resourceVersion", one.Version),
			query(ConfigMaps.Path(), "resourceVersion", one.Version, "resourceVersionMatch", "Exact")} {
			r.All.Refused(t, one.Code, path)
		}
		if one.Code == 410 {
			gone(t, r.All.Open(t, resumed(one.Version), nil))
		} else {
			r.All.Refused(t, one.Code, resumed(one.Version))
		}
	}
	// A shard's own: most recent, but not exact.
	r.All.List(t, query(ConfigMaps.Path(), "resourceVersion", "1001"))
	r.All.Refused(t, http.StatusGone, query(ConfigMaps.Path(), "resourceVersion", "1001", "resourceVersionMatch", "Exact"))
	gone(t, r.All.Open(t, resumed("17592186044415"), nil))
	if allAsKcp {
		return
	}
	if answer := r.All.Get(query(ConfigMaps.In()+"/b-1", "resourceVersion", cursor)); answer.Status != http.StatusOK {
		t.Errorf("%s", answer)
	}
	r.All.Refused(t, http.StatusGone, query(ConfigMaps.In()+"/b-1", "resourceVersion", "17592186044416"))
}

func TestT107f_the_sixty_fifth_shard(t *testing.T) {
	begin(t)
	vectorsOnly(t)
	r := NewRig(t, wide(64))
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	if len(cursor) != 15+64*20 {
		t.Errorf("%d digits", len(cursor))
	}
	i := StartInformer(t, r.Rest(), false, ConfigMaps)
	i.Equals(t, patience, r.Maps()...)
	w := r.All.Watch(t, resumed(cursor))
	d := r.AddFake("s64")
	d.Maps.Put("s64-1")
	r.Join(d)
	w.UntilObjects(1, patience) // goes on: its next cursor is longer
	i.Equals(t, patience, r.Maps()...)
	r.Ready(65)
	if now := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion; len(now) != digits(65) || now[:3] != "114" {
		t.Errorf("%d digits, %s", len(now), now[:3])
	}
	later := r.All.Watch(t, resumed(cursor))
	if e := later.UntilObjects(1, patience)[0]; e.Object.Metadata.Name != "s64-1" {
		t.Errorf("%+v", e)
	}
}

// vectorsOnly skips where everything is run with sequence numbers, or with shards that are like kcp's.
func vectorsOnly(t *testing.T) {
	t.Helper()
	plainOnly(t)
	if os.Getenv("MERGE_CURSOR") == "sequence" {
		t.Skip("of vectors")
	}
}

func TestT107h_cursors_of_seventy_shards_hold_at_another_proxy(t *testing.T) {
	begin(t)
	vectorsOnly(t)
	r, p2 := together(t, wide(70))
	for _, f := range r.Shards {
		f.Maps.Put(f.Name+"-1", Data("v", "0"))
	}
	list := r.All.List(t, ConfigMaps.Path())
	if there := p2.All.List(t, ConfigMaps.Path()); there.Metadata.ResourceVersion != list.Metadata.ResourceVersion {
		t.Errorf("%s at one, %s at the other", short(list.Metadata.ResourceVersion), short(there.Metadata.ResourceVersion))
	}
	page := r.All.List(t, query(ConfigMaps.Path(), "limit", "11"))
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	r.Shards[69].Maps.Put("s69-2")
	w.UntilObjects(1, patience)
	cursor := w.UntilMarked(patience)
	model := ModelOf(list.Items).Apply(w.Events())
	// As long as those of a thousand shards: it comes through, and is nobody's here.
	long := "114" + cursor[3:15] + strings.Repeat("00000000001000", 1000)
	r.All.Refused(t, http.StatusGone, query(ConfigMaps.Path(), "resourceVersion", long))
	gone(t, r.All.Open(t, resumed(long), nil))
	r.process.Kill()

	for n := range 100 {
		r.Shards[n%70].Maps.Put(fmt.Sprint("m-", n))
	}
	next := p2.All.Watch(t, resumed(cursor))
	orderly(t, next.UntilObjects(100, patience))
	same(t, model.Apply(next.Events()), Union(r.Maps()...))
	rest := p2.All.List(t, query(ConfigMaps.Path(), "limit", "500", "continue", page.Metadata.Continue))
	if rest.Metadata.ResourceVersion != page.Metadata.ResourceVersion || len(rest.Items) != 59 {
		t.Errorf("%d items at %s, page 0 at %s", len(rest.Items), short(rest.Metadata.ResourceVersion), short(page.Metadata.ResourceVersion))
	}
	exact := p2.All.List(t, query(ConfigMaps.Path(), "resourceVersion", list.Metadata.ResourceVersion, "resourceVersionMatch", "Exact"))
	if len(exact.Items) != 70 {
		t.Errorf("%d items at the first list's version", len(exact.Items))
	}
}
