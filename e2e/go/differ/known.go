package differ

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
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
	oddKey        = regexp.MustCompile(`\[(\w+)=.*?\]\.`)
	unordered     = regexp.MustCompile(`"field":"(metadata\.labels|metadata\.annotations|spec\.hard\[|data\[)`)
	unexpected    = regexp.MustCompile(`(mismatched|extraneous) input `)
	goVersions    = regexp.MustCompile(`Invalid value: \[\{\\"Name\\".*?\}\]: must`)
	unknownField  = regexp.MustCompile(`unknown field \\+"`)
	syntaxAgain   = regexp.MustCompile(`(Syntax error: .*?)(\\nERROR: <input>:\d+:\d+: Syntax error: .*?\\n \| .*?\\n \| \.*\^)+`)
	refused       = regexp.MustCompile(`(?s)^(failed to create typed patch object \([^)]*\)): (.*)$`)
	manager       = regexp.MustCompile(`managedFields/\d+/manager$`)
	decoder       = regexp.MustCompile(`cannot unmarshal|cannot convert|cannot restore|unrecognized type|parsing time|strconv\.Parse|illegal base64|quantities must match|boolean or JSON schema expected|: must be a string`)
	bytesAsList   = regexp.MustCompile(`cannot unmarshal array into Go struct field [A-Za-z.]+ of type \[\]uint8|cannot restore slice from slice`)
	cutOff        = regexp.MustCompile(`cannot unmarshal number 3000000000 into Go struct field [A-Za-z.]+ of type int32|3000000000.*unrecognized type: int32`)
	groupVersion  = regexp.MustCompile(`^/apis/[^/?]+/[^/?]+$`)
	immutable     = regexp.MustCompile(`AdditionalErrorMsg: `)
)

// rules are what differs on purpose, and where the recordings of a kcp and a kube-apiserver differ.
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
	{"who is impersonated is so in one logical cluster (KK-323)", func(s step, _, _ *answer, d difference) bool {
		return strings.HasSuffix(s.path, "/selfsubjectreviews") && strings.HasPrefix(d.path, "/status/userInfo/extra") &&
			strings.Contains(d.path+d.got, "authentication.kcp.io")
	}},
	{"controllers are called otherwise", func(_ step, _, _ *answer, d difference) bool {
		return manager.MatchString(d.path) && (wrote(d, "kube-apiserver", "kintsugi-") || wrote(d, "differ", "resourcequota-controller"))
	}},
	{"documentation in OpenAPI documents", func(s step, _, _ *answer, d difference) bool {
		return strings.HasPrefix(s.path, "/openapi/") && documentation.MatchString(d.path)
	}},
	{"Go's decoders have many words for a value of the wrong type", func(s step, want, got *answer, d difference) bool {
		return s.random && want.status == got.status && strings.HasSuffix(d.path, "message") && decoder.MatchString(d.want) && decoder.MatchString(d.got)
	}},
	{"Go's decoder takes a list of numbers for bytes, which nobody sends: here it is refused", func(s step, _, got *answer, _ difference) bool {
		return s.random && got.status >= http.StatusBadRequest && bytesAsList.Match(got.body)
	}},
	{"a number that does not fit is cut off when Kubernetes patches: here it is refused, as it is by both in other writes", func(s step, want, got *answer, _ difference) bool {
		return s.random && s.method == http.MethodPatch && got.status >= http.StatusBadRequest && cutOff.Match(got.body)
	}},
	{"faults of a configuration to apply come in the order of a Go map, up to the first unknown field", func(s step, want, got *answer, d difference) bool {
		return s.random && want.status == got.status && strings.HasSuffix(d.path, "message") && partOf(d.want, d.got)
	}},
	{"a key that is no scalar is shown in a Go way", func(s step, _, _ *answer, d difference) bool {
		return s.random && strings.HasSuffix(d.path, "message") && oddKey.ReplaceAllString(d.want, "[$1].") == oddKey.ReplaceAllString(d.got, "[$1].")
	}},
	{"the keys of maps are not in the path of what Kubernetes does not know in a patch", func(s step, _, _ *answer, d difference) bool {
		return s.random && s.method == http.MethodPatch && strings.Contains(d.want, "properties.properties.") && unknownField.MatchString(d.want) && unknownField.MatchString(d.got)
	}},
	{"of an expression only the first syntax error is told", func(s step, _, _ *answer, d difference) bool {
		return s.random && d.want != d.got && syntaxAgain.ReplaceAllString(d.want, "$1") == d.got
	}},
	{"the parser of expressions has several words for a token that it did not expect", func(s step, _, _ *answer, d difference) bool {
		return s.random && unexpected.ReplaceAllString(d.want, "") == unexpected.ReplaceAllString(d.got, "")
	}},
	{"what a schema says of a custom object, and what is wrong with schemas and with members of maps, comes in the order of a Go map", func(s step, want, got *answer, d difference) bool {
		return s.random && (strings.Contains(s.path, "/mutants") || strings.Contains(s.path, "/customresourcedefinitions") || unordered.Match(got.body)) && sameCauses(want, got)
	}},
	{"Kubernetes lets a list pass for a text with a format: here it is no text", func(s step, _, got *answer, _ difference) bool {
		return s.random && strings.Contains(s.path, "/mutants") && strings.Contains(string(got.body), `spec.when in body must be of type string: \"array\"`)
	}},
	{"causes of a value come in the order of a Go map", func(s step, want, got *answer, d difference) bool {
		return s.anyOrder && (d.path == "/message" || strings.HasPrefix(d.path, "/details/causes")) && sameCauses(want, got)
	}},
	{"versions of a definition are shown as structs of Go", func(s step, _, _ *answer, d difference) bool {
		return s.random && strings.HasSuffix(d.path, "message") && goVersions.ReplaceAllString(d.want, "") == goVersions.ReplaceAllString(d.got, "")
	}},
	{"a status of the wrong type, which is not written, costs a custom object in Kubernetes all its managedFields", func(s step, _, _ *answer, d difference) bool {
		return s.random && strings.Contains(s.path, "/mutants") && d.path == "/metadata/managedFields" && d.want == "<absent>" && strings.Contains(s.body, `"status":`)
	}},
	{"a role without rules is written null, so nobody owns the empty list that was sent", func(s step, _, _ *answer, d difference) bool {
		return s.random && strings.HasPrefix(d.path, "/metadata/managedFields") && strings.Contains(s.body, `"rules":[]`)
	}},
	{"no scopes are none, be the list empty or absent", func(s step, _, _ *answer, d difference) bool {
		return s.random && strings.Contains(d.want, "spec.scopes: Invalid value: []") || s.random && wrote(d, "Invalid value: []: field is immutable", "Invalid value: null: field is immutable")
	}},
	{"the default of a type that does not exist is not looked at: the type is refused", func(s step, want, got *answer, d difference) bool {
		return s.random && want.status == got.status && strings.Contains(string(got.body), "].type\",\"message\":\"Unsupported value") && strings.Contains(string(want.body), "].default\"") && !strings.Contains(string(got.body), "].default\"")
	}},
	{"items that are no schema are none", func(s step, want, got *answer, d difference) bool {
		return s.random && want.status == got.status && strings.Contains(string(want.body), "must only have a single schema if x-kubernetes-list-type is map") &&
			strings.Contains(string(got.body), `items","message":"Required value: must `) && (strings.HasPrefix(d.path, "/details/causes") || d.path == "/message")
	}},
	{"the escalation check of who is no master comes before validation", func(s step, want, got *answer, d difference) bool {
		return s.random && strings.Contains(string(got.body), "unsupported role reference kind") && strings.Contains(string(want.body), "roleRef.kind")
	}},
	{"a kcp takes an absent group of a definition for no error besides that of the name", func(_ step, want, got *answer, d difference) bool {
		return (d.path == "/message" || strings.HasPrefix(d.path, "/details/causes")) &&
			strings.Contains(string(want.body), "spec.group: Required value") && !strings.Contains(string(got.body), "spec.group: Required value")
	}},
	{"continue tokens are sealed: nothing of what is in them is told (SE-166)", func(_ step, want, got *answer, d difference) bool {
		const invalid = "invalid continue token: continue key is not valid: "
		return d.path == "/message" && want.status == http.StatusBadRequest && got.status == want.status && wrote(d, invalid, invalid)
	}},
	{"a group version that nobody serves is an empty list in a logical cluster (KK-382)", func(s step, want, got *answer, _ difference) bool {
		list, isList := pointer(got.value, "/resources").([]any)
		return groupVersion.MatchString(s.path) && want.status == http.StatusNotFound && got.status == http.StatusOK && isList && len(list) == 0
	}},
	{"kcp names apply patches twice", func(_ step, _, _ *answer, d difference) bool {
		return strings.HasSuffix(d.got, `application/apply-patch+yaml, application/apply-patch+yaml"`)
	}},
}

// faultsOf is what a configuration to apply was refused for, by the object that was refused.
func faultsOf(message string) (object string, faults []string) {
	var text string
	if json.Unmarshal([]byte(message), &text) != nil {
		return "", nil
	}
	match := refused.FindStringSubmatch(text)
	if match == nil {
		return "", nil
	}
	for _, line := range strings.Split(strings.TrimPrefix(match[2], "errors:"), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			faults = append(faults, oddKey.ReplaceAllString(line, "[$1]."))
		}
	}
	return match[1], faults
}

// partOf tells whether the faults of one message are among those of another one, and all of them if no field is unknown.
func partOf(part, whole string) bool {
	object, some := faultsOf(part)
	other, all := faultsOf(whole)
	for _, fault := range some {
		if !slices.Contains(all, fault) {
			return false
		}
	}
	return object != "" && object == other && (len(some) == len(all) || strings.Contains(part, "field not declared in schema"))
}

// sameCauses tells whether two refusals differ in the order of their causes at most.
func sameCauses(a, b *answer) bool {
	left, right := causesOf(a), causesOf(b)
	return a.status == http.StatusUnprocessableEntity && b.status == a.status && len(left) > 0 && slices.Equal(left, right)
}

func causesOf(a *answer) (texts []string) {
	list, _ := pointer(a.value, "/details/causes").([]any)
	for _, one := range list {
		texts = append(texts, show(one))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
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
