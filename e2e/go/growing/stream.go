package growing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Entry is one version of an object: what its writer called it, or that it is gone.
type Entry struct {
	Revision uint64
	Version  string
	Deleted  bool
}

// Event is what a watch told. Type BOOKMARK has no key.
type Event struct {
	Type, Key  string
	Connection int // the watcher's; the next one may tell again what this one told
	At         time.Duration
	Entry
}

// Segment is what a watcher saw from a list on, over as many connections as it took, until somebody told it 410.
type Segment struct {
	Name   string
	At     time.Duration // of its list
	Scope  string        // prefix of keys
	Merged bool          // over all shards: its list may lack one that is away, its bookmarks are cursors
	Listed map[string]Entry
	Events []Event
	Whole  bool // goes on: nothing may be missing at its end
}

// reader goes through what a segment told of one object.
type reader struct {
	key     string
	chain   []Entry
	at      int  // index in chain of what the watcher has; -1: nothing was told yet
	behind  bool // it has nothing, as of a deletion that is not known: a part of a difference
	last    Entry
	given   map[uint64]int // revision: connection that told it first
	newest  uint64         // of this connection
	current int
}

func (r *reader) find(e Entry) int {
	return slices.IndexFunc(r.chain, func(one Entry) bool { return one == e })
}

func (r *reader) wrong(format string, arguments ...any) error {
	var text strings.Builder
	for _, e := range r.chain[max(0, r.at-2):min(len(r.chain), r.at+5)] {
		fmt.Fprintf(&text, " %d:%s%s", e.Revision, e.Version, map[bool]string{true: "(deleted)"}[e.Deleted])
	}
	return fmt.Errorf("%s: %s; versions there:%s", r.key, fmt.Sprintf(format, arguments...), text.String())
}

// take checks the next event; excused: some may be missing before it.
func (r *reader) take(e Event, strict, excused bool) error {
	if e.Connection != r.current {
		r.current, r.newest = e.Connection, 0
	}
	if e.Revision <= r.newest {
		return r.wrong("%s of %d after %d on one connection", e.Type, e.Revision, r.newest)
	}
	r.newest = e.Revision
	if first, known := r.given[e.Revision]; known {
		if first == e.Connection || strict {
			return r.wrong("%s of %d again", e.Type, e.Revision)
		}
		return nil
	}
	if e.Revision <= r.last.Revision {
		return r.wrong("%s of %d after %d", e.Type, e.Revision, r.last.Revision)
	}
	r.given[e.Revision] = e.Connection
	there := r.at >= 0 && !r.last.Deleted
	next := r.find(e.Entry)
	if e.Deleted {
		next = r.deletion(e)
	}
	behind := r.behind
	defer func() { r.at, r.last, r.behind = next, e.Entry, excused && e.Deleted }()
	if excused || (r.at < 0 && !behind && !strict) {
		return nil
	}
	if there != (e.Type != "ADDED") {
		return r.wrong("%s of %d after %+v", e.Type, e.Revision, r.last)
	}
	if next < 0 {
		return r.wrong("%s of %d, which did not happen", e.Type, e.Revision)
	}
	if behind {
		r.at = -1 // whichever deletion that was
	}
	if r.at >= 0 && next != r.at+1 {
		return r.wrong("%s of %d after %d: what is between was not told", e.Type, e.Revision, r.last.Revision)
	}
	if r.at < 0 && next > 0 && !r.chain[next-1].Deleted {
		return r.wrong("%s of %d, and not what was before", e.Type, e.Revision)
	}
	return nil
}

// deletion is where in the chain an event's deletion is: behind the last version that is older; -1: there is none.
func (r *reader) deletion(e Event) int {
	i := slices.IndexFunc(r.chain, func(one Entry) bool { return !one.Deleted && one.Revision >= e.Revision })
	if i < 0 {
		i = len(r.chain)
	}
	if i == 0 || !r.chain[i-1].Deleted {
		return -1
	}
	return i - 1
}

// missing tells what a watcher that goes on still lacks at the end.
func (r *reader) missing() error {
	if len(r.chain) == 0 {
		return nil
	}
	end := r.chain[len(r.chain)-1]
	if r.at == len(r.chain)-1 || (end.Deleted && (r.at < 0 || r.behind)) {
		return nil
	}
	return r.wrong("the last it was told is %+v, and there is %d", r.last, end.Revision)
}

func (s *Segment) wrong(key string, at time.Duration, what error) error {
	return &Wrong{Segment: s.Name, Key: key, At: at, What: what}
}

// Check tells the first thing that is wrong with what a watcher saw. excused tells whether at that time a store that was behind
// might show a difference for single versions (etcd was compacted by others, ADR 0014).
func (s *Segment) Check(chains map[string][]Entry, excused func(at time.Duration) bool) error {
	readers := map[string]*reader{}
	for key, chain := range chains {
		if !strings.HasPrefix(key, s.Scope) {
			continue
		}
		r := &reader{key: key, chain: chain, at: -1, given: map[uint64]int{}, current: -1}
		if e, listed := s.Listed[key]; listed {
			r.at, r.last = r.find(e), e
			if r.at < 0 {
				return s.wrong(key, 0, fmt.Errorf("%s: its list has %+v, which nobody else knows", key, e))
			}
		}
		readers[key] = r
	}
	bookmark := uint64(0)
	for _, e := range s.Events {
		if e.Type == "BOOKMARK" {
			bookmark = max(bookmark, e.Revision)
			continue
		}
		if readers[e.Key] == nil {
			return s.wrong(e.Key, e.At, fmt.Errorf("%s is not of its scope %s", e.Key, s.Scope))
		}
		if e.Revision <= bookmark && !s.Merged {
			return s.wrong(e.Key, e.At, fmt.Errorf("%s: %s of %d after a bookmark of %d", e.Key, e.Type, e.Revision, bookmark))
		}
		if err := readers[e.Key].take(e, !s.Merged, excused(e.At)); err != nil {
			return s.wrong(e.Key, e.At, err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(readers)) {
		if err := readers[key].missing(); s.Whole && err != nil {
			return s.wrong(key, 0, err)
		}
	}
	return nil
}
