package main

import (
	"encoding/json"
	"math/rand"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/util/jsonpath"
)

func jsonPathDocument(r *rand.Rand, depth int) any {
	if depth == 0 {
		return pick[any](r, "x", "y", "1", "", true, false, int64(1), int64(2), 1.5, nil)
	}
	if r.Intn(3) == 0 {
		list := []any{}
		for n := r.Intn(4); n > 0; n-- {
			list = append(list, jsonPathDocument(r, depth-1))
		}
		return list
	}
	out := map[string]any{}
	for n := 1 + r.Intn(4); n > 0; n-- {
		out[pick(r, "a", "b", "c", "d.e", "type", "status")] = jsonPathDocument(r, depth-1-r.Intn(depth))
	}
	return out
}

func step(r *rand.Rand) string {
	switch r.Intn(14) {
	case 0:
		return pick(r, "[0]", "[1]", "[-1]", "[2]", "[-3]")
	case 1:
		return pick(r, "[*]", ".*")
	case 2:
		return pick(r, "['a']", "['none']") // a dot in quotes is a part of the name for us
	case 3:
		return pick(r, "[0:2]", "[1:]", "[:1]", "[-2:]", "[::2]", "[0:3:2]", "[:]", "[2:1]", "[0:9]")
	case 4, 5:
		operand := pick(r, `"x"`, `"y"`, `1`, `"1"`, `'x'`, `1.5`, `true`, `@.b`)
		return "[?(@." + pick(r, "a", "b", "type", "status") + pick(r, "==", "==", "!=", "<", ">=") + operand + ")]"
	case 6:
		return "[?(@." + pick(r, "a", "b") + ")]"
	case 7:
		return ".." + pick(r, "a", "b")
	case 8:
		return `.d\.e`
	default:
		return "." + pick(r, "a", "b", "c", "type", "status", "none")
	}
}

func jsonPathCase(r *rand.Rand) caseOf {
	document, _ := jsonPathDocument(r, 4).(map[string]any)
	if document == nil {
		return nil
	}
	path := ""
	at := any(document)
	for n := r.Intn(5); n >= 0; n-- {
		next := step(r)
		switch here := at.(type) {
		case map[string]any:
			if key := pick(r, orderedKeys(here)...); path == "" || r.Intn(3) != 0 {
				next, at = "."+strings.ReplaceAll(key, ".", `\.`), here[key]
			}
		case []any:
			if len(here) > 0 {
				at = here[0]
			}
			if r.Intn(2) == 0 {
				next = pick(r, "[0]", "[*]", "[:]", "[-1]")
			}
		}
		path += next
	}
	made := caseOf{"doc": text(document), "path": path}
	column := jsonpath.New("column")
	column.AllowMissingKeys(true)
	if err := column.Parse("{" + path + "}"); err != nil {
		made["error"] = true
		return made
	}
	results, err := column.FindResults(document)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		made["out"] = nil
		return made
	}
	found := results[0][0]
	if !found.IsValid() || !found.CanInterface() {
		made["out"] = nil
		return made
	}
	if found.Kind() == reflect.Uint8 {
		return nil // a byte of a string
	}
	out, err := json.Marshal(found.Interface())
	if err != nil {
		return nil
	}
	// More than one element of a map comes in no order.
	for try := 0; try < 8; try++ {
		again, err := column.FindResults(document)
		if err != nil || text(again[0][0].Interface()) != string(out) {
			return nil
		}
	}
	made["out"] = string(out)
	return made
}

func requestCase(r *rand.Rand) caseOf {
	path := ""
	switch r.Intn(8) {
	case 0, 1, 2:
		path = "/api/v1"
	case 3, 4, 5:
		path = "/apis/" + pick(r, "apps", "ex.io") + "/" + pick(r, "v1", "v1beta1")
	case 6:
		path = pick(r, "/api", "/apis", "/apis/apps", "/healthz", "/", "/version", "/openapi/v3", "/apix/v1/pods", "")
	}
	if r.Intn(12) == 0 {
		path += pick(r, "/watch", "/watch/namespaces/a")
	}
	if r.Intn(2) == 0 {
		path += "/namespaces/" + pick(r, "ns1", "default")
	}
	for n := r.Intn(4); n > 0; n-- {
		path += "/" + pick(r, "pods", "configmaps", "a", "status", "finalize", "namespaces", "log", "b%20c", "scale", "ü")
	}
	if r.Intn(10) == 0 {
		path += "/"
	}
	query := url.Values{}
	if r.Intn(4) == 0 {
		query.Set("watch", pick(r, "true", "1", "0", "false", "", "x"))
	}
	if r.Intn(4) == 0 {
		query.Set("fieldSelector", pick(r, "metadata.name=a", "metadata.name!=a", "a=b", "metadata.name=a,b=c", "metadata.name=", "x"))
	}
	if r.Intn(6) == 0 {
		query.Set("labelSelector", pick(r, "a=b", "!a", "a in (b,c)"))
	}
	target := path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	parsed, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	method := pick(r, "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
	factory := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := factory.NewRequestInfo(&http.Request{Method: method, URL: parsed})
	if err != nil {
		return nil
	}
	return caseOf{"method": method, "target": target, "out": map[string]any{
		"resource_request": info.IsResourceRequest, "verb": info.Verb, "prefix": info.APIPrefix, "group": info.APIGroup,
		"version": info.APIVersion, "namespace": info.Namespace, "resource": info.Resource,
		"subresource": info.Subresource, "name": info.Name}}
}
