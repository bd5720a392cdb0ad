package model

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fault is one line of the script.
type fault struct {
	lane     int
	at       time.Duration
	what     string
	whom     string
	lasts    time.Duration
	random   int64
	outcome  string
	happened time.Duration
}

func (f *fault) String() string {
	text := fmt.Sprintf("+%7.3f s  lane %d  %-9s %-5s for %.3f s", f.at.Seconds(), f.lane, f.what, f.whom, f.lasts.Seconds())
	if f.happened > 0 {
		text += fmt.Sprintf("   at +%.3f s", f.happened.Seconds())
	}
	if f.outcome != "" {
		text += "   " + f.outcome
	}
	return text
}

// shardFaults are what happens to shards and on the way to them, as often as they are named.
var shardFaults = strings.Fields("kill kill term stop cut cut fin hold hold slow goaway goaway rst rst end end expire gone 429 500 503 html")

// proxyFaults are what happens to the proxies and to the set of shards.
var proxyFaults = strings.Fields("kill term stop add-remove add-remove")

// without takes faults out of a list.
func without(faults []string, unwanted string) []string {
	words := strings.FieldsFunc(unwanted, func(r rune) bool { return r == ',' || r == ' ' })
	return slices.DeleteFunc(slices.Clone(faults), func(what string) bool { return slices.Contains(words, what) })
}

// script is the same for the same seed, length and choice of faults.
func script(seed int64, length time.Duration, shards []string, unwanted string) []*fault {
	shardFaults, proxyFaults := without(shardFaults, unwanted), without(proxyFaults, unwanted)
	var all []*fault
	between := func(random *rand.Rand, low, high time.Duration) time.Duration {
		return low + time.Duration(random.Int63n(int64(high-low)))
	}
	for lane := range min(2, 2*len(shardFaults)) { // two at a time
		random := rand.New(rand.NewSource(seed + int64(lane)))
		for at := between(random, 0, 2*time.Second); at < length; {
			f := &fault{lane: lane, at: at, what: shardFaults[random.Intn(len(shardFaults))], whom: shards[random.Intn(len(shards))],
				lasts: between(random, 200*time.Millisecond, 4*time.Second), random: random.Int63()}
			if f.what == "hold" && length >= 2*time.Minute && random.Intn(4) == 0 {
				f.lasts += 32 * time.Second // longer than a silent connection lives
			}
			all = append(all, f)
			at += f.lasts + between(random, 300*time.Millisecond, 3*time.Second)
		}
	}
	random := rand.New(rand.NewSource(seed + 2))
	for at := between(random, time.Second, 5*time.Second); at < length && len(proxyFaults) > 0; {
		f := &fault{lane: 2, at: at, what: proxyFaults[random.Intn(len(proxyFaults))], whom: []string{"p1", "p2"}[random.Intn(2)],
			lasts: between(random, 200*time.Millisecond, 3*time.Second), random: random.Int63()}
		if f.what == "add-remove" {
			f.whom, f.lasts = lateShard, between(random, 4*time.Second, 10*time.Second)
		}
		if at >= steadyFrom(length) && f.whom == steadyProxy && f.what != "stop" {
			f.whom = "p1"
		}
		all = append(all, f)
		at += f.lasts + between(random, 3*time.Second, 8*time.Second)
	}
	return all
}

// play runs the script; all is whole again when it returns.
func (w *World) play(ctx context.Context, faults []*fault) {
	var group sync.WaitGroup
	begin := time.Now()
	for lane := range 3 {
		group.Go(func() {
			for _, f := range faults {
				if f.lane != lane {
					continue
				}
				pause(ctx, time.Until(begin.Add(f.at)))
				if ctx.Err() != nil {
					return
				}
				outcome, err := "", error(nil)
				happened := time.Since(begin)
				if lane == 2 {
					err = w.disturbProxy(ctx, f)
				} else {
					outcome, err = w.disturbShard(ctx, f)
				}
				w.mutex.Lock()
				f.happened, f.outcome = happened, outcome
				w.mutex.Unlock()
				if err != nil {
					w.Fail("fault", "%v: %v", f, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func (w *World) disturbShard(ctx context.Context, f *fault) (string, error) {
	var shard *Shard
	for _, s := range w.shards {
		if s.Name == f.whom {
			shard = s
		}
	}
	random := rand.New(rand.NewSource(f.random))
	relay := shard.Relay
	switch f.what {
	case "kill", "term", "stop":
		shard.busy.Lock() // one at a time
		defer shard.busy.Unlock()
		return "", w.signalShard(ctx, shard, f)
	case "cut":
		return fmt.Sprintf("%d connections", relay.Cut(true)), nil
	case "fin":
		return fmt.Sprintf("%d connections", relay.Cut(false)), nil
	case "hold":
		shard.held.Lock()
		defer shard.held.Unlock()
		release := relay.Hold()
		pause(ctx, f.lasts)
		release()
	case "slow":
		relay.Slow(time.Duration(5+random.Intn(60)) * time.Millisecond)
		pause(ctx, f.lasts)
		relay.Slow(0)
	case "goaway":
		relay.GoAway()
	case "rst", "end":
		return fmt.Sprintf("%d watches", relay.Break(f.what, 0.1+random.Float64(), random)), nil
	case "expire":
		w.Happened("expire", shard.Name)
		return fmt.Sprintf("%d watches", relay.Break(f.what, 0.1+0.5*random.Float64(), random)), nil
	case "gone": // resumptions fail for a while, and there are some
		relay.Answer("410")
		relay.Break("end", 0.3, random)
		pause(ctx, min(f.lasts, time.Second))
		relay.Answer("")
	default:
		relay.Answer(f.what)
		if random.Intn(2) == 0 {
			relay.Break("rst", 0.5, random)
		}
		pause(ctx, f.lasts)
		relay.Answer("")
	}
	return "", nil
}

func (w *World) signalShard(ctx context.Context, shard *Shard, f *fault) error {
	if shard.process == nil { // root: `up` starts it again
		signal := map[string]syscall.Signal{"kill": syscall.SIGKILL, "term": syscall.SIGTERM, "stop": syscall.SIGSTOP}[f.what]
		before, err := w.installation.Kill(shard.Name, signal)
		if err != nil {
			return err
		}
		if f.what == "stop" {
			pause(ctx, f.lasts)
			return syscall.Kill(before, syscall.SIGCONT)
		}
		return w.installation.Restarted(shard.Name, before, 40*time.Second)
	}
	switch f.what {
	case "stop":
		if err := syscall.Kill(shard.process.Pid, syscall.SIGSTOP); err != nil {
			return err
		}
		pause(ctx, f.lasts)
		return syscall.Kill(shard.process.Pid, syscall.SIGCONT)
	case "kill":
		shard.process.Kill()
	default:
		if err := shard.process.Stop(); err != nil {
			return err
		}
	}
	pause(ctx, f.lasts)
	if err := w.StartShard(shard); err != nil {
		return err
	}
	return shard.listens() // before the next fault, as one that has only begun cannot end in order
}

func (w *World) disturbProxy(ctx context.Context, f *fault) error {
	if f.what == "add-remove" {
		if err := w.AddLate(); err != nil {
			return err
		}
		pause(ctx, f.lasts)
		return w.RemoveLate()
	}
	proxy := w.proxies[0]
	if f.whom == "p2" {
		proxy = w.proxies[1]
	}
	w.Away(f.what, proxy.Name, true)
	defer w.Away(f.what, proxy.Name, false)
	switch f.what {
	case "stop":
		if err := syscall.Kill(proxy.process.Pid, syscall.SIGSTOP); err != nil {
			return err
		}
		pause(ctx, f.lasts)
		return syscall.Kill(proxy.process.Pid, syscall.SIGCONT)
	case "kill":
		proxy.process.Kill()
	default:
		if err := proxy.process.Stop(); err != nil {
			return err
		}
	}
	pause(ctx, f.lasts)
	if err := proxy.Start(w); err != nil {
		return err
	}
	return proxy.Ready(w)
}
