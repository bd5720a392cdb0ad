package growing

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const one = "c/k"

func event(connection int, kind string, revision uint64, version string) Event {
	return Event{Type: kind, Key: one, Connection: connection, Entry: Entry{revision, version, kind == "DELETED"}}
}

// TestGR_903_StreamsAreExact: right streams pass, and each kind of wrong one is found by its words.
func TestGR_903_StreamsAreExact(t *testing.T) {
	book := &Book{}
	for _, e := range []Entry{{1, "a", false}, {2, "b", false}, {3, "b", true}, {5, "c", false}, {6, "d", false}} {
		book.Note(one, e)
	}
	truth := Truth{Created: map[string]bool{"a": true, "c": true}}
	listed := map[string]Entry{one: {1, "a", false}}
	b, gone, c, d := event(0, "MODIFIED", 2, "b"), event(0, "DELETED", 3, "b"), event(0, "ADDED", 5, "c"), event(0, "MODIFIED", 6, "d")
	again := func(e Event) Event { e.Connection = 1; return e }
	mark := func(revision uint64) Event { return Event{Type: "BOOKMARK", Entry: Entry{Revision: revision}} }
	for _, row := range []struct {
		name    string
		segment Segment
		says    string // "": it is right
	}{
		{"all", Segment{Listed: listed, Events: []Event{b, mark(2), gone, mark(4), c, d}, Whole: true}, ""},
		{"from the middle", Segment{Events: []Event{c, d}, Whole: true}, ""},
		{"cut by 410", Segment{Listed: listed, Events: []Event{b}}, ""},
		{"told again after a resume", Segment{Merged: true, Listed: listed, Events: []Event{b, gone, again(b), again(gone), again(c), again(d)}, Whole: true}, ""},
		{"a merged list without a shard", Segment{Merged: true, Events: []Event{event(0, "ADDED", 2, "b"), gone, c, d}, Whole: true}, ""},
		{"one skipped", Segment{Listed: listed, Events: []Event{b, gone, event(0, "ADDED", 6, "d")}}, "was not told"},
		{"a deletion skipped", Segment{Listed: listed, Events: []Event{b, c, d}}, "ADDED of 5 after"},
		{"skipped at the begin", Segment{Events: []Event{event(0, "ADDED", 6, "d")}}, "not what was before"},
		{"skipped at the end", Segment{Listed: listed, Events: []Event{b, gone, c}, Whole: true}, "and there is 6"},
		{"nothing at all", Segment{Listed: listed, Whole: true}, "and there is 6"},
		{"out of order", Segment{Listed: listed, Events: []Event{b, gone, d, c}}, "MODIFIED of 6 after"},
		{"older than the list", Segment{Listed: map[string]Entry{one: {2, "b", false}}, Events: []Event{event(0, "MODIFIED", 1, "a")}}, "1 after 2"},
		{"twice", Segment{Listed: listed, Events: []Event{b, b}}, "2 after 2"},
		{"twice after a resume where versions are exact", Segment{Listed: listed, Events: []Event{b, again(b)}}, "again"},
		{"skipped by a cursor", Segment{Merged: true, Listed: listed, Events: []Event{b, again(c)}}, "ADDED of 5 after"},
		{"a bookmark that says too much", Segment{Listed: listed, Events: []Event{mark(2), b}}, "after a bookmark"},
		{"the wrong kind", Segment{Listed: listed, Events: []Event{event(0, "ADDED", 2, "b")}}, "ADDED of 2 after"},
		{"a deletion that was none", Segment{Listed: listed, Events: []Event{event(0, "DELETED", 2, "a")}}, "did not happen"},
		{"a list of what nobody wrote", Segment{Listed: map[string]Entry{one: {4, "z", false}}}, "nobody else"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.segment.Check(book.Chains(truth), func(time.Duration) bool { return false })
			if (err == nil) != (row.says == "") || (err != nil && !strings.Contains(err.Error(), row.says)) {
				t.Errorf("said %v", err)
			}
		})
	}
	skipped := Segment{Listed: listed, Events: []Event{event(0, "MODIFIED", 6, "d")}, Whole: true}
	if err := skipped.Check(book.Chains(truth), func(time.Duration) bool { return true }); err != nil {
		t.Errorf("excused: %v", err)
	}
	if book.Note(one, Entry{6, "e", false}); !strings.Contains(book.fault, "for another") {
		t.Error("two versions at one revision are not found")
	}
}

// TestGR_903_ADeletionOfADifferenceIsNoVersion: a store that was behind when others compacted tells deletions first, as of the revision
// where it was. Who was told the versions after that is right, and who was told the deletion lacks nothing.
func TestGR_903_ADeletionOfADifferenceIsNoVersion(t *testing.T) {
	const behind, later = 100 * time.Second, 200 * time.Second
	w := &World{begin: time.Now().Add(-behind), behind: []time.Duration{behind - time.Second}}
	book := &Book{}
	watcher := &Watcher{Workload: &Workload{w: w, book: book}, cluster: "c", segments: []*Segment{{}}, connections: []Connection{{}}}
	gone := Object{Data: map[string]string{"version": "a"}}
	gone.Metadata.Name, gone.Metadata.ResourceVersion = "k", "77"
	gone.Metadata.Annotations = map[string]string{"kcp.io/cluster": "c"}
	watcher.told("DELETED", &gone)
	for _, e := range []Entry{{68, "a", false}, {77, "b", false}, {91, "c", false}, {205, "c", true}, {300, "d", false}, {310, "d", true}, {320, "e", false}} {
		book.Note(one, e)
	}
	truth := Truth{Created: map[string]bool{"a": true, "d": true, "e": true}}
	at := func(when time.Duration, e Event) Event { e.At = when; return e }
	listed := map[string]Entry{one: {68, "a", false}}
	difference := at(behind, watcher.segments[0].Events[0])
	b, c := event(0, "MODIFIED", 77, "b"), event(0, "MODIFIED", 91, "c")
	d, end, e := event(0, "ADDED", 300, "d"), event(0, "DELETED", 310, "d"), event(0, "ADDED", 320, "e")
	for _, row := range []struct {
		name   string
		events []Event
		says   string
	}{
		{"exact beside it", []Event{b, c, event(0, "DELETED", 205, "c"), d, end, e}, ""},
		{"told the difference", []Event{difference, at(later, d), at(later, end), at(later, e)}, ""},
		{"told it before what came back", []Event{difference, at(behind, event(0, "ADDED", 91, "c")), at(later, event(0, "DELETED", 205, "c")), d, end, e}, ""},
		{"told one difference of two deletions", []Event{b, c, at(behind, event(0, "DELETED", 92, "c")), at(later, e)}, ""},
		{"told it later than it may be", []Event{at(later, difference)}, "did not happen"},
		{"a version is lost beside it", []Event{c}, "was not told"},
		{"a creation after it is told as a change", []Event{difference, at(later, event(0, "MODIFIED", 300, "d"))}, "MODIFIED of 300 after"},
		{"a change after it is told as a creation", []Event{difference, at(later, event(0, "ADDED", 91, "c"))}, "not what was before"},
		{"what came after it is lost", []Event{difference}, "and there is 320"},
	} {
		t.Run(row.name, func(t *testing.T) {
			segment := Segment{Listed: listed, Events: row.events, Whole: true}
			err := segment.Check(book.Chains(truth), func(when time.Duration) bool { return when == behind })
			if (err == nil) != (row.says == "") || (err != nil && !strings.Contains(err.Error(), row.says)) {
				t.Errorf("said %v", err)
			}
		})
	}
	truth.Gone = map[string]bool{one: true}
	segment := Segment{Listed: listed, Events: []Event{difference}, Whole: true}
	if err := segment.Check(book.Chains(truth), w.Excused); err != nil || book.fault != "" {
		t.Errorf("it is gone in the end: %v, %s", err, book.fault)
	}
}

// TestGR_903_FindingsNameWhoToldWhat: a wrong stream is reported with its connections, and with what all others told of the object.
func TestGR_903_FindingsNameWhoToldWhat(t *testing.T) {
	history := []Operation{{Key: one, Client: 3, Verb: Create, Version: "a", Outcome: Done, Told: "proxy: 201 1"},
		{Key: one, Client: lastReader, Verb: Read, Outcome: Absent}, {Key: one, Verb: Delete, Guard: "a", Outcome: Unknown}}
	truth := TruthOf(history)
	if !truth.Created["a"] || !truth.Gone[one] || truth.Gone["c/other"] {
		t.Errorf("%+v", truth)
	}
	l := &Workload{w: &World{}, history: history, book: &Book{}}
	watchers := []*Watcher{{Workload: l, label: "x"}, {Workload: l, label: "y"}}
	for number, place := range []string{"proxy", "root-a"} {
		watchers[number].connections = []Connection{{Place: place, From: "7", Ended: "cut in the middle"}}
		watchers[number].segments = []*Segment{{Name: "watch " + watchers[number].label + "/0", Events: []Event{event(0, "ADDED", 9, "a")}}}
	}
	l.note(watchers[0].segments[0].wrong(one, time.Second, fmt.Errorf("so it is")), watchers[0], watchers)
	if len(l.findings) != 1 || len(l.w.failures) != 1 {
		t.Fatalf("%d findings, %d failures", len(l.findings), len(l.w.failures))
	}
	for _, text := range []string{"watch x/0 at +1.000 s: so it is", "watch x #0: +0.000 s at proxy from 7, +0.000 s cut in the middle",
		"watch x/0 #0 (proxy from 7) told ADDED of 9:a", "watch y/0 #0 (root-a from 7) told ADDED of 9:a", "client 3 create a", "unknown"} {
		if !strings.Contains(l.findings[0], text) {
			t.Errorf("no %q in %s", text, l.findings[0])
		}
	}
}
