// Package growing checks what clients of an installation on etcd have seen while its processes and networks failed (GR-901 to GR-903).
package growing

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verb is what a client asked for.
type Verb string

const (
	Create Verb = "create" // only where nothing is
	Update Verb = "update" // only of what is there; of Guard alone, where it is given
	Delete Verb = "delete" // the same
	Read   Verb = "read"   // get, or one object's part of a list
)

// Outcome is what the client heard.
type Outcome string

const (
	Done     Outcome = "done"     // 200, 201
	Exists   Outcome = "exists"   // 409 of a creation
	Conflict Outcome = "conflict" // 409 of a guarded write
	Absent   Outcome = "absent"   // 404
	Unknown  Outcome = "unknown"  // no answer, or one that says that it may have happened
)

// Operation is one request for one object. Versions are what their writers called them: every write has a name of its own.
type Operation struct {
	Key        string // logical cluster, namespace, name
	Client     int    // has one request at a time
	Verb       Verb
	Guard      string // Update, Delete: the version that resourceVersion stands for; "": any
	Version    string // of writes: the new one; of reads that are Done: what was there
	Outcome    Outcome
	Begin, End time.Duration // since the begin of the run
	Told       string        // where the request went and what was answered, for reports
}

const longest = 60 * time.Second // that a key may take to check

// register has at most one version; "" is none.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts, order := map[string][]porcupine.Operation{}, []string{}
		for _, one := range history {
			key := one.Input.(Operation).Key
			if parts[key] == nil {
				order = append(order, key)
			}
			parts[key] = append(parts[key], one)
		}
		out := make([][]porcupine.Operation, 0, len(order))
		for _, key := range order {
			out = append(out, parts[key])
		}
		return out
	},
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) { return step(state.(string), input.(Operation)) },
	DescribeOperation: func(input, _ any) string {
		o := input.(Operation)
		return fmt.Sprintf("%s %s guard=%q: %s (%s)", o.Verb, o.Version, o.Guard, o.Outcome, o.Told)
	},
}

// allowed tells whether a write finds what it asks for.
func allowed(state string, o Operation) bool {
	if o.Verb == Create {
		return state == ""
	}
	return state != "" && (o.Guard == "" || o.Guard == state)
}

// step tells whether an operation may have this outcome in this state, and what is there after it.
func step(state string, o Operation) (bool, string) {
	after := o.Version
	if o.Verb == Delete {
		after = ""
	}
	switch o.Outcome {
	case Absent:
		return state == "", state
	case Exists:
		return o.Verb == Create && state != "", state
	case Conflict:
		return o.Guard != "" && state != o.Guard, state
	case Done:
		if o.Verb == Read {
			return state == o.Version, state
		}
		return allowed(state, o), after
	case Unknown:
		// It may come at any time behind its begin, or behind everything, where nobody sees it. One that is refused then changes nothing.
		if o.Verb == Read || !allowed(state, o) {
			return true, state
		}
		return true, after
	}
	return false, state
}

// Linearizable looks at the operations of each object for itself; an error names the first object that no order explains.
func Linearizable(history []Operation) error {
	whole := make([]porcupine.Operation, 0, len(history))
	for _, o := range history {
		end := int64(o.End)
		if o.Outcome == Unknown {
			end = math.MaxInt64
		}
		whole = append(whole, porcupine.Operation{ClientId: o.Client, Input: o, Call: int64(o.Begin), Return: end})
	}
	for _, part := range register.Partition(whole) {
		single := register
		single.Partition = nil
		// What nobody has seen need not have happened: an order without it is one, and much is found sooner.
		if porcupine.CheckOperationsTimeout(single, without(part, Create, Update, Delete), longest) == porcupine.Ok ||
			porcupine.CheckOperationsTimeout(single, without(part, Create, Update), longest) == porcupine.Ok {
			continue
		}
		switch porcupine.CheckOperationsTimeout(single, part, longest) {
		case porcupine.Ok:
		case porcupine.Unknown:
			return fmt.Errorf("%s: %d operations were not checked within %v", part[0].Input.(Operation).Key, len(part), longest)
		default:
			return fmt.Errorf("%s: no order explains its %d operations:\n%s", part[0].Input.(Operation).Key, len(part), told(part))
		}
	}
	return nil
}

// without leaves out the operations of unknown outcome with these verbs.
func without(part []porcupine.Operation, verbs ...Verb) (out []porcupine.Operation) {
	for _, one := range part {
		if o := one.Input.(Operation); o.Outcome != Unknown || !slices.Contains(verbs, o.Verb) {
			out = append(out, one)
		}
	}
	return out
}

func told(part []porcupine.Operation) (text string) {
	for _, one := range part {
		o := one.Input.(Operation)
		text += fmt.Sprintf("  %v–%v client %d %s\n", o.Begin, o.End, o.Client, register.DescribeOperation(o, nil))
	}
	return text
}
