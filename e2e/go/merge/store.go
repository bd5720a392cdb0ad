// Package merge tests lists and watches over several shards from outside: scriptable shards, one proxy in front of them,
// and clients that record every byte. The tests T01 … T112 are those of docs/spec/aggregation.md.
package merge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Namespace of every object.
const Namespace = "t"

// Resource is one kind of objects that a Fake serves.
type Resource struct {
	Group, Version, Plural, Kind string
	Typed                        bool // built in: key order of Go structs, protobuf
}

// What every Fake serves.
var (
	ConfigMaps = Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Typed: true}
	Widgets    = Resource{Group: "example.test", Version: "v1", Plural: "widgets", Kind: "Widget"}
	// Deployments are always empty: the example of the cursor format is about them.
	Deployments = Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	// Clusters are the logical clusters that a shard of kcp says it has.
	Clusters = Resource{Group: "core.kcp.io", Version: "v1alpha1", Plural: "logicalclusters", Kind: "LogicalCluster"}
)

// Moving is a logical cluster that several shards may show; the others are named like their shards.
const Moving = "moving"

func (r Resource) apiVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// Path of the collection over all namespaces.
func (r Resource) Path() string {
	if r.Group == "" {
		return "/api/" + r.Version + "/" + r.Plural
	}
	return "/apis/" + r.Group + "/" + r.Version + "/" + r.Plural
}

// In is the path of the collection in Namespace.
func (r Resource) In() string {
	if r.Group == "" {
		return "/api/" + r.Version + "/namespaces/" + Namespace + "/" + r.Plural
	}
	return "/apis/" + r.Group + "/" + r.Version + "/namespaces/" + Namespace + "/" + r.Plural
}

// record is one version of an object; it never changes.
type record struct {
	key, name, namespace, uid string
	cluster                   string // annotation kcp.io/cluster
	rv                        uint64
	labels                    map[string]string
	body                      map[string]any
	once                      sync.Once
	json                      []byte
	typed                     *corev1.ConfigMap
}

func (r *record) fields() map[string]string {
	return map[string]string{"metadata.name": r.name, "metadata.namespace": r.namespace}
}

// encode makes the JSON text as a server writes it: struct order for built-in kinds, sorted keys for custom ones.
func (r *record) encode(resource Resource) []byte {
	r.once.Do(func() {
		var err error
		if resource.Typed {
			r.typed = &corev1.ConfigMap{}
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(r.body, r.typed); err == nil {
				r.json, err = json.Marshal(r.typed)
			}
		} else {
			r.json, err = json.Marshal(r.body)
		}
		if err != nil {
			panic(err)
		}
	})
	return r.json
}

type change struct {
	rv            uint64
	event         string
	after, before *record // before: nil for ADDED; after of DELETED has the deletion's resourceVersion
}

type collection struct {
	changes   []change
	live      map[string]*record
	compacted uint64 // changes up to here are forgotten
	snapRV    uint64
	snap      []*record
	snapOK    bool
}

// store has one counter of revisions for all its collections.
type store struct {
	mutex       sync.Mutex
	marker      string // annotation kcp.io/cluster of every object; "": none
	rv          uint64
	collections map[string]*collection
	wake        chan struct{}
}

func newStore(first uint64) *store {
	s := &store{rv: first, collections: map[string]*collection{}, wake: make(chan struct{})}
	for _, r := range []Resource{ConfigMaps, Widgets, Deployments, Clusters} {
		s.collections[r.Plural] = &collection{live: map[string]*record{}, compacted: first}
	}
	return s
}

func deepCopy(in map[string]any) map[string]any { return runtime.DeepCopyJSON(in) }

func (s *store) notify() {
	close(s.wake)
	s.wake = make(chan struct{})
}

func (s *store) newRecord(resource Resource, body map[string]any) *record {
	meta := body["metadata"].(map[string]any)
	cluster := ""
	meta["resourceVersion"] = strconv.FormatUint(s.rv, 10)
	body["apiVersion"], body["kind"] = resource.apiVersion(), resource.Kind
	if s.marker != "" {
		annotations, _ := meta["annotations"].(map[string]any)
		annotations = maps.Clone(annotations)
		if annotations == nil {
			annotations = map[string]any{}
		}
		if own, _ := annotations["kcp.io/cluster"].(string); own != Moving && !strings.HasPrefix(own, "system:") {
			annotations["kcp.io/cluster"] = s.marker
		}
		meta["annotations"] = annotations
		cluster = annotations["kcp.io/cluster"].(string)
	}
	labels := map[string]string{}
	if found, ok := meta["labels"].(map[string]any); ok {
		for key, value := range found {
			labels[key] = fmt.Sprint(value)
		}
	}
	r := &record{name: meta["name"].(string), namespace: meta["namespace"].(string), uid: meta["uid"].(string), rv: s.rv,
		labels: labels, body: body, cluster: cluster}
	r.key = r.namespace + "/" + r.name
	return r
}

// Shelf is one collection of a Fake, as tests fill it.
type Shelf struct {
	fake     *Fake
	resource Resource
}

// Mod changes an object before it is stored.
type Mod func(body map[string]any)

// Labels sets labels given as key, value, key, value.
func Labels(pairs ...string) Mod {
	return func(body map[string]any) {
		labels := map[string]any{}
		for n := 0; n+1 < len(pairs); n += 2 {
			labels[pairs[n]] = pairs[n+1]
		}
		body["metadata"].(map[string]any)["labels"] = labels
	}
}

// Annotation sets one annotation.
func Annotation(key, value string) Mod {
	return func(body map[string]any) {
		meta := body["metadata"].(map[string]any)
		annotations, ok := meta["annotations"].(map[string]any)
		if !ok {
			annotations = map[string]any{}
		}
		annotations[key] = value
		meta["annotations"] = annotations
	}
}

// Data sets one entry of data (of a ConfigMap) or spec.
func Data(key, value string) Mod {
	return func(body map[string]any) {
		field := "data"
		if body["kind"] != ConfigMaps.Kind {
			field = "spec"
		}
		data, ok := body[field].(map[string]any)
		if !ok {
			data = map[string]any{}
		}
		data[key] = value
		body[field] = data
	}
}

// Put makes or changes an object and returns its resourceVersion.
func (s *Shelf) Put(name string, mods ...Mod) string {
	st := s.fake.store
	st.mutex.Lock()
	defer st.mutex.Unlock()
	c := st.collections[s.resource.Plural]
	key := Namespace + "/" + name
	before := c.live[key]
	st.rv++
	var body map[string]any
	event := "MODIFIED"
	if before == nil {
		event = "ADDED"
		body = map[string]any{"apiVersion": s.resource.apiVersion(), "kind": s.resource.Kind, "metadata": map[string]any{
			"name": name, "namespace": Namespace, "uid": fmt.Sprintf("%s-%s-%d", s.fake.Name, name, st.rv),
			"creationTimestamp": time.Now().UTC().Format(time.RFC3339)}}
		if !s.resource.Typed {
			body["metadata"].(map[string]any)["generation"] = int64(1)
		}
	} else {
		body = deepCopy(before.body)
	}
	for _, mod := range mods {
		mod(body)
	}
	after := st.newRecord(s.resource, body)
	c.live[key] = after
	c.changes = append(c.changes, change{rv: st.rv, event: event, after: after, before: before})
	st.notify()
	return strconv.FormatUint(st.rv, 10)
}

// Replace stores a whole object as a PUT or POST does.
func (s *Shelf) Replace(name string, body map[string]any) string {
	return s.Put(name, func(stored map[string]any) {
		old := stored["metadata"].(map[string]any)
		meta, _ := body["metadata"].(map[string]any)
		meta = maps.Clone(meta)
		for _, key := range []string{"name", "namespace", "uid", "creationTimestamp"} {
			meta[key] = old[key]
		}
		clear(stored)
		maps.Copy(stored, body)
		stored["metadata"] = meta
	})
}

// Delete removes an object and returns the deletion's resourceVersion ("" if there was none).
func (s *Shelf) Delete(name string) string {
	st := s.fake.store
	st.mutex.Lock()
	defer st.mutex.Unlock()
	c := st.collections[s.resource.Plural]
	before := c.live[Namespace+"/"+name]
	if before == nil {
		return ""
	}
	st.rv++
	delete(c.live, before.key)
	c.changes = append(c.changes, change{rv: st.rv, event: "DELETED", after: st.newRecord(s.resource, deepCopy(before.body)), before: before})
	st.notify()
	return strconv.FormatUint(st.rv, 10)
}

// Get returns the present version of an object, nil if there is none.
func (s *Shelf) Get(name string) map[string]any {
	st := s.fake.store
	st.mutex.Lock()
	defer st.mutex.Unlock()
	if r := st.collections[s.resource.Plural].live[Namespace+"/"+name]; r != nil {
		return deepCopy(r.body)
	}
	return nil
}

// Versions of all objects, by marker/namespace/name.
func (s *Shelf) Versions() Model {
	st := s.fake.store
	st.mutex.Lock()
	defer st.mutex.Unlock()
	out := Model{}
	for key, r := range st.collections[s.resource.Plural].live {
		cluster := s.fake.Name
		if r.cluster != "" {
			cluster = r.cluster
		}
		out[cluster+"/"+key] = strconv.FormatUint(r.rv, 10)
	}
	return out
}

// RV is the present revision of the shard.
func (f *Fake) RV() uint64 {
	f.store.mutex.Lock()
	defer f.store.mutex.Unlock()
	return f.store.rv
}

// Tick moves the revision on without changing any object.
func (f *Fake) Tick() {
	f.store.mutex.Lock()
	defer f.store.mutex.Unlock()
	f.store.rv++
	f.store.notify()
}

// Forget drops the history: everything older than now is 410.
func (f *Fake) Forget() {
	f.store.mutex.Lock()
	defer f.store.mutex.Unlock()
	f.store.rv++
	for _, c := range f.store.collections {
		c.compacted, c.snapOK = f.store.rv, false
	}
}

// Rollback restores an older backup: the last n revisions never happened.
func (f *Fake) Rollback(n uint64) {
	st := f.store
	st.mutex.Lock()
	defer st.mutex.Unlock()
	st.rv -= n
	for _, c := range st.collections {
		c.changes = slices.DeleteFunc(c.changes, func(one change) bool { return one.rv > st.rv })
		c.live = map[string]*record{}
		for _, one := range c.changes {
			if one.event == "DELETED" {
				delete(c.live, one.after.key)
			} else {
				c.live[one.after.key] = one.after
			}
		}
		c.snapOK = false
	}
	st.notify()
}

// at is the sorted state at a revision; ok is false if it is forgotten.
func (s *store) at(plural string, rv uint64) ([]*record, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c := s.collections[plural]
	if rv < c.compacted {
		return nil, false
	}
	if c.snapOK && c.snapRV == rv {
		return c.snap, true
	}
	live := c.live
	if rv < s.rv {
		live = map[string]*record{}
		for _, one := range c.changes {
			if one.rv > rv {
				break
			}
			if one.event == "DELETED" {
				delete(live, one.after.key)
			} else {
				live[one.after.key] = one.after
			}
		}
	}
	keys := slices.Sorted(maps.Keys(live))
	out := make([]*record, len(keys))
	for n, key := range keys {
		out[n] = live[key]
	}
	c.snap, c.snapRV, c.snapOK = out, rv, true
	return out, true
}

func (s *store) revision() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.rv
}

// since returns the changes after a revision, the revision now, and what is closed at the next change.
func (s *store) since(plural string, rv uint64) (changes []change, now uint64, wake <-chan struct{}, ok bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c := s.collections[plural]
	if rv < c.compacted {
		return nil, s.rv, s.wake, false
	}
	begin, _ := slices.BinarySearchFunc(c.changes, rv+1, func(one change, rv uint64) int {
		switch {
		case one.rv < rv:
			return -1
		case one.rv > rv:
			return 1
		}
		return 0
	})
	return slices.Clone(c.changes[begin:]), s.rv, s.wake, true
}
