package differ

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// specimen is a good object of a kind, which mutations damage.
type specimen struct {
	path       string         // of the collection
	definition map[string]any // a CustomResourceDefinition, if the kind is of one
	ignore     []*regexp.Regexp
	object     map[string]any
}

// readSpecimens reads cases/specimens.json: the objects by the path of their collection.
func readSpecimens() ([]specimen, error) {
	text, err := os.ReadFile(filepath.Join("cases", "specimens.json"))
	if err != nil {
		return nil, err
	}
	var entries []struct {
		Path       string           `json:"path"`
		Definition map[string]any   `json:"definition"`
		Controlled bool             `json:"controlled"` // a controller writes its status
		Objects    []map[string]any `json:"objects"`
	}
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, err
	}
	var found []specimen
	for _, entry := range entries {
		for _, object := range entry.Objects {
			one := specimen{path: entry.Path, definition: entry.Definition, object: object}
			if entry.Controlled {
				one.ignore = []*regexp.Regexp{regexp.MustCompile("^/(status/|metadata/(managedFields|resourceVersion))")}
			}
			found = append(found, one)
		}
	}
	return found, nil
}

// places are the paths of all values below a value but its identity.
func places(value any, at []string, found [][]string) [][]string {
	if len(at) > 0 {
		found = append(found, slices.Clone(at))
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if path := strings.Join(append(slices.Clone(at), name), "/"); path != "metadata/name" && path != "kind" && path != "apiVersion" {
				found = places(v[name], append(at, name), found)
			}
		}
	case []any:
		for n := range v {
			found = places(v[n], append(at, strconv.Itoa(n)), found)
		}
	}
	return found
}

// edited is the value with what `change` makes of the one at a path; false: without it.
func edited(value any, path []string, change func(any) (any, bool)) any {
	last := len(path) == 1
	switch v := value.(type) {
	case map[string]any:
		out := maps.Clone(v)
		if !last {
			out[path[0]] = edited(v[path[0]], path[1:], change)
		} else if next, keep := change(v[path[0]]); keep {
			out[path[0]] = next
		} else {
			delete(out, path[0])
		}
		return out
	case []any:
		out := slices.Clone(v)
		n, _ := strconv.Atoi(path[0])
		if !last {
			out[n] = edited(v[n], path[1:], change)
		} else if next, keep := change(v[n]); keep {
			out[n] = next
		} else {
			out = slices.Delete(out, n, n+1)
		}
		return out
	}
	return value
}

var replacements = []any{nil, "", "x", "Bad_Name!", "-a", strings.Repeat("a", 64), strings.Repeat("b", 254), "a.b/c", "*", "1", "a b",
	0, 1, -1, 70000, 3000000000, 1.5, true, false, map[string]any{}, []any{}, []any{nil}, []any{"x"}, []any{"x", "x"},
	map[string]any{"x": "y"}, map[string]any{"a b": "c"}, []any{map[string]any{}}, "2020-01-01T00:00:00Z", "100m", "-5Gi"}

// mutated changes one to two places of an object.
func mutated(random *rand.Rand, object map[string]any) map[string]any {
	var out any = object
	for n := 1 + random.Intn(2); n > 0; n-- {
		all := places(out, nil, nil)
		if len(all) == 0 {
			break
		}
		path := all[random.Intn(len(all))]
		kind := random.Intn(10)
		out = edited(out, path, func(old any) (any, bool) {
			switch list, isList := old.([]any); {
			case kind == 0:
				return nil, false
			case kind <= 2 && isList && len(list) > 0:
				return append(slices.Clone(list), list[random.Intn(len(list))]), true
			case kind <= 2:
				if inner, ok := old.(map[string]any); ok {
					inner = maps.Clone(inner)
					inner["unheardOf"] = replacements[random.Intn(len(replacements))]
					return inner, true
				}
			}
			return replacements[random.Intn(len(replacements))], true
		})
	}
	return out.(map[string]any)
}

func text(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// changes is the part of `to` that differs from `from`, as a merge patch; lists are whole.
func changes(from, to map[string]any) map[string]any {
	out := map[string]any{}
	for name := range from {
		if _, ok := to[name]; !ok {
			out[name] = nil
		}
	}
	for name, value := range to {
		inner, isMap := value.(map[string]any)
		old, wasMap := from[name].(map[string]any)
		if isMap && wasMap {
			if part := changes(old, inner); len(part) > 0 {
				out[name] = part
			}
		} else if text(value) != text(from[name]) {
			out[name] = value
		}
	}
	return out
}

// request makes a dry run of a damaged object in one of the ways to write it.
func (s *specimen) request(random *rand.Rand, line int) step {
	object := mutated(random, s.object)
	name, _ := s.object["metadata"].(map[string]any)["name"].(string)
	validation := []string{"Strict", "Warn", "Ignore"}[random.Intn(3)]
	query := "?dryRun=All&fieldValidation=" + validation
	one := step{line: line, random: true, ignore: s.ignore, header: map[string]string{}, body: text(object)}
	switch random.Intn(6) {
	case 0, 1:
		object["metadata"] = edited(object, []string{"metadata"}, func(old any) (any, bool) {
			if metadata, ok := old.(map[string]any); ok && metadata["name"] != nil {
				metadata = maps.Clone(metadata)
				metadata["name"] = name + "-new"
				return metadata, true
			}
			return old, true
		}).(map[string]any)["metadata"]
		one.method, one.path, one.body = http.MethodPost, s.path+query, text(object)
	case 2:
		one.method, one.path = http.MethodPut, s.path+"/"+name+query
	case 3:
		one.method, one.path, one.body = http.MethodPatch, s.path+"/"+name+query, text(changes(s.object, object))
		one.header["Content-Type"] = types["merge"]
	case 4:
		one.method, one.path, one.body = http.MethodPatch, s.path+"/"+name+query, text(changes(s.object, object))
		one.header["Content-Type"] = types["strategic"]
		if s.definition != nil {
			one.header["Content-Type"] = types["merge"]
		}
	case 5:
		one.method, one.path = http.MethodPatch, s.path+"/"+name+query+"&fieldManager=differ&force=true"
		one.header["Content-Type"] = types["apply"]
	}
	return one
}

func numberFrom(t *testing.T, name string, otherwise int64) int64 {
	if value, err := strconv.ParseInt(os.Getenv(name), 10, 64); err == nil {
		return value
	}
	return otherwise
}

// TestDamagedObjects sends objects with random faults, as dry runs, in all ways of writing. KINTSUGI_DIFFER_SEED and
// KINTSUGI_DIFFER_REQUESTS (per object) change what is sent.
func TestDamagedObjects(t *testing.T) {
	specimens, err := readSpecimens()
	if err != nil {
		t.Fatal(err)
	}
	seed, count := numberFrom(t, "KINTSUGI_DIFFER_SEED", 1), numberFrom(t, "KINTSUGI_DIFFER_REQUESTS", 60)
	both := sides{kube: startKube(t), ours: startOurs(t)}
	t.Run("kinds", func(t *testing.T) {
		open := make(chan struct{}, together)
		for n, s := range specimens {
			name := fmt.Sprintf("%v %d", s.object["kind"], n)
			if !strings.Contains(name, os.Getenv("KINTSUGI_DIFFER")) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				open <- struct{}{}
				defer func() { <-open }()
				random := rand.New(rand.NewSource(seed*1000 + int64(n)))
				c := testCase{name: name}
				if s.definition != nil {
					c.steps = append(c.steps, step{method: http.MethodPost, body: text(s.definition),
						path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", ignore: []*regexp.Regexp{regexp.MustCompile("^/status")}},
						step{method: http.MethodGet, path: s.path, status: http.StatusOK})
				}
				c.steps = append(c.steps, step{method: http.MethodPost, path: s.path, body: text(s.object), random: true})
				for line := range int(count) {
					c.steps = append(c.steps, s.request(random, line+1))
				}
				run(t, both, c, fmt.Sprintf("m-%d", n))
			})
		}
	})
}
