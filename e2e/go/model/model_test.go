package model

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	e2e "kintsugi.dev/e2e"
)

const (
	quietDeadline = 90 * time.Second // the client library waits up to 60 s after many failures
	writePause    = 150 * time.Millisecond
)

// wanted leaves the run out of plain `go test ./...`, unless a length is given.
func wanted(t *testing.T) {
	t.Helper()
	if os.Getenv("KINTSUGI_MODEL_MINUTES") == "" && os.Getenv("KINTSUGI_MODEL_SECONDS") == "" {
		t.Skip("takes minutes: give KINTSUGI_MODEL_MINUTES")
	}
}

func number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// client is whatever watches and can be compared with the shards.
type client interface {
	Behind() (key, text string)
}

type running struct {
	name    string
	client  client
	checker *Checker // nil: informers
	run     func(context.Context)
	counts  map[string]int
	raw     *Raw // nil: informers
}

func (w *World) clients(seed int64) []*running {
	var all []*running
	begin := func(words string) []string { return strings.Fields(words) }
	raw := func(name, resource string, s Selection, h habit) {
		r := newRaw(w, name, resource, s, h, seed+int64(len(all)))
		all = append(all, &running{name, r.checker, r.checker, r.run, r.counts, r})
	}
	p1, p2, both := []int{0}, []int{1}, []int{0, 1}
	every := begin("list pages zero relist watchlist unset watch-zero")
	raw("raw cursor", "configmaps", Everything, habit{begin("watchlist"), begin("cursor"), true, 0, 4 * time.Second, p1})
	raw("raw cursor of secrets", "secrets", Everything, habit{begin("list pages"), begin("cursor"), true, 0, 4 * time.Second, p2})
	raw("raw faithful", "configmaps", Everything, habit{begin("watchlist"), begin("cursor"), true, 0, 0, p1})
	raw("raw faithful of secrets", "secrets", Picked, habit{begin("list"), begin("cursor"), true, 0, 0, p2})
	raw("raw native", "configmaps", OfModel, habit{begin("list watchlist"), begin("native"), true, 0, 3 * time.Second, p1})
	raw("kubectl", "configmaps", Everything, habit{begin("pages"), begin("once"), false, 0, 8 * time.Second, p2})
	raw("raw short", "secrets", OfModel, habit{begin("list zero"), begin("cursor"), true, 3, 0, p1})
	raw("raw replicas", "configmaps", Picked, habit{begin("watchlist list"), begin("cursor"), true, 0, 2 * time.Second, both})
	raw("raw anyhow", "secrets", Everything, habit{every, begin("cursor cursor cursor native begin"), true, 5, 3 * time.Second, both})
	raw("raw without bookmarks", "configmaps", Everything, habit{every, begin("native begin"), false, 0, 5 * time.Second, both})
	informer := func(name, resource string, s Selection, proxy int, typed, watchList bool) {
		i := newInformer(w, w.proxies[proxy], name, resource, s, typed, watchList)
		all = append(all, &running{name, i, nil, i.run, i.counts, nil})
	}
	informer("informer", "configmaps", OfModel, 0, false, true)
	informer("informer typed", "configmaps", OfModel, 1, true, true)
	informer("informer of picked", "configmaps", Picked, 0, false, true)
	informer("informer by list", "configmaps", Everything, 1, false, false)
	informer("informer by list, typed", "configmaps", OfModel, 0, true, false)
	informer("informer of secrets by list", "secrets", Everything, 0, false, false)
	retrier := func(name, resource string, s Selection, proxies []int, fromBookmark bool) {
		r := &Retrier{Raw: newRaw(w, name, resource, s, habit{proxies: proxies, bookmarks: true}, seed+int64(len(all))),
			fromBookmark: fromBookmark}
		all = append(all, &running{name, r.checker, r.checker, r.run, r.counts, r.Raw})
	}
	retrier("retrier from lists", "configmaps", Everything, p1, false)
	retrier("retrier from bookmarks", "configmaps", OfModel, p2, true)
	retrier("retrier of secrets", "secrets", Everything, p1, true)
	retrier("retrier of picked", "secrets", Picked, p2, false)
	return all
}

// TestModel writes on all shards while shards, proxies and the ways between them fail. Every client must see every event
// once and in order, and have what the shards have when all is quiet.
func TestModel(t *testing.T) {
	wanted(t)
	seed := number(t, "KINTSUGI_MODEL_SEED", time.Now().UnixNano()%1_000_000_000)
	length := time.Duration(number(t, "KINTSUGI_MODEL_SECONDS", 60*number(t, "KINTSUGI_MODEL_MINUTES", 1))) * time.Second
	t.Logf("seed %d, %v (again with KINTSUGI_MODEL_SEED=%d)", seed, length, seed)
	fmt.Printf("model: seed %d, %v\n", seed, length)
	klog.SetLogger(logr.Discard())

	base, stopAll := context.WithCancel(context.Background())
	defer stopAll()
	w := start(t, base, 5)
	var names []string
	for _, shard := range w.shards[:len(w.shards)-1] {
		names = append(names, shard.Name)
	}
	faults := script(seed, length, names, os.Getenv("KINTSUGI_MODEL_WITHOUT"))
	journal := &Journal{sent: map[string]bool{}}
	var writers, readers sync.WaitGroup
	quiet := make(chan struct{})
	for number, shard := range w.shards {
		for workspace := range workspacesPerShard {
			writer := newWriter(w, shard, workspace, seed+int64(100*number+workspace), journal)
			writers.Go(func() { writer.run(quiet, writePause) })
		}
	}
	reading, stopReading := context.WithCancel(base)
	defer stopReading()
	clients := w.clients(seed)
	for _, c := range clients {
		readers.Go(func() { c.run(reading) })
	}
	w.begin = time.Now()
	watched, cancel := context.WithCancel(base)
	go w.giveUp(watched, cancel)
	go w.guard(reading)
	weights := w.weigh(reading)
	w.play(watched, faults)
	played := time.Now()
	cancel()
	close(quiet)
	writers.Wait()
	if !w.Failed() {
		w.settle(clients)
	}
	stopReading()
	readers.Wait()
	weights.Check(w, length, played)
	for _, c := range clients {
		if c.checker != nil && !w.Failed() {
			c.checker.End()
		}
	}
	journal.Check(w)
	w.report(t, seed, faults, clients, journal)
}

// guard sees to it that no proxy ends but by a fault.
func (w *World) guard(ctx context.Context) {
	for ctx.Err() == nil {
		for _, proxy := range w.proxies {
			proxy.mutex.Lock()
			process := proxy.process
			proxy.mutex.Unlock()
			w.mutex.Lock()
			away := w.away[proxy.Name]
			w.mutex.Unlock()
			if !away && process.Ended() {
				w.Fail(proxy.Name, "has ended by itself: %v", process.Outcome())
				return
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// giveUp ends the faults a moment after the first failure.
func (w *World) giveUp(ctx context.Context, cancel func()) {
	for ctx.Err() == nil {
		if w.Failed() {
			time.Sleep(time.Second)
			cancel()
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// settle waits until every client has what the shards have.
func (w *World) settle(clients []*running) {
	for _, shard := range w.shards[:len(w.shards)-1] {
		for _, resource := range resources {
			if err := w.finish(shard, resource); err != nil {
				w.Fail("settle", "%v", err)
				return
			}
		}
	}
	clock, told := e2e.StartClock(), false
	for _, c := range clients {
		for began := time.Now(); ; {
			key, text := c.client.Behind()
			if text == "" || w.Failed() {
				if waited := time.Since(began); waited > 10*time.Second && c.raw != nil {
					w.t.Logf("%s: behind for %v of quiet, refused last with %v", c.name, waited.Round(time.Millisecond), c.raw.refusal.Load())
				}
				break
			}
			if !told && time.Since(began) > 15*time.Second {
				told = true
				for _, proxy := range w.proxies {
					streams, err := proxy.Debug(w, "streams")
					w.t.Logf("%s is behind: %s\n%s: %s %v", c.name, text, proxy.Name, streams, err)
				}
			}
			if clock.Spent() > quietDeadline {
				story := ""
				if log := w.truth.Log(w.truth.Owner(clusterOf(key)), "configmaps"); log != nil {
					story = log.History(key)
				}
				if c.checker != nil {
					story = c.checker.story(key)
				}
				w.Fail(c.name, "not the union of the shards %v after quiet: %s\n%s", quietDeadline, text, story)
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	w.t.Logf("all clients equal the union of the shards %v after quiet", clock.Spent().Round(time.Millisecond))
}

func (w *World) report(t *testing.T, seed int64, faults []*fault, clients []*running, journal *Journal) {
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d: %d acknowledged writes, %d uncertain\n", seed, len(journal.acknowledged), journal.uncertain)
	for _, c := range clients {
		fmt.Fprintf(&text, "  %-28s %v", c.name, maps.Clone(c.counts))
		if c.checker != nil {
			fmt.Fprintf(&text, "; %d events, %d bookmarks", c.checker.events, c.checker.marks)
		}
		if i, ok := c.client.(*Informer); ok {
			fmt.Fprintf(&text, "; %d relists", i.relists)
		}
		text.WriteByte('\n')
	}
	t.Log(text.String())
	if !w.Failed() {
		return
	}
	text.Reset()
	for _, failure := range w.failures[:min(len(w.failures), 10)] {
		fmt.Fprintf(&text, "FAILED %s\n", failure)
	}
	fmt.Fprintf(&text, "again with KINTSUGI_MODEL_SEED=%d; the faults that had happened:\n", seed)
	for _, f := range faults {
		if f.happened > 0 {
			fmt.Fprintf(&text, "  %v\n", f)
		}
	}
	t.Errorf("%d failures\n%s", len(w.failures), text.String())
}
