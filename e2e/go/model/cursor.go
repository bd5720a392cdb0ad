package model

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	notDelivered = 0 // component of a shard of which nothing was delivered
	begun        = 1 // component of a shard of which some of the present objects were delivered
)

// Vector is a decoded cursor.
type Vector struct {
	Generation, Check uint64
	Components        []uint64
}

// isCursor tells cursors from the shards' own numbers.
func isCursor(text string) bool { return len(text) > 20 }

// parseVector reads layout 1 (specification, 5.2).
func parseVector(text string) (Vector, error) {
	digits := func(from, to int) uint64 {
		value, err := strconv.ParseUint(text[from:to], 10, 64)
		if err != nil {
			value = ^uint64(0)
		}
		return value
	}
	if len(text) < 35 || (len(text)-15)%20 != 0 || text[:3] != "120" || strings.Trim(text, "0123456789") != "" {
		return Vector{}, fmt.Errorf("%q is not a cursor", text)
	}
	v := Vector{Generation: digits(3, 9), Check: digits(9, 15)}
	for at := 15; at < len(text); at += 20 {
		v.Components = append(v.Components, digits(at, at+20))
	}
	return v, nil
}

// compareCursors as apimachinery compares revisions: longer is greater, else lexically.
func compareCursors(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func checkOf(route, group, resource string, uids []string) uint64 {
	text := strings.Join(append([]string{"kintsugi-cursor/1", route, group, resource}, uids...), "\n")
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8]) % 1_000_000
}

// Slots finds out which shard stands at which position: only the order whose check is in the cursor can be meant.
type Slots struct {
	mutex  sync.Mutex
	uids   []string          // of all shards that there ever were
	names  map[string]string // uid -> shard
	tables [][]string
}

// Add makes a shard known.
func (s *Slots) Add(name, uid string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.names == nil {
		s.names = map[string]string{}
	}
	if _, known := s.names[uid]; !known {
		s.uids = append(s.uids, uid)
		s.names[uid] = name
	}
}

// UIDs by slot; nil: no order of the known shards has this check.
func (s *Slots) UIDs(resource string, v Vector) []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	fits := func(table []string) bool {
		return len(table) == len(v.Components) && checkOf("/clusters/*", "", resource, table) == v.Check
	}
	for _, table := range s.tables {
		if fits(table) {
			return table
		}
	}
	found := s.grown(s.tables, s.uids, fits)
	if found == nil { // a proxy that was cut off takes several steps at once, which no cursor has shown
		recent, uids := s.tables[max(0, len(s.tables)-6):], s.uids[max(0, len(s.uids)-6):]
		found = s.grown(s.next(recent, uids), uids, fits)
	}
	if found == nil && len(s.tables) == 0 {
		found = permuted(nil, s.uids, len(v.Components), fits)
	}
	if found != nil {
		s.tables = append(s.tables, found)
	}
	return found
}

// next are all tables that follow from these: one slot more, or the slot of a shard that was removed, which has been added again as
// another one since. What cannot be is not tried: of a million tables one has a given check by chance.
func (s *Slots) next(tables [][]string, uids []string) [][]string {
	var out [][]string
	for _, table := range tables {
		for _, uid := range uids {
			if slices.Contains(table, uid) {
				continue
			}
			out = append(out, append(slices.Clone(table), uid))
			for slot, old := range table {
				if s.names[old] != s.names[uid] || slices.Index(s.uids, old) > slices.Index(s.uids, uid) {
					continue
				}
				reused := slices.Clone(table)
				reused[slot] = uid
				out = append(out, reused)
			}
		}
	}
	return out
}

// grown looks for a table that follows from one of these, from the last one most likely.
func (s *Slots) grown(tables [][]string, uids []string, fits func([]string) bool) []string {
	for n := len(tables) - 1; n >= 0; n-- {
		for _, one := range s.next(tables[n:n+1], uids) {
			if fits(one) {
				return one
			}
		}
	}
	return nil
}

func permuted(head, uids []string, length int, fits func([]string) bool) []string {
	if len(head) == length {
		if fits(head) {
			return slices.Clone(head)
		}
		return nil
	}
	for _, uid := range uids {
		if !slices.Contains(head, uid) {
			if found := permuted(append(slices.Clone(head), uid), uids, length, fits); found != nil {
				return found
			}
		}
	}
	return nil
}

// Name of the shard with a UID.
func (s *Slots) Name(uid string) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.names[uid]
}
