package merge

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fullLoad asks for the load cases in the size and for the time that the specification names (docs/testing.md).
var fullLoad = os.Getenv("KINTSUGI_FULL_LOAD") != ""

// sized is a number of a load case: in a suite, and in the specification where that takes minutes.
func sized(suite, written int) int {
	if fullLoad {
		return written
	}
	return suite
}

// resident is the proxy's memory in KiB.
func (r *Rig) resident() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.process.Pid))
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			return number6(fields[1])
		}
	}
	return 0
}

func TestT79_one_reader_stops_reading(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	list := r.All.List(t, ConfigMaps.Path())
	path := resumed(list.Metadata.ResourceVersion)
	var fast []*Recording
	for range 20 {
		fast = append(fast, r.Admin(0).Watch(t, path))
	}
	stopped := make(chan struct{})
	slow := r.Admin(64<<10).Open(t, path, stopped)
	if slow.Status != http.StatusOK {
		t.Fatalf("%d", slow.Status)
	}
	before := r.resident()
	big := strings.Repeat("z", 16<<10)
	for n := range 320 { // 5 MB
		r.Shards[n%3].Maps.Put(fmt.Sprint(r.Shards[n%3].Name, "-", n%30), Data("v", big), Data("n", fmt.Sprint(n)))
	}
	for _, w := range fast {
		w.UntilObjects(320, 40*time.Second)
		orderly(t, w.Objects())
	}
	eventually(t, patience, "the slow one is counted as evicted", func() error {
		if n := r.Metrics("kintsugi_watch_evictions_total", `reason="slow"`); n != 1 {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
	t.Logf("%d KiB more", r.resident()-before)
	close(stopped)
	slow.UntilEnd(patience)
	if slow.Fault() != nil {
		t.Errorf("it ended by %v", slow.Fault())
	}
	model := ModelOf(list.Items).Apply(slow.Events())
	cursor := slow.Cursor()
	if events := slow.Objects(); cursor == "" && len(events) > 0 {
		cursor = events[len(events)-1].Object.Metadata.ResourceVersion
	}
	again := r.All.Open(t, resumed(cursor), nil)
	if again.Status == http.StatusGone {
		return
	}
	again.Until("no miss, or 410", patience, func(events []Event) error {
		if n := len(events); n > 0 && events[n-1].Object.Code == http.StatusGone {
			return nil
		}
		return model.Apply(events).Equal(Union(r.Maps()...))
	})
	for n, w := range fast {
		if w.Ended() {
			t.Errorf("reader %d ended: %v", n, w.Fault())
		}
	}
}

func TestT82_ten_thousand_updates_of_one_object(t *testing.T) {
	begin(t)
	r := NewRig(t)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	var want []string
	for n := range 10_000 {
		want = append(want, r.B.Maps.Put("b-1", Data("n", fmt.Sprint(n))))
	}
	for n, e := range w.UntilObjects(10_000, 60*time.Second) {
		if e.Object.Metadata.ResourceVersion != want[n] {
			t.Fatalf("event %d is at %s, not %s", n, e.Object.Metadata.ResourceVersion, want[n])
		}
	}
}

func TestT83_large_events(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.watch.queue_high_bytes", 64<<20), Set("aggregation.watch.group_log_bytes", 64<<20))
	r.Fill(1, 1, 1)
	w := r.Admin(0).Watch(t, ConfigMaps.Path()+"?watch=1")
	w.UntilObjects(3, patience)
	other := r.All.Watch(t, Widgets.Path()+"?watch=1")
	for n, size := range []int{1_500_000, 15_000_000} {
		rv := r.A.Maps.Put(fmt.Sprint("a-big", n), Data("v", strings.Repeat("x", size)))
		if events := w.UntilObjects(4+n, 40*time.Second); events[3+n].Object.Metadata.ResourceVersion != rv || len(events[3+n].Object.Data["v"]) != size {
			t.Errorf("%d bytes: %s", size, tell(events))
		}
	}
	r.A.Maps.Put("a-huge", Data("v", strings.Repeat("x", 17_000_000)))
	w.UntilEnd(40 * time.Second)
	events := w.Events()
	last := events[len(events)-1]
	if last.Type != "ERROR" || last.Object.Code != http.StatusInternalServerError || !strings.Contains(last.Object.Message, "a-huge") || w.Fault() != nil {
		t.Errorf("%v, %s", w.Fault(), tell(events))
	}
	r.B.Widgets.Put("b-w")
	other.UntilObjects(1, patience)
	if r.process.Ended() {
		t.Error("the proxy crashed")
	}
}

func TestT85_limits_of_streams(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	for _, f := range r.Shards {
		f.maxStreams.Store(100)
		f.Cut(false)
	}
	r.Ready(3)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	clients := []*Client{r.Admin(0), r.Admin(0), r.Admin(0)}
	var watches []*Recording
	var mutex sync.Mutex
	var group sync.WaitGroup
	for n := range 300 {
		group.Go(func() {
			w := clients[n%3].Open(t, resumed(cursor, "labelSelector", fmt.Sprint("!x", n)), nil)
			mutex.Lock()
			defer mutex.Unlock()
			watches = append(watches, w)
		})
	}
	group.Wait()
	for _, w := range watches {
		if w.Status != http.StatusOK {
			t.Fatalf("%d %s", w.Status, w.Refusal)
		}
	}
	// Writes have connections of their own.
	writer := r.All.At("/clusters/b")
	for n := range 20 {
		body := must([]byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b-w%d"}}`, n)), nil)
		if answer := writer.Do(http.MethodPost, ConfigMaps.In(), body, "Content-Type", JSON); answer.Status != http.StatusCreated {
			t.Fatal(answer)
		}
	}
	for _, w := range watches {
		w.UntilObjects(20, 40*time.Second)
	}
}

func TestT97_an_orderly_end(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("listener.max_streams", 300))
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	clients := []*Client{r.Admin(0), r.Admin(0)}
	var watches []*Recording
	for n := range 500 {
		watches = append(watches, clients[n%2].Watch(t, resumed(cursor)))
	}
	begun := time.Now()
	r.Signal(syscall.SIGTERM)
	for _, w := range watches {
		w.UntilEnd(patience)
		events := w.Events()
		if w.Fault() != nil || len(events) == 0 || events[len(events)-1].Type != "BOOKMARK" {
			t.Fatalf("%v, %s", w.Fault(), tell(events))
		}
	}
	eventually(t, 30*time.Second, "the end of the process", func() error {
		if !r.process.Ended() {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	if answer := r.Admin(0).Get("/version"); answer.Err == nil {
		t.Errorf("somebody answers: %s", answer)
	}
	if err := r.process.Stop(); err != nil {
		t.Errorf("exit: %v", err)
	}
	t.Logf("ended after %v", time.Since(begun))
}
