package merge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func statusText(code int, reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`,
		message, reason, code)
}

// refusing answers all reads of collections so.
func (f *Fake) refusing(code int, reason string, pairs ...string) *Intercept {
	header := map[string]string{"Content-Type": JSON}
	for n := 0; n+1 < len(pairs); n += 2 {
		header[pairs[n]] = pairs[n+1]
	}
	return f.Answer(0, code, header, statusText(code, reason, f.Name+" says no"))
}

// AGG-1001: 403 with the caller's identity is the client's (strict), or the shard is left out (partial).
func TestT90w_partial_watches_leave_out_who_forbids(t *testing.T) {
	begin(t)
	r := NewRig(t, PartialPolicy())
	r.Fill(2, 2, 2)
	for _, f := range r.Shards {
		f.Set(func(b *Behavior) {
			b.Deny = func(user string) bool { return user == "u3" || user == "u2" && f.Name == "b" }
		})
	}
	u2, u3 := r.User("u2"), r.User("u3")
	list := u2.List(t, ConfigMaps.Path())
	for n, path := range []string{ConfigMaps.Path() + "?watch=1", ConfigMaps.Path() + "?" + newest} {
		w := u2.Watch(t, path)
		w.UntilObjects(4+n, patience)
		if warnings := strings.Join(w.Header.Values("Warning"), " "); !strings.Contains(warnings, "shard b") {
			t.Errorf("%s: %v", path, w.Header)
		}
		flowing(t, w, r.C, fmt.Sprint("live", n))
		u3.Refused(t, http.StatusForbidden, path)
		w.Close()
	}
	w := u2.Watch(t, resumed(list.Metadata.ResourceVersion))
	flowing(t, w, r.A, "later")
	r.B.Maps.Put("b-hidden")
	flowing(t, w, r.C, "later")
	for _, e := range w.Objects() {
		if e.Object.Marker() == "b" {
			t.Errorf("%s", e.Raw)
		}
	}
	// The right comes: its objects join, as those of a shard that was away.
	r.B.Set(func(b *Behavior) { b.Deny = nil })
	w.Until("b's objects come", 40*time.Second, func([]Event) error {
		var got []string
		for _, e := range w.Objects() {
			if e.Object.Marker() == "b" {
				got = append(got, e.Type+" "+e.Object.Metadata.Name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, []string{"ADDED b-1", "ADDED b-2", "ADDED b-hidden"}) {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
}

// AGG-1001: 401 is the client's where its own token went to the shard.
func TestT67t_a_callers_own_token(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	bearer := NewClient(t, r.All.Base, r.serving.Pool(), nil, 0)
	if answer := bearer.Get(ConfigMaps.Path(), "Authorization", "Bearer mine"); answer.Status != http.StatusOK {
		t.Fatalf("%s", answer)
	}
	defer r.B.refusing(http.StatusUnauthorized, "Unauthorized").Off()
	for _, path := range []string{ConfigMaps.Path(), ConfigMaps.Path() + "?watch=1", ConfigMaps.Path() + "?" + newest} {
		bearer.Refused(t, http.StatusUnauthorized, path, "Authorization", "Bearer mine")
	}
	r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path())
	r.All.Refused(t, http.StatusTooManyRequests, ConfigMaps.Path()+"?watch=1")
}

// AGG-1001: a busy shard at the start of a watch; the longest Retry-After counts.
func TestT67w_busy_shards_at_the_start_of_a_watch(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	defer r.A.refusing(http.StatusTooManyRequests, "TooManyRequests", "Retry-After", "2").Off()
	defer r.B.refusing(http.StatusTooManyRequests, "TooManyRequests", "Retry-After", "7").Off()
	for n, path := range []string{ConfigMaps.Path() + "?watch=1", ConfigMaps.Path() + "?" + newest, ConfigMaps.Path()} {
		if _, answer := r.All.Refused(t, http.StatusTooManyRequests, path); answer.Header.Get("Retry-After") != "7" {
			t.Errorf("%d: %s %v", n, answer, answer.Header)
		}
	}
}

// AGG-1001: strict watches end in order when a shard has been away for max-stall, partial ones never.
func TestT59s_max_stall(t *testing.T) {
	begin(t)
	const stall = 2 * time.Second
	r := NewRig(t, Set("aggregation.watch.max_stall_ms", stall.Milliseconds()), Set("aggregation.allow_partial", true))
	r.Fill(2, 2, 2)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	strict := r.All.Watch(t, resumed(cursor))
	silent := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", cursor))
	partial := r.All.Watch(t, resumed(cursor), "X-Kintsugi-Partial", "true")
	flowing(t, strict, r.A, "before")
	stopped := time.Now()
	r.A.Stop()
	flowing(t, strict, r.B, "meanwhile")
	frozen := strict.UntilMarked(patience)
	strict.UntilEnd(patience)
	silent.UntilEnd(patience)
	for _, w := range []*Recording{strict, silent} {
		if w.Fault() != nil || w.Torn() {
			t.Errorf("%v", w.Fault())
		}
		if d := w.EndedAt().Sub(stopped); d < stall-100*time.Millisecond {
			t.Errorf("after %v", d)
		}
	}
	if events := strict.Events(); events[len(events)-1].Type != "BOOKMARK" {
		t.Errorf("no bookmark at the end: %s", tell(events))
	}
	if len(silent.Bookmarks()) != 0 {
		t.Error("bookmarks unasked")
	}
	if last := strict.Cursor(); last[15:35] != frozen[15:35] {
		t.Errorf("a moves from %s to %s", frozen, last)
	}
	if n := r.Metrics("kintsugi_watch_evictions_total", `reason="stall"`); n != 2 {
		t.Errorf("%v evictions", n)
	}
	flowing(t, partial, r.C, "later")
	if partial.Ended() {
		t.Error(partial.Fault())
	}
	r.A.Maps.Put("a-after")
	r.A.Start(t)
	flowing(t, partial, r.A, "back")
	orderly(t, partial.Objects())
}

// AGG-1001: a request cannot have what the operator does not allow.
func TestT63d_partial_is_the_operators_to_allow(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	r.A.Stop()
	r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path(), "X-Kintsugi-Partial", "true")
	r.All.Refused(t, http.StatusTooManyRequests, resumed(cursor), "X-Kintsugi-Partial", "true")
	for _, e := range r.B.Log(nil) {
		if e.Header.Get("X-Kintsugi-Partial") != "" {
			t.Errorf("a shard is told: %v", e.Header)
		}
	}
}

func TestT63e_partial_on_request_for_watches(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.allow_partial", true))
	r.Fill(2, 2, 2)
	r.A.Stop()
	for _, value := range []string{"", "false", "1x"} {
		r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path(), "X-Kintsugi-Partial", value)
		r.All.Refused(t, http.StatusTooManyRequests, ConfigMaps.Path()+"?"+newest, "X-Kintsugi-Partial", value)
	}
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest, "X-Kintsugi-Partial", "true")
	end := w.UntilSynced(patience)
	if rv := end.Object.Metadata.ResourceVersion; rv[15:35] != strings.Repeat("0", 20) {
		t.Error(rv)
	}
	if !strings.Contains(strings.Join(w.Header.Values("Warning"), " "), "299") {
		t.Errorf("%v", w.Header)
	}
	same(t, Model{}.Apply(w.Events()), Union(r.B.Maps, r.C.Maps))
	r.A.Start(t)
	modelled(t, w, Object{}, r, patience)
}

// AGG-1001: what a shard answers when a running stream is opened again.
func TestT67m_answers_in_the_middle_of_a_watch(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	for _, one := range []struct {
		status int
		reason string
		ends   int // code of the ERROR event; 0: it goes on
	}{
		{500, "InternalError", 0}, {401, "Unauthorized", 0}, {429, "TooManyRequests", 0}, {504, "Timeout", 0},
		{403, "Forbidden", 403}, {400, "BadRequest", 400}, {405, "MethodNotAllowed", 405}, {422, "Invalid", 422},
	} {
		w := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion,
			"allowWatchBookmarks", "1", "labelSelector", fmt.Sprint("!x", one.status)))
		flowing(t, w, r.B, fmt.Sprint("before", one.status))
		fault := r.B.refusing(one.status, one.reason)
		asked := len(r.B.Asked(true))
		r.B.EndAll(EndStream)
		eventually(t, patience, "b is asked again", func() error {
			if len(r.B.Asked(true)) == asked {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		if one.ends == 0 {
			flowing(t, w, r.A, fmt.Sprint("meanwhile", one.status))
			fault.Off()
			flowing(t, w, r.B, fmt.Sprint("after", one.status))
			if w.Ended() {
				t.Errorf("%d: %v", one.status, w.Fault())
			}
			w.Close()
			continue
		}
		w.UntilEnd(patience)
		fault.Off()
		events := w.Events()
		if last := events[len(events)-1]; w.Fault() != nil || last.Type != "ERROR" || last.Object.Code != one.ends ||
			!strings.Contains(last.Object.Message, "b") {
			t.Errorf("%d: %v, %s %s", one.status, w.Fault(), tell(events), last.Raw)
		}
	}
}
