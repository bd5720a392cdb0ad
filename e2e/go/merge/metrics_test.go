package merge

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// counted waits until metrics have these values: a name, then what its labels contain.
func counted(t *testing.T, r *Rig, what string, want map[[2]string]float64) {
	t.Helper()
	eventually(t, patience, what, func() error {
		for metric, number := range want {
			if got := r.Metrics("kintsugi_"+metric[0], metric[1]); got != number {
				return fmt.Errorf("%s{%s} is %v, not %v", metric[0], metric[1], got, number)
			}
		}
		return nil
	})
}

// atLeast waits until a metric is there.
func atLeast(t *testing.T, r *Rig, name, labels string, least float64) {
	t.Helper()
	eventually(t, patience, name+" of "+labels, func() error {
		if got := r.Metrics("kintsugi_"+name, labels); got < least {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
}

type series = map[[2]string]float64

func TestT99_metrics_tell_the_faults(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.resync.mode", "expire"))
	r.Fill(2, 2, 2)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	counted(t, r, "all shards are up, one watch runs", series{{"shard_up", ""}: 3, {"watch_streams", `group=""`}: 1,
		{"watch_groups", `group=""`}: 1, {"shard_watch_lag_seconds", ""}: 0, {"watch_queue_bytes", ""}: 0})
	r.A.Stop()
	// Within a second (AGG-1004), give or take what a busy machine needs: three probes fail in no less than ten.
	eventually(t, 5*time.Second, "shard a is down", func() error {
		if a, b := r.Metrics("kintsugi_shard_up", `shard="a"`), r.Metrics("kintsugi_shard_up", `shard="b"`); a != 0 || b != 1 {
			return fmt.Errorf("a %v, b %v", a, b)
		}
		return nil
	})
	eventually(t, 5*time.Second, "a line about it", func() error {
		if text := r.LogTail(); !strings.Contains(text, `"msg":"a shard does not answer","shard":"a"`) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	atLeast(t, r, "shard_watch_lag_seconds", `shard="a"`, 0.5)
	atLeast(t, r, "shard_failures_total", `shard="a"`, 1)
	counted(t, r, "b is not to blame", series{{"shard_failures_total", `shard="b"`}: 0, {"shard_watch_lag_seconds", `shard="b"`}: 0,
		{"resyncs_total", `shard="b"`}: 0})
	r.A.Maps.Put("a-2")
	r.A.Forget()
	r.A.Start(t)
	gone(t, w)
	counted(t, r, "one watch has expired", series{{"cursor_expired_total", `reason="history"`}: 1, {"watch_streams", ""}: 0})
	r.All.Refused(t, http.StatusGone, query(ConfigMaps.Path(), "resourceVersion", "3"+strings.Repeat("7", 70)))
	counted(t, r, "an unknown cursor, and shard a is up", series{{"cursor_expired_total", `reason="check"`}: 1, {"shard_up", ""}: 3})
}

func TestT99b_metrics_count_each_fault_of_a_stream(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	flowing(t, w, r.A, "first")
	for n := range 3 {
		r.A.EndAll([]ending{EndStream, Reset}[n%2])
		flowing(t, w, r.A, fmt.Sprint("again", n))
	}
	counted(t, r, "three streams of a", series{{"resyncs_total", `shard="a",reason="ended"`}: 3, {"resyncs_total", `shard="b"`}: 0,
		{"events_dropped_total", ""}: 0, {"shard_watch_lag_seconds", ""}: 0})
	r.B.TearAll()
	flowing(t, w, r.B, "torn")
	counted(t, r, "half an event of b", series{{"resyncs_total", `shard="b",reason="ended"`}: 1})
	r.C.SendAll([]byte("{\"type\":\"ADDED\",\"object\":[]}\n"))
	flowing(t, w, r.C, "malformed")
	counted(t, r, "what c sent", series{{"events_dropped_total", `shard="c",reason="malformed"`}: 1,
		{"shard_failures_total", `shard="c",reason="malformed"`}: 1, {"events_dropped_total", ""}: 1})
	flowing(t, w, r.B, "replayed1")
	r.B.Set(func(b *Behavior) { b.Replay = 1 })
	r.B.EndAll(EndStream)
	flowing(t, w, r.B, "replayed2")
	counted(t, r, "what b replayed", series{{"events_dropped_total", `shard="b",reason="replayed"`}: 1})
	r.B.Set(func(b *Behavior) { b.Replay = 0 })
	r.A.Stop()
	r.A.Maps.Delete("a-1")
	r.A.Forget()
	r.A.Start(t)
	flowing(t, w, r.A, "compared")
	counted(t, r, "one lost history", series{{"resyncs_total", `reason="history"`}: 1, {"resyncs_total", `shard="a",reason="history"`}: 1,
		{"cursor_expired_total", ""}: 0, {"watch_evictions_total", ""}: 0, {"events_out_of_order_total", ""}: 0})
	r.C.Set(func(b *Behavior) { b.RefuseInitial = http.StatusUnprocessableEntity })
	r.All.Watch(t, Widgets.Path()+"?"+newest).UntilSynced(patience)
	counted(t, r, "initial events of c", series{{"watchlist_emulated_total", ""}: 1, {"watch_streams", ""}: 2,
		{"watchlist_emulated_total", `shard="c",reason="refused"`}: 1, {"watch_streams", `group="example.test"`}: 1})
	if w.Ended() {
		t.Errorf("the watch ended: %v", w.Fault())
	}
	told := len(w.Objects())
	counted(t, r, "each event that was sent", series{{"watch_events_total", `group=""`}: float64(told)})
}

// The farthest behind is ended when too much waits for all clients together (AGG-1203).
func TestT99c_queued_bytes_are_told_and_bounded(t *testing.T) {
	begin(t)
	const limit = 2 << 20
	r := NewRig(t, Set("aggregation.watch.queue_total_bytes", limit), Set("aggregation.watch.queue_high_bytes", 64<<20),
		Set("aggregation.watch.group_log_bytes", 64<<20), Set("aggregation.watch.slow_grace_ms", 1000))
	r.Fill(2, 2, 2)
	path := resumed(r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion)
	fast := r.Admin(0).Watch(t, path)
	goOn := make(chan struct{})
	slow := r.Admin(64<<10).Open(t, path, goOn)
	if slow.Status != http.StatusOK {
		t.Fatalf("%d", slow.Status)
	}
	big := strings.Repeat("z", 16<<10)
	put := func(count int) {
		for n := range count {
			r.Shards[n%3].Maps.Put(fmt.Sprint(r.Shards[n%3].Name, "-", n%30), Data("v", big), Data("n", fmt.Sprint(n)))
		}
	}
	put(60) // a megabyte
	fast.UntilObjects(60, patience)
	atLeast(t, r, "watch_queue_bytes", `group=""`, 256<<10)
	if n := r.Metrics("kintsugi_watch_queue_bytes", ""); n > limit {
		t.Errorf("%v bytes wait", n)
	}
	put(300)
	fast.UntilObjects(360, 40*time.Second)
	counted(t, r, "the slow one is ended", series{{"watch_evictions_total", `reason="memory"`}: 1, {"watch_evictions_total", ""}: 1,
		{"watch_queue_bytes", ""}: 0, {"watch_streams", ""}: 1})
	close(goOn)
	slow.UntilEnd(patience)
	if slow.Fault() != nil {
		t.Errorf("it ended by %v", slow.Fault())
	}
	if fast.Ended() {
		t.Errorf("the fast one ended: %v", fast.Fault())
	}
}

func TestT99d_a_drain_is_counted(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("shutdown.spread_ms", 4000), Set("shutdown.grace_ms", 20_000))
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	for range 20 {
		r.All.Watch(t, resumed(cursor))
	}
	r.Signal(syscall.SIGTERM)
	atLeast(t, r, "watch_evictions_total", `reason="drain"`, 1)
}
