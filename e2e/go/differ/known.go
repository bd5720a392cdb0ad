package differ

import (
	"net/http"
	"regexp"
	"strings"
)

// rule is a difference that is meant wherever it appears.
type rule struct {
	reason  string
	applies func(s step, want, got *answer, d difference) bool
}

func wrote(d difference, kube, ours string) bool {
	return strings.Contains(d.want, kube) && strings.Contains(d.got, ours)
}

var (
	documentation = regexp.MustCompile(`^/(components|paths)/.*(/description|/parameters|/summary)(/|$)|/schemas/io\.k8s\.`)
	manager       = regexp.MustCompile(`managedFields/\d+/manager$`)
	immutable     = regexp.MustCompile(`AdditionalErrorMsg: `)
)

// rules are specs/api-machinery.md 20, and where the recordings of a kcp and a kube-apiserver differ.
var rules = []rule{
	{"an unknown group below /apis is answered with a Status", func(_ step, want, got *answer, d difference) bool {
		return want.status == http.StatusNotFound && got.status == http.StatusNotFound &&
			strings.HasPrefix(want.header.Get("Content-Type"), "text/plain")
	}},
	{"a precondition's text does not tell storage keys", func(_ step, _, _ *answer, d difference) bool {
		return immutable.MatchString(d.want) && strings.Contains(d.got, "Precondition failed")
	}},
	{"nosniff comes with texts, and with what the authorizer refuses", func(_ step, _, _ *answer, d difference) bool {
		return d.path == "header X-Content-Type-Options"
	}},
	{"a workspace's authorizer says granted or denied, and no more", func(_ step, _, _ *answer, d difference) bool {
		return d.path == "/status/reason" && (d.got == `"access granted"` || d.got == `"access denied"`)
	}},
	{"reviews have no managedFields, which nobody can read back", func(s step, _, _ *answer, d difference) bool {
		return d.path == "/metadata/managedFields" && strings.Contains(s.path, "reviews")
	}},
	{"controllers are called otherwise", func(_ step, _, _ *answer, d difference) bool {
		return manager.MatchString(d.path) && (wrote(d, "kube-apiserver", "kintsugi-") || wrote(d, "differ", "resourcequota-controller"))
	}},
	{"documentation in OpenAPI documents", func(s step, _, _ *answer, d difference) bool {
		return strings.HasPrefix(s.path, "/openapi/") && documentation.MatchString(d.path)
	}},
	{"kcp names apply patches twice", func(_ step, _, _ *answer, d difference) bool {
		return strings.HasSuffix(d.got, `application/apply-patch+yaml, application/apply-patch+yaml"`)
	}},
}

// known tells whether a difference is one of the rules.
func known(s step, want, got *answer, d difference) bool {
	for _, one := range rules {
		if one.applies(s, want, got, d) {
			return true
		}
	}
	return false
}
