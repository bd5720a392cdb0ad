package growing

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// at makes an operation between two moments.
func at(begin, end int, verb Verb, guard, version string, outcome Outcome) Operation {
	return Operation{Key: "root|default/x", Client: begin, Verb: verb, Guard: guard, Version: version, Outcome: outcome,
		Begin: time.Duration(begin), End: time.Duration(end)}
}

// unseen are writes of unknown outcome, of which each may have come at any time.
func unseen(count int) (out []Operation) {
	for i := range count {
		out = append(out, at(2+i, 3+i, Update, "", fmt.Sprintf("u%d", i), Unknown), at(2+i, 3+i, Create, "", fmt.Sprintf("v%d", i), Unknown))
	}
	return out
}

// TestGR_903_TheRegisterSeesWhatIsWrong: right histories pass, and each kind of wrong one is found.
func TestGR_903_TheRegisterSeesWhatIsWrong(t *testing.T) {
	create := at(0, 1, Create, "", "a", Done)
	for _, row := range []struct {
		name    string
		right   bool
		history []Operation
	}{
		{"in order", true, []Operation{create, at(2, 3, Update, "a", "b", Done), at(4, 5, Read, "", "b", Done),
			at(6, 7, Delete, "b", "", Done), at(8, 9, Read, "", "", Absent)}},
		{"at once", true, []Operation{create, at(2, 9, Update, "", "b", Done), at(3, 4, Read, "", "a", Done), at(5, 6, Read, "", "b", Done)}},
		{"refused", true, []Operation{create, at(2, 3, Create, "", "b", Exists), at(4, 5, Update, "z", "c", Conflict), at(6, 7, Read, "", "a", Done)}},
		{"unknown that came late", true, []Operation{create, at(2, 3, Update, "a", "b", Unknown), at(4, 5, Read, "", "a", Done),
			at(6, 7, Read, "", "b", Done)}},
		{"unknown that never came", true, []Operation{create, at(2, 3, Delete, "", "", Unknown), at(8, 9, Read, "", "a", Done)}},
		{"many unknown ones that nobody has seen", true, append([]Operation{create, at(500, 501, Read, "", "a", Done)}, unseen(400)...)},
		{"an unknown one that only a guard tells of", true, []Operation{create, at(2, 3, Update, "a", "b", Unknown), at(4, 5, Update, "b", "c", Done)}},
		{"a lost write", false, []Operation{create, at(2, 3, Update, "a", "b", Done), at(4, 5, Read, "", "a", Done)}},
		{"a lost creation", false, []Operation{create, at(2, 3, Read, "", "", Absent)}},
		{"a stale read", false, []Operation{create, at(2, 9, Update, "a", "b", Done), at(3, 4, Read, "", "b", Done), at(5, 6, Read, "", "a", Done)}},
		{"two that won with one guard", false, []Operation{create, at(2, 5, Update, "a", "b", Done), at(3, 6, Update, "a", "c", Done)}},
		{"a deletion that came back", false, []Operation{create, at(2, 3, Delete, "", "", Done), at(4, 5, Read, "", "a", Done)}},
		{"an unknown write twice", false, []Operation{create, at(2, 3, Update, "", "b", Unknown), at(4, 5, Read, "", "b", Done),
			at(6, 7, Update, "b", "c", Done), at(8, 9, Read, "", "b", Done)}},
		{"an unknown write before its begin", false, []Operation{create, at(2, 3, Read, "", "b", Done), at(4, 5, Update, "", "b", Unknown)}},
		{"a conflict with what is there", false, []Operation{create, at(2, 3, Update, "a", "b", Conflict), at(4, 5, Read, "", "a", Done)}},
		{"exists, where nothing was", false, []Operation{at(0, 1, Create, "", "a", Exists)}},
		{"a read of what nobody wrote", false, []Operation{create, at(2, 3, Read, "", "z", Done)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := Linearizable(row.history)
			if row.right && err != nil {
				t.Error(err)
			}
			if !row.right && (err == nil || !strings.Contains(err.Error(), "no order explains")) {
				t.Errorf("not found: %v", err)
			}
		})
	}
}

// TestGR_903_ObjectsAreCheckedForThemselves: what is wrong with one is said with its name, whatever the others are.
func TestGR_903_ObjectsAreCheckedForThemselves(t *testing.T) {
	other := at(0, 1, Create, "", "b", Done)
	other.Key = "root|default/y"
	stale := at(2, 3, Read, "", "", Absent)
	stale.Key = other.Key
	if err := Linearizable([]Operation{at(0, 1, Create, "", "a", Done), other}); err != nil {
		t.Error(err)
	}
	err := Linearizable([]Operation{at(0, 1, Create, "", "a", Done), other, stale})
	if err == nil || !strings.HasPrefix(err.Error(), other.Key) {
		t.Error(err)
	}
}
