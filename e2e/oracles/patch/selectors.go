package main

import (
	"math/rand"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

var labelKeys = []string{"a", "b", "ex.io/c", "in", "notin", "a.b-c", "A"}
var labelValues = []string{"1", "2", "x", "", "in", "v-1", "007", "-5"}
var pieces = []string{"a", "b", "ex.io/c", "=", "==", "!=", "!", ",", " in ", " notin ", "(", ")", "1", "2", "x", " ", ">", "<",
	"in", "notin", "a/b/c", "-", "ü", "\t", "x_", "_x", "é", "&", "", strings.Repeat("k", 64), "5", "-5", "exists"}

func requirement(r *rand.Rand) string {
	key, value := pick(r, labelKeys...), pick(r, labelValues...)
	gap := pick(r, "", "", "", " ")
	switch r.Intn(7) {
	case 0:
		return key
	case 1:
		return "!" + gap + key
	case 2, 3:
		return key + gap + pick(r, "=", "==", "!=", ">", "<") + gap + value
	case 4:
		return key + gap + pick(r, ">", "<") + pick(r, "1", "5", "x", "", "-3", "99999999999999999999")
	default:
		values := []string{}
		for n := r.Intn(4); n > 0; n-- {
			values = append(values, gap+pick(r, labelValues...)+gap)
		}
		return key + " " + pick(r, "in", "notin") + gap + "(" + strings.Join(values, ",") + ")"
	}
}

func selectorText(r *rand.Rand) string {
	if r.Intn(3) == 0 {
		out := ""
		for n := r.Intn(8); n > 0; n-- {
			out += pick(r, pieces...)
		}
		return out
	}
	parts := []string{}
	for n := r.Intn(4); n >= 0; n-- {
		parts = append(parts, requirement(r))
	}
	return strings.Join(parts, pick(r, ",", ",", " , "))
}

func stringSet(r *rand.Rand, keys, values []string) map[string]string {
	out := map[string]string{}
	for n := r.Intn(4); n > 0; n-- {
		out[pick(r, keys...)] = pick(r, values...)
	}
	return out
}

func labelCase(r *rand.Rand) caseOf {
	input := selectorText(r)
	made := caseOf{"text": input}
	selector, err := labels.Parse(input)
	if err != nil {
		made["error"] = err.Error()
		return made
	}
	made["out"] = selector.String()
	sets, matches := []any{}, []any{}
	for n := 0; n < 3; n++ {
		set := stringSet(r, labelKeys, append(labelValues, "3", "100"))
		sets = append(sets, set)
		matches = append(matches, selector.Matches(labels.Set(set)))
	}
	made["sets"], made["matches"] = sets, matches
	return made
}

func fieldCase(r *rand.Rand) caseOf {
	keys := []string{"metadata.name", "a", "status.phase", ""}
	values := []string{"1", "x", "", "a,b", "a=b", `a\b`, "ü", " x "}
	input := ""
	if r.Intn(4) == 0 {
		for n := r.Intn(6); n > 0; n-- {
			input += pick(r, "a", "b", "=", "==", "!=", ",", `\`, `\,`, `\=`, " ", "!", `\\`, "x", `\x`)
		}
	} else {
		parts := []string{}
		for n := r.Intn(3); n >= 0; n-- {
			value := pick(r, values...)
			if r.Intn(5) != 0 {
				value = fields.EscapeValue(value)
			}
			parts = append(parts, pick(r, keys...)+pick(r, "=", "==", "!=")+value)
		}
		input = strings.Join(parts, ",")
	}
	made := caseOf{"text": input}
	selector, err := fields.ParseSelector(input)
	if err != nil {
		made["error"] = err.Error()
		return made
	}
	terms := []any{}
	for _, term := range selector.Requirements() {
		terms = append(terms, []any{term.Field, string(term.Operator), term.Value})
	}
	made["terms"] = terms
	sets, matches := []any{}, []any{}
	for n := 0; n < 3; n++ {
		set := stringSet(r, keys, values)
		sets = append(sets, set)
		matches = append(matches, selector.Matches(fields.Set(set)))
	}
	made["sets"], made["matches"] = sets, matches
	return made
}
