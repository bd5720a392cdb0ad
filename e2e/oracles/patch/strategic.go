package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"sort"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

type kind struct {
	version, name string
	model         any
}

var kinds = []kind{
	{"v1", "ServiceAccount", corev1.ServiceAccount{}},
	{"v1", "ServiceAccount", corev1.ServiceAccount{}},
	{"v1", "ConfigMap", corev1.ConfigMap{}},
	{"v1", "ConfigMap", corev1.ConfigMap{}},
	{"v1", "Secret", corev1.Secret{}},
	{"v1", "Namespace", corev1.Namespace{}},
	{"v1", "Event", corev1.Event{}},
	{"coordination.k8s.io/v1", "Lease", coordinationv1.Lease{}},
	{"rbac.authorization.k8s.io/v1", "ClusterRole", rbacv1.ClusterRole{}},
	{"rbac.authorization.k8s.io/v1", "RoleBinding", rbacv1.RoleBinding{}},
	{"apiextensions.k8s.io/v1", "CustomResourceDefinition", apiextensionsv1.CustomResourceDefinition{}},
}

func orderedKeys(from map[string]any) []string {
	out := make([]string, 0, len(from))
	for key := range from {
		out = append(out, key)
	}
	sort.Strings(out)
	return out
}

func some(r *rand.Rand, from ...string) []any {
	out := []any{}
	for n := r.Intn(5); n > 0; n-- {
		out = append(out, pick(r, from...))
	}
	return out
}

func owners(r *rand.Rand, patch bool) []any {
	return keyed(r, patch, "uid", "name", "controller")
}

// repeated: an element occurs twice in a patch. The reference then changes the patch while it applies it, so that what
// it shows of the patch is of no use.
var repeated bool

// keyed is a list of maps with a merge key.
func keyed(r *rand.Rand, patch bool, key, other, flag string) []any {
	out := []any{}
	used := map[string]bool{}
	for n := r.Intn(5); n > 0; n-- {
		id := pick(r, "1", "2", "3", "4", "5", "6")
		if used[id] && (!patch || r.Intn(10) != 0) {
			continue
		}
		repeated = repeated || used[id]
		used[id] = true
		item := map[string]any{key: id}
		if r.Intn(2) == 0 {
			item[other] = pick(r, "n", "m", "o")
		}
		if flag != "" && r.Intn(3) == 0 {
			item[flag] = r.Intn(2) == 0
		}
		if patch {
			switch r.Intn(25) {
			case 0, 1, 2, 3:
				item["$patch"] = "delete"
			case 4:
				item = map[string]any{"$patch": "replace"}
			case 5:
				item[other] = nil
			case 6:
				delete(item, key)
			case 7:
				item["$patch"] = pick[any](r, "merge", "foo", nil, 5)
			case 8:
				item["$retainKeys"] = []any{key, other}
			}
			if r.Intn(150) == 0 {
				out = append(out, pick[any](r, "x", 5, []any{}))
			}
		}
		out = append(out, item)
	}
	return out
}

func stringMap(r *rand.Rand, patch bool) any {
	out := map[string]any{}
	for n := r.Intn(4); n > 0; n-- {
		out[pick(r, "a", "b", "c", "d")] = pick(r, "1", "2", "")
	}
	if patch {
		switch r.Intn(14) {
		case 0:
			out["$patch"] = pick[any](r, "replace", "delete", "merge", "foo", 1, nil)
		case 1:
			out["$retainKeys"] = append(some(r, "a", "b", "c", "d"), "a", "b", "c")
		case 2:
			out["$retainKeys"] = pick[any](r, "a", nil, []any{})
		case 3:
			return nil
		case 4, 5:
			out[pick(r, "a", "b", "e")] = nil
		case 6:
			out[pick(r, "$setElementOrder/a", "$deleteFromPrimitiveList/a", "$setElementOrder")] = pick[any](r, []any{}, nil, "x")
		}
	}
	return out
}

// ordered puts $setElementOrder beside a list.
func ordered(r *rand.Rand, into map[string]any, name, key string) {
	if r.Intn(3) != 0 {
		return
	}
	order := []any{}
	used := map[any]bool{}
	if list, ok := into[name].([]any); ok && r.Intn(4) != 0 {
		for _, item := range list {
			id := item
			if at, ok := item.(map[string]any); ok {
				if at["$patch"] != nil || at[key] == nil {
					continue
				}
				id = at[key]
			}
			if !used[id] {
				used[id] = true
				order = append(order, id)
			}
		}
	}
	for n := r.Intn(4); n > 0; n-- {
		id := any(pick(r, "1", "2", "3", "4", "5", "6"))
		if used[id] {
			continue
		}
		used[id] = true
		at := r.Intn(len(order) + 1)
		order = append(order[:at], append([]any{id}, order[at:]...)...)
	}
	if key != "" {
		for i, id := range order {
			order[i] = map[string]any{key: id}
		}
	}
	into["$setElementOrder/"+name] = order
	if r.Intn(60) == 0 {
		into["$setElementOrder/"+name] = pick[any](r, "x", nil, []any{5}, map[string]any{})
	}
}

func metadata(r *rand.Rand, patch bool) map[string]any {
	out := map[string]any{}
	if r.Intn(2) == 0 {
		out["labels"] = stringMap(r, patch)
	}
	if r.Intn(3) != 0 {
		out["finalizers"] = some(r, "1", "2", "3", "4", "5", "6")
		if !patch || r.Intn(2) == 0 {
			out["finalizers"] = unique(out["finalizers"].([]any))
		}
	}
	if r.Intn(2) == 0 {
		out["ownerReferences"] = owners(r, patch)
	}
	if !patch {
		return out
	}
	if r.Intn(4) == 0 {
		out["$deleteFromPrimitiveList/finalizers"] = some(r, "1", "2", "3", "4")
	}
	ordered(r, out, "finalizers", "")
	ordered(r, out, "ownerReferences", "uid")
	switch r.Intn(40) {
	case 0:
		out["finalizers"] = pick[any](r, nil, "x", []any{map[string]any{}}, []any{[]any{}}, []any{"1", 2})
	case 1:
		out["$deleteFromPrimitiveList/ownerReferences"] = owners(r, false)
	case 2:
		out["$deleteFromPrimitiveList/"+pick(r, "labels", "none", "finalizers", "")] = pick[any](r, nil, "x", map[string]any{})
	case 3:
		out["$retainKeys"] = []any{"finalizers", "labels", "ownerReferences"}
	case 4:
		out["$setElementOrder/"+pick(r, "none", "labels", "Finalizers", "name", "managedFields")] = []any{}
	case 5:
		out["$setElementOrder/"+pick(r, "finalizers", "ownerReferences")] = []any{}
	}
	return out
}

func unique(list []any) []any {
	used := map[any]bool{}
	out := []any{}
	for _, item := range list {
		if !used[item] {
			out = append(out, item)
		}
		used[item] = true
	}
	return out
}

func body(r *rand.Rand, of string, patch bool) map[string]any {
	out := map[string]any{}
	if r.Intn(3) != 0 {
		out["metadata"] = metadata(r, patch)
	}
	maybe := func(name string, make func() any) {
		if r.Intn(2) == 0 {
			out[name] = make()
		}
	}
	switch of {
	case "ConfigMap":
		maybe("data", func() any { return stringMap(r, patch) })
		maybe("binaryData", func() any { return map[string]any{pick(r, "a", "b"): "YQ=="} })
	case "Secret":
		maybe("data", func() any { return map[string]any{pick(r, "a", "b"): "YQ=="} })
		maybe("type", func() any { return pick[any](r, "Opaque", "x") })
	case "ServiceAccount":
		maybe("secrets", func() any { return keyed(r, patch, "name", "namespace", "") })
		maybe("imagePullSecrets", func() any { return keyed(r, false, "name", "name", "") })
		if patch {
			ordered(r, out, "secrets", "name")
			if r.Intn(5) == 0 {
				ordered(r, out, "imagePullSecrets", "")
			}
		}
	case "Namespace":
		maybe("status", func() any {
			return map[string]any{"phase": "Active", "conditions": keyed(r, patch, "type", "reason", "")}
		})
		maybe("spec", func() any { return map[string]any{"finalizers": some(r, "kubernetes", "a", "b")} })
	case "Event":
		maybe("involvedObject", func() any { return map[string]any{pick(r, "name", "kind"): pick(r, "a", "b")} })
		maybe("series", func() any { return pick[any](r, map[string]any{"count": r.Intn(5)}, map[string]any{}) })
		maybe("message", func() any { return pick[any](r, "x", "y") })
	case "Lease":
		maybe("spec", func() any {
			return map[string]any{pick(r, "holderIdentity", "preferredHolder"): "a", "leaseDurationSeconds": 1 + r.Intn(9)}
		})
	case "ClusterRole":
		maybe("rules", func() any {
			return []any{map[string]any{"verbs": some(r, "get", "list"), "resources": some(r, "a", "b")}}
		})
		maybe("aggregationRule", func() any {
			return map[string]any{"clusterRoleSelectors": []any{map[string]any{"matchLabels": stringMap(r, false)}}}
		})
	case "RoleBinding":
		maybe("subjects", func() any { return []any{map[string]any{"kind": "User", "name": pick(r, "a", "b")}} })
		maybe("roleRef", func() any { return map[string]any{"kind": "Role", "name": pick(r, "a", "b")} })
	case "CustomResourceDefinition":
		maybe("spec", func() any {
			return map[string]any{"group": "a.b", "names": map[string]any{"shortNames": some(r, "a", "b"), "plural": "x"},
				"versions": []any{map[string]any{"name": pick(r, "v1", "v2"), "served": true, "storage": false}}}
		})
		maybe("status", func() any { return map[string]any{"conditions": keyed(r, false, "type", "reason", "")} })
	}
	if patch {
		switch r.Intn(60) {
		case 0:
			out["$patch"] = pick[any](r, "replace", "delete", "merge", "x")
		case 1:
			out["$retainKeys"] = []any{"metadata", "data", "secrets", "apiVersion", "kind"}
		case 2:
			out[pick(r, "metadata", "data", "spec", "none")] = pick[any](r, nil, "x", []any{}, map[string]any{"x": nil})
		}
	}
	return out
}

func strategicCase(r *rand.Rand) caseOf {
	of := pick(r, kinds...)
	typed := reflect.New(reflect.TypeOf(of.model)).Interface()
	if err := json.Unmarshal([]byte(text(body(r, of.name, false))), typed); err != nil {
		panic(err)
	}
	document := func() map[string]any {
		out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			panic(err)
		}
		return out
	}
	repeated = false
	patch := text(body(r, of.name, true))
	made := caseOf{"version": of.version, "kind": of.name, "doc": text(document()), "patch": patch}
	var first []string
	for try := 0; try < 16; try++ {
		parsed := map[string]any{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(patch), &parsed); err != nil {
			panic(err)
		}
		patched, err := strategicpatch.StrategicMergeMapPatch(document(), parsed, of.model)
		answer := []string{"", "", ""}
		if err != nil {
			answer[0] = err.Error()
		} else {
			answer[1], answer[2] = text(patched), fmt.Sprintf("%+v", parsed)
		}
		if try > 0 && !reflect.DeepEqual(first, answer) {
			return nil
		}
		first = answer
	}
	if first[0] != "" {
		made["error"] = first[0]
	} else {
		made["out"] = first[1]
		if !repeated {
			made["shown"] = first[2]
		}
	}
	return made
}
