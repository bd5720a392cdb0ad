package plain

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/merge"
)

// T31: what the servers tell themselves, with the same versions: that of a deletion too.
func testEveryChange(p *place) {
	p.fill(1)
	w := p.watch(p.cursor())
	own := map[string]*merge.Recording{}
	for _, s := range p.servers {
		own[s.name] = p.direct[s.name].Watch(p.t, p.path("watch", "1", "resourceVersion", p.direct[s.name].List(p.t, p.path()).Metadata.ResourceVersion))
	}
	for _, s := range p.servers {
		p.put(s.name, "new-"+s.name)
		p.put(s.name, "new-"+s.name)
		p.remove(s.name, "new-"+s.name)
	}
	got := map[string][]string{}
	for _, e := range w.UntilObjects(3*len(p.servers), patience) {
		got[p.owner(e.Object)] = append(got[p.owner(e.Object)], e.Type+"@"+e.Object.Metadata.ResourceVersion)
	}
	for _, s := range p.servers {
		var want []string
		for _, e := range own[s.name].UntilObjects(3, patience) {
			want = append(want, e.Type+"@"+e.Object.Metadata.ResourceVersion)
		}
		if fmt.Sprint(got[s.name]) != fmt.Sprint(want) {
			p.t.Errorf("%s: %v, not %v", s.name, got[s.name], want)
		}
	}
}

// writing makes random writes on all servers at once, beside the proxy.
func (p *place) writing(writes int) {
	p.t.Helper()
	var group sync.WaitGroup
	faults := make(chan error, len(p.servers))
	for number, s := range p.servers {
		group.Go(func() {
			random := rand.New(rand.NewSource(int64(number)))
			for n := range writes {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.name, random.Intn(20))},
					Data: map[string]string{"n": fmt.Sprint(n)}}
				maps, err := p.at(s.name, object.Name).CoreV1().ConfigMaps(p.ns), error(nil)
				if random.Intn(4) == 0 {
					err = maps.Delete(context.Background(), object.Name, metav1.DeleteOptions{})
				} else if _, err = maps.Create(context.Background(), object, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
					_, err = maps.Update(context.Background(), object, metav1.UpdateOptions{})
				}
				if err != nil && !apierrors.IsNotFound(err) {
					faults <- fmt.Errorf("%s: %w", s.name, err)
					return
				}
			}
		})
	}
	group.Wait()
	close(faults)
	for err := range faults {
		p.t.Fatal(err)
	}
}

func testManyWrites(p *place) {
	p.fill(3)
	list := p.all.List(p.t, p.path())
	w := p.watch(list.Metadata.ResourceVersion)
	p.writing(100)
	p.follows(w, merge.ModelOf(list.Items), patience)
	p.orderly(w.Objects())
	last := list.Metadata.ResourceVersion // T13, T36
	w.UntilMarked(patience)
	marks := w.Bookmarks()
	for _, e := range marks {
		now := e.Object.Metadata.ResourceVersion
		if len(now) != p.width() || older(now, last) || e.Object.Kind != "ConfigMap" || e.Object.Metadata.Name != "" {
			p.t.Errorf("%s after %s: %s", now, last, e.Raw)
		}
		last = now
	}
	if len(marks) > len(w.Objects())/3 {
		p.t.Errorf("%d bookmarks for %d events", len(marks), len(w.Objects()))
	}
}

// T34, T35: state and then events; no bookmark unasked.
func testStateAndEvents(p *place) {
	p.fill(2)
	count := len(p.union())
	for n, pairs := range [][]string{{"watch", "1"}, {"watch", "1", "resourceVersion", "0"}, {"watch", "1", "allowWatchBookmarks", "false"}} {
		w := p.all.Watch(p.t, p.path(pairs...))
		for _, e := range w.UntilObjects(count, patience) {
			if e.Type != "ADDED" {
				p.t.Errorf("%v: %s", pairs, e.Type)
			}
		}
		p.put("a", fmt.Sprint("live-", n))
		count++
		w.UntilObjects(count, patience)
		if len(w.Bookmarks()) != 0 {
			p.t.Errorf("%v: %d bookmarks", pairs, len(w.Bookmarks()))
		}
		w.Close()
	}
	quiet := p.all.Watch(p.t, p.path("watch", "1", "sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan"))
	quiet.UntilObjects(count, patience)
	p.put("b", "b-more")
	quiet.UntilObjects(count+1, patience)
	if len(quiet.Bookmarks()) != 0 {
		p.t.Errorf("%d bookmarks", len(quiet.Bookmarks()))
	}
}

func testTimeouts(p *place) {
	p.fill(1)
	cursor := p.cursor()
	clock := e2e.StartClock()
	marked := p.watch(cursor, "timeoutSeconds", "3")
	plain := p.all.Watch(p.t, p.path("watch", "1", "resourceVersion", cursor, "timeoutSeconds", "1"))
	for w, seconds := range map[*merge.Recording]time.Duration{marked: 3 * time.Second, plain: time.Second} {
		w.UntilEnd(patience)
		if took := w.EndedAt().Sub(w.Begin); w.Fault() != nil || took < seconds || clock.Of(took) > seconds+2*time.Second {
			p.t.Errorf("ended after %v: %v", took, w.Fault())
		}
	}
	if len(marked.Bookmarks()) == 0 {
		p.t.Error("no bookmark at the end")
	}
}

func testTransitions(p *place) {
	for _, s := range p.servers {
		p.put(s.name, s.name+"-1", "app", "web")
	}
	w := p.watch(p.cursor(), "labelSelector", "app=web")
	for n, s := range p.servers {
		p.put(s.name, s.name+"-1")
		p.put(s.name, s.name+"-1", "app", "web")
		events := w.UntilObjects(2*n+2, patience)
		if events[2*n].Type != "DELETED" || events[2*n+1].Type != "ADDED" || p.owner(events[2*n].Object) != s.name {
			p.t.Errorf("%s: %s %s", s.name, events[2*n].Type, events[2*n+1].Type)
		}
	}
}

// T40, T108: columns once, bookmarks as rows; T41: protobuf and metadata.
func testWatchRepresentations(p *place) {
	p.fill(2)
	count := len(p.union())
	for _, accept := range []string{merge.TableV1, merge.Proto, merge.OnePB, merge.One} {
		w := p.all.Watch(p.t, p.asked(newest), "Accept", accept)
		end := w.UntilSynced(patience)
		name := fmt.Sprintf("live-%d", len(accept))
		for _, s := range p.servers {
			p.put(s.name, name)
		}
		count += len(p.servers)
		w.UntilObjects(count, patience)
		cursor := w.UntilMarked(patience)
		if accept == merge.TableV1 {
			columns := 0
			for _, e := range w.Events() {
				if len(e.Object.Columns) > 0 {
					columns++
				}
				if e.Object.Kind != "Table" || e.Row().Metadata.ResourceVersion == "" {
					p.t.Errorf("%s %s", e.Type, e.Raw)
				}
			}
			if columns != 1 || !end.Row().End() {
				p.t.Errorf("columns in %d events", columns)
			}
			continue
		}
		p.same(accept, merge.Model{}.Apply(w.Events()), p.union())
		wanted, _, _ := strings.Cut(accept, ";")
		if got := w.Header.Get("Content-Type"); !strings.HasPrefix(got, wanted) || wanted == merge.Proto && got != merge.Proto+";stream=watch" {
			p.t.Errorf("%s: %s", accept, got)
		}
		if len(cursor) != p.width() {
			p.t.Errorf("%s: %s", accept, cursor)
		}
	}
}

// T43: by the servers' own count of watches.
func testShared(p *place) {
	p.fill(1)
	cursor := p.cursor()
	settled := func(want int) {
		p.t.Helper()
		e2e.Eventually(p.t, patience, "streams to the servers", func() error {
			for _, s := range p.servers {
				if got := p.streams(s.name); got < 1 || got > want {
					return fmt.Errorf("%d at %s, not %d", got, s.name, want)
				}
			}
			return nil
		})
	}
	var watches []*merge.Recording
	for range 20 {
		watches = append(watches, p.watch(cursor))
	}
	const own = 1 // a server watches configmaps of kube-system itself
	settled(own + 1)
	watches = append(watches, p.watch(cursor, "labelSelector", "app=web"), p.all.Watch(p.t, p.path("watch", "1", "allowWatchBookmarks", "true",
		"resourceVersion", cursor), "Accept", merge.Proto))
	settled(own + 1 + 2)
	for _, s := range p.servers {
		p.put(s.name, s.name+"-live")
	}
	for n, w := range watches {
		if n != 20 { // the one with a selector
			w.UntilObjects(len(p.servers), patience)
		}
	}
	if got := watches[20].Objects(); len(got) != 0 {
		p.t.Errorf("%d events of others", len(got))
	}
}

// T44, T47: one end over servers that can WatchList, that refuse it, and that end it with an ERROR.
func testWatchLists(p *place) {
	p.fill(40)
	for _, s := range p.servers { // T47: what the servers do when asked
		w := p.direct[s.name].Open(p.t, p.asked(newest), nil)
		if s.name == p.noWatchList && w.Status != 422 {
			p.t.Errorf("%s takes WatchLists: %d", s.name, w.Status)
		}
		w.Close()
	}
	w := p.all.Watch(p.t, p.asked(newest))
	end := w.UntilSynced(patience)
	if len(end.Object.Metadata.ResourceVersion) != p.width() || strings.Contains(end.Object.Metadata.ResourceVersion[15:], strings.Repeat("0", 20)) {
		p.t.Errorf("ended at %s", end.Object.Metadata.ResourceVersion)
	}
	p.same("initial events", merge.Model{}.Apply(w.Events()), p.union())
	for _, s := range p.servers {
		p.put(s.name, "live-"+s.name)
	}
	p.follows(w, nil, patience)
	ends := 0
	for n, e := range w.Events() {
		if e.Object.End() {
			ends++
			if n != 40*len(p.servers) {
				p.t.Errorf("the end is event %d", n)
			}
		}
	}
	if ends != 1 {
		p.t.Errorf("%d ends", ends)
	}
	p.orderly(w.Objects())
}

// T50: writes during the initial events.
func testWritesDuringWatchList(p *place) {
	p.fill(20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.writing(60)
	}()
	var all []*merge.Recording
	for range 6 {
		all = append(all, p.all.Watch(p.t, p.asked(newest)))
		time.Sleep(20 * time.Millisecond)
	}
	<-done
	for _, w := range all {
		end := w.UntilSynced(patience)
		p.follows(w, nil, patience)
		events := w.Events()
		at := slices.IndexFunc(events, func(e merge.Event) bool { return e.Object.End() })
		for _, e := range events[at:] {
			if e.Type == "BOOKMARK" {
				continue
			}
			from := p.slot(p.owner(e.Object))
			if part := strings.TrimLeft(end.Object.Metadata.ResourceVersion[from:from+20], "0"); !older(part, e.Object.Metadata.ResourceVersion) {
				p.t.Errorf("%s at %s behind an end at %s", e.Object.Key(), e.Object.Metadata.ResourceVersion, part)
			}
		}
	}
}

// T51: exactly what was missed. T52: from the version of an event, nothing is missed.
func testResume(p *place) {
	p.fill(3)
	w := p.all.Watch(p.t, p.asked(newest))
	w.UntilSynced(patience)
	p.put("b", "b-live")
	w.UntilObjects(len(p.union()), patience)
	cursor := w.UntilMarked(patience)
	w.Close()
	model := merge.Model{}.Apply(w.Events())
	for n := range 24 {
		p.put(p.servers[n%len(p.servers)].name, fmt.Sprint("m-", n))
	}
	again := p.watch(cursor)
	p.orderly(again.UntilObjects(24, patience))
	p.same("resumed", model.Apply(again.Events()), p.union())
	events := again.Objects()
	last := events[len(events)-1].Object.Metadata.ResourceVersion
	for n := range 12 {
		p.put(p.servers[n%len(p.servers)].name, fmt.Sprint("n-", n))
	}
	third := p.watch(last)
	p.follows(third, model.Apply(events), patience)
	gone(p.t, p.all.Open(p.t, p.path("watch", "1", "resourceVersion", "3"), nil))
}

// T56: kube-apiservers wait for a while, embedded shards know at once (AM-029: after at most 3 s).
func testFuture(p *place) {
	p.fill(1)
	now := p.cursor()
	at := p.slot("b")
	future := now[:at] + fmt.Sprintf("%020d", 50_000_000) + now[at+20:]
	clock := e2e.StartClock()
	s, answer := p.all.Refused(p.t, 504, p.path("resourceVersion", future))
	if s.Reason != "Timeout" || s.Details.RetryAfterSeconds != 1 || answer.Header.Get("Retry-After") != "1" || len(s.Details.Causes) == 0 ||
		s.Details.Causes[0].Reason != "ResourceVersionTooLarge" || p.bare && answer.Took < 2*time.Second || clock.Of(answer.Took) > 8*time.Second {
		p.t.Errorf("after %v: %s %v", answer.Took, answer, answer.Header)
	}
	w := p.watch(future)
	p.put("b", "b-live")
	p.put("a", "a-live")
	p.allOf("a", w.UntilObjects(1, patience))
}

// T102: it is the servers' business: an old one ignores it, a new one may select.
func testShardSelectors(p *place) {
	p.fill(4)
	selector := "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
	want, took := merge.Model{}, true
	for _, s := range p.servers {
		answer := p.direct[s.name].Get(p.path("shardSelector", selector))
		if answer.Status != 200 {
			took = false
			continue
		}
		for _, item := range answer.Object(p.t).Items {
			want[p.marker(s, item)+"/"+item.Metadata.Namespace+"/"+item.Metadata.Name] = item.Metadata.ResourceVersion
		}
	}
	answer := p.all.Get(p.path("shardSelector", selector))
	if !took {
		if answer.Status != 400 && answer.Status != 422 {
			p.t.Error(answer)
		}
		return
	}
	p.same("selected", merge.ModelOf(answer.Object(p.t).Items), want)
}

// T32: the headers of a watch without events come at once. T42: one event per message of a WebSocket.
func testQuietAndSockets(p *place) {
	p.fill(1)
	cursor := p.cursor()
	clock := e2e.StartClock()
	quiet := p.watch(cursor)
	if took := clock.Of(quiet.Headers.Sub(quiet.Begin)); took > time.Second {
		p.t.Errorf("headers after %v", took)
	}
	config, err := websocket.NewConfig(fmt.Sprintf("wss://127.0.0.1:%d/clusters/*%s", p.port, p.path("watch", "1", "resourceVersion", cursor)), "https://x")
	if err != nil {
		p.t.Fatal(err)
	}
	config.TlsConfig = &tls.Config{RootCAs: trust(p.t, p.pki), Certificates: []tls.Certificate{load(p.t, p.pki.user).TLS}}
	socket, err := websocket.DialConfig(config)
	if err != nil {
		p.t.Fatal(err)
	}
	defer socket.Close()
	_ = socket.SetDeadline(time.Now().Add(patience))
	seen := map[string]bool{}
	for _, s := range p.servers {
		p.put(s.name, "live-"+s.name)
	}
	for range p.servers {
		var event struct {
			Type   string
			Object merge.Object
		}
		if err := websocket.JSON.Receive(socket, &event); err != nil || event.Type != "ADDED" {
			p.t.Fatalf("%v: %+v", err, event)
		}
		seen[p.owner(event.Object)] = true
	}
	if len(seen) != len(p.servers) {
		p.t.Errorf("events of %v", seen)
	}
}

func watchCases() []aCase {
	return []aCase{
		{"T32_T42_quiet_watches_and_sockets", testQuietAndSockets},
		{"T31_every_change_once_in_order", testEveryChange},
		{"T13_T33_T36_many_writes", testManyWrites},
		{"T34_T35_state_and_then_events", testStateAndEvents},
		{"T37_timeouts", testTimeouts},
		{"T39_selector_transitions", testTransitions},
		{"T40_T41_T108_representations_of_events", testWatchRepresentations},
		{"T43_equal_watches_share_streams", testShared},
		{"T44_T47_one_end_of_initial_events", testWatchLists},
		{"T50_writes_during_initial_events", testWritesDuringWatchList},
		{"T51_T52_resume", testResume},
		{"T56_a_version_of_the_future", testFuture},
		{"T102_shard_selectors", testShardSelectors},
	}
}
