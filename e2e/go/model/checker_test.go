package model

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The worked example of the specification, 5.2.
func TestCursorsOfTheSpecification(t *testing.T) {
	v, err := parseVector("120000007830422" + "00000000000000004711" + "00000000000000000000" + "00000000000000000982")
	if err != nil || v.Generation != 7 || v.Check != 830422 || !slices.Equal(v.Components, []uint64{4711, 0, 982}) {
		t.Fatalf("%+v, %v", v, err)
	}
	uids := []string{"uid-a", "uid-b", "uid-c"}
	for want, row := range map[uint64][]string{830422: {"/clusters/*", "apps", "deployments"}, 111506: {"/clusters/*", "", "configmaps"},
		733746: {"/partitions/2hk9/eu/clusters/*", "apps", "deployments"}} {
		if got := checkOf(row[0], row[1], row[2], uids); got != want {
			t.Errorf("%v: check %d, not %d", row, got, want)
		}
	}
	if got := checkOf("/clusters/*", "apps", "deployments", append(uids, "uid-d")); got != 187897 {
		t.Errorf("with uid-d: %d", got)
	}
	for _, bad := range []string{"", "4711", "120000007830422", strings.Repeat("2", 35), "12000000783042x" + strings.Repeat("0", 20)} {
		if _, err := parseVector(bad); err == nil {
			t.Errorf("%q is taken for a cursor", bad)
		}
	}
}

func TestSlotsAreFoundByTheirCheck(t *testing.T) {
	s := &Slots{}
	for _, name := range []string{"a", "b", "c"} {
		s.Add(name, "uid-"+name)
	}
	find := func(order ...string) []string {
		return s.UIDs("configmaps", Vector{Check: checkOf("/clusters/*", "", "configmaps", order), Components: make([]uint64, len(order))})
	}
	for _, order := range [][]string{{"uid-c", "uid-a", "uid-b"}, {"uid-c", "uid-a", "uid-b", "uid-d"}, {"uid-c", "uid-a", "uid-b", "uid-e"}} {
		if len(order) == 4 {
			s.Add("late", order[3])
		}
		if got := find(order...); !slices.Equal(got, order) {
			t.Errorf("%v for %v", got, order)
		}
	}
	s.Add("late", "uid-f")
	s.Add("late", "uid-g")
	if got := find("uid-c", "uid-a", "uid-b", "uid-f", "uid-g"); got == nil {
		t.Error("two steps at once are not found")
	}
	if got := find("uid-x", "uid-a", "uid-b"); got != nil {
		t.Errorf("%v for an unknown shard", got)
	}
}

func TestScriptsAreReplayable(t *testing.T) {
	text := func(seed int64, without string) string {
		return fmt.Sprint(script(seed, time.Minute, []string{"a", "b"}, without))
	}
	if text(1, "") != text(1, "") || text(1, "") == text(2, "") {
		t.Error("a seed is not a script")
	}
	if strings.Contains(text(3, "kill,add-remove"), "kill") || !strings.Contains(text(3, ""), "kill") {
		t.Error("faults cannot be left out")
	}
}

// small is a world of two shards with a known history.
type small struct {
	*World
	checker *Checker
}

func event(what, cluster, name string, version int, labels ...string) *watchEvent {
	e := &watchEvent{Type: what}
	e.Object.Metadata.Name, e.Object.Metadata.Namespace = name, "default"
	e.Object.Metadata.ResourceVersion = fmt.Sprint(version)
	e.Object.Metadata.Annotations = map[string]string{clusterMark: cluster}
	e.Object.Metadata.Labels = map[string]string{}
	for _, label := range labels {
		e.Object.Metadata.Labels[label] = "yes"
	}
	return e
}

func newSmall(s Selection) *small {
	w := &World{ctx: context.Background(), truth: &Truth{logs: map[string]*Log{}, owners: map[string]string{"ca": "a", "cb": "b"}},
		slots: &Slots{}, begin: time.Now(), shards: []*Shard{{Name: "a"}, {Name: "b"}}, away: map[string]bool{}}
	for _, name := range []string{"a", "b"} {
		w.slots.Add(name, "uid-"+name)
		log := newLog(name, "configmaps")
		log.begin([]Object{event("", "c"+name, "old", 5, "pick").Object}, 10)
		w.truth.logs[name+"/configmaps"] = log
	}
	a := w.truth.Log("a", "configmaps")
	a.add(event("ADDED", "ca", "x", 11, "pick"))
	a.add(event("MODIFIED", "ca", "x", 12))
	a.add(event("MODIFIED", "ca", "x", 13, "pick"))
	a.add(event("DELETED", "ca", "old", 14, "pick"))
	a.final = true
	w.truth.Log("b", "configmaps").final = true
	return &small{w, newChecker(w, "test", "configmaps", s)}
}

func cursorOf(a, b int) string {
	check := checkOf("/clusters/*", "", "configmaps", []string{"uid-a", "uid-b"})
	return fmt.Sprintf("120000001%06d%020d%020d", check, a, b)
}

// TestCheckerSeesWhatIsWrong: streams that are right pass, and every kind of wrong stream is found.
func TestCheckerSeesWhatIsWrong(t *testing.T) {
	from := func(version string) step { return step{what: "start", version: version} }
	sync := step{what: "start", initial: true, end: true}
	mark := func(version string) step { return step{what: "BOOKMARK", version: version} }
	end := func(version string) step { return step{what: "BOOKMARK", version: version, end: true} }
	saw := func(what, cluster, name string, version int) step {
		return step{what: what, object: event("", cluster, name, version).Object}
	}
	list := func(version string, items ...*watchEvent) step {
		s := step{what: "list", version: version}
		for _, item := range items {
			s.items = append(s.items, item.Object)
		}
		return s
	}
	oldA, oldB := event("", "ca", "old", 5), event("", "cb", "old", 5)
	for _, row := range []struct {
		name  string
		s     Selection
		steps []step
		fault string
	}{
		{"all in order", Everything, []step{list(cursorOf(10, 10), oldA, oldB), from(cursorOf(10, 10)), saw("ADDED", "ca", "x", 11),
			mark(cursorOf(11, 10)), saw("MODIFIED", "ca", "x", 12), saw("MODIFIED", "ca", "x", 13), saw("DELETED", "ca", "old", 14),
			mark(cursorOf(14, 12))}, ""},
		{"selected", Picked, []step{list(cursorOf(10, 10), oldA, oldB), from(cursorOf(10, 10)), saw("ADDED", "ca", "x", 11),
			saw("DELETED", "ca", "x", 12), saw("ADDED", "ca", "x", 13), mark(cursorOf(13, 10))}, ""},
		{"initial events", Everything, []step{sync, saw("ADDED", "cb", "old", 5), saw("ADDED", "ca", "x", 12), saw("ADDED", "ca", "old", 5),
			end(cursorOf(12, 10)), saw("MODIFIED", "ca", "x", 13)}, ""},
		{"resumed at an event", Everything, []step{list(cursorOf(12, 10), event("", "ca", "x", 12), oldA, oldB), from(cursorOf(12, 10)),
			saw("MODIFIED", "ca", "x", 13), from("13"), saw("MODIFIED", "ca", "x", 13), saw("DELETED", "ca", "old", 14), mark(cursorOf(14, 10))}, ""},
		{"a list without an object", Everything, []step{list(cursorOf(10, 10), oldA)}, "not the state of b at 10"},
		{"a list from later than it says", Everything, []step{list(cursorOf(10, 10), oldA, oldB, event("", "ca", "x", 11))}, "not the state of a at 10"},
		{"a lost event", Everything, []step{from(cursorOf(10, 10)), saw("MODIFIED", "ca", "x", 12)}, "a lost event"},
		{"a lost last event", Everything, []step{from(cursorOf(13, 10)), mark(cursorOf(14, 10))}, "does not have the state of a at 14"},
		{"an event twice", Everything, []step{from(cursorOf(10, 10)), saw("ADDED", "ca", "x", 11), saw("ADDED", "ca", "x", 11)}, "comes after"},
		{"an old event again", Everything, []step{from(cursorOf(12, 10)), saw("MODIFIED", "ca", "x", 12)}, "twice"},
		{"an invented event", Everything, []step{from(cursorOf(10, 10)), saw("ADDED", "cb", "y", 11)}, "nothing more"},
		{"an invented initial event", Everything, []step{sync, saw("ADDED", "ca", "y", 11)}, "never had this version"},
		{"the wrong type", Everything, []step{from(cursorOf(10, 10)), saw("MODIFIED", "ca", "x", 11)}, "wrong event"},
		{"deleted at its last version", Everything, []step{from(cursorOf(13, 10)), saw("DELETED", "ca", "old", 5)}, "twice"},
		{"a bookmark before its events", Everything, []step{from(cursorOf(10, 10)), mark(cursorOf(13, 10)), saw("ADDED", "ca", "x", 11)},
			"does not have the state"},
		{"a bookmark behind its events", Everything, []step{from(cursorOf(10, 10)), saw("ADDED", "ca", "x", 11), mark(cursorOf(10, 10))},
			"delivered up to 11, not 10"},
		{"a cursor that falls", Everything, []step{from(cursorOf(10, 10)), mark(cursorOf(10, 12)), mark(cursorOf(10, 11))}, "comes after"},
		{"an end too early", Everything, []step{sync, saw("ADDED", "cb", "old", 5), end(cursorOf(10, 10))}, "does not have the state of a"},
		{"an end that nobody waits for", Everything, []step{from(cursorOf(10, 10)), end(cursorOf(10, 10))}, "nobody waits for"},
		{"a phantom after a resumption", Everything, []step{sync, saw("ADDED", "cb", "old", 5), saw("ADDED", "ca", "old", 5),
			end(cursorOf(10, 10)), from("5"), mark(cursorOf(14, 10))}, "does not have the state of a at 14"},
		{"a gap after a resumption at an event", Everything, []step{from(cursorOf(10, 10)), saw("ADDED", "ca", "x", 11), from("11"),
			saw("MODIFIED", "ca", "x", 13)}, "a lost event"},
		{"nothing delivered, it says", Everything, []step{list(cursorOf(10, 10), oldA, oldB), from(cursorOf(10, 10)), saw("ADDED", "ca", "x", 11),
			mark(cursorOf(11, 0))}, "nothing delivered of b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newSmall(row.s)
			for _, s := range row.steps {
				w.checker.Saw(s)
			}
			w.checker.End()
			found := strings.Join(w.failures, "\n")
			if row.fault == "" && found != "" || !strings.Contains(found, row.fault) {
				t.Errorf("want %q, found: %s", row.fault, found)
			}
			if _, behind := w.checker.Behind(); row.name == "all in order" && behind != "" {
				t.Error(behind)
			}
		})
	}
}
