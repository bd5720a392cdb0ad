package merge

import (
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// chaos is a mix of faults while objects change; in the end everybody holds what the shards hold.
func chaos(t *testing.T, r *Rig, length time.Duration, guest *Fake, more ...func()) {
	t.Helper()
	r.Fill(10, 10, 10)
	list := r.All.List(t, ConfigMaps.Path())
	informers := []*Informer{StartInformer(t, r.Rest(), true, ConfigMaps), StartInformer(t, r.Rest(), true, ConfigMaps),
		StartInformer(t, r.Rest(), false, ConfigMaps), StartKeyed(t, r.Rest(), ConfigMaps, true), StartKeyed(t, r.Rest(), ConfigMaps, false)}
	for _, i := range informers {
		i.Equals(t, patience, r.Maps()...)
	}
	var watches []*Recording
	for n := range 6 {
		watches = append(watches, r.All.Watch(t, resumed(list.Metadata.ResourceVersion), "Accept", []string{JSON, Proto}[n%2]))
		defer watches[n].Close()
	}
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	var guests []*Fake
	if guest != nil {
		guests = append(guests, guest)
	}
	stop := writing(r, 3*time.Millisecond, guests...)
	faults := append([]func(){
		func() { r.Shards[random.Intn(3)].Cut(true) },
		func() { r.Shards[random.Intn(3)].Cut(false) },
		func() { r.Shards[random.Intn(3)].Goaway() },
		func() { r.Shards[random.Intn(3)].EndAll(EndStream) },
		func() { r.Shards[random.Intn(3)].EndAll(Reset) },
		func() {
			f := r.Shards[random.Intn(3)]
			f.Blackhole(true)
			time.Sleep(50 * time.Millisecond)
			f.Blackhole(false)
		},
		func() {
			f := r.Shards[random.Intn(3)]
			f.Stop()
			time.Sleep(time.Duration(random.Intn(300)) * time.Millisecond)
			f.Start(t)
		},
		func() { r.Shards[random.Intn(3)].TearAll() },
		func() { r.Shards[random.Intn(3)].Set(func(b *Behavior) { b.Replay = uint64(random.Intn(4)) }) },
		func() { r.All.Get(ConfigMaps.Path()) }, // may be refused
	}, more...)
	var log []int
	for end := time.Now().Add(length); time.Now().Before(end); {
		n := random.Intn(len(faults))
		log = append(log, n)
		faults[n]()
		time.Sleep(time.Duration(random.Intn(60)) * time.Millisecond)
	}
	stop()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, faults %v", seed, log)
		}
	}()
	for _, i := range informers {
		i.Equals(t, 60*time.Second, r.Maps()...)
		i.mutex.Lock()
		// Who leaves and comes back is the same again, after deletions that are newer.
		i.back = slices.DeleteFunc(i.back, func(one string) bool { return guest != nil && strings.HasPrefix(one, guest.Name+"/") })
		if len(i.back) > 0 {
			t.Errorf("%s: went back: %v", i.Name, i.back[:min(3, len(i.back))])
		}
		i.mutex.Unlock()
		t.Log(i)
	}
	for n, w := range watches {
		if w.Ended() && len(more) > 0 {
			continue
		}
		w.Until(fmt.Sprintf("model of watch %d equal", n), 30*time.Second, func(events []Event) error {
			return ModelOf(list.Items).Apply(events).Equal(Union(r.Maps()...))
		})
		orderly(t, pick(w.Objects(), func(e Event) bool { return guest == nil || e.Object.Marker() != guest.Name }))
	}
}

func TestT87_a_mix_of_faults(t *testing.T) {
	begin(t)
	chaos(t, NewRig(t), 5*time.Second, nil)
}

func TestT87b_a_mix_of_faults_with_lost_histories(t *testing.T) {
	begin(t)
	r := NewRig(t)
	n := 0
	forget := func() {
		f := r.Shards[n%3]
		n++
		f.Stop()
		f.Maps.Put(f.Name + "-unseen")
		f.Maps.Delete(f.Name + "-1")
		f.Forget()
		f.Start(t)
	}
	chaos(t, r, 5*time.Second, nil, forget)
}

func TestT87c_a_mix_of_faults_with_restarts(t *testing.T) {
	begin(t)
	r := NewRig(t)
	n := 0
	restart := func() {
		if n++; n%8 == 1 { // not all the time
			r.Restart(n%16 == 1)
		}
	}
	chaos(t, r, 6*time.Second, nil, restart)
}

func TestT87d_a_mix_of_faults_with_shards_that_come_and_go(t *testing.T) {
	begin(t)
	r := NewRig(t)
	d := r.AddFake("d")
	r.Shards = r.Shards[:3]
	all := append(slices.Clone(r.Shards), d)
	d.Maps.Put("d-1")
	there := false
	change := func() {
		if there = !there; there {
			r.Shards = all
			r.Join(d)
		} else {
			r.Leave(d)
		}
	}
	chaos(t, r, 6*time.Second, d, change)
}

// openFiles of the proxy: those that are no connections to shards, and the connections to shards that its
// metric does not count. How many it counts, and keeps for later, depends on how many were needed at a time.
func (r *Rig) openFiles() (files, uncounted int) {
	process := fmt.Sprintf("/proc/%d/", r.process.Pid)
	counted := int(r.Metrics("kintsugi_shard_connections", ""))
	for {
		sockets := map[string]bool{}
		table, _ := os.ReadFile(process + "net/tcp")
		for _, line := range strings.Split(string(table), "\n") {
			if fields := strings.Fields(line); len(fields) > 9 && slices.ContainsFunc(r.Shards, func(f *Fake) bool { return f.isPeer(fields[2]) }) {
				sockets["socket:["+fields[9]+"]"] = true
			}
		}
		files, uncounted = 0, 0
		all, _ := os.ReadDir(process + "fd")
		for _, one := range all {
			if target, err := os.Readlink(process + "fd/" + one.Name()); err == nil && sockets[target] {
				uncounted++
			} else {
				files++
			}
		}
		before := counted
		if counted = int(r.Metrics("kintsugi_shard_connections", "")); counted == before {
			return files, uncounted - counted
		}
	}
}

// isPeer tells whether that is the server's address, as the kernel's table of connections has it.
func (f *Fake) isPeer(address string) bool {
	_, text, _ := strings.Cut(f.address, ":")
	port, _ := strconv.Atoi(text)
	return strings.HasSuffix(address, fmt.Sprintf(":%04X", port))
}

// settled is what the proxy holds once nobody asks it for anything: the least of a moment.
func (r *Rig) settled(files, resident int) (int, int, error) {
	if n := r.Metrics("kintsugi_watch_streams", ""); n != 0 {
		return files, resident, fmt.Errorf("%v watches", n)
	}
	if n := r.Metrics("kintsugi_watch_group_streams", ""); n != 0 { // they linger
		return files, resident, fmt.Errorf("%v streams of groups", n)
	}
	open, uncounted := r.openFiles()
	own := len(r.Shards) // one to each for probes
	if allAsKcp {
		own *= 2 // and one for the watches of its logical clusters
	}
	if uncounted > own {
		return files, resident, fmt.Errorf("%d connections to shards that no metric counts", uncounted)
	}
	return min(files, open), min(resident, r.resident()), nil
}

func TestT87e_files_and_memory_stay(t *testing.T) {
	begin(t)
	r := NewRig(t)
	const unknown = 1 << 30
	files, resident := unknown, unknown
	// What the proxy remembers of deliveries is full then (AGG-519).
	w := r.All.Watch(t, ConfigMaps.Path()+"?watch=1")
	for n := range 17_000 {
		r.Shards[n%3].Maps.Put(fmt.Sprint(r.Shards[n%3].Name, "-", n%10), Data("n", fmt.Sprint(n)))
	}
	w.UntilObjects(17_000, 60*time.Second)
	w.Close()
	begun, rounds := time.Now(), 0
	for ; rounds < 4 || fullLoad && time.Since(begun) < 10*time.Minute; rounds++ {
		// A group remembers at least 75 s of deliveries: so long it grows.
		warm := rounds < 2 || fullLoad && time.Since(begun) < 2*time.Minute
		t.Run(fmt.Sprint("round ", rounds), func(t *testing.T) {
			chaos(t, r, time.Duration(sized(3, 20))*time.Second, nil)
		})
		if t.Failed() {
			return
		}
		nowFiles, nowResident := unknown, unknown
		eventually(t, 60*time.Second, "the proxy holds what it held", func() (err error) {
			if nowFiles, nowResident, err = r.settled(nowFiles, nowResident); err != nil {
				return err
			}
			if !warm && nowFiles > files+files/20 {
				return fmt.Errorf("%d files, not %d", nowFiles, files)
			}
			if !warm && nowResident > resident+resident/20 {
				return fmt.Errorf("%d KiB, not %d", nowResident, resident)
			}
			return nil
		})
		t.Logf("%d files, %d KiB", nowFiles, nowResident)
		if warm {
			files, resident = nowFiles, nowResident
		}
	}
}
