package growing

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	e2e "kintsugi.dev/e2e"
)

const insideMark = "KINTSUGI_GROWING_INSIDE"

// TestGR_901_NothingIsLostOnTheWay runs itself again in namespaces of its own: nothing outlives it there.
func TestGR_901_NothingIsLostOnTheWay(t *testing.T) {
	seconds, _ := strconv.Atoi(os.Getenv("KINTSUGI_GROWING_SECONDS"))
	if seconds == 0 {
		t.Skip("takes minutes: give KINTSUGI_GROWING_SECONDS")
	}
	if os.Getenv(insideMark) != "" {
		run(t, time.Duration(seconds)*time.Second)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	for _, program := range []string{"etcd", "ip", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine", program)
		}
	}
	if out, err := exec.Command("unshare", "-n", "-m", "ip", "link", "add", bridge, "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("no bridges in namespaces here: %s", out)
	}
	again := exec.Command("unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc", os.Args[0], "-test.v", "-test.count=1",
		"-test.timeout=0", "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), insideMark+"=1")
	out, err := again.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	again.Stderr = again.Stdout
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	text := bufio.NewScanner(out)
	text.Buffer(nil, 1<<24)
	for text.Scan() {
		fmt.Println("    inside: " + text.Text())
	}
	if err := again.Wait(); err != nil {
		t.Errorf("inside the namespaces: %v", err)
	}
}

// run plays faults (GR-902) over clients for so long, heals everything, and checks what they saw.
func run(t *testing.T, length time.Duration) {
	seed := time.Now().UnixNano() % 1_000_000_000
	if wished, err := strconv.ParseInt(os.Getenv("KINTSUGI_GROWING_SEED"), 10, 64); err == nil {
		seed = wished
	}
	t.Logf("seed %d, %v (again with KINTSUGI_GROWING_SEED=%d)", seed, length, seed)
	w := start(t)
	w.fill(2)
	t.Logf("up after %v, clusters %v", w.now().Round(time.Millisecond), w.clusters)
	l := &Workload{w: w, book: &Book{}, refused: map[string]int{}}
	watchers := l.watchers(seed)
	var everybody, busy sync.WaitGroup
	whole, finish := context.WithCancel(context.Background())
	defer finish()
	for _, one := range watchers {
		everybody.Go(func() { one.run(whole) })
	}
	everybody.Go(func() { w.supervise(whole) })
	script := newFaults(w, seed)
	short, calm := context.WithTimeout(whole, length)
	defer calm()
	for number := range 8 {
		busy.Go(func() { l.newWriter(number, seed+int64(number)).run(short) })
	}
	if len(script.chosen) != 0 && os.Getenv("KINTSUGI_GROWING_WITHOUT") != "all" {
		busy.Go(func() { script.run(short, 3*time.Second) })
	}
	busy.Wait()
	w.Say("all is healed")
	l.last(seed)
	l.judge(watchers)
	finish()
	everybody.Wait()
	l.report(t, watchers, script, seed)
}

func (l *Workload) watchers(seed int64) (out []*Watcher) {
	for _, shard := range []string{"root", "shard-1"} {
		for number, cluster := range l.w.clusters[shard] {
			for turn := range 2 {
				out = append(out, l.newWatcher(fmt.Sprintf("%s-%d.%d", shard, number, turn), shard, cluster, seed+int64(1000+len(out))))
			}
		}
	}
	for turn := range 3 {
		out = append(out, l.newWatcher(fmt.Sprintf("all.%d", turn), "", "*", seed+int64(1000+len(out))))
	}
	return out
}

// soon waits until something is right; an error says that it stays wrong.
func (l *Workload) soon(check func() error) error {
	for begin := l.w.now(); ; time.Sleep(500 * time.Millisecond) {
		err := check()
		if err == nil || l.w.now() > begin+40*time.Second {
			return err
		}
	}
}

// judge fails what is wrong; watchers get time to hear the last.
func (l *Workload) judge(watchers []*Watcher) {
	truth := TruthOf(l.history)
	for _, one := range watchers {
		if err := l.soon(func() error { return one.check(l.book.Chains(truth), l.w.Excused) }); err != nil {
			l.note(err, one, watchers)
		}
	}
	if l.book.fault != "" {
		l.w.Fail("%s", l.book.fault)
	}
	if err := Linearizable(Settled(l.history)); err != nil {
		l.w.Fail("%v", err)
	}
	if err := l.sameEnd(); err != nil {
		l.w.Fail("%v", err)
	}
}

// sameEnd compares what both proxies and all processes of shards have at the end with the last reads.
func (l *Workload) sameEnd() error {
	want := map[string]string{}
	for _, o := range l.history {
		if o.Client == lastReader && o.Verb == Read && o.Outcome == Done {
			want[o.Key] = o.Version
		}
	}
	lists := map[string]map[string]string{}
	for _, place := range append(append([]string{}, proxies...), replicas...) {
		certificate := "shard-admin"
		if strings.HasPrefix(place, "proxy") {
			certificate = "admin"
		}
		list, err := l.w.ask(l.w.Client(certificate), "GET", l.w.url(place)+"/clusters/*/api/v1/configmaps?"+selector, nil)
		if err != nil || list.status != 200 {
			return fmt.Errorf("list at the end of %s: %v %v", place, list, err)
		}
		lists[place] = map[string]string{}
		for i := range list.Items {
			lists[place][list.Items[i].key()] = list.Items[i].Data["version"]
		}
	}
	for _, half := range []string{"-a", "-b"} {
		both := maps.Clone(lists["root"+half])
		maps.Copy(both, lists["shard-1"+half])
		lists["processes"+half] = both
	}
	for _, place := range []string{"proxy", "proxy-2", "processes-a", "processes-b"} {
		if err := e2e.Difference(want, lists[place]); err != nil {
			return fmt.Errorf("the end at %s: %w", place, err)
		}
	}
	return nil
}

func (l *Workload) report(t *testing.T, watchers []*Watcher, script *Faults, seed int64) {
	done, events, starts, expired, segments := map[string]int{}, 0, 0, 0, 0
	for _, o := range l.history {
		done[string(o.Verb)+" "+string(o.Outcome)]++
	}
	for _, one := range watchers {
		starts, expired, segments = starts+len(one.connections), expired+one.expired, segments+len(one.segments)
		for _, segment := range one.segments {
			events += len(segment.Events)
		}
	}
	t.Logf("operations %d: %v", len(l.history), done)
	t.Logf("watches: %d events, %d connections, %d lists, %d times 410; faults %v", events, starts, segments, expired, script.counts)
	for _, why := range slices.Sorted(maps.Keys(l.refused)) {
		if l.refused[why] > 20 {
			t.Logf("refused %d times: %s", l.refused[why], why)
		}
	}
	if len(l.w.failures) == 0 {
		return
	}
	t.Logf("what happened:\n%s", strings.Join(l.w.said, "\n"))
	for _, finding := range l.findings {
		t.Log(finding)
	}
	folder, err := l.keep(seed)
	t.Logf("logs and findings are kept in %s (%v)", folder, err)
	for _, failure := range l.w.failures {
		t.Error(failure)
	}
}
