package model

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// ways in which a raw client begins, goes on, and is interrupted.
type habit struct {
	begin     []string // list, pages, zero, watchlist, relist, unset, watch-zero: one of them at random
	resume    []string // cursor, native, once, begin
	bookmarks bool
	timeout   int           // timeoutSeconds, 0: none
	leave     time.Duration // about so often it closes its watch; 0: never
	proxies   []int         // one of them at random
}

// Raw is a client that does nothing for its user: it sees streams as they are.
type Raw struct {
	name, resource string
	selection      Selection
	habit          habit
	world          *World
	random         *rand.Rand
	checker        *Checker
	proxy, from    *Proxy // of the present request, of the last stream
	http           *http.Client
	cursor         string    // the last bookmark's, or the list's
	last           string    // version of the last event of any type
	good           time.Time // since when the client has what it could resume from
	begun          time.Time // of the stream
	synced         bool
	refusal        atomic.Value // the last one, for reports
	counts         map[string]int
}

func newRaw(w *World, name, resource string, s Selection, h habit, seed int64) *Raw {
	return &Raw{name: name, resource: resource, selection: s, habit: h, world: w, random: rand.New(rand.NewSource(seed)),
		checker: newChecker(w, name, resource, s), http: w.Client("admin"), counts: map[string]int{}, good: time.Now()}
}

func (r *Raw) pick(words []string) string { return words[r.random.Intn(len(words))] }

func (r *Raw) path(query url.Values) string {
	if r.selection != Everything {
		query.Set("labelSelector", selectors[r.selection])
	}
	return r.proxy.URL() + "/clusters/*/api/v1/" + r.resource + "?" + query.Encode()
}

// run reads until ctx ends.
func (r *Raw) run(ctx context.Context) {
	for again := true; ctx.Err() == nil; {
		r.proxy = r.world.proxies[r.habit.proxies[r.random.Intn(len(r.habit.proxies))]]
		if again {
			again = !r.beginning(ctx)
		} else {
			again = !r.resuming(ctx)
		}
		if again {
			r.synced = false
			pause(ctx, 100*time.Millisecond)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// beginning gets the present objects; true: there is something to resume from.
func (r *Raw) beginning(ctx context.Context) bool {
	how := r.pick(r.habit.begin)
	r.counts[how]++
	r.good = time.Now()
	query := url.Values{}
	switch how {
	case "list", "zero", "relist", "pages":
		if how == "zero" {
			query.Set("resourceVersion", "0")
		}
		if how == "relist" && r.cursor != "" {
			query.Set("resourceVersion", r.cursor)
		}
		if how == "pages" {
			query.Set("limit", fmt.Sprint(20+r.random.Intn(200)))
		}
		return r.list(ctx, query)
	case "watchlist":
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		if r.cursor != "" && r.random.Intn(2) == 0 {
			query.Set("resourceVersion", r.cursor)
		}
	case "watch-zero":
		query.Set("resourceVersion", "0")
	}
	r.last = ""
	return r.watch(ctx, query, true)
}

func (r *Raw) resuming(ctx context.Context) bool {
	query := url.Values{}
	how := r.pick(r.habit.resume)
	switch {
	case how == "begin":
		return false
	case how == "once" && r.last == r.cursor: // as kubectl: from the list, then never again
		query.Set("resourceVersion", r.cursor)
	case how == "once":
		return false
	case how == "native" && r.last != "":
		if !isCursor(r.last) {
			r.proxy = r.from // only who delivered an event knows where that was
		}
		query.Set("resourceVersion", r.last)
	case r.cursor != "":
		query.Set("resourceVersion", r.cursor)
	default:
		return false
	}
	r.counts["resume "+how]++
	return r.watch(ctx, query, false)
}

// list reads all pages and takes their version as the cursor.
func (r *Raw) list(ctx context.Context, query url.Values) bool {
	var items []Object
	version := ""
	began := time.Now()
	for page := 0; ; page++ {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, r.path(query), nil)
		answer, err := r.http.Do(request)
		if err != nil {
			r.excuse(ctx, "list", err)
			return false
		}
		var list struct {
			Object
			Items []Object `json:"items"`
		}
		err = json.NewDecoder(answer.Body).Decode(&list)
		answer.Body.Close()
		if err != nil {
			// Broken in the middle: a shard went away.
			if answer.StatusCode == http.StatusOK && !isReset(err) && !r.world.disturbedSince(r.proxy.Name, began.Add(-time.Second)) && ctx.Err() == nil {
				r.world.Fail(r.name, "a list was cut off with %v, not reset", err)
			}
			pause(ctx, 200*time.Millisecond)
			return false
		}
		if answer.StatusCode != http.StatusOK {
			r.status(ctx, "list "+query.Encode(), answer, &list.Object, page > 0)
			return false
		}
		if version != "" && version != list.Metadata.ResourceVersion {
			r.world.Fail(r.name, "page %d has version %s, those before %s", page, list.Metadata.ResourceVersion, version)
		}
		version = list.Metadata.ResourceVersion
		items = append(items, list.Items...)
		if list.Metadata.Continue == "" {
			break
		}
		query.Set("continue", list.Metadata.Continue)
		query.Del("resourceVersion")
	}
	for i := range items {
		o := &items[i]
		o.Metadata.Annotations = map[string]string{clusterMark: o.cluster()}
	}
	r.cursor, r.last, r.good, r.synced = version, version, began, true
	r.checker.Saw(step{what: "list", version: version, items: items})
	return true
}

func isReset(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream)
}

// status judges a refusal.
func (r *Raw) status(ctx context.Context, what string, answer *http.Response, said *Object, paging bool) {
	r.counts[fmt.Sprintf("status %d", answer.StatusCode)]++
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		r.refusal.Store(said.Message + " " + said.causes())
		if answer.Header.Get("Retry-After") == "" {
			r.world.Fail(r.name, "%s: %s without Retry-After", what, answer.Status)
		}
		pause(ctx, 300*time.Millisecond)
	case http.StatusGone:
		if !paging {
			r.gone(what, said.Message)
		}
	default:
		r.world.Fail(r.name, "%s: %s: %s", what, answer.Status, said.Message)
		pause(ctx, time.Second)
	}
}

// gone judges a 410.
func (r *Raw) gone(what, message string) {
	native := r.last != r.cursor && !isCursor(r.last)
	since := r.good.Add(-slack)
	if native || r.world.expiredSince("", since) || r.world.removedSince("", since) {
		r.cursor = ""
		return
	}
	r.world.Fail(r.name, "%s: 410 without a reason (%s); cursor %s, last %s, held since %s", what, message, r.cursor, r.last,
		r.good.Format("04:05.000"))
	r.cursor = ""
}

// excuse judges an end that the proxy did not announce.
func (r *Raw) excuse(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	if !r.world.disturbedSince(r.proxy.Name, r.begun.Add(-time.Second)) {
		r.world.Fail(r.name, "%s: %v, and nothing has happened to %s", what, err, r.proxy.Name)
	}
	pause(ctx, 200*time.Millisecond)
}

// watch reads one stream; false: the client has to begin anew.
func (r *Raw) watch(ctx context.Context, query url.Values, initial bool) bool {
	query.Set("watch", "true")
	if r.habit.bookmarks {
		query.Set("allowWatchBookmarks", "true")
	}
	if r.habit.timeout > 0 {
		query.Set("timeoutSeconds", fmt.Sprint(r.habit.timeout))
	}
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	leave := time.Duration(0)
	if r.habit.leave > 0 {
		leave = time.Duration(float64(r.habit.leave) * (0.2 + 1.6*r.random.Float64()))
		time.AfterFunc(leave, cancel)
	}
	r.begun = time.Now()
	request, _ := http.NewRequestWithContext(streaming, http.MethodGet, r.path(query), nil)
	answer, err := r.http.Do(request)
	if err != nil {
		r.excuse(streaming, "watch "+query.Encode(), err)
		return !initial
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		var said Object
		_ = json.NewDecoder(answer.Body).Decode(&said)
		r.status(ctx, "watch "+query.Encode(), answer, &said, false)
		return !initial && answer.StatusCode != http.StatusGone
	}
	r.from = r.proxy
	list := query.Get("sendInitialEvents") == "true"
	r.checker.Saw(step{what: "start", version: query.Get("resourceVersion"), initial: initial, end: list && r.habit.bookmarks})
	if !initial {
		r.last = query.Get("resourceVersion")
	}
	r.synced = !initial
	fine := r.read(streaming, answer, query)
	// Initial events that broke off cannot be resumed; without bookmarks nobody knows where they end.
	return fine && r.synced
}

func (r *Raw) read(ctx context.Context, answer *http.Response, query url.Values) bool {
	decoder := json.NewDecoder(bufio.NewReaderSize(answer.Body, 32<<10))
	last := ""
	for {
		var event watchEvent
		if err := decoder.Decode(&event); err != nil {
			return r.ended(ctx, err, last, query)
		}
		last = event.Type
		o := &event.Object
		switch event.Type {
		case "ERROR":
			r.counts[fmt.Sprintf("error %d", o.Code)]++
			return r.failed(o, query)
		case "BOOKMARK":
			if !r.habit.bookmarks {
				r.world.Fail(r.name, "a bookmark that was not allowed")
			}
			if o.Kind != map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}[r.resource] || o.APIVersion != "v1" {
				r.world.Fail(r.name, "a bookmark of kind %q %q", o.APIVersion, o.Kind)
			}
			end := o.Metadata.Annotations[endMark] == "true"
			r.checker.Saw(step{what: "BOOKMARK", version: o.Metadata.ResourceVersion, end: end})
			r.last = o.Metadata.ResourceVersion
			if end || r.synced || query.Get("sendInitialEvents") == "" {
				r.cursor, r.good, r.synced = r.last, time.Now(), r.synced || end || !pending(r.last)
			}
		case "ADDED", "MODIFIED", "DELETED":
			r.last = o.Metadata.ResourceVersion
			r.checker.Saw(step{what: event.Type, object: *o})
		default:
			r.world.Fail(r.name, "an event of type %q", event.Type)
			return false
		}
	}
}

// pending tells whether a cursor has a shard whose present objects have not all come.
func pending(cursor string) bool {
	vector, err := parseVector(cursor)
	if err != nil {
		return false
	}
	for _, component := range vector.Components {
		if component == begun {
			return true
		}
	}
	return false
}

// failed judges an ERROR event.
func (r *Raw) failed(o *Object, query url.Values) bool {
	switch o.Code {
	case http.StatusGone:
		r.gone("watch "+query.Encode(), o.Message)
	case http.StatusTooManyRequests:
		if query.Get("sendInitialEvents") != "" || r.synced {
			break
		}
		r.world.Fail(r.name, "ERROR 429 on a live watch: %s", o.Message)
	default:
		r.world.Fail(r.name, "watch %s: ERROR %d: %s", query.Encode(), o.Code, o.Message)
	}
	return false
}

// ended judges the end of a stream.
func (r *Raw) ended(ctx context.Context, err error, last string, query url.Values) bool {
	lived := time.Since(r.begun)
	switch {
	case ctx.Err() != nil:
		r.counts["left"]++
	case r.world.disturbedSince(r.proxy.Name, r.begun.Add(-time.Second)):
		r.counts["ended by the proxy's end"]++
	case r.habit.timeout > 0 && errors.Is(err, io.EOF) && lived > time.Duration(r.habit.timeout)*time.Second-500*time.Millisecond:
		r.counts["timeout"]++
		// No cursor would be right while the table without a shard that left is on its way, or a 410.
		since := r.begun.Add(-slack)
		if r.habit.bookmarks && last != "BOOKMARK" && !r.world.removedSince("", since) && !r.world.expiredSince("", since) {
			r.world.Fail(r.name, "timeoutSeconds=%d: the last event was %s", r.habit.timeout, last)
		}
	default:
		r.world.Fail(r.name, "watch %s ended after %v with %v, and nothing has happened to %s", query.Encode(), lived.Round(time.Millisecond),
			err, r.proxy.Name)
	}
	return true
}
