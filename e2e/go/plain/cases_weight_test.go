package plain

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/merge"
)

// many makes ConfigMaps of a size on a server, several at once.
func (p *place) many(server string, count, size int) {
	p.t.Helper()
	var group sync.WaitGroup
	var failed atomic.Value
	work := make(chan int)
	for range 8 {
		group.Go(func() {
			for n := range work {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%s-%d", server, n)},
					Data: map[string]string{"x": strings.Repeat("x", size)}}
				maps := p.at(server, object.Name).CoreV1().ConfigMaps(p.ns)
				if _, err := maps.Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
					failed.Store(err)
				}
			}
		})
	}
	for n := range count {
		work <- n
	}
	close(work)
	group.Wait()
	if err := failed.Load(); err != nil {
		p.t.Fatalf("%s: %v", server, err)
	}
}

// resident memory of the proxy, in KiB.
func (p *place) resident() (kib int) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.proxy.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	_, _ = fmt.Sscan(rest, &kib)
	return kib
}

// T22: a list of 48 MB goes through, and does not stay.
func testHeavyList(p *place) {
	const each, size = 60, 200_000
	for _, s := range p.servers {
		p.many(s.name, each, size)
	}
	want := p.union()
	before := p.resident()
	p.same("one page", merge.ModelOf(p.all.List(p.t, p.path()).Items), want)
	all, _ := pages(p, 50)
	p.same("pages", merge.ModelOf(all), want)
	if after := p.resident(); after-before > 32*1024 || len(want) != each*len(p.servers) {
		p.t.Errorf("%d objects, memory %d KiB, then %d", len(want), before, after)
	}
}

// T65: a server dies while its items are on the way: the list is torn, not closed.
func testTornList(p *place) {
	p.put("a", "a-1")
	p.many("b", 16, 900_000)
	config := p.config("*")
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := client.Get(config.Host + p.path())
	if err != nil || answer.StatusCode != http.StatusOK {
		p.t.Fatalf("%v %v", answer, err)
	}
	defer answer.Body.Close()
	b := p.server("b")
	b.kill()
	body, err := io.ReadAll(answer.Body)
	if err == nil || json.Valid(body) {
		p.t.Errorf("%d bytes end with %v", len(body), err)
	}
	b.again(p.t)
	e2e.Eventually(p.t, patience, "b is listed again", func() error {
		if again := p.all.Get(p.path()); again.Status != http.StatusOK || again.Err != nil {
			return fmt.Errorf("%d %v", again.Status, again.Err)
		}
		return nil
	})
}

// T82: all changes of one object, in order.
func testOneHotObject(p *place) {
	const changes = 500
	p.put("b", "hot")
	w := p.watch(p.cursor())
	last := ""
	for range changes {
		last = p.put("b", "hot")
	}
	events := w.UntilObjects(changes, 2*patience)
	p.orderly(events)
	for _, e := range events {
		if e.Type != "MODIFIED" {
			p.t.Errorf("%s %s", e.Type, e.Object.Metadata.ResourceVersion)
		}
	}
	if got := events[len(events)-1].Object.Metadata.ResourceVersion; len(events) != changes || got != last {
		p.t.Errorf("%d events, the last at %s, not %s", len(events), got, last)
	}
}

// T83: events as large as servers have them. Where stores are protobuf, JSON writes a byte of them as six.
func testLargeEvents(p *place) {
	size := 240_000
	if p.bare {
		size = 900_000
	}
	p.fill(1)
	w := p.watch(p.cursor())
	for n, s := range p.servers {
		client := e2e.Typed(p.t, e2e.ProtobufOnly(s.config(s.home("large").prefix)))
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"x": strings.Repeat("\x01", size)}}
		if _, err := client.CoreV1().ConfigMaps(p.ns).Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
			p.t.Fatalf("%s: %v", s.name, err)
		}
		p.put(s.name, "small")
		w.UntilObjects(2*(n+1), patience) // two of them that wait for a reader would be too much (AGG-1201)
	}
	p.follows(w, p.union(), patience)
	if events := w.UntilObjects(2*len(p.servers), patience); len(events[0].Raw) < 6*size {
		p.t.Errorf("an event of %d bytes", len(events[0].Raw))
	}
	if w.Ended() {
		p.t.Error(w.Fault())
	}
}

// T81: many watchers of many events.
func testManyWatchers(p *place) {
	p.fill(1)
	list := p.all.List(p.t, p.path())
	var watches []*merge.Recording
	for range 20 {
		watches = append(watches, p.watch(list.Metadata.ResourceVersion))
	}
	for _, s := range p.servers {
		p.many(s.name, 100, 512)
	}
	want := p.union()
	for _, w := range watches {
		p.orderly(w.UntilObjects(100*len(p.servers), 2*patience))
		p.same("a watcher", merge.ModelOf(list.Items).Apply(w.Events()), want)
	}
}

// T109: many clients begin at once: each gets all, or is asked to come again.
func testManyStarts(p *place) {
	p.fill(3)
	want := len(p.union())
	var group sync.WaitGroup
	var whole, later atomic.Int64
	for range 150 {
		group.Go(func() {
			switch answer := p.all.Get(p.asked(newest + "&timeoutSeconds=2")); {
			case answer.Status == http.StatusTooManyRequests && answer.Header.Get("Retry-After") != "":
				later.Add(1)
			case answer.Status != http.StatusOK || strings.Count(string(answer.Body), `"type":"ADDED"`) != want ||
				strings.Count(string(answer.Body), `"k8s.io/initial-events-end":"true"`) != 1:
				p.t.Errorf("%d, %d bytes", answer.Status, len(answer.Body))
			default:
				whole.Add(1)
			}
		})
	}
	group.Wait()
	if whole.Load() < 16 {
		p.t.Errorf("%d got all, %d have to come again", whole.Load(), later.Load())
	}
}

// T85: more different watches than one connection to a server takes, and still writes and lists.
func testManyQuestions(p *place) {
	p.fill(1)
	cursor := p.cursor()
	var watches []*merge.Recording
	for n := range 120 {
		watches = append(watches, p.watch(cursor, "labelSelector", fmt.Sprint("n=", n)))
	}
	for n := range watches {
		p.put(p.servers[n%len(p.servers)].name, fmt.Sprint("of-", n), "n", fmt.Sprint(n))
	}
	p.same("a list meanwhile", merge.ModelOf(p.all.List(p.t, p.path()).Items), p.union())
	for n, w := range watches {
		if events := w.UntilObjects(1, patience); len(events) != 1 || events[0].Object.Metadata.Name != fmt.Sprint("of-", n) {
			p.t.Errorf("watch %d: %d events", n, len(events))
		}
		w.Close()
	}
}

// T98: a configuration is read again and again while clients read, write and watch.
func testReloads(p *place) {
	p.fill(2)
	var watches []*merge.Recording
	for range 10 {
		watches = append(watches, p.watch(p.cursor()))
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	var asked atomic.Int64
	for range 4 {
		group.Go(func() {
			client := p.client(p.t, "*")
			for {
				select {
				case <-stop:
					return
				default:
				}
				if answer := client.Get(p.path()); answer.Status != http.StatusOK || answer.Err != nil {
					p.t.Errorf("%s", answer)
					return
				}
				asked.Add(1)
			}
		})
	}
	for n := range 20 {
		p.configure()
		p.signal(syscall.SIGHUP)
		p.put(p.servers[n%len(p.servers)].name, fmt.Sprint("live-", n))
	}
	for _, w := range watches {
		if events := w.UntilObjects(20, patience); w.Ended() || len(events) != 20 {
			p.t.Errorf("%d events, %v", len(events), w.Fault())
		}
	}
	close(stop)
	group.Wait()
	if asked.Load() < 20 {
		p.t.Errorf("only %d lists", asked.Load())
	}
}

func weightCases() []aCase {
	return []aCase{
		{"T22_a_heavy_list", testHeavyList},
		{"T65_a_torn_list", testTornList},
		{"T81_many_watchers", testManyWatchers},
		{"T82_one_hot_object", testOneHotObject},
		{"T83_large_events", testLargeEvents},
		{"T85_many_questions", testManyQuestions},
		{"T98_reloads", testReloads},
		{"T109_many_starts", testManyStarts},
	}
}
