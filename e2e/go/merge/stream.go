package merge

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// How a Fake ends one of its streams.
type ending int

const (
	EndStream ending = iota // END_STREAM
	Reset                   // RST_STREAM
)

// Stream is a watch that a Fake serves.
type Stream struct {
	Resource Resource
	User     string
	Query    string
	Accept   string
	Proto    bool // is written in protobuf
	send     chan sent
	end      chan ending
	gone     chan struct{}
}

// sent are bytes that a test puts into a stream.
type sent struct {
	text []byte
	last bool // END_STREAM behind them
}

// Send writes bytes into the stream as they are.
func (s *Stream) Send(text []byte) {
	select {
	case s.send <- sent{text: text}:
	case <-s.gone:
	}
}

// End ends the stream.
func (s *Stream) End(how ending) {
	select {
	case s.end <- how:
	case <-s.gone:
	}
}

// SendAll writes bytes into all watches that run now.
func (f *Fake) SendAll(text []byte) {
	for _, s := range f.Streams() {
		s.Send(text)
	}
}

// TearAll sends half of an event into all watches that run now, and ends them.
func (f *Fake) TearAll() {
	for _, s := range f.Streams() {
		half := []byte(`{"type":"ADDED","object":{"kind":`)
		if s.Proto {
			half = []byte{0, 0, 0, 99, 10, 5, 'A', 'D'}
		}
		select {
		case s.send <- sent{half, true}:
		case <-s.gone:
		}
	}
}

// EndAll ends all watches that run now.
func (f *Fake) EndAll(how ending) {
	for _, s := range f.Streams() {
		s.End(how)
	}
}

// watcher writes one watch.
type watcher struct {
	fake     *Fake
	w        http.ResponseWriter
	r        *http.Request
	resource Resource
	m        media
	q        question
	is       Behavior
	stream   *Stream
	out      bytes.Buffer
	first    bool
	headers  bool
}

func (w *watcher) event(kind string, object []byte) { w.out.Write(frame(kind, object, w.m)) }

func (w *watcher) object(kind string, r *record) {
	w.event(kind, encodeOne(r, w.resource, w.m, w.first, w.is.ExtraColumn))
	w.first = false
}

func (w *watcher) bookmark(rv uint64, end bool) {
	w.event("BOOKMARK", encodeBookmark(rv, end, w.resource, w.m, w.first, w.is.ExtraColumn))
	w.first = false
}

func (w *watcher) flush() {
	if !w.headers {
		w.headers = true
		w.w.Header().Set("Content-Type", w.m.contentType(true))
		if w.is.GzipWatch {
			w.w.Header().Set("Content-Encoding", "gzip")
		}
		w.w.WriteHeader(http.StatusOK)
	}
	if w.out.Len() > 0 {
		if w.is.GzipWatch {
			zip := gzip.NewWriter(w.w)
			_, _ = zip.Write(w.out.Bytes())
			_ = zip.Close()
		} else {
			_, _ = w.w.Write(w.out.Bytes())
		}
		w.out.Reset()
	}
	w.w.(http.Flusher).Flush()
}

// change turns a change into what the selectors let through.
func (w *watcher) change(one change) {
	was := one.before != nil && w.q.matches(one.before)
	is := one.event != "DELETED" && w.q.matches(one.after)
	switch {
	case is && was:
		w.object("MODIFIED", one.after)
	case is:
		w.object("ADDED", one.after)
	case was && one.event == "DELETED":
		w.object("DELETED", one.after)
	case was: // left the selection: the old object with the new revision
		body := deepCopy(one.before.body)
		body["metadata"].(map[string]any)["resourceVersion"] = strconv.FormatUint(one.rv, 10)
		w.object("DELETED", &record{key: one.before.key, name: one.before.name, namespace: one.before.namespace, uid: one.before.uid,
			rv: one.rv, labels: one.before.labels, body: body, cluster: one.before.cluster})
	}
}

func (f *Fake) watch(w http.ResponseWriter, r *http.Request, shelf *Shelf, m media, q question) {
	is := f.is()
	if q.initialSet && is.RefuseInitial != 0 {
		s := invalid("sendInitialEvents", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
		s.Code = int32(is.RefuseInitial)
		answerStatus(w, s)
		return
	}
	if q.initialSet && q.match != "NotOlderThan" {
		answerStatus(w, invalid("resourceVersionMatch", "must be NotOlderThan with sendInitialEvents"))
		return
	}
	if is.IgnoreInitial {
		q.initial, q.initialSet = false, false
	}
	var rv uint64
	if q.rv != "" && q.rv != "0" {
		var err error
		if rv, err = strconv.ParseUint(q.rv, 10, 64); err != nil {
			answerStatus(w, badRequest("invalid resource version"))
			return
		}
	}
	if !q.initialSet && rv > is.Replay {
		rv -= is.Replay
	}
	if !hold(r, is.HoldHeaders) {
		return
	}
	stream := &Stream{Resource: shelf.resource, User: r.Header.Get("X-Remote-User"), Query: r.URL.RawQuery,
		Accept: r.Header.Get("Accept"), Proto: m.proto, send: make(chan sent), end: make(chan ending), gone: make(chan struct{})}
	f.mutex.Lock()
	f.streams[stream] = true
	f.mutex.Unlock()
	defer func() {
		close(stream.gone)
		f.mutex.Lock()
		delete(f.streams, stream)
		f.mutex.Unlock()
	}()
	one := &watcher{fake: f, w: w, r: r, resource: shelf.resource, m: m, q: q, is: is, stream: stream, first: true}
	one.flush()
	if q.initial || rv == 0 && !q.initialSet {
		var ok bool
		if rv, ok = one.initial(rv); !ok {
			return
		}
	} else if q.initialSet && rv == 0 { // sendInitialEvents=false from the newest state
		rv = f.store.revision()
	}
	one.follow(rv)
}

// initial sends the present objects; false if the stream ended before.
func (w *watcher) initial(atLeast uint64) (uint64, bool) {
	if !hold(w.r, w.is.HoldInitial) {
		return 0, false
	}
	now := w.fake.store.revision()
	all, _ := w.fake.store.at(w.resource.Plural, now)
	if !(w.q.initial && w.is.SilentInitial) {
		for _, r := range all {
			if !w.q.matches(r) {
				continue
			}
			w.object("ADDED", r)
			if w.is.EventPause > 0 {
				w.flush()
				if !w.pause(w.is.EventPause) {
					return 0, false
				}
			} else if w.out.Len() > 64<<10 {
				w.flush()
			}
		}
	}
	// A state of the future never ends.
	if w.q.initial && w.q.bookmarks && !w.is.NoEndBookmark && now >= atLeast {
		w.bookmark(now, true)
	}
	w.flush()
	return now, true
}

func (w *watcher) pause(d time.Duration) bool {
	select {
	case how := <-w.stream.end:
		return w.ended(how)
	case <-w.r.Context().Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (w *watcher) ended(how ending) bool {
	if how == Reset {
		panic(http.ErrAbortHandler)
	}
	return false
}

// follow sends changes after a revision until something ends the stream.
func (w *watcher) follow(rv uint64) {
	every := w.is.BookmarkEvery
	if every == 0 {
		every = 200 * time.Millisecond
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var timeout <-chan time.Time
	if w.q.timeout > 0 {
		timeout = time.After(w.q.timeout)
	}
	marked := rv
	for {
		changes, now, wake, ok := w.fake.store.since(w.resource.Plural, rv)
		if !ok {
			s := expired("too old resource version") // never a Table, but protobuf where that was asked for
			text := must(json.Marshal(s))
			if w.m.proto {
				text = encodeProto(s)
			}
			w.event("ERROR", text)
			w.flush()
			return
		}
		for _, one := range changes {
			w.change(one)
			if w.out.Len() > 64<<10 {
				w.flush()
			}
		}
		rv = max(rv, now)
		if w.out.Len() > 0 {
			w.flush()
		}
		select {
		case <-wake:
		case <-ticks.C:
			if is := w.fake.is(); w.q.bookmarks && !is.NoBookmarks && rv >= marked {
				w.bookmark(rv, false)
				marked = rv
				w.flush()
			}
		case more := <-w.stream.send:
			w.out.Write(more.text)
			w.flush()
			if more.last {
				return
			}
		case how := <-w.stream.end:
			w.ended(how)
			return
		case <-timeout:
			return
		case <-w.r.Context().Done():
			return
		}
	}
}

// nothing answers lists and watches of kinds that a Fake does not have: always empty.
func (f *Fake) nothing(w http.ResponseWriter, r *http.Request, e Entry) {
	if !e.Watch() {
		answerJSON(w, http.StatusOK, map[string]any{"kind": "List", "apiVersion": "v1", "items": []any{},
			"metadata": map[string]any{"resourceVersion": strconv.FormatUint(f.store.revision(), 10)}})
		return
	}
	q, wrong := ask(e, "")
	if wrong != nil {
		answerStatus(w, wrong)
		return
	}
	w.Header().Set("Content-Type", JSON)
	w.WriteHeader(http.StatusOK)
	mark := func(end bool) {
		meta := map[string]any{"resourceVersion": strconv.FormatUint(f.store.revision(), 10)}
		if end {
			meta["annotations"] = map[string]any{"k8s.io/initial-events-end": "true"}
		}
		_, _ = w.Write(frame("BOOKMARK", must(json.Marshal(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": meta})), media{}))
		w.(http.Flusher).Flush()
	}
	if q.initial {
		mark(true)
	}
	w.(http.Flusher).Flush()
	ticks := time.NewTicker(5 * time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticks.C:
			mark(false)
		}
	}
}

// selects is the answer of a Fake to a label selector, for tests that compare.
func (s *Shelf) selects(selector string) Model {
	parsed, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	st := s.fake.store
	st.mutex.Lock()
	defer st.mutex.Unlock()
	out := Model{}
	for key, r := range st.collections[s.resource.Plural].live {
		if parsed.Matches(labels.Set(r.labels)) {
			out[s.fake.Name+"/"+key] = strconv.FormatUint(r.rv, 10)
		}
	}
	return out
}
