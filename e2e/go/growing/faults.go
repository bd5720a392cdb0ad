package growing

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fault makes something happen and, after the wait that it is told, undoes it. It tells what it did.
type fault struct {
	name   string
	weight int
	happen func(f *Faults, wait func()) (what string, err error)
}

var faults = []fault{
	{"kill", 25, (*Faults).kill},
	{"stop", 20, (*Faults).stop},
	{"cut", 25, (*Faults).cut},
	{"isolate", 6, (*Faults).isolate},
	{"disk", 5, (*Faults).disk},
	{"compact", 5, (*Faults).compact},
	{"leader", 8, (*Faults).transfer},
	{"defrag", 4, (*Faults).defrag},
	{"clock", 8, (*Faults).jump},
	{"space", 4, (*Faults).space},
	{"replace", 4, (*Faults).replace},
	{"rotate", 4, (*Faults).rotate},
	{"authority", 3, (*Faults).authority},
	{"slow", 10, (*Faults).slow},
}

// Faults plays one script of faults; two such may overlap.
type Faults struct {
	w       *World
	random  *rand.Rand
	mutex   sync.Mutex
	counts  map[string]int
	touched map[string]bool // members that are killed or stopped now
	once    map[string]bool // faults that go on, of which there is one at a time
	chosen  []fault
}

func newFaults(w *World, seed int64) *Faults {
	f := &Faults{w: w, random: rand.New(rand.NewSource(seed)), counts: map[string]int{}, touched: map[string]bool{}, once: map[string]bool{}}
	without, only := strings.Split(os.Getenv("KINTSUGI_GROWING_WITHOUT"), ","), os.Getenv("KINTSUGI_GROWING_ONLY")
	for _, one := range faults {
		if !slices.Contains(without, one.name) && (only == "" || slices.Contains(strings.Split(only, ","), one.name)) {
			f.chosen = append(f.chosen, one)
		}
	}
	return f
}

// alone tells whether nothing but this fault happens: what it does can be told from what others do.
func (f *Faults) alone() bool { return len(f.chosen) == 1 }

// run makes faults until ctx ends, and has undone them all when it returns.
func (f *Faults) run(ctx context.Context, every time.Duration) {
	var open sync.WaitGroup
	for {
		pause(ctx, time.Duration(float64(every)*(0.3+f.number(1.4))))
		if ctx.Err() != nil {
			break
		}
		one := f.pick()
		length := time.Duration((0.2 + f.number(1)*f.number(1)*20) * float64(time.Second))
		open.Add(1)
		go func() {
			defer open.Done()
			what, err := one.happen(f, func() { pause(ctx, length) })
			if what == "" {
				return
			}
			f.mutex.Lock()
			f.counts[one.name]++
			f.mutex.Unlock()
			f.w.Say("%s over (%v): %v", what, length.Round(time.Millisecond), err)
		}()
	}
	open.Wait()
}

func (f *Faults) number(below float64) float64 {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.random.Float64() * below
}

func (f *Faults) pick() fault {
	sum := 0
	for _, one := range f.chosen {
		sum += one.weight
	}
	dice := int(f.number(float64(sum)))
	return f.chosen[slices.IndexFunc(f.chosen, func(one fault) bool { dice -= one.weight; return dice < 0 })]
}

// begin takes a fault of which there is one at a time; false: it goes on already.
func (f *Faults) begin(name string) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	free := !f.once[name]
	f.once[name] = true
	return free
}

func (f *Faults) end(name string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.once, name)
}

// member takes one that nothing happens to; nil: there is none such.
func (f *Faults) member(like func(*Member) bool) *Member {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var free []*Member
	for _, m := range f.w.members {
		if !f.touched[m.Name] && like(m) {
			free = append(free, m)
		}
	}
	if len(free) == 0 {
		return nil
	}
	m := free[f.random.Intn(len(free))]
	f.touched[m.Name] = true
	return m
}

func (f *Faults) release(m *Member) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.touched, m.Name)
}

func anyone(*Member) bool   { return true }
func isEtcd(m *Member) bool { return strings.HasPrefix(m.Name, "etcd") }
func isOurs(m *Member) bool { return !isEtcd(m) }

func (f *Faults) kill(wait func()) (string, error) {
	m := f.member(anyone)
	if m == nil {
		return "", nil
	}
	defer f.release(m)
	f.w.Say("kill %s", m.Name)
	m.Kill()
	wait()
	return "kill " + m.Name, f.w.Start(m)
}

func (f *Faults) stop(wait func()) (string, error) {
	m := f.member(anyone)
	if m == nil {
		return "", nil
	}
	defer f.release(m)
	f.w.Say("stop %s", m.Name)
	m.signal(syscall.SIGSTOP)
	wait()
	m.signal(syscall.SIGCONT)
	return "stop " + m.Name, nil
}

// host is any, also that of the clients.
func (f *Faults) host() *Host {
	return f.w.network.hosts[int(f.number(float64(len(f.w.network.hosts))))]
}

func (f *Faults) cut(wait func()) (string, error) {
	from, to := f.host(), f.host()
	if from == to {
		return "", nil
	}
	what := fmt.Sprintf("cut %s -> %s", from.Name, to.Name)
	if f.number(1) < 0.5 {
		return f.lose(what+" and back", [][2]*Host{{from, to}, {to, from}}, wait)
	}
	return f.lose(what, [][2]*Host{{from, to}}, wait)
}

func (f *Faults) isolate(wait func()) (string, error) {
	var pairs [][2]*Host
	alone := f.host()
	for _, host := range f.w.network.hosts {
		if host.Name != clients { // who can ask it hears it
			pairs = append(pairs, [2]*Host{alone, host}, [2]*Host{host, alone})
		}
	}
	return f.lose("isolate "+alone.Name, pairs, wait)
}

// slow makes the link of one host a bad one: a narrow one, whose queue holds up to two seconds, or a long one that loses packets.
func (f *Faults) slow(wait func()) (string, error) {
	host := f.host()
	what := "slow link of " + host.Name
	if !f.begin(what) {
		return "", nil
	}
	defer f.end(what)
	how := []string{"tbf", "rate", fmt.Sprintf("%dkbit", 200+int(f.number(1800))), "burst", "8kb", "latency", fmt.Sprintf("%dms", 100+int(f.number(1900)))}
	if f.w.network.netem && f.number(1) < 0.5 {
		how = []string{"netem", "delay", fmt.Sprintf("%dms", 10+int(f.number(140))), "20ms", "loss", fmt.Sprintf("%.1f%%", f.number(2))}
	}
	f.w.Say("%s: %s", what, strings.Join(how, " "))
	if err := f.w.network.Slow(host, how); err != nil {
		return what, err
	}
	wait()
	return what, f.w.network.Fast(host)
}

// lose cuts directions. Overlapping cuts of one direction end with the first: that only makes another script.
func (f *Faults) lose(what string, pairs [][2]*Host, wait func()) (string, error) {
	f.w.Say("%s", what)
	var failed error
	for _, pair := range pairs {
		if err := f.w.network.Cut(pair[0], pair[1]); err != nil {
			failed = err
		}
	}
	wait()
	for _, pair := range pairs {
		if err := f.w.network.Heal(pair[0], pair[1]); err != nil {
			failed = err
		}
	}
	return what, failed
}

// disk fills the small one. A member that has ended of it comes back until it can write again.
func (f *Faults) disk(wait func()) (string, error) {
	if !f.begin("disk") {
		return "", nil
	}
	defer f.end("disk")
	filler := f.w.dir + "/disk/" + smallOne + "/filler"
	f.w.Say("disk of %s is full", smallOne)
	file, err := os.Create(filler)
	if err != nil {
		return "", err
	}
	block := make([]byte, 4096)
	for {
		if _, err := file.Write(block); err != nil {
			break
		}
	}
	_ = file.Close()
	wait()
	return "full disk of " + smallOne, os.Remove(filler)
}

// compact is what another tool does to etcd: the whole history goes. Stores that are behind can only tell differences then.
func (f *Faults) compact(wait func()) (string, error) {
	client := f.w.Client("etcd-client")
	defer client.CloseIdleConnections()
	member := etcds[int(f.number(3))]
	status, err := f.w.etcd(client, member, "maintenance/status", map[string]any{})
	if err != nil {
		return "compact at " + member, err
	}
	f.w.Compacted()
	_, err = f.w.etcd(client, member, "kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true})
	f.w.Compacted()
	return fmt.Sprintf("compact at %s, %s", member, status.Header.Revision), err
}

func (f *Faults) transfer(wait func()) (string, error) {
	leader, err := f.w.leader()
	if err != nil {
		return "transfer", err
	}
	client := f.w.Client("etcd-client")
	defer client.CloseIdleConnections()
	to := etcds[(slices.Index(etcds, leader)+1+int(f.number(2)))%3]
	status, err := f.w.etcd(client, to, "maintenance/status", map[string]any{})
	if err != nil {
		return "transfer to " + to, err
	}
	_, err = f.w.etcd(client, leader, "maintenance/transfer-leadership", map[string]any{"targetID": status.Header.Member})
	return fmt.Sprintf("transfer from %s to %s", leader, to), err
}

func (f *Faults) defrag(wait func()) (string, error) {
	client := f.w.Client("etcd-client")
	defer client.CloseIdleConnections()
	member := etcds[int(f.number(3))]
	_, err := f.w.etcd(client, member, "maintenance/defragment", map[string]any{})
	return "defrag " + member, err
}

// jump makes the clock of one of our processes wrong by up to an hour, and right again: it changes nothing (GR-122).
func (f *Faults) jump(wait func()) (string, error) {
	if !f.w.faketime {
		return "", nil
	}
	m := f.w.members[len(etcds)+int(f.number(float64(len(f.w.members)-len(etcds))))]
	by := int(f.number(6600)) - 3000
	what := fmt.Sprintf("clock of %s by %+d s", m.Name, by)
	f.w.Say("%s", what)
	if err := os.WriteFile(f.w.clock(m.Name), fmt.Appendf(nil, "%+ds\n", by), 0o600); err != nil {
		return what, err
	}
	wait()
	return what, os.WriteFile(f.w.clock(m.Name), []byte("+0s\n"), 0o600)
}

// Compacted notes that somebody else has taken etcd's history.
func (w *World) Compacted() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.behind = append(w.behind, w.now())
}

// longestBehind is how long a store can be behind: stopped, or cut from all members, and then until it has another one.
const longestBehind = 35 * time.Second

// Excused tells whether a store may have shown a difference at that time for what etcd does not know any more.
func (w *World) Excused(at time.Duration) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.ContainsFunc(w.behind, func(when time.Duration) bool { return at >= when && at < when+longestBehind })
}
