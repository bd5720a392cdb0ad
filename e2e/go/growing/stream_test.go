package growing

import (
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
		{"a list of what nobody wrote", Segment{Listed: map[string]Entry{one: {4, "z", false}}}, "nobody else"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.segment.Check(book.Chains(), func(time.Duration) bool { return false })
			if (err == nil) != (row.says == "") || (err != nil && !strings.Contains(err.Error(), row.says)) {
				t.Errorf("said %v", err)
			}
		})
	}
	skipped := Segment{Listed: listed, Events: []Event{event(0, "MODIFIED", 6, "d")}, Whole: true}
	if err := skipped.Check(book.Chains(), func(time.Duration) bool { return true }); err != nil {
		t.Errorf("excused: %v", err)
	}
	if book.Note(one, Entry{6, "e", false}); !strings.Contains(book.fault, "for another") {
		t.Error("two versions at one revision are not found")
	}
}
