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
