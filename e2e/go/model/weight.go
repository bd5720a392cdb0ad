package model

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	steadyProxy  = "p2"             // lives on in the last three quarters of a long run
	steadyLength = 10 * time.Minute // of the runs that have it
	weighEvery   = 2 * time.Second
)

// steadyFrom is when the last process of the steady proxy is there.
func steadyFrom(length time.Duration) time.Duration {
	if length < steadyLength {
		return length
	}
	return length / 4
}

// weight is what one process holds.
type weight struct {
	at       time.Time
	pid      int
	files    int
	resident int // KiB
}

func weightOf(pid int) (weight, error) {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return weight{}, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return weight{}, err
	}
	found := weight{at: time.Now(), pid: pid, files: len(files)}
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			if _, err := fmt.Sscan(rest, &found.resident); err != nil {
				return weight{}, err
			}
		}
	}
	return found, nil
}

// Weights of the proxies over a run.
type Weights struct {
	mutex sync.Mutex
	seen  map[string][]weight
}

// weigh the proxies now and then, until ctx ends.
func (w *World) weigh(ctx context.Context) *Weights {
	found := &Weights{seen: map[string][]weight{}}
	go func() {
		for ; ctx.Err() == nil; pause(ctx, weighEvery) {
			for _, proxy := range w.proxies {
				proxy.mutex.Lock()
				pid := proxy.process.Pid
				proxy.mutex.Unlock()
				one, err := weightOf(pid)
				if err != nil || one.resident == 0 { // it has just ended
					continue
				}
				found.mutex.Lock()
				found.seen[proxy.Name] = append(found.seen[proxy.Name], one)
				found.mutex.Unlock()
			}
		}
	}()
	return found
}

func median(all []weight, of func(weight) int) int {
	var numbers []int
	for _, one := range all {
		numbers = append(numbers, of(one))
	}
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}

// Check that what the steady proxy holds does not grow: files and memory of the last quarter of the faults are those of the
// quarter before, by the middle one of the samples, as single ones hold the lists of a moment.
func (s *Weights) Check(w *World, length time.Duration, played time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, proxy := range w.proxies {
		all := s.seen[proxy.Name]
		if len(all) == 0 {
			continue
		}
		files, resident := 0, 0
		for _, one := range all {
			files, resident = max(files, one.files), max(resident, one.resident)
		}
		last := all[len(all)-1]
		w.t.Logf("%s: at most %d files and %d KiB; in the end %d and %d", proxy.Name, files, resident, last.files, last.resident)
	}
	if length < steadyLength || w.Failed() {
		return
	}
	all := s.seen[steadyProxy]
	pid := all[len(all)-1].pid
	quarter := length / 4
	within := func(from, to time.Duration) []weight {
		var found []weight
		for _, one := range all {
			if at := one.at.Sub(played); at >= from && at < to && one.pid == pid {
				found = append(found, one)
			}
		}
		return found
	}
	before, after := within(-2*quarter+quarter/4, -quarter), within(-quarter, 0)
	if fewest := int(quarter / weighEvery / 4); len(before) < fewest || len(after) < fewest {
		w.Fail(steadyProxy, "weighed only %d and %d times", len(before), len(after))
		return
	}
	for _, one := range []struct {
		what  string
		of    func(weight) int
		grain int
	}{{"files", func(o weight) int { return o.files }, 4}, {"KiB", func(o weight) int { return o.resident }, 1 << 10}} {
		had, has := median(before, one.of), median(after, one.of)
		w.t.Logf("%s: %d, later %d %s", steadyProxy, had, has, one.what)
		if has > had+had/20+one.grain {
			w.Fail(steadyProxy, "T87: had %d %s, and %v later %d", had, one.what, quarter, has)
		}
	}
}
