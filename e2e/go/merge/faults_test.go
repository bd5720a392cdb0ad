package merge

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kintsugi.dev/e2e"
)

// flowing waits until a change of a shard has come through a watch.
func flowing(t *testing.T, w *Recording, f *Fake, what string) {
	t.Helper()
	name := f.Name + "-" + what
	f.Maps.Put(name)
	w.Until(name+" arrives", patience, func(events []Event) error {
		for _, e := range events {
			if e.Object.Metadata.Name == name {
				return nil
			}
		}
		return fmt.Errorf("%s", tell(events))
	})
}

// modelled waits until a watch that began with list has everything.
func modelled(t *testing.T, w *Recording, list Object, r *Rig, deadline time.Duration) {
	t.Helper()
	w.Until("model equal", deadline, func(events []Event) error { return ModelOf(list.Items).Apply(events).Equal(Union(r.Maps()...)) })
}

func TestT59_a_killed_shard_is_caught_up_with(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(5, 5, 5)
	i := StartInformer(t, r.Rest(), true, ConfigMaps)
	i.Equals(t, patience, r.Maps()...)
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	scribbleAll(r, 30)
	r.A.Stop()
	scribbleAll(r, 30)
	flowing(t, w, r.B, "meanwhile")
	flowing(t, w, r.C, "meanwhile")
	r.A.Start(t)
	r.A.Maps.Put("a-after")
	modelled(t, w, list, r, patience)
	orderly(t, w.Objects())
	if w.Ended() {
		t.Error(w.Fault())
	}
	i.Equals(t, patience, r.Maps()...)
	if c := i.Counts(); c.Lists != 0 || c.WatchLists != 1 {
		t.Error(i)
	}
}

func TestT59b_a_replaying_shard(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(5, 5, 5)
	w := watching(t, r, ConfigMaps)
	flowing(t, w, r.A, "1")
	flowing(t, w, r.A, "2")
	// Some servers begin a re-opened watch with what was already sent.
	r.A.Set(func(b *Behavior) { b.Replay = 2 })
	r.A.EndAll(EndStream)
	flowing(t, w, r.A, "3")
	orderly(t, w.Objects())
	w.UntilObjects(3, patience)
}

func TestT60_a_blackholed_shard_is_noticed(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	flowing(t, w, r.A, "before")
	begun := len(r.A.Accepted())
	r.A.Blackhole(true)
	r.A.Maps.Put("a-during")
	flowing(t, w, r.B, "during")
	// 15 s of silence, 15 s without an answer to a PING.
	eventually(t, 45*time.Second, "new connections are tried", func() error {
		if len(r.A.Accepted()) <= begun {
			return fmt.Errorf("%d", begun)
		}
		return nil
	})
	if w.Ended() {
		t.Fatal(w.Fault())
	}
	r.A.Blackhole(false)
	modelled(t, w, list, r, patience)
	orderly(t, w.Objects())
}

func testExpiredShard(t *testing.T, mode string) {
	begin(t)
	r := NewRig(t, Set("aggregation.resync.mode", mode))
	r.Fill(5, 5, 5)
	i := StartInformer(t, r.Rest(), true, ConfigMaps)
	i.Equals(t, patience, r.Maps()...)
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	flowing(t, w, r.A, "before")
	r.A.Stop()
	r.A.Maps.Delete("a-1")
	r.A.Maps.Put("a-2", Data("v", "changed"))
	r.A.Maps.Put("a-new")
	r.A.Maps.Put("a-gone")
	r.A.Maps.Delete("a-gone")
	r.A.Forget()
	r.A.Start(t)
	if mode == "expire" {
		gone(t, w)
	} else {
		list.Items = nil
		modelled(t, w, list, r, patience)
		if w.Ended() {
			t.Error(w.Fault())
		}
		want := []string{"ADDED a-new", "DELETED a-1", "MODIFIED a-2"}
		var got []string
		for _, e := range w.Objects()[16:] {
			got = append(got, e.Type+" "+e.Object.Metadata.Name)
			if e.Object.Marker() != "a" || e.Object.Metadata.ResourceVersion == "" || e.Object.Metadata.UID == "" {
				t.Errorf("%s", e.Raw)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%v, not %v", got, want)
		}
		flowing(t, w, r.A, "after")
	}
	i.Equals(t, 40*time.Second, r.Maps()...)
	if c := i.Counts(); mode == "diff" && (c.WatchLists != 1 || c.Lists != 0) {
		t.Error(i)
	}
}

func TestT61_a_shard_forgot_expire(t *testing.T) { testExpiredShard(t, "expire") }

func TestT61d_a_shard_forgot_diff(t *testing.T) { testExpiredShard(t, "diff") }

// Streams that began at a cursor, and Tables, as kubectl's: what the clients have is listed some time later.
func TestT61c_a_shard_forgot_what_a_cursor_needs(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.resync.index_after_ms", 50))
	r.Fill(5, 5, 5)
	list := r.All.List(t, ConfigMaps.Path())
	have := ModelOf(list.Items)
	watches := map[string]*Recording{}
	for _, accept := range []string{JSON, Proto, TableV1, OnePB} {
		watches[accept] = r.All.Watch(t, resumed(list.Metadata.ResourceVersion), "Accept", accept)
	}
	r.A.Maps.Put("a-early")
	r.A.Maps.Delete("a-3")
	eventually(t, patience, "all objects are known", func() error {
		if got := r.Metrics("kintsugi_key_indexes_listed_total", ""); got != 12 {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	r.A.Maps.Put("a-late")
	for _, w := range watches {
		w.UntilObjects(3, patience)
	}
	r.A.Stop()
	r.A.Maps.Delete("a-1")
	r.A.Maps.Delete("a-early")
	r.A.Maps.Put("a-2", Data("v", "changed"))
	r.A.Maps.Put("a-new")
	r.A.Forget()
	r.A.Start(t)
	for accept, w := range watches {
		eventually(t, patience, accept, func() error {
			var events []Event
			for _, e := range w.Objects() {
				if e.Object.Kind == "Table" {
					if len(e.Object.Rows) != 1 || len(e.Object.Rows[0].Cells) == 0 || e.Object.Rows[0].Cells[0] != e.Row().Metadata.Name {
						t.Fatalf("%s", e.Raw)
					}
					e.Object = e.Row()
				}
				events = append(events, e)
			}
			return have.Apply(events).Equal(Union(r.Maps()...))
		})
		if w.Ended() {
			t.Error(accept, w.Fault())
		}
	}
	flowing(t, watches[JSON], r.A, "after")
}

func downList(t *testing.T, r *Rig) {
	t.Helper()
	clock := e2e.StartClock()
	s, answer := r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path())
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 5 || s.Reason != "ServiceUnavailable" || len(s.Details.Causes) != 1 ||
		s.Details.Causes[0].Field != "a" {
		t.Errorf("%s %v", answer, answer.Header)
	}
	if clock.Of(answer.Took) > 6*time.Second { // first_byte_ms is 2,000
		t.Errorf("after %v", answer.Took)
	}
}

func TestT62_lists_while_a_shard_is_away(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	r.A.Stop()
	downList(t, r)
	r.A.Start(t)
	eventually(t, patience, "back", func() error {
		if answer := r.All.Get(ConfigMaps.Path()); answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	gate := make(chan struct{})
	defer close(gate)
	r.A.Set(func(b *Behavior) { b.HoldList = gate })
	downList(t, r)
}

func TestT62b_a_list_that_stops_in_the_middle(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.list.deadline_ms", 3000))
	r.Fill(2, 2, 2)
	gate := make(chan struct{})
	defer close(gate)
	r.A.Set(func(b *Behavior) { b.HoldBody = gate })
	answer := r.All.Get(ConfigMaps.Path())
	if answer.Status == http.StatusOK && answer.Err == nil {
		t.Errorf("%s", answer)
	}
	if _, err := parse(answer.Body); answer.Status == http.StatusOK && err == nil {
		t.Errorf("the body is valid: %s", answer)
	}
}

func TestT63_partial_list_and_return(t *testing.T) {
	begin(t)
	r := NewRig(t, PartialPolicy())
	r.Fill(2, 2, 2)
	r.A.Stop()
	answer := r.All.Get(ConfigMaps.Path())
	list := answer.Object(t)
	warnings := strings.Join(answer.Header.Values("Warning"), " ")
	if answer.Status != http.StatusOK || !strings.Contains(warnings, "299") || !strings.Contains(warnings, "a") {
		t.Fatalf("%s %v", answer, answer.Header)
	}
	same(t, ModelOf(list.Items), Union(r.B.Maps, r.C.Maps))
	if rv := list.Metadata.ResourceVersion; rv[15:35] != strings.Repeat("0", 20) {
		t.Error(rv)
	}
	counted(t, r, "one list", series{{"list_partial_total", `policy="partial"`}: 1, {"list_partial_total", `policy="request"`}: 0})
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	flowing(t, w, r.B, "meanwhile")
	r.A.Start(t)
	modelled(t, w, list, r, patience)
	for _, e := range w.Objects() {
		if e.Object.Marker() == "a" && e.Type != "ADDED" {
			t.Error(e.Type)
		}
	}
}

func TestT63b_partial_on_request(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.allow_partial", true))
	r.Fill(2, 2, 2)
	r.A.Stop()
	r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path())
	list := r.All.List(t, ConfigMaps.Path(), "X-Kintsugi-Partial", "true")
	same(t, ModelOf(list.Items), Union(r.B.Maps, r.C.Maps))
	counted(t, r, "one list", series{{"list_partial_total", `policy="partial"`}: 0, {"list_partial_total", `policy="request"`}: 1})
}

func TestT63c_partial_watch_starts(t *testing.T) {
	begin(t)
	r := NewRig(t, PartialPolicy())
	r.Fill(2, 2, 2)
	r.A.Stop()
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	same(t, Model{}.Apply(w.Events()), Union(r.B.Maps, r.C.Maps))
	if len(w.Header.Values("Warning")) == 0 {
		t.Error(w.Header)
	}
	r.A.Start(t)
	modelled(t, w, Object{}, r, patience)
	once(t, w)
}

func TestT64_watches_while_a_shard_is_away(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	r.A.Stop()
	for _, path := range []string{resumed(cursor, "labelSelector", "!x"), ConfigMaps.Path() + "?" + newest} {
		s, answer := r.All.Refused(t, http.StatusTooManyRequests, path)
		if answer.Header.Get("Retry-After") == "" || len(s.Details.Causes) != 1 || s.Details.Causes[0].Field != "a" {
			t.Errorf("%s %v", answer, answer.Header)
		}
	}
	var informers []*Informer
	for n := range 20 {
		informers = append(informers, StartInformer(t, r.Rest(), n%2 == 0, ConfigMaps))
	}
	eventually(t, patience, "refusals", func() error {
		for _, i := range informers {
			i.mutex.Lock()
			refused := i.counts.Codes[http.StatusTooManyRequests]
			i.mutex.Unlock()
			if refused < 2 {
				return fmt.Errorf("%s", i.Name)
			}
		}
		return nil
	})
	r.A.Start(t)
	for _, i := range informers {
		i.Equals(t, 60*time.Second, r.Maps()...)
		if c := i.Counts(); c.Lists != 0 {
			t.Error(i)
		}
	}
}

func TestT65_a_list_that_breaks_is_no_list(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(20, 20, 20)
	for _, f := range r.Shards {
		gate := make(chan struct{})
		f.Set(func(b *Behavior) { b.HoldBody = gate })
		done := make(chan Answer)
		go func() { done <- r.All.Get(ConfigMaps.Path()) }()
		eventually(t, patience, "half of the body is on its way", func() error {
			if f.Held() == 0 {
				return fmt.Errorf("not asked")
			}
			return nil
		})
		f.Cut(true)
		answer := <-done
		close(gate)
		if answer.Status == http.StatusOK {
			if _, err := parse(answer.Body); answer.Err == nil || err == nil {
				t.Errorf("%s: %s", f.Name, answer)
			}
		} else if answer.Status != http.StatusServiceUnavailable && answer.Err == nil { // or it is reset before anything was sent
			t.Errorf("%s: %s", f.Name, answer)
		}
		f.Set(func(b *Behavior) { b.HoldBody = nil })
		f.Reset()
	}
	same(t, ModelOf(r.All.List(t, ConfigMaps.Path()).Items), Union(r.Maps()...))
}

func TestT66_a_slow_shard_slows_only_itself(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	r.A.Slow(2 * time.Second)
	r.A.Maps.Put("a-late")
	clock := e2e.StartClock()
	begun := time.Now()
	for n := range 20 {
		flowing(t, w, r.B, fmt.Sprint("x", n))
		flowing(t, w, r.C, fmt.Sprint("x", n))
	}
	took := time.Since(begun)
	for _, e := range w.Objects() {
		if e.Object.Metadata.Name == "a-late" && took < time.Second {
			t.Error("the slow shard is not slow")
		}
	}
	if clock.Of(took) > 10*time.Second {
		t.Errorf("40 events of fast shards took %v", took)
	}
	r.A.Slow(0)
	modelled(t, w, list, r, patience)
}

func TestT67_answers_of_a_shard(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	status := func(code int, reason, message string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
	}
	js := map[string]string{"Content-Type": JSON}
	for _, one := range []struct {
		status      int
		header      map[string]string
		body        string
		list, watch int
	}{
		{403, js, status(403, "Forbidden", "no, not you"), 403, 403},
		{401, js, status(401, "Unauthorized", "who"), 503, 429},
		{500, js, status(500, "InternalError", "broken"), 503, 429},
		{502, map[string]string{"Content-Type": "text/html"}, "<html>", 503, 429},
		{200, map[string]string{"Content-Type": "text/html"}, "<html>", 503, 429},
		{504, js, status(504, "Timeout", "no cause"), 503, 429},
		{400, js, status(400, "BadRequest", "that is wrong"), 400, 400},
		{422, js, status(422, "Invalid", "that is invalid"), 422, 422},
		{405, js, status(405, "MethodNotAllowed", "cannot be done"), 405, 405},
		{415, js, status(415, "UnsupportedMediaType", "in no way"), 415, 415},
	} {
		fault := r.B.Answer(0, one.status, one.header, one.body)
		if s, answer := r.All.Refused(t, one.list, ConfigMaps.Path()); one.list == one.status && !strings.Contains(one.body, s.Message) ||
			one.list == 503 && (answer.Header.Get("Retry-After") == "" || s.Details.Causes[0].Field != "b") {
			t.Errorf("list, %d: %s", one.status, answer)
		}
		r.All.Refused(t, one.watch, ConfigMaps.Path()+"?watch=1&labelSelector="+fmt.Sprintf("!x%d%d", one.status, len(one.body)))
		fault.Off()
	}
}

func TestT67b_a_busy_shard_is_waited_for_once(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.list.first_byte_ms", 6000))
	r.Fill(2, 2, 2)
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`
	header := map[string]string{"Content-Type": JSON, "Retry-After": "1"}
	fault := r.B.Answer(1, http.StatusTooManyRequests, header, body)
	answer := r.All.Get(ConfigMaps.Path())
	if answer.Status != http.StatusOK || answer.Took < 900*time.Millisecond {
		t.Errorf("%s after %v", answer, answer.Took)
	}
	fault.Off()
	r.B.Answer(0, http.StatusTooManyRequests, header, body)
	if _, answer := r.All.Refused(t, http.StatusTooManyRequests, ConfigMaps.Path()); answer.Header.Get("Retry-After") != "1" {
		t.Errorf("%s %v", answer, answer.Header)
	}
}

func TestT68_malformed_events_are_never_forwarded(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	object := func(rv string) string {
		return `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"bad","namespace":"t","uid":"u","annotations":{"kcp.io/cluster":"a"}` + rv + `}}`
	}
	for n, bad := range []string{
		"}}} no JSON\n", `{"type":"ADDED","object":` + "\n" + `]` + "\n", `{"type":"ADDED","object":` + object(``) + "}\n",
		`{"type":"ADDED","object":` + object(`,"resourceVersion":""`) + "}\n", `{"type":"ADDED","object":` + object(`,"resourceVersion":"0"`) + "}\n",
		`{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"bad","namespace":"t","resourceVersion":"1900"}}}` + "\n",
		`{"type":"SURPRISE","object":` + object(`,"resourceVersion":"1900"`) + "}\n",
	} {
		w := watching(t, r, ConfigMaps, "labelSelector", fmt.Sprint("!x", n))
		flowing(t, w, r.A, fmt.Sprint("before", n))
		asked := len(r.A.Asked(true))
		r.A.SendAll([]byte(bad))
		eventually(t, patience, "a's stream is opened again after "+bad, func() error {
			if len(r.A.Asked(true)) == asked {
				return fmt.Errorf("still the same; %s", tell(w.Events()))
			}
			return nil
		})
		flowing(t, w, r.A, fmt.Sprint("after", n))
		flowing(t, w, r.B, fmt.Sprint("after", n))
		orderly(t, w.Objects())
		for _, e := range w.Events() {
			if e.Object.Metadata.Name == "bad" || e.Type == "SURPRISE" {
				t.Errorf("%s came through", e.Raw)
			}
		}
		w.Close()
	}
	if n := r.Metrics("kintsugi_shard_failures_total", `reason="malformed"`); n < 7 {
		t.Errorf("%v malformed events counted", n)
	}
}

func TestT68b_a_truncated_event(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	w := watching(t, r, ConfigMaps)
	flowing(t, w, r.A, "before")
	r.A.TearAll()
	flowing(t, w, r.A, "after")
	orderly(t, w.Objects())
	for _, e := range w.Events() {
		if e.Object.Metadata.Name == "bad" {
			t.Errorf("%s", e.Raw)
		}
	}
}

func TestT68c_decoys_do_not_move_the_cursor(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	w := watching(t, r, ConfigMaps, "allowWatchBookmarks", "true")
	odd := `","metadata":{"resourceVersion":"999"},"resourceVersion":"888"`
	rv := r.A.Maps.Put("a-decoy", Data("v", `{"metadata":{"resourceVersion":"7777"}}`), Annotation("last-applied", `{"resourceVersion":"6666"`+odd),
		func(body map[string]any) {
			body["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "m", "operation": "Update",
				"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:metadata": map[string]any{"f:resourceVersion": map[string]any{}}}}}
		})
	w.UntilObjects(1, patience)
	cursor := w.UntilMarked(patience)
	if cursor[15:35] != fmt.Sprintf("%020s", rv) {
		t.Errorf("%s after %s", cursor, rv)
	}
	// The same key with an escape in it, as some encoders write.
	at, _ := strconv.Atoi(rv)
	r.A.store.mutex.Lock()
	r.A.store.rv++
	r.A.store.mutex.Unlock()
	r.A.SendAll([]byte(fmt.Sprintf(`{"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a-escaped","namespace":"t","uid":"u9",`+
		`"annotations":{"kcp.io/cluster":"a"},"resource\u0056ersion":"%d"}},"type":"ADDED"}`, at+1)))
	w.UntilObjects(2, patience)
	if cursor := w.UntilMarked(patience); cursor[15:35] != fmt.Sprintf("%020d", at+1) {
		t.Errorf("%s after %d", cursor, at+1)
	}
}

func TestT69_ends_of_single_streams(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	custom := r.All.Watch(t, Widgets.Path()+"?watch=1")
	for n, end := range []func(){r.A.Goaway, func() { r.A.EndAll(Reset) }, func() { r.A.EndAll(EndStream) }, func() { r.A.Cut(false) }} {
		end()
		for _, f := range r.Shards {
			flowing(t, w, f, fmt.Sprint("after", n))
			f.Widgets.Put(fmt.Sprint(f.Name, "-w", n))
		}
	}
	modelled(t, w, list, r, patience)
	orderly(t, w.Objects())
	custom.UntilObjects(12, patience)
	if w.Ended() || custom.Ended() {
		t.Error("a watch ended")
	}
}

func TestT70_certificates_of_shards(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	list := r.All.List(t, ConfigMaps.Path())
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	r.A.SetCert(r.serving.Sign(t, "shard-a", nil, false, aDay), r.clients.Pool())
	r.A.Cut(true)
	flowing(t, w, r.A, "rotated")
	r.A.SetCert(r.serving.Sign(t, "shard-a", nil, false, Lifetime{-2 * time.Hour, -time.Hour}), r.clients.Pool())
	r.A.Cut(true)
	flowing(t, w, r.B, "during")
	downList(t, r)
	r.A.Maps.Put("a-during")
	next := NewAuthority(t, "serving 2")
	r.A.SetCert(next.Sign(t, "shard-a", nil, false, aDay), r.clients.Pool())
	write(t, r.path("serving-ca.crt"), append(slices.Clone(r.serving.PEM), next.PEM...))
	if r.Source == "objects" {
		t.Log("the CA of the shards is reloaded")
	}
	modelled(t, w, list, r, patience)
	if w.Ended() {
		t.Error(w.Fault())
	}
}
