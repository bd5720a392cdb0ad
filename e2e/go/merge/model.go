package merge

import (
	"encoding/json"
	"maps"

	"kintsugi.dev/e2e"
)

// Model says which version of which object somebody holds: marker/namespace/name -> resourceVersion.
type Model map[string]string

// Meta is what tests read of an object.
type Meta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Continue        string            `json:"continue"`
	Remaining       *int64            `json:"remainingItemCount"`
	Annotations     map[string]string `json:"annotations"`
	Labels          map[string]string `json:"labels"`
}

// Object is what tests read of a JSON object, list, Table or Status.
type Object struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Metadata   Meta     `json:"metadata"`
	Items      []Object `json:"items"`
	Code       int      `json:"code"`
	Reason     string   `json:"reason"`
	Message    string   `json:"message"`
	Details    struct {
		Group, Kind, Name string
		RetryAfterSeconds int
		Causes            []struct{ Reason, Message, Field string }
	} `json:"details"`
	Columns []struct{ Name, Type string } `json:"columnDefinitions"`
	Rows    []struct {
		Cells  []any  `json:"cells"`
		Object Object `json:"object"`
	} `json:"rows"`
	Data map[string]string `json:"data"`
	Spec map[string]any    `json:"spec"`
}

// Marker names the logical cluster of an object.
func (o Object) Marker() string { return o.Metadata.Annotations["kcp.io/cluster"] }

// Key of an object in a Model.
func (o Object) Key() string {
	return o.Marker() + "/" + o.Metadata.Namespace + "/" + o.Metadata.Name
}

// End tells whether a bookmark ends the initial events.
func (o Object) End() bool { return o.Metadata.Annotations["k8s.io/initial-events-end"] == "true" }

func parse(text []byte) (Object, error) {
	var o Object
	err := json.Unmarshal(text, &o)
	return o, err
}

// ModelOf the items of a list.
func ModelOf(items []Object) Model {
	out := Model{}
	for _, item := range items {
		out[item.Key()] = item.Metadata.ResourceVersion
	}
	return out
}

// Apply events to a copy of the model.
func (m Model) Apply(events []Event) Model {
	out := Model{}
	maps.Copy(out, m)
	for _, e := range events {
		switch e.Type {
		case "ADDED", "MODIFIED":
			out[e.Object.Key()] = e.Object.Metadata.ResourceVersion
		case "DELETED":
			delete(out, e.Object.Key())
		}
	}
	return out
}

// Equal is nil if both are the same, else what differs.
func (m Model) Equal(want Model) error {
	return e2e.Difference(want, m)
}

// Union of what shards hold.
func Union(shelves ...*Shelf) Model {
	out := Model{}
	for _, s := range shelves {
		maps.Copy(out, s.Versions())
	}
	return out
}
