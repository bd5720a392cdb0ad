package main

import (
	"fmt"
	"math/rand"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func timesOf(word string, n int) string { return strings.Repeat(word, n) }

func clusterSegment(r *rand.Rand) string {
	return pick(r, "root", "root:org", "c1", "*", "%2A", "root%3Aorg:team", "system:admin", "A", "a_b", "root:", timesOf("a", 63),
		timesOf("b", 64), "user:bob", "2ab9cd8ef7gh6ijk")
}

func apiTrail(r *rand.Rand) string {
	path := pick(r, "/api/v1", "/api/v1", "/apis/apps/v1", "/apis/ex.io/v1beta1", "/apis/apis.kcp.io/v1alpha1", "/openapi/v3", "/version", "")
	if r.Intn(8) == 0 {
		path += pick(r, "/watch", "/watch/namespaces/a", "/proxy", "/proxy/namespaces/a")
	}
	if r.Intn(2) == 0 {
		path += "/namespaces/" + pick(r, "ns1", "default", "watch", "status")
	}
	for n := r.Intn(4); n > 0; n-- {
		path += "/" + pick(r, "pods", "secrets", "configmaps", "a", "watch", "status", "finalize", "namespaces", "log", "proxy", "scale",
			"w:0a1b", timesOf("n", 253), "clusters", "services", "a+b", "a;x", "...", "..a")
	}
	if r.Intn(12) == 0 {
		path += "/"
	}
	return path
}

func targetOf(r *rand.Rand) string {
	target := ""
	switch r.Intn(8) {
	case 0:
		target += "/shards/" + pick(r, "alpha", "b-1", "x.y")
	case 1:
		target += "/partitions/" + clusterSegment(r) + "/" + pick(r, "p", "europe")
	}
	switch r.Intn(8) {
	case 0:
		target += "/services/apiexport/" + clusterSegment(r) + "/" + pick(r, "e", "widgets.ex.io") + "/clusters/" + clusterSegment(r)
	case 1:
		target += "/services/" + pick(r, "initializingworkspaces", "terminatingworkspaces") + "/" + pick(r, "root", "root:org") + ":" +
			pick(r, "t", "tenant") + "/clusters/" + clusterSegment(r)
	case 2:
		target += pick(r, "/services/replication/c/s/clusters/", "/services/apiresourceschema/c/clusters/", "/services/migratingworkspaces/clusters/") +
			clusterSegment(r)
	case 3:
		if r.Intn(3) == 0 {
			return target + apiTrail(r)
		}
		fallthrough
	default:
		target += "/clusters/" + clusterSegment(r)
	}
	return target + apiTrail(r)
}

func queryOf(r *rand.Rand) string {
	query := ""
	for n := r.Intn(4); n > 0; n-- {
		query += pick(r, "&", "&", "&", ";") + pick(r, "watch=1", "watch=0", "watch", "watch=", "watch=False", "%77atch=1", "wat%63h=0", "watch=%zz",
			"watch=tru+e", "fieldSelector=metadata.name%3Da", "fieldSelector=metadata.name!=a", "limit=5", "labelSelector=a%3Db", "a;watch=1",
			"x=/clusters/b/api", "%zz=1", "resourceVersion=7")
	}
	if query == "" {
		return ""
	}
	return "?" + query[1:]
}

func escaped(r *rand.Rand, b byte) string { return fmt.Sprintf(pick(r, "%%%02X", "%%%02x"), b) }

// One change that somebody may try.
func mutated(r *rand.Rand, s string) string {
	at := r.Intn(len(s))
	slash := -1
	for tries := 0; slash < 0 && tries < 50; tries++ {
		if i := r.Intn(len(s)); s[i] == '/' {
			slash = i
		}
	}
	switch r.Intn(12) {
	case 0, 1, 2:
		return s[:at] + escaped(r, s[at]) + s[at+1:]
	case 3:
		return s[:at] + "%25" + escaped(r, s[at])[1:] + s[at+1:]
	case 4:
		if slash >= 0 {
			return s[:slash] + pick(r, "//", "/./", "/../", "/%2e/", "/%2E%2e/", "%2F", "%2f", "%2F%2F", "/..%2F", "%5C", "/;x/") + s[slash+1:]
		}
	case 5:
		return s[:at] + pick(r, ";x", "%3F", "%23", "\\", "%5c", "%00", "%0a", "%7F", "%C2%85", "%ff", "+", "%2B", "%20", "%") + s[at:]
	case 6:
		return s[:at] + pick(r, "%EF%BC%9A", "%E2%88%95", "%EF%BC%8A", "%EF%BC%8F", "%C3%BC") + s[at:] // look-alikes of : / *
	case 7:
		return s[:at] + strings.ToUpper(s[at:at+1]) + s[at+1:]
	case 8:
		return pick(r, "/shards/z", "/partitions/a/b", "/clusters/q", "/services/admin") + s
	case 9:
		if r.Intn(20) == 0 {
			return s[:at] + timesOf("l", 16383-min(at, 16383)) + pick(r, "", "m", "mm") + s[at:]
		}
		return s[:at] + s[at+1:]
	case 10:
		if slash >= 0 {
			other := strings.IndexByte(s[slash+1:], '/')
			if other > 0 {
				word := ""
				for _, b := range []byte(s[slash+1 : slash+1+other]) {
					word += escaped(r, b)
				}
				return s[:slash+1] + word + s[slash+1+other:]
			}
		}
	}
	return s
}

// What stands in front of an API path, as kcp cuts it off the decoded path: cluster and rest; false for none.
func cutCluster(path string) (string, string, bool) {
	rest, ok := strings.CutPrefix(path, "/clusters/")
	if !ok {
		return "", "", false
	}
	cluster, trail, found := strings.Cut(rest, "/")
	if found {
		trail = "/" + trail
	}
	return cluster, trail, cluster != ""
}

func cutSegments(path string, n int) (string, bool) {
	for ; n > 0; n-- {
		_, rest, found := strings.Cut(path[1:], "/")
		if !found {
			return "", false
		}
		path = "/" + rest
	}
	return path, true
}

func cutFront(path string) (string, string, bool) {
	ok := true
	if strings.HasPrefix(path, "/shards/") {
		path, ok = cutSegments(path, 2)
	} else if strings.HasPrefix(path, "/partitions/") {
		path, ok = cutSegments(path, 3)
	}
	if !ok {
		return "", "", false
	}
	if strings.HasPrefix(path, "/services/") {
		between := map[string]int{"apiexport": 2, "initializingworkspaces": 1, "terminatingworkspaces": 1, "replication": 2, "apiresourceschema": 1,
			"migratingworkspaces": 0}
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "/services/"), "/")
		n, known := between[name]
		if !known {
			return "", "", false
		}
		if path, ok = cutSegments(path, 2+n); !ok {
			return "", "", false
		}
	}
	return cutCluster(path)
}

func requestTargetCase(r *rand.Rand) caseOf {
	target := targetOf(r)
	for n := r.Intn(5); n > 0; n-- {
		target = mutated(r, target)
	}
	target += queryOf(r)
	method := pick(r, "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
	made := caseOf{"method": method, "target": target}
	parsed, err := url.ParseRequestURI(target)
	if err != nil {
		made["error"] = true
		return made
	}
	cluster, trail, ok := cutFront(parsed.Path)
	if !ok {
		made["error"] = true
		return made
	}
	below := *parsed
	below.Path, below.RawPath = trail, ""
	factory := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := factory.NewRequestInfo(&http.Request{Method: method, URL: &below})
	if err != nil { // a verb in the path and no resource: there is nothing to serve
		info = &request.RequestInfo{Verb: strings.ToLower(method)}
	}
	made["out"] = map[string]any{
		"cluster": cluster, "resource_request": info.IsResourceRequest, "verb": info.Verb, "group": info.APIGroup, "version": info.APIVersion,
		"namespace": info.Namespace, "resource": info.Resource, "subresource": info.Subresource, "name": info.Name}
	return made
}
