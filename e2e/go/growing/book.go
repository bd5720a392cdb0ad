package growing

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Truth is what the clients' own requests say, whatever watches tell.
type Truth struct {
	Created map[string]bool // versions that were written where nothing was; all others replaced one
	Gone    map[string]bool // keys that nothing is at in the end
}

// TruthOf reads it out of a history that ends with a read of every key.
func TruthOf(history []Operation) Truth {
	truth := Truth{Created: map[string]bool{}, Gone: map[string]bool{}}
	for _, o := range history {
		if o.Verb == Create {
			truth.Created[o.Version] = true
		}
		if o.Client == lastReader {
			truth.Gone[o.Key] = o.Outcome == Absent
		}
	}
	return truth
}

// Book has all versions of all objects that anybody was told of.
type Book struct {
	mutex sync.Mutex
	keys  map[string]map[uint64]Entry
	fault string // the first contradiction
}

// Note adds a version, or a deletion that was told with its own revision.
func (b *Book) Note(key string, e Entry) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.keys == nil {
		b.keys = map[string]map[uint64]Entry{}
	}
	if b.keys[key] == nil {
		b.keys[key] = map[uint64]Entry{}
	}
	before, known := b.keys[key][e.Revision]
	if known && before != e && b.fault == "" {
		b.fault = fmt.Sprintf("%s at %d is %+v for one and %+v for another", key, e.Revision, before, e)
	}
	b.keys[key][e.Revision] = e
}

// Chains are the versions of each object in order, with a deletion wherever the next version was created, and at the end of what is gone.
// Nothing else is one, whoever told it.
func (b *Book) Chains(truth Truth) map[string][]Entry {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	out := map[string][]Entry{}
	for key, versions := range b.keys {
		out[key] = chainOf(versions, truth, truth.Gone[key])
	}
	return out
}

func chainOf(versions map[uint64]Entry, truth Truth, gone bool) (chain []Entry) {
	var told *Entry // the first deletion since the last version
	end := func() {
		last := chain[len(chain)-1]
		if told == nil { // nobody was told, or only as a part of a difference
			told = &Entry{Revision: last.Revision + 1, Version: last.Version, Deleted: true}
		}
		chain = append(chain, *told)
	}
	for _, revision := range slices.Sorted(maps.Keys(versions)) {
		e := versions[revision]
		if e.Deleted {
			if told == nil && len(chain) > 0 {
				told = &e
			}
			continue
		}
		if truth.Created[e.Version] && len(chain) > 0 {
			end()
		}
		chain, told = append(chain, e), nil
	}
	if gone && len(chain) > 0 {
		end()
	}
	return chain
}
