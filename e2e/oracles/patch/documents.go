package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	kjson "sigs.k8s.io/json"
)

// A path that leads somewhere, or nearly, and what is there.
func pointer(r *rand.Rand, document any) (string, any) {
	var out strings.Builder
	for {
		if out.Len() > 0 && r.Intn(5) == 0 {
			break
		}
		switch at := document.(type) {
		case map[string]any:
			name := pick(r, names...)
			if len(at) > 0 && r.Intn(8) != 0 {
				name = pick(r, orderedKeys(at)...)
			}
			document = at[name]
			name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
			out.WriteString("/" + name)
		case []any:
			index := r.Intn(len(at) + 1)
			if len(at) > 0 && r.Intn(5) != 0 {
				index = r.Intn(len(at))
			}
			document = nil
			if index < len(at) {
				document = at[index]
			}
			token := strconv.Itoa(index)
			if r.Intn(8) == 0 {
				token = pick(r, "-", "-1", "01", "+1", "x", "99", "-9", "", "1e0")
			}
			out.WriteString("/" + token)
		default:
			if r.Intn(15) == 0 {
				out.WriteString("/" + pick(r, "a", "0", "-", ""))
			}
			return out.String(), document
		}
	}
	if r.Intn(60) == 0 {
		return pick(r, "a", "a/b", "//", "/~2", "/~", "") + out.String(), nil
	}
	return out.String(), document
}

type jsonPatchOp struct {
	Op    string      `json:"op"`
	Path  string      `json:"path"`
	From  string      `json:"from"`
	Value interface{} `json:"value"`
}

func jsonPatchCase(r *rand.Rand) caseOf {
	document := object(r, 4, 5)
	patch := []any{}
	for n := 1 + r.Intn(3); n > 0; n-- {
		path, there := pointer(r, document)
		op := map[string]any{"op": pick(r, "add", "remove", "replace", "move", "copy", "test"), "path": path}
		if op["op"] == "move" || op["op"] == "copy" || r.Intn(20) == 0 {
			op["from"], _ = pointer(r, document)
		}
		if op["op"] == "add" || op["op"] == "replace" || op["op"] == "test" {
			op["value"] = value(r, 2, 10)
			if op["op"] == "test" && r.Intn(5) != 0 {
				op["value"] = there
				if whole, ok := there.(int); ok && r.Intn(4) == 0 {
					op["value"] = json.RawMessage(strconv.Itoa(whole) + ".0")
				}
			}
			if r.Intn(25) == 0 {
				delete(op, "value")
			}
		}
		switch r.Intn(80) {
		case 0:
			delete(op, pick(r, "op", "path", "from"))
		case 1:
			op[pick(r, "op", "path", "from")] = pick[any](r, nil, 5, "fly", []any{}, true)
		case 2:
			op["other"] = 1
		}
		patch = append(patch, op)
	}
	body := text(patch)
	if r.Intn(60) == 0 {
		body = pick(r, "null", "{}", "[1]", "[null]", "\"x\"", "[[]]", body[:len(body)/2], "")
	}
	made := caseOf{"doc": text(document), "patch": body}
	var ops []jsonPatchOp
	if _, err := kjson.UnmarshalStrict([]byte(body), &ops); err != nil {
		made["error"] = "decode"
		return made
	}
	decoded, err := jsonpatch.DecodePatch([]byte(body))
	if err != nil {
		made["error"] = "decode"
		return made
	}
	patched, err := decoded.Apply([]byte(made["doc"].(string)))
	if err != nil {
		made["error"] = "apply"
		made["why"] = fmt.Sprint(err)
		return made
	}
	made["out"] = string(patched)
	return made
}

func mergePatchCase(r *rand.Rand) caseOf {
	document := object(r, 4, 5)
	body := text(object(r, 4, 25))
	if r.Intn(40) == 0 {
		body = pick(r, "null", "{}", "[1]", "[]", "\"x\"", "5", body[:len(body)/2], "")
	}
	made := caseOf{"doc": text(document), "patch": body}
	if _, err := kjson.UnmarshalStrict([]byte(body), &map[string]any{}); err != nil {
		made["error"] = "decode"
		return made
	}
	patched, err := jsonpatch.MergePatch([]byte(made["doc"].(string)), []byte(body))
	if err != nil {
		made["error"] = "decode"
		return made
	}
	made["out"] = string(patched)
	return made
}
