package main

// Random schemas, versions of them, and values that mostly fit.

import (
	"fmt"
	"math/rand"
	"sort"
)

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
