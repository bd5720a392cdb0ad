// Command apply prints random cases of server-side apply with what the field managers of
// Kubernetes (structured-merge-diff and apimachinery) make of them, one JSON object a line:
//
//	{"schemas": {"v1": {...}, "v2": {...}}, "steps": [{"op": "apply", "manager": "a",
//	 "version": "v1", "force": false, "config": {...}, "object": {...} | "error": "..." |
//	 "conflict": {"message": "...", "causes": [...]}}, ...]}
//
// Times in managedFields are "T" where the reference has one. krm/apply_oracle_test.cc replays them.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const (
	group       = "ex.io"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

type step struct {
	Op       string         `json:"op"` // apply or update
	Manager  string         `json:"manager"`
	Version  string         `json:"version"`
	Sub      string         `json:"subresource,omitempty"`
	Force    bool           `json:"force,omitempty"`
	Config   map[string]any `json:"config"`
	Object   map[string]any `json:"object,omitempty"`
	Error    string         `json:"error,omitempty"`
	Conflict *conflict      `json:"conflict,omitempty"`
	Schema   int            `json:"schema,omitempty"` // index into schemas: those in force
}

type conflict struct {
	Message string   `json:"message"`
	Causes  []string `json:"causes"` // message + " " + field, sorted
}

type testCase struct {
	Schemas []map[string]any `json:"schemas"`         // by version
	Split   bool             `json:"split,omitempty"` // status is a subresource
	Steps   []step           `json:"steps"`
}

// ---- random schemas and values

type gen struct{ *rand.Rand }

func (g gen) one(of ...string) string { return of[g.Intn(len(of))] }

func (g gen) scalar() map[string]any {
	switch g.Intn(7) {
	case 0:
		return map[string]any{"type": "integer"}
	case 1:
		return map[string]any{"type": "boolean"}
	case 2:
		return map[string]any{"x-kubernetes-int-or-string": true}
	case 3:
		return map[string]any{"type": "number"}
	case 4:
		return map[string]any{"type": "string", "format": g.one("date-time", "byte", "ipv4")}
	}
	return map[string]any{"type": "string"}
}

func (g gen) schema(depth int) map[string]any {
	if depth <= 0 {
		return g.scalar()
	}
	switch g.Intn(10) {
	case 0, 1:
		return g.scalar()
	case 2: // set
		return map[string]any{"type": "array", "x-kubernetes-list-type": "set",
			"items": map[string]any{"type": g.one("string", "integer")}}
	case 3, 4: // list map
		s := g.object(depth - 1)
		props := s["properties"].(map[string]any)
		keys := []any{"k"}
		props["k"] = map[string]any{"type": g.one("string", "integer")}
		if g.Intn(2) == 0 {
			keys = append(keys, "p")
			props["p"] = map[string]any{"type": "string"}
			if g.Intn(2) == 0 {
				props["p"] = map[string]any{"type": "string", "default": "TCP"}
			}
		}
		delete(s, "x-kubernetes-preserve-unknown-fields")
		return map[string]any{"type": "array", "x-kubernetes-list-type": "map",
			"x-kubernetes-list-map-keys": keys, "items": s}
	case 5: // atomic list
		s := map[string]any{"type": "array", "items": g.schema(depth - 1)}
		if g.Intn(2) == 0 {
			s["x-kubernetes-list-type"] = "atomic"
		}
		return s
	case 6: // map
		s := map[string]any{"type": "object", "additionalProperties": g.schema(depth - 1)}
		if g.Intn(4) == 0 {
			s["x-kubernetes-map-type"] = "atomic"
		}
		return s
	case 7: // free form
		switch g.Intn(8) {
		case 0, 1:
			return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		case 2:
			return map[string]any{"type": "object"}
		case 3:
			return map[string]any{"type": "object", "additionalProperties": true}
		case 4: // an embedded resource, as definitions publish it
			s := g.object(depth - 1)
			delete(s, "x-kubernetes-map-type")
			s["x-kubernetes-embedded-resource"] = true
			return s
		}
		return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	return g.object(depth)
}

func (g gen) object(depth int) map[string]any {
	props := map[string]any{}
	for i, n := 0, 1+g.Intn(4); i < n; i++ {
		props[g.one("a", "b", "c", "d", "e")] = g.schema(depth - 1)
	}
	s := map[string]any{"type": "object", "properties": props}
	if g.Intn(6) == 0 {
		s["x-kubernetes-map-type"] = "atomic"
	}
	if g.Intn(8) == 0 {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	return s
}

func (g gen) root() map[string]any {
	spec := g.object(3)
	return map[string]any{"type": "object", "properties": map[string]any{
		"apiVersion": map[string]any{"type": "string"},
		"kind":       map[string]any{"type": "string"},
		"metadata":   map[string]any{"type": "object"},
		"spec":       spec,
		"status":     map[string]any{"type": "object", "properties": map[string]any{"s": g.schema(2)}},
	}}
}

// mutate changes list and map types somewhere, as a new version of a definition may.
func (g gen) mutate(s map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range s {
		switch k {
		case "properties":
			props := map[string]any{}
			for name, p := range v.(map[string]any) {
				props[name] = g.mutate(p.(map[string]any))
			}
			out[k] = props
		case "items", "additionalProperties":
			out[k] = v
			if m, ok := v.(map[string]any); ok {
				out[k] = g.mutate(m)
			}
		default:
			out[k] = v
		}
	}
	if _, ok := out["additionalProperties"]; ok && g.Intn(3) == 0 {
		out["x-kubernetes-map-type"] = g.one("atomic", "granular")
	}
	if t, ok := out["x-kubernetes-list-type"]; ok && t != "atomic" && g.Intn(4) == 0 {
		out["x-kubernetes-list-type"] = "atomic"
		delete(out, "x-kubernetes-list-map-keys")
	}
	return out
}

func (g gen) free(depth int) any {
	switch g.Intn(7) {
	case 0:
		if depth > 0 {
			m := map[string]any{}
			for i := g.Intn(3); i > 0; i-- {
				m[g.one("x", "y", "z")] = g.free(depth - 1)
			}
			return m
		}
	case 1:
		if depth > 0 {
			l := []any{}
			for i := g.Intn(3); i > 0; i-- {
				l = append(l, g.free(depth-1))
			}
			return l
		}
	case 2:
		return nil
	case 3:
		return g.Intn(2) == 0
	case 4:
		return int64(g.Intn(3))
	}
	return g.one("p", "q", "r")
}

func (g gen) value(s map[string]any, updates bool) any {
	if g.Intn(40) == 0 {
		return nil
	}
	if !updates && g.Intn(60) == 0 {
		return g.free(1) // perhaps of the wrong type
	}
	t, _ := s["type"].(string)
	switch t {
	case "string":
		return g.one("p", "q", "r")
	case "integer":
		return int64(g.Intn(3))
	case "number":
		return []any{1.5, int64(1), 2.0}[g.Intn(3)]
	case "boolean":
		return g.Intn(2) == 0
	case "array":
		items := s["items"].(map[string]any)
		l := []any{}
		seen := map[string]bool{}
		kind, _ := s["x-kubernetes-list-type"].(string)
		for i := g.Intn(5); i > 0; i-- {
			v := g.value(items, updates)
			if kind == "set" || kind == "map" {
				key := ""
				if kind == "set" {
					if v == nil && updates {
						continue
					}
					key = fmt.Sprint(v)
				} else {
					m, ok := v.(map[string]any)
					if !ok {
						if updates {
							continue
						}
					} else {
						props := items["properties"].(map[string]any)
						m["k"] = []any{"i", "j", "l", "m"}[g.Intn(4)]
						if props["k"].(map[string]any)["type"] == "integer" {
							m["k"] = int64(g.Intn(4))
						}
						delete(m, "p")
						if p, ok := props["p"]; ok && g.Intn(3) != 0 {
							m["p"] = g.one("TCP", "UDP")
						} else if ok && p.(map[string]any)["default"] != nil && updates {
							m["p"] = "TCP" // what is stored has its defaults
						}
						if g.Intn(60) == 0 && !updates {
							delete(m, "k")
						}
						p := m["p"]
						if props["p"] != nil && p == nil {
							p = props["p"].(map[string]any)["default"]
						}
						key = fmt.Sprint(m["k"], p)
					}
				}
				if seen[key] && (updates || g.Intn(20) != 0) {
					continue
				}
				seen[key] = true
			}
			l = append(l, v)
		}
		return l
	case "object":
		m := map[string]any{}
		props, _ := s["properties"].(map[string]any)
		names := make([]string, 0, len(props))
		for name := range props {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			if g.Intn(2) == 0 {
				m[name] = g.value(props[name].(map[string]any), updates)
			}
		}
		if a, ok := s["additionalProperties"].(map[string]any); ok {
			for i := g.Intn(4); i > 0; i-- {
				m[g.one("x", "y", "z")] = g.value(a, updates)
			}
		}
		if s["x-kubernetes-embedded-resource"] == true && g.Intn(2) == 0 {
			m["metadata"] = map[string]any{"labels": map[string]any{g.one("x", "y"): g.one("1", "2")},
				"finalizers": []any{g.one("f.io/a", "f.io/b")}}
			if g.Intn(3) == 0 {
				m["apiVersion"] = "v1"
				m["kind"] = g.one("A", "B")
			}
		}
		if s["x-kubernetes-preserve-unknown-fields"] == true || s["additionalProperties"] == true {
			for i := g.Intn(3); i > 0; i-- {
				m[g.one("x", "y", "z")] = g.free(2)
			}
		}
		if !updates && g.Intn(80) == 0 {
			m["unknown"] = "field"
		}
		return m
	}
	if s["x-kubernetes-int-or-string"] == true {
		return []any{int64(g.Intn(2)), "p"}[g.Intn(2)]
	}
	return g.free(2)
}

func (g gen) config(root map[string]any, version string, updates bool) map[string]any {
	props := root["properties"].(map[string]any)
	meta := map[string]any{"name": "n", "namespace": "ns"}
	if g.Intn(3) == 0 {
		labels := map[string]any{}
		for i := g.Intn(3); i > 0; i-- {
			labels[g.one("x", "y")] = g.one("1", "2")
		}
		meta["labels"] = labels
	}
	if g.Intn(4) == 0 {
		list := []any{}
		for _, f := range []string{"f.io/a", "f.io/b", "f.io/c"} {
			if g.Intn(2) == 0 {
				list = append(list, f)
			}
		}
		g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		meta["finalizers"] = list
	}
	if g.Intn(5) == 0 {
		list := []any{}
		for _, uid := range []string{"u1", "u2"} {
			if g.Intn(2) == 0 {
				list = append(list, map[string]any{"apiVersion": "v1", "kind": "K", "name": g.one("o1", "o2"), "uid": uid})
			}
		}
		meta["ownerReferences"] = list
	}
	c := map[string]any{"apiVersion": group + "/" + version, "kind": "Thing", "metadata": meta}
	if g.Intn(8) != 0 {
		c["spec"] = g.value(props["spec"].(map[string]any), updates)
		if c["spec"] == nil && updates {
			delete(c, "spec")
		}
	}
	if g.Intn(4) == 0 {
		c["status"] = g.value(props["status"].(map[string]any), updates)
		if c["status"] == nil && updates {
			delete(c, "status")
		}
	}
	return c
}

// ---- the reference

type converter struct{}

func (converter) Convert(in, out, context any) error { return fmt.Errorf("not used") }
func (converter) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	u := in.(*unstructured.Unstructured).DeepCopy()
	to, _ := gv.KindForGroupVersionKinds([]schema.GroupVersionKind{u.GroupVersionKind()})
	version := gv.Identifier()
	if v, ok := gv.(schema.GroupVersion); ok {
		version = v.String()
	} else {
		version = to.GroupVersion().String()
	}
	u.SetAPIVersion(version)
	return u, nil
}
func (converter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (converter) Default(runtime.Object) {}
func (converter) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	return u, nil
}

func toSpec(s map[string]any) *spec.Schema {
	text, err := json.Marshal(s)
	check(err)
	out := &spec.Schema{}
	check(json.Unmarshal(text, out))
	return out
}

const objectMeta = `{"type": "object", "properties": {
 "annotations": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
 "creationTimestamp": {"type": "string", "format": "date-time"},
 "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
 "deletionTimestamp": {"type": "string", "format": "date-time"},
 "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
 "generateName": {"type": "string"}, "generation": {"type": "integer", "format": "int64"},
 "labels": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
 "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object",
  "properties": {"apiVersion": {"type": "string"}, "fieldsType": {"type": "string"}, "fieldsV1": {"type": "object"},
   "manager": {"type": "string"}, "operation": {"type": "string"}, "subresource": {"type": "string"},
   "time": {"type": "string", "format": "date-time"}}}},
 "name": {"type": "string"}, "namespace": {"type": "string"},
 "ownerReferences": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
  "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"apiVersion": {"type": "string"},
   "blockOwnerDeletion": {"type": "boolean"}, "controller": {"type": "boolean"}, "kind": {"type": "string"},
   "name": {"type": "string"}, "uid": {"type": "string"}}}},
 "resourceVersion": {"type": "string"}, "selfLink": {"type": "string"}, "uid": {"type": "string"}}}`

// publish puts the fields of resources into embedded ones, as definitions do.
func publish(v any) {
	switch x := v.(type) {
	case map[string]any:
		for _, e := range x {
			publish(e)
		}
		if x["x-kubernetes-embedded-resource"] == true {
			props := x["properties"].(map[string]any)
			props["apiVersion"] = map[string]any{"type": "string"}
			props["kind"] = map[string]any{"type": "string"}
			props["metadata"] = map[string]any{"$ref": "#/components/schemas/meta"}
		}
	case []any:
		for _, e := range x {
			publish(e)
		}
	}
}

func excluding(fields ...string) map[fieldpath.APIVersion]fieldpath.Filter {
	set := fieldpath.NewSet()
	for _, field := range fields {
		set.Insert(fieldpath.MakePathOrDie(field))
	}
	filter := fieldpath.NewExcludeSetFilter(set)
	return map[fieldpath.APIVersion]fieldpath.Filter{group + "/v1": filter, group + "/v2": filter}
}

// managers by version and subresource.
func managers(schemas map[string]any, split bool) map[string]*managedfields.FieldManager {
	models := map[string]*spec.Schema{}
	meta := &spec.Schema{}
	check(json.Unmarshal([]byte(objectMeta), meta))
	models["meta"] = meta
	for version, s := range schemas {
		text, err := json.Marshal(s)
		check(err)
		var copied map[string]any
		check(json.Unmarshal(text, &copied))
		publish(copied)
		copied["properties"].(map[string]any)["metadata"] = map[string]any{"$ref": "#/components/schemas/meta"}
		copied["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": group, "version": version, "kind": "Thing"}}
		models["thing-"+version] = toSpec(copied)
	}
	types, err := managedfields.NewTypeConverter(models, false)
	check(err)
	out := map[string]*managedfields.FieldManager{}
	for version := range schemas {
		gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: "Thing"}
		var reset map[fieldpath.APIVersion]fieldpath.Filter
		if split {
			reset = excluding("status")
		}
		m, err := managedfields.NewDefaultCRDFieldManager(types, converter{}, converter{}, converter{}, gvk, gvk.GroupVersion(), "", reset)
		check(err)
		out[version] = m
		m, err = managedfields.NewDefaultCRDFieldManager(types, converter{}, converter{}, converter{}, gvk, gvk.GroupVersion(), "status", excluding("metadata", "spec"))
		check(err)
		out[version+"status"] = m
	}
	return out
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// plain is a copy as JSON decodes it for clients (numbers without exponents stay integers).
func plain(m map[string]any) map[string]any { return runtime.DeepCopyJSON(m) }

// yamlNumbers makes floats of integers, as sigs.k8s.io/yaml does with what is applied.
func yamlNumbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			x[k] = yamlNumbers(e)
		}
	case []any:
		for i, e := range x {
			x[i] = yamlNumbers(e)
		}
	case int64:
		return float64(x)
	}
	return v
}

func normalise(u *unstructured.Unstructured) map[string]any {
	out := plain(u.Object)
	list, ok := out["metadata"].(map[string]any)["managedFields"].([]any)
	if !ok {
		return out
	}
	for _, e := range list {
		if _, ok := e.(map[string]any)["time"]; ok {
			e.(map[string]any)["time"] = "T"
		}
	}
	sort.Slice(list, func(i, j int) bool {
		key := func(k int) string {
			m := list[k].(map[string]any)
			sub, _ := m["subresource"].(string)
			return fmt.Sprint(m["operation"], "|", m["manager"], "|", m["apiVersion"], "|", sub)
		}
		return key(i) < key(j)
	})
	return out
}

func (g gen) makeCase() testCase {
	v1 := g.root()
	schemas := []map[string]any{{"v1": v1}}
	if g.Intn(3) == 0 {
		schemas[0]["v2"] = g.mutate(v1)
	}
	inForce := 0
	split := g.Intn(3) == 0
	fm := managers(schemas[0], split)
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetAPIVersion(group + "/v1")
	live.SetKind("Thing")
	exists := false
	steps := []step{}
	for n := 2 + g.Intn(6); n > 0; n-- {
		before := live
		if g.Intn(12) == 0 {
			next := map[string]any{}
			for _, version := range []string{"v1", "v2"} {
				if s, ok := schemas[inForce][version]; ok && (version == "v1" || g.Intn(3) != 0) {
					next[version] = g.mutate(s.(map[string]any))
				}
			}
			schemas = append(schemas, next)
			inForce = len(schemas) - 1
			fm = managers(next, split)
		}
		version := "v1"
		if schemas[inForce]["v2"] != nil && g.Intn(2) == 0 {
			version = "v2"
		}
		s := step{Op: "apply", Manager: g.one("a", "b", "c"), Version: version, Schema: inForce}
		if g.Intn(6) == 0 {
			s.Manager = "kubectl"
		}
		if split && exists && g.Intn(3) == 0 {
			s.Sub = "status"
		}
		manager := fm[version+s.Sub]
		root := schemas[inForce][version].(map[string]any)
		current := live.DeepCopy()
		current.SetAPIVersion(group + "/" + version)
		if g.Intn(4) == 0 {
			s.Op = "update"
			s.Manager = g.one("a", "u", "w")
			s.Config = g.config(root, version, true)
			if exists && g.Intn(3) == 0 { // a small change
				s.Config = plain(current.Object)
				delete(s.Config["metadata"].(map[string]any), "managedFields")
				delete(s.Config["metadata"].(map[string]any), "uid")
				delete(s.Config, g.one("status", "none"))
			}
			if g.Intn(8) == 0 {
				s.Config["metadata"].(map[string]any)["managedFields"] = []any{}
			}
			if g.Intn(3) == 0 { // as kubectl apply without --server-side does it
				delete(s.Config["metadata"].(map[string]any), "annotations")
				text, err := json.Marshal(s.Config)
				check(err)
				if g.Intn(8) == 0 {
					text = text[1:]
				}
				s.Config["metadata"].(map[string]any)["annotations"] = map[string]any{lastApplied: string(text)}
			}
			object := &unstructured.Unstructured{Object: plain(s.Config)}
			if exists {
				object.SetUID("uid")
			}
			result, err := manager.Update(current, object, s.Manager)
			if err != nil {
				s.Error = err.Error()
			} else {
				live = result.(*unstructured.Unstructured)
			}
		} else {
			s.Force = g.Intn(4) == 0
			s.Config = g.config(root, version, false)
			if g.Intn(4) == 0 {
				for i := len(steps) - 1; i >= 0; i-- { // the same again, perhaps by another
					if steps[i].Op == "apply" && steps[i].Version == version {
						s.Config = plain(steps[i].Config)
						break
					}
				}
			}
			config := &unstructured.Unstructured{Object: yamlNumbers(plain(s.Config)).(map[string]any)}
			result, err := manager.Apply(current, config, s.Manager, s.Force)
			if status, ok := err.(*apierrors.StatusError); ok && status.Status().Reason == metav1.StatusReasonConflict {
				s.Conflict = &conflict{Message: status.Status().Message}
				for _, c := range status.Status().Details.Causes {
					s.Conflict.Causes = append(s.Conflict.Causes, c.Message+" "+c.Field)
				}
				sort.Strings(s.Conflict.Causes)
			} else if err != nil {
				s.Error = err.Error()
			} else {
				live = result.(*unstructured.Unstructured)
			}
		}
		if s.Error == "" && s.Conflict == nil {
			live = &unstructured.Unstructured{Object: integers(plain(live.Object)).(map[string]any)}
			if split {
				live = strategy(s.Sub, before, live)
			}
			s.Object = normalise(live)
			delete(s.Object["metadata"].(map[string]any), "uid")
			live.SetUID("uid")
			exists = true
		}
		steps = append(steps, s)
	}
	return testCase{Schemas: schemas, Split: split, Steps: steps}
}

// strategy keeps status and the rest apart, as the endpoints of a kind with a status do.
func strategy(sub string, before, after *unstructured.Unstructured) *unstructured.Unstructured {
	status, has := after.Object["status"]
	out := after
	if sub == "status" {
		out = before.DeepCopy()
		out.SetAPIVersion(after.GetAPIVersion())
		out.SetManagedFields(after.GetManagedFields())
	} else {
		status, has = before.Object["status"]
	}
	delete(out.Object, "status")
	if has {
		out.Object["status"] = runtime.DeepCopyJSONValue(status)
	}
	return out
}

// integers makes integers of whole floats, as storing and reading does.
func integers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			x[k] = integers(e)
		}
	case []any:
		for i, e := range x {
			x[i] = integers(e)
		}
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	}
	return v
}

func main() {
	count := flag.Int("count", 100, "cases")
	seed := flag.Int64("seed", 1, "of the generator")
	limit := flag.Int("max-bytes", 1<<20, "leaves out longer cases")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for i, printed := int64(0), 0; printed < *count; i++ {
		g := gen{rand.New(rand.NewSource(*seed*1000003 + i))}
		text, err := json.Marshal(g.makeCase())
		check(err)
		if len(text) > *limit || strings.Contains(string(text), "SHOULD NOT HAPPEN") {
			continue
		}
		fmt.Fprintln(out, string(text))
		printed++
	}
}
