package plain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

const (
	admission  = "/apis/admissionregistration.k8s.io/v1"
	policies   = admission + "/validatingadmissionpolicies"
	bindings   = admission + "/validatingadmissionpolicybindings"
	mergePatch = "application/merge-patch+json"
	apply      = "application/apply-patch+yaml"
)

// side is one of the two servers that get the same requests.
type side struct {
	name   string
	base   string
	client *http.Client
	config *rest.Config
}

// answer is what of an answer has to be the same on both.
type answer struct {
	Code     int
	Warnings []string       `json:",omitempty"`
	Body     map[string]any `json:",omitempty"`
}

func newSide(t *testing.T, name string, config *rest.Config) *side {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &side{name: name, base: config.Host, client: client, config: config}
}

// normal takes away what no two servers share.
func normal(body map[string]any) map[string]any {
	if metadata, ok := body["metadata"].(map[string]any); ok {
		for _, member := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields", "selfLink"} {
			delete(metadata, member)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kcp.io/cluster")
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
	}
	if details, ok := body["details"].(map[string]any); ok {
		delete(details, "uid")
	}
	if body["kind"] != "Status" {
		delete(body, "status")
	}
	return body
}

func (s *side) do(t *testing.T, r request) answer {
	t.Helper()
	method := r.method
	if method == "" {
		method = "POST"
	}
	kind := r.kind
	if kind == "" {
		kind = "application/json"
	}
	var body io.Reader
	if r.body != "" {
		body = bytes.NewReader([]byte(r.body))
	}
	ask, err := http.NewRequestWithContext(context.Background(), method, s.base+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	if r.body != "" {
		ask.Header.Set("Content-Type", kind)
	}
	got, err := s.client.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := answer{Code: got.StatusCode, Warnings: got.Header.Values("Warning")}
	if err := json.Unmarshal(text, &out.Body); err != nil {
		t.Fatalf("%s %s: %v: %s", s.name, r.path, err, text)
	}
	sort.Strings(out.Warnings)
	out.Body = normal(out.Body)
	return out
}

// table is columns and cells of a list, without ages.
func (s *side) table(t *testing.T, path string) string {
	t.Helper()
	ask, err := http.NewRequestWithContext(context.Background(), "GET", s.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	got, err := s.client.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var table metav1.Table
	if err := json.NewDecoder(got.Body).Decode(&table); err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, column := range table.ColumnDefinitions {
		if column.Name != "Age" && column.Name != "Name" { // whose descriptions are long
			out += fmt.Sprintf("%+v\n", column)
		}
	}
	for _, row := range table.Rows {
		out += fmt.Sprintf("%v\n", row.Cells[:len(row.Cells)-1])
	}
	return out
}

type request struct{ method, path, kind, body string }

func (r request) String() string { return strings.TrimSpace(r.method + " " + r.path + " " + r.body) }

// compare sends a request to both and tells what differs.
func compare(t *testing.T, a, b *side, r request) answer {
	t.Helper()
	want, got := a.do(t, r), b.do(t, r)
	x, _ := json.MarshalIndent(want, "", " ")
	y, _ := json.MarshalIndent(got, "", " ")
	if !bytes.Equal(x, y) {
		t.Errorf("%v\n%s: %s\n%s: %s", r, a.name, x, b.name, y)
	}
	return got
}

const rule = `{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}`

// object is a policy or binding by name and spec.
func object(kind, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,"metadata":{"name":%q},"spec":%s}`, kind, name, spec)
}

// onConfigMaps is the spec of a policy on ConfigMaps with more members.
func onConfigMaps(more string) string {
	return `{"matchConstraints":{"resourceRules":[` + rule + `]},` + more + `}`
}

// onRule is one with a resource rule, in full.
func onRule(rule string) string {
	return `{"matchConstraints":{"resourceRules":[` + rule + `]},"validations":[{"expression":"true"}]}`
}

func withConstraints(more string) string {
	return `{"matchConstraints":{"resourceRules":[` + rule + `],` + more + `},"validations":[{"expression":"true"}]}`
}

// refusedPolicies are specs that have faults, and some that have none.
var refusedPolicies = []string{
	`{}`,
	`{"validations":[{"expression":"true"}]}`,
	`{"matchConstraints":{},"validations":[{"expression":"true"}]}`,
	onConfigMaps(`"validations":[]`),
	onConfigMaps(`"validations":[{"expression":"true"}]`),
	onConfigMaps(`"failurePolicy":"Foo","validations":[{"expression":"true"}]`),
	onRule(`{}`),
	onRule(`{"apiGroups":["*","a"],"apiVersions":["*","v1",""],"operations":["*","CREATE","FOO"],"resources":["configmaps"],"scope":"Foo"}`),
	onRule(`{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["*/*","pods"]}`),
	onRule(`{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["*","pods"]}`),
	onRule(`{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods/*","pods/status","*/x","a/x",""]}`),
	onRule(`{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"],"resourceNames":["a","a","b/c","%"]}`),
	withConstraints(`"matchPolicy":"Foo"`),
	withConstraints(`"namespaceSelector":{"matchExpressions":[{"key":"a b","operator":"Foo"},{"key":"a","operator":"In"},{"key":"a","operator":"Exists","values":["x"]}]}`),
	withConstraints(`"objectSelector":{"matchLabels":{"a":"b c"}}`),
	withConstraints(`"excludeResourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["NOPE"],"resources":["pods"]}]`),
	onConfigMaps(`"validations":[{"expression":""},{"expression":" "}]`),
	onConfigMaps(`"validations":[{"expression":"1 +"}]`),
	onConfigMaps(`"validations":[{"expression":"object.data.a"}]`),
	onConfigMaps(`"validations":[{"expression":"size(object.data)"},{"expression":"[1]"},{"expression":"{'a': 1}"},{"expression":"duration('1s')"},{"expression":"null"}]`),
	onConfigMaps(`"validations":[{"expression":"params.data.a == 'b'"}]`),
	onConfigMaps(`"validations":[{"expression":"request.nope == ''"}]`),
	onConfigMaps(`"validations":[{"expression":"request.namespace == '' && request.userInfo.groups.exists(g, g == 1)"}]`),
	onConfigMaps(`"validations":[{"expression":"namespaceObject.metadata.nope == ''"}]`),
	onConfigMaps(`"validations":[{"expression":"variables.a == 1"}]`),
	onConfigMaps(`"validations":[{"expression":"'a'.matches('(')"}]`),
	onConfigMaps(`"validations":[{"expression":"duration('x') == duration('1s')"}]`),
	onConfigMaps(`"validations":[{"expression":"int('x') == 1"}]`),
	onConfigMaps(`"validations":[{"expression":"nothing(1)"}]`),
	onConfigMaps(`"validations":[{"expression":"authorizer.group('').resource('pods').nope()"}]`),
	onConfigMaps(`"validations":[{"expression":"authorizer.path('/a').check('get')"}]`),
	onConfigMaps(`"validations":[{"expression":"authorizer == 1"}]`),
	onConfigMaps(`"validations":[{"expression":"object.metadata.name == 'a'\n && object.x +"}]`),
	onConfigMaps(`"validations":[{"expression":"true","message":" "},{"expression":"true","message":"a\nb"}]`),
	onConfigMaps(`"validations":[{"expression":"true","messageExpression":" "},{"expression":"true","messageExpression":"1"},{"expression":"true","messageExpression":"object.name"}]`),
	onConfigMaps(`"validations":[{"expression":"true","messageExpression":"authorizer.path('/').check('get').reason()"}]`),
	onConfigMaps(`"validations":[{"expression":"true","reason":"Foo"},{"expression":"true","reason":"Unauthorized"}]`),
	onConfigMaps(`"variables":[{"name":"","expression":"1"},{"name":"a-b","expression":"1"},{"name":"in","expression":"1"},{"name":"c","expression":""}],"validations":[{"expression":"true"}]`),
	onConfigMaps(`"variables":[{"name":"a","expression":"variables.b"},{"name":"b","expression":"1"}],"validations":[{"expression":"variables.b == 'x'"}]`),
	onConfigMaps(`"variables":[{"name":"a","expression":"1 +"}],"validations":[{"expression":"variables.a == 'x'"}]`),
	onConfigMaps(`"variables":[{"name":"a","expression":"[1, 2]"},{"name":"m","expression":"{'a': [1]}"},{"name":"o","expression":"object"},{"name":"q","expression":"request"}],"validations":[{"expression":"variables.a == ['x']"},{"expression":"variables.m.a == 1"},{"expression":"variables.o.b.c == 1"},{"expression":"variables.q.nope == 1"}]`),
	onConfigMaps(`"matchConditions":[{"name":"","expression":""},{"name":"a b","expression":"1"},{"name":"x","expression":"true"},{"name":"x","expression":"1 +"}],"validations":[{"expression":"true"}]`),
	onConfigMaps(`"variables":[{"name":"a","expression":"1"}],"matchConditions":[{"name":"x","expression":"variables.a == 1"}],"validations":[{"expression":"true"}]`),
	onConfigMaps(`"matchConditions":[{"name":"x","expression":"params == null"}],"validations":[{"expression":"true"}]`),
	onConfigMaps(`"auditAnnotations":[{"key":"","valueExpression":"'a'"},{"key":"a b","valueExpression":""},{"key":"k","valueExpression":"1"},{"key":"k","valueExpression":"null"}]`),
	onConfigMaps(`"auditAnnotations":[{"key":"k","valueExpression":"object.nope ? 'a' : null"}]`),
	onConfigMaps(`"paramKind":{},"validations":[{"expression":"params == null"}]`),
	onConfigMaps(`"paramKind":{"apiVersion":"a/b/c","kind":"A_b"},"validations":[{"expression":"true"}]`),
	onConfigMaps(`"paramKind":{"apiVersion":"A_/V1","kind":"Foo"},"validations":[{"expression":"true"}]`),
	onConfigMaps(`"paramKind":{"apiVersion":"a/","kind":"Foo"},"validations":[{"expression":"true"}]`),
}

var refusedBindings = []string{
	`{}`,
	`{"policyName":"a_b","validationActions":["Foo","Deny","Deny","Warn"]}`,
	`{"policyName":"p","validationActions":["Deny"],"paramRef":{}}`,
	`{"policyName":"p","validationActions":["Audit"],"paramRef":{"name":"a/b","selector":{},"parameterNotFoundAction":"Foo"}}`,
	`{"policyName":"p","validationActions":["Warn"],"paramRef":{"selector":{"matchLabels":{"a b":"c"}},"parameterNotFoundAction":"Deny"}}`,
	`{"policyName":"p","validationActions":["Warn"],"matchResources":{"matchPolicy":"Foo","resourceRules":[{}]}}`,
	`{"policyName":"p","validationActions":["Deny","Audit"],"matchResources":{"resourceRules":[` + rule + `]}}`,
}

// scenario is a policy with a binding in a namespace of its own, objects that are there before, and requests.
// `@` stands for the namespace, which the policy, the binding and some objects are named after.
type scenario struct {
	name     string
	policy   string // spec
	binding  string // spec without policyName and matchResources; "": Deny
	match    string // binding's matchResources; "": the namespace by its label
	before   []request
	requests []request
}

func configMap(name, data string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"l":%q}},"data":%s}`, name, name, data)
}

const (
	maps    = "/api/v1/namespaces/@/configmaps"
	widgets = "/apis/pol.test/v1/namespaces/@/widgets"
)

func validate(expression, more string) string {
	text, _ := json.Marshal(expression)
	return `"validations":[{"expression":` + string(text) + more + `}]`
}

func onWidgets(operations, resources, more string) string {
	return `{"matchConstraints":{"resourceRules":[{"apiGroups":["pol.test"],"apiVersions":["v1"],"operations":` + operations +
		`,"resources":` + resources + `}]},` + more + `}`
}

func widget(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"pol.test/v1","kind":"Widget","metadata":{"name":%q},"spec":%s}`, name, spec)
}

var (
	good = request{path: maps, body: configMap("good", `{"a":"b"}`)}
	bad  = request{path: maps, body: configMap("bad", `{"a":"c"}`)}
)

func scenarios() []scenario {
	isB := "object.data.a == 'b'"
	return []scenario{
		{name: "default message", policy: onConfigMaps(validate(isB, "")), requests: []request{good, bad}},
		{name: "message", policy: onConfigMaps(validate(isB, `,"message":" say b "`)), requests: []request{bad}},
		{name: "message expression", policy: onConfigMaps(validate(isB, `,"message":"m","messageExpression":"' not ' + object.data.a + ' '"`)), requests: []request{bad}},
		{name: "message expression fails", policy: onConfigMaps(validate(isB, `,"message":"m","messageExpression":"object.nope + '!'"`)), requests: []request{bad}},
		{name: "message expression empty", policy: onConfigMaps(validate(isB, `,"messageExpression":"object.metadata.name == 'bad' ? ' ' : ''"`)), requests: []request{bad}},
		{name: "message expression of lines", policy: onConfigMaps(validate(isB, `,"message":"m","messageExpression":"'a\\nb'"`)), requests: []request{bad}},
		{name: "message expression too long", policy: onConfigMaps(validate(isB, `,"messageExpression":"string(object.data.long) + object.data.long"`)),
			requests: []request{{path: maps, body: configMap("bad", `{"a":"c","long":"`+strings.Repeat("x", 3000)+`"}`)}}},
		{name: "reason forbidden", policy: onConfigMaps(validate(isB, `,"reason":"Forbidden"`)), requests: []request{bad}},
		{name: "reason too large", policy: onConfigMaps(validate(isB, `,"reason":"RequestEntityTooLarge"`)), requests: []request{bad}},
		{name: "first of several", policy: onConfigMaps(`"validations":[{"expression":"true"},{"expression":"object.data.a == 'x'"},{"expression":"false"}]`), requests: []request{bad}},
		{name: "runtime error", policy: onConfigMaps(validate("object.nope.more == 1", "")), requests: []request{bad}},
		{name: "runtime errors", policy: onConfigMaps(`"validations":[{"expression":"int(object.data.a) == 1"}]`), requests: []request{bad}},
		{name: "index error", policy: onConfigMaps(`"validations":[{"expression":"[1][size(object.data)] == 1"}]`), requests: []request{bad}},
		{name: "no overload", policy: onConfigMaps(`"validations":[{"expression":"object.data.a > 1"}]`), requests: []request{bad}},
		{name: "error ignored", policy: onConfigMaps(`"failurePolicy":"Ignore",` + validate("object.nope.more == 1", "")), requests: []request{bad}},
		{name: "refusal under ignore", policy: onConfigMaps(`"failurePolicy":"Ignore",` + validate(isB, "")), requests: []request{bad}},
		{name: "warn", policy: onConfigMaps(validate(isB, `,"message":"say b"`)), binding: `"validationActions":["Warn"]`, requests: []request{good, bad}},
		{name: "warn of errors", policy: onConfigMaps(validate("object.nope == 1", "")), binding: `"validationActions":["Warn","Audit"]`, requests: []request{bad}},
		{name: "warn twice", policy: onConfigMaps(`"validations":[{"expression":"false","message":"one"},{"expression":"false","message":"two \"quoted\""}]`), binding: `"validationActions":["Warn"]`, requests: []request{bad}},
		{name: "audit", policy: onConfigMaps(validate(isB, "")), binding: `"validationActions":["Audit"]`, requests: []request{bad}},
		{name: "too expensive", policy: onConfigMaps(validate("[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))", "")), requests: []request{bad}},
		{name: "variables", policy: onConfigMaps(`"variables":[{"name":"a","expression":"object.data.a"},{"name":"up","expression":"variables.a.upperAscii()"}],` +
			validate("variables.up == 'B'", `,"messageExpression":"'got ' + variables.up"`)), requests: []request{good, bad}},
		{name: "variable fails", policy: onConfigMaps(`"variables":[{"name":"a","expression":"object.nope"}],` + validate("variables.a == 'B'", "")), requests: []request{bad}},
		{name: "variable of a variable fails", policy: onConfigMaps(`"variables":[{"name":"a","expression":"object.nope"},{"name":"b","expression":"variables.a"}],` + validate("variables.b == 'B'", "")), requests: []request{bad}},
		{name: "variable unused", policy: onConfigMaps(`"variables":[{"name":"a","expression":"object.nope"}],` + validate(isB, "")), requests: []request{good}},
		{name: "conditions", policy: onConfigMaps(`"matchConditions":[{"name":"one","expression":"object.metadata.name.startsWith('b')"},{"name":"two","expression":"request.operation == 'CREATE'"}],` + validate("false", "")),
			requests: []request{good, bad, {method: "PATCH", path: maps + "/good", kind: mergePatch, body: `{"data":{"x":"y"}}`}}},
		{name: "condition fails", policy: onConfigMaps(`"matchConditions":[{"name":"one","expression":"object.nope == 1"}],` + validate("true", "")), requests: []request{bad}},
		{name: "conditions fail", policy: onConfigMaps(`"matchConditions":[{"name":"one","expression":"object.nope == 1"},{"name":"two","expression":"object.none == 1"}],` + validate("true", "")), requests: []request{bad}},
		{name: "condition false besides an error", policy: onConfigMaps(`"matchConditions":[{"name":"one","expression":"object.nope == 1"},{"name":"two","expression":"false"}],` + validate("false", "")), requests: []request{bad}},
		{name: "condition error ignored", policy: onConfigMaps(`"failurePolicy":"Ignore","matchConditions":[{"name":"one","expression":"object.nope == 1"}],` + validate("false", "")), requests: []request{bad}},
		{name: "transition", policy: onConfigMaps(validate("oldObject == null || object.data.a == oldObject.data.a", `,"messageExpression":"string(oldObject.data.a) + ' became ' + object.data.a"`)),
			before: []request{good}, requests: []request{bad,
				{method: "PUT", path: maps + "/good", body: configMap("good", `{"a":"z"}`)},
				{method: "PUT", path: maps + "/good", body: configMap("good", `{"a":"b","n":"1"}`)},
				{method: "PATCH", path: maps + "/good", kind: mergePatch, body: `{"data":{"a":"y"}}`},
				{method: "PATCH", path: maps + "/good?fieldManager=m&force=true", kind: apply, body: configMap("good", `{"a":"x"}`)},
				{method: "PATCH", path: maps + "/fresh?fieldManager=m", kind: apply, body: configMap("fresh", `{"a":"x"}`)}}},
		{name: "refuses what changes nothing", policy: onConfigMaps(validate("request.operation != 'UPDATE'", "")), before: []request{good},
			requests: []request{{method: "PATCH", path: maps + "/good", kind: mergePatch, body: `{}`}}},
		{name: "delete", policy: onConfigMaps(validate("request.operation != 'DELETE' || (object == null && oldObject.metadata.name != 'good')", `,"messageExpression":"'keep ' + oldObject.metadata.name"`)),
			before: []request{good}, requests: []request{{method: "DELETE", path: maps + "/good"}, bad, {method: "DELETE", path: maps + "/bad"},
				{method: "DELETE", path: maps + "/none"}, {method: "DELETE", path: maps}}},
		{name: "delete of a collection", policy: onConfigMaps(validate("request.operation != 'DELETE'", `,"messageExpression":"string(has(request.name)) + oldObject.metadata.name + request.options.kind"`)),
			before: []request{good}, requests: []request{{method: "DELETE", path: maps}, {method: "DELETE", path: maps + "/good?propagationPolicy=Foreground"}}},
		{name: "dry run", policy: onConfigMaps(validate("request.dryRun", "")), requests: []request{{path: maps + "?dryRun=All", body: good.body}, good}},
		{name: "request", policy: onConfigMaps(validate("false", `,"messageExpression":"string(request.dryRun) + request.operation + request.name + request.namespace + request.kind.kind + request.resource.resource + request.requestKind.version + request.requestResource.group + string(has(request.subResource)) + string(has(request.requestSubResource)) + request.options.kind + request.options.apiVersion + string(has(request.options.fieldManager))"`)),
			requests: []request{good, {path: maps + "?fieldManager=me", body: good.body}}},
		{name: "user", policy: onConfigMaps(validate("!('system:authenticated' in request.userInfo.groups)", `,"message":"known"`)), requests: []request{good}},
		{name: "generated name", policy: onConfigMaps(validate("!request.name.startsWith('gen-') || object.metadata.generateName != 'gen-' || request.name == ''", `,"message":"generated"`)),
			requests: []request{{path: maps, body: `{"metadata":{"name":"gen-1","generateName":"gen-"}}`}}},
		{name: "namespace object", policy: onConfigMaps(validate("namespaceObject.metadata.labels['kubernetes.io/metadata.name'] != '@'", `,"messageExpression":"namespaceObject.metadata.name + namespaceObject.status.phase + namespaceObject.spec.finalizers[0]"`)), requests: []request{good}},
		{name: "namespace object phase", policy: onConfigMaps(validate("namespaceObject.status.phase != 'Active'", `,"messageExpression":"namespaceObject.metadata.name + namespaceObject.status.phase + namespaceObject.spec.finalizers[0]"`)), requests: []request{good}},
		{name: "object selector", policy: `{"matchConstraints":{"objectSelector":{"matchLabels":{"l":"bad"}},"resourceRules":[` + rule + `]},` + validate("false", "") + `}`,
			requests: []request{good, bad, {method: "PATCH", path: maps + "/good", kind: mergePatch, body: `{"metadata":{"labels":{"l":"bad"}}}`}}},
		{name: "object selector of the old object", policy: `{"matchConstraints":{"objectSelector":{"matchLabels":{"l":"good"}},"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["UPDATE","DELETE"],"resources":["configmaps"]}]},` + validate("false", "") + `}`,
			before: []request{good}, requests: []request{{method: "PATCH", path: maps + "/good", kind: mergePatch, body: `{"metadata":{"labels":{"l":"other"}}}`}, {method: "DELETE", path: maps + "/good"}}},
		{name: "excluded", policy: `{"matchConstraints":{"excludeResourceRules":[{"apiGroups":[""],"apiVersions":["*"],"operations":["CREATE"],"resources":["configmaps"],"resourceNames":["good"]}],"resourceRules":[` + rule + `]},` + validate("false", "") + `}`,
			requests: []request{good, bad}},
		{name: "resource names", policy: `{"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"],"resourceNames":["bad"]}]},` + validate("false", "") + `}`,
			requests: []request{good, bad}},
		{name: "binding narrows", policy: onConfigMaps(validate("false", "")), match: `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"@"}},"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["UPDATE"],"resources":["configmaps"]}]}`,
			requests: []request{good, {method: "PATCH", path: maps + "/good", kind: mergePatch, body: `{"data":{"q":"1"}}`}}},
		{name: "binding elsewhere", policy: onConfigMaps(validate("false", "")), match: `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"other"}}}`, requests: []request{good}},
		{name: "scope cluster", policy: `{"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"],"scope":"Cluster"}]},` + validate("false", "") + `}`,
			requests: []request{good, {method: "PATCH", path: "/api/v1/namespaces/@", kind: mergePatch, body: `{"metadata":{"labels":{"x":"y"}}}`}, {method: "DELETE", path: "/api/v1/namespaces/@?dryRun=All"}}},
		{name: "scope namespaced", policy: `{"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"],"scope":"Namespaced"}]},` + validate("false", "") + `}`,
			requests: []request{good, {method: "PATCH", path: "/api/v1/namespaces/@", kind: mergePatch, body: `{"metadata":{"labels":{"x":"z"}}}`}}},
		{name: "params", policy: onConfigMaps(`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"matchConditions":[{"name":"x","expression":"object.metadata.name != 'params' && params.kind == 'ConfigMap'"}],` + validate("object.data.a == params.data.a", `,"messageExpression":"'want ' + params.data.a + ' of ' + params.apiVersion"`)),
			binding: `"validationActions":["Deny"],"paramRef":{"name":"params","parameterNotFoundAction":"Deny"}`, requests: []request{good, bad}},
		{name: "params of a namespace", policy: onConfigMaps(`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},` + validate("object.data.a == params.data.a", "")),
			binding: `"validationActions":["Deny"],"paramRef":{"name":"params","namespace":"params","parameterNotFoundAction":"Deny"}`, requests: []request{good, bad}},
		{name: "params by selector", policy: onConfigMaps(`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},` + validate("object.data.a == params.data.a", `,"messageExpression":"'not ' + params.data.a"`)),
			binding: `"validationActions":["Deny"],"paramRef":{"selector":{"matchLabels":{"l":"params"}},"namespace":"params","parameterNotFoundAction":"Deny"}`, requests: []request{good, bad}},
		{name: "params by selector of none", policy: onConfigMaps(`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},` + validate("false", "")),
			binding: `"validationActions":["Deny"],"paramRef":{"selector":{"matchLabels":{"l":"nobody"}},"namespace":"params","parameterNotFoundAction":"Allow"}`, requests: []request{bad}},
		{name: "params missing", policy: onConfigMaps(`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},` + validate("true", "")),
			binding: `"validationActions":["Deny"],"paramRef":{"name":"none","namespace":"params","parameterNotFoundAction":"Deny"}`, requests: []request{bad}},
		{name: "params missing and ignored", policy: onConfigMaps(`"failurePolicy":"Ignore","paramKind":{"apiVersion":"v1","kind":"ConfigMap"},` + validate("true", "")),
			binding: `"validationActions":["Deny"],"paramRef":{"name":"none","namespace":"params","parameterNotFoundAction":"Deny"}`, requests: []request{bad}},
		{name: "params missing and allowed", policy: onConfigMaps(`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},` + validate("false", "")),
			binding: `"validationActions":["Deny"],"paramRef":{"name":"none","namespace":"params","parameterNotFoundAction":"Allow"}`, requests: []request{bad}},
		{name: "params of no binding", policy: onConfigMaps(`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},` + validate("params == null && false", `,"message":"null"`)), requests: []request{bad}},
		{name: "params of an unknown kind", policy: `{"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"@"}},"resourceRules":[` + rule + `]},"paramKind":{"apiVersion":"nope.test/v1","kind":"Foo"},` + validate("true", "") + `}`,
			binding: `"validationActions":["Deny"],"paramRef":{"name":"none","parameterNotFoundAction":"Allow"}`, requests: []request{bad}},
		{name: "params outside of namespaces", policy: onConfigMaps(`"paramKind":{"apiVersion":"v1","kind":"Namespace"},` + validate("params.metadata.name != '@'", `,"messageExpression":"string(params.kind)"`)),
			binding: `"validationActions":["Deny"],"paramRef":{"name":"@","parameterNotFoundAction":"Deny"}`, requests: []request{bad}},
		{name: "params with a namespace too many", policy: onConfigMaps(`"paramKind":{"apiVersion":"v1","kind":"Namespace"},` + validate("true", "")),
			binding: `"validationActions":["Deny"],"paramRef":{"name":"@","namespace":"params","parameterNotFoundAction":"Deny"}`, requests: []request{bad}},
		{name: "custom params", policy: onConfigMaps(`"paramKind":{"apiVersion":"pol.test/v1beta1","kind":"Widget"},` + validate("params.spec.size > 3", `,"messageExpression":"string(params.apiVersion)"`)),
			binding: `"validationActions":["Deny"],"paramRef":{"name":"params","namespace":"params","parameterNotFoundAction":"Deny"}`, requests: []request{bad}},
		{name: "authorizer", policy: onConfigMaps(validate("authorizer.group('').resource('pods').namespace('x').check('get').allowed() && !authorizer.serviceAccount('ns', 'nobody').group('').resource('pods').check('get').allowed() && authorizer.path('/x').check('get').allowed()", "")), requests: []request{good}},
		{name: "authorizer refuses", policy: onConfigMaps(validate("authorizer.serviceAccount('ns', 'nobody').group('').resource('pods').check('get').allowed()", "")), requests: []request{good}},
		{name: "authorizer of the request", policy: onConfigMaps(validate("authorizer.requestResource.check('x').allowed() && authorizer.requestResource.check('y').errored()", "")), requests: []request{good}},
		{name: "authorizer misused", policy: onConfigMaps(validate("authorizer.serviceAccount('a b', 'nobody').group('').resource('pods').check('get').allowed()", "")), requests: []request{good}},
		{name: "authorizer too often", policy: onConfigMaps(validate("['a', 'b', 'c'].all(p, authorizer.path('/' + p).check('get').allowed())", "")), requests: []request{good}},
		{name: "widgets", policy: onWidgets(`["CREATE","UPDATE"]`, `["widgets"]`, validate("object.spec.size < 5", `,"messageExpression":"'size ' + string(object.spec.size)"`)),
			requests: []request{{path: widgets, body: widget("w", `{"size":4,"replicas":1}`)}, {path: widgets, body: widget("x", `{"size":5}`)},
				{method: "PATCH", path: widgets + "/w", kind: mergePatch, body: `{"spec":{"size":7}}`},
				{method: "PATCH", path: widgets + "/w/status", kind: mergePatch, body: `{"status":{"n":9}}`},
				{path: "/apis/pol.test/v1beta1/namespaces/@/widgets", body: strings.Replace(widget("y", `{"size":6}`), "pol.test/v1", "pol.test/v1beta1", 1)}}},
		{name: "equivalent version", policy: onWidgets(`["CREATE"]`, `["widgets"]`, validate("object.apiVersion == 'pol.test/v1beta1'", `,"messageExpression":"string(object.apiVersion) + request.kind.version + request.resource.version + request.requestKind.version + request.requestResource.version"`)),
			requests: []request{{path: "/apis/pol.test/v1beta1/namespaces/@/widgets", body: strings.Replace(widget("y", `{"size":6}`), "pol.test/v1", "pol.test/v1beta1", 1)}}},
		{name: "exact version", policy: `{"matchConstraints":{"matchPolicy":"Exact","resourceRules":[{"apiGroups":["pol.test"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["widgets"]}]},` + validate("false", "") + `}`,
			requests: []request{{path: "/apis/pol.test/v1beta1/namespaces/@/widgets", body: strings.Replace(widget("y", `{"size":6}`), "pol.test/v1", "pol.test/v1beta1", 1)}, {path: widgets, body: widget("z", `{"size":6}`)}}},
		{name: "status", policy: onWidgets(`["*"]`, `["widgets/status"]`, validate("!has(object.status) || object.status.n < 5", `,"messageExpression":"request.subResource + string(object.status.n) + string(oldObject.spec.size)"`)),
			before: []request{{path: widgets, body: widget("w", `{"size":9}`)}}, requests: []request{{method: "PATCH", path: widgets + "/w/status", kind: mergePatch, body: `{"status":{"n":4}}`},
				{method: "PATCH", path: widgets + "/w/status", kind: mergePatch, body: `{"status":{"n":6}}`}, {method: "PATCH", path: widgets + "/w", kind: mergePatch, body: `{"spec":{"size":8}}`}}},
		{name: "scale", policy: onWidgets(`["UPDATE"]`, `["widgets/scale"]`, validate("object.spec.replicas < 5", `,"messageExpression":"string(object.kind) + object.apiVersion + request.kind.group + request.resource.resource + request.subResource + string(oldObject.spec.replicas) + string(object.spec.replicas)"`)),
			before: []request{{path: widgets, body: widget("w", `{"size":1,"replicas":2}`)}}, requests: []request{{method: "PATCH", path: widgets + "/w/scale", kind: mergePatch, body: `{"spec":{"replicas":3}}`},
				{method: "PATCH", path: widgets + "/w/scale", kind: mergePatch, body: `{"spec":{"replicas":6}}`}, {method: "PATCH", path: widgets + "/w", kind: mergePatch, body: `{"spec":{"replicas":9}}`}}},
		{name: "any subresource", policy: onWidgets(`["*"]`, `["widgets/*"]`, validate("false", `,"messageExpression":"has(request.subResource) ? request.subResource : 'itself'"`)),
			requests: []request{{path: widgets, body: widget("w", `{"size":1,"replicas":2}`)}}},
		{name: "token", policy: `{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["serviceaccounts/token"]}]},` + validate("object.spec.expirationSeconds < 700", `,"messageExpression":"string(object.kind) + object.apiVersion + request.name + request.kind.group"`) + `}`,
			before:   []request{{path: "/api/v1/namespaces/@/serviceaccounts", body: `{"metadata":{"name":"sa"}}`}},
			requests: []request{{path: "/api/v1/namespaces/@/serviceaccounts/sa/token", body: `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":900}}`}}},
		{name: "events of either group", policy: `{"matchConstraints":{"resourceRules":[{"apiGroups":["events.k8s.io"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["events"]}]},` + validate("false", `,"messageExpression":"string(object.apiVersion) + object.regarding.name + request.kind.group + request.requestKind.group"`) + `}`,
			requests: []request{{path: "/api/v1/namespaces/@/events", body: `{"metadata":{"name":"e"},"involvedObject":{"namespace":"@","name":"o","kind":"ConfigMap"},"reason":"r","type":"Normal"}`}}},
		{name: "roles", policy: `{"matchConstraints":{"resourceRules":[{"apiGroups":["rbac.authorization.k8s.io"],"apiVersions":["*"],"operations":["CREATE"],"resources":["roles","rolebindings"]}]},` + validate("object.rules.all(r, !('*' in r.verbs))", "") + `}`,
			requests: []request{{path: "/apis/rbac.authorization.k8s.io/v1/namespaces/@/roles", body: `{"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["*"]}]}`}}},
		{name: "policies are exempt", policy: `{"matchConstraints":{"resourceRules":[{"apiGroups":["admissionregistration.k8s.io"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]},` + validate("false", "") + `}`,
			match: `{}`, requests: []request{{path: policies, body: object("ValidatingAdmissionPolicy", "exempt", onConfigMaps(validate("true", "")))}, {method: "DELETE", path: policies + "/exempt"}}},
		{name: "reviews are exempt", policy: `{"matchConstraints":{"resourceRules":[{"apiGroups":["authorization.k8s.io"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]},` + validate("false", "") + `}`,
			match: `{}`, requests: []request{{path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: `{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}`}}},
		{name: "invalid before policies", policy: onConfigMaps(validate("false", "")), requests: []request{{path: maps, body: `{"metadata":{"name":"A_B"}}`}, {path: maps, body: `{"metadata":{"name":"a"},"data":{"a b":"c"}}`}}},
		{name: "null and absent", policy: onConfigMaps(validate("!has(object.data.x) && !has(object.binaryData) && has(object.metadata.creationTimestamp) && has(object.metadata.uid) && !has(object.metadata.resourceVersion) && !has(object.metadata.annotations) && object.kind == 'ConfigMap' && object.apiVersion == 'v1' && oldObject == null", "")), requests: []request{good}},
		{name: "annotation fails", policy: onConfigMaps(`"auditAnnotations":[{"key":"k","valueExpression":"string(object.nope)"}]`), requests: []request{bad}},
		{name: "annotation fails and is ignored", policy: onConfigMaps(`"failurePolicy":"Ignore","auditAnnotations":[{"key":"k","valueExpression":"string(object.nope)"}]`), requests: []request{bad}},
		{name: "annotation", policy: onConfigMaps(`"auditAnnotations":[{"key":"k","valueExpression":"string(object.metadata.name)"}],` + validate(isB, "")), binding: `"validationActions":["Warn"]`, requests: []request{bad}},
	}
}

// testPolicyChanges updates policies, bindings and status on both.
func testPolicyChanges(t *testing.T, reference, ours *side) {
	const strategic = "application/strategic-merge-patch+json"
	policy, binding := policies+"/changed", bindings+"/changed"
	body := object("ValidatingAdmissionPolicy", "changed", onConfigMaps(`"variables":[{"name":"a","expression":"1"},{"name":"b","expression":"2"}],`+
		`"matchConditions":[{"name":"x","expression":"true"}],`+validate("variables.a == 1", "")))
	for _, r := range []request{
		{path: policies, body: body},
		{path: policies, body: body},
		{method: "PUT", path: policy, body: body},
		{method: "PUT", path: policy + "/status", body: body},
		{method: "PATCH", path: policy, kind: strategic, body: `{"spec":{"variables":[{"name":"b","expression":"3"},{"name":"c","expression":"4"}]}}`},
		{method: "PATCH", path: policy, kind: strategic, body: `{"spec":{"variables":[{"$patch":"delete","name":"b"}],"matchConditions":[{"name":"y","expression":"false"}]}}`},
		{method: "PATCH", path: policy, kind: strategic, body: `{"spec":{"validations":[{"expression":"false"}]}}`},
		{method: "PATCH", path: policy, kind: mergePatch, body: `{"spec":{"variables":[{"name":"a","expression":"'x'"}],"validations":[{"expression":"variables.a == 1"}]}}`},
		{method: "PATCH", path: policy, kind: mergePatch, body: `{"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["a"],"operations":["*"],"resources":["b"]}]}}}`},
		{method: "PATCH", path: policy, kind: mergePatch, body: `{"spec":{"failurePolicy":null}}`},
		{method: "PATCH", path: policy, kind: mergePatch, body: `{"metadata":{"generation":9},"status":{"observedGeneration":7}}`},
		{method: "PATCH", path: policy + "?fieldManager=m", kind: apply, body: object("ValidatingAdmissionPolicy", "changed", `{"variables":[{"name":"d","expression":"5"}]}`)},
		{method: "PATCH", path: policy + "?fieldManager=m", kind: apply, body: object("ValidatingAdmissionPolicy", "changed", `{"variables":[{"name":"a","expression":"5"}],"failurePolicy":"Ignore"}`)},
		{method: "PATCH", path: policy + "/status", kind: mergePatch, body: `{"status":{"conditions":[{"type":"a b","status":"Foo"}]}}`},
		{method: "PATCH", path: policy + "/status", kind: mergePatch, body: `{"status":{"typeChecking":{"expressionWarnings":[{"fieldRef":"","warning":""}]}}}`},
		{method: "PATCH", path: policy + "/status", kind: mergePatch, body: `{"spec":{"failurePolicy":"Foo"},"status":{"observedGeneration":3}}`},
		{path: bindings, body: object("ValidatingAdmissionPolicyBinding", "changed", `{"policyName":"changed","validationActions":["Warn"],"matchResources":{"namespaceSelector":{"matchLabels":{"a":"none"}}}}`)},
		{method: "PATCH", path: binding, kind: mergePatch, body: `{"spec":{"validationActions":["Audit","Warn"],"paramRef":{"name":"x","parameterNotFoundAction":"Deny"}}}`},
		{method: "PATCH", path: binding, kind: mergePatch, body: `{"spec":{"validationActions":[]}}`},
		{method: "PATCH", path: binding, kind: mergePatch, body: `{"spec":{"policyName":"other"}}`},
		{method: "GET", path: binding + "/status"},
		{method: "DELETE", path: binding},
		{method: "GET", path: policy},
		{method: "DELETE", path: policy},
		{method: "GET", path: policy},
		{path: policies, kind: "application/yaml", body: "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: changed}\nspec: {nope: 1}"},
		{path: policies + "?fieldValidation=Strict", body: strings.Replace(body, `"spec":{`, `"spec":{"nope":1,`, 1)},
		{path: policies, body: strings.Replace(body, "changed", "A_b", 1)},
	} {
		compare(t, reference, ours, r)
	}
}

const widgetDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.pol.test"},"spec":{"group":"pol.test",
"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"scope":"Namespaced","versions":[
{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"size":{"type":"integer"},"replicas":{"type":"integer"}}},"status":{"type":"object","properties":{"n":{"type":"integer"},"replicas":{"type":"integer"}}}}}}},
{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"size":{"type":"integer"},"replicas":{"type":"integer"}}},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

// both sends a request that has to succeed everywhere.
func both(t *testing.T, sides []*side, r request) {
	t.Helper()
	for _, s := range sides {
		e2e.Eventually(t, 20*time.Second, s.name+": "+r.path, func() error {
			if got := s.do(t, r); got.Code >= 300 {
				return fmt.Errorf("%d %v", got.Code, got.Body["message"])
			}
			return nil
		})
	}
}

// newWorkspace makes a workspace in root and waits until it can be used.
func newWorkspace(t *testing.T, i *e2e.Installation, name string) *rest.Config {
	t.Helper()
	ctx := context.Background()
	inRoot := e2e.Dynamic(t, i.Config("root")).Resource(e2e.Workspaces)
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
		"metadata": map[string]any{"name": name}}}
	if _, err := inRoot.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, 30*time.Second, "workspace "+name, func() error {
		now, err := inRoot.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if phase, _, _ := unstructured.NestedString(now.Object, "status", "phase"); phase != "Ready" {
			return fmt.Errorf("phase %q", phase)
		}
		return nil
	})
	return i.Config("root:" + name)
}

// AM-334: policies, their faults and what they say to requests, against kube-apiserver.
func TestAdmissionPolicies(t *testing.T) {
	reference := newSide(t, "kube-apiserver", oneKube(t).config(""))
	installation := e2e.StartInstallation(t)
	ours := newSide(t, "kintsugi", newWorkspace(t, installation, "policies"))
	sides := []*side{reference, ours}

	t.Run("faults", func(t *testing.T) {
		for n, spec := range refusedPolicies {
			t.Run(fmt.Sprint("policy ", n), func(t *testing.T) {
				compare(t, reference, ours, request{path: policies + "?dryRun=All", body: object("ValidatingAdmissionPolicy", "p", spec)})
			})
		}
		for n, spec := range refusedBindings {
			t.Run(fmt.Sprint("binding ", n), func(t *testing.T) {
				compare(t, reference, ours, request{path: bindings + "?dryRun=All", body: object("ValidatingAdmissionPolicyBinding", "b", spec)})
			})
		}
	})

	both(t, sides, request{path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body: widgetDefinition})
	both(t, sides, request{path: "/api/v1/namespaces", body: `{"metadata":{"name":"params"}}`})
	both(t, sides, request{path: "/api/v1/namespaces/params/configmaps", body: configMap("params", `{"a":"b"}`)})
	both(t, sides, request{path: "/apis/pol.test/v1/namespaces/params/widgets", body: widget("params", `{"size":3}`)})
	all := scenarios()
	for n, each := range all {
		ns := fmt.Sprint("s", n)
		in := func(text string) string { return strings.ReplaceAll(text, "@", ns) }
		both(t, sides, request{path: "/api/v1/namespaces", body: `{"metadata":{"name":"` + ns + `"}}`})
		if strings.HasPrefix(each.name, "params") && !strings.Contains(each.name, "unknown") {
			both(t, sides, request{path: in(maps), body: configMap("params", `{"a":"b"}`)})
		}
		for _, before := range each.before {
			both(t, sides, request{path: in(before.path), body: in(before.body)})
		}
		binding, match := each.binding, each.match
		if binding == "" {
			binding = `"validationActions":["Deny"]`
		}
		if match == "" {
			match = `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"@"}}}`
		}
		both(t, sides, request{path: policies, body: object("ValidatingAdmissionPolicy", ns, in(each.policy))})
		both(t, sides, request{path: bindings, body: object("ValidatingAdmissionPolicyBinding", ns,
			in(`{"policyName":"@",`+binding+`,"matchResources":`+match+`}`))})
	}
	// The reference reads its policies once a second: when the last is known, all are.
	both(t, sides, request{path: policies, body: object("ValidatingAdmissionPolicy", "last",
		strings.Replace(onConfigMaps(validate("object.metadata.name != 'last'", "")), `"*"`, `"CREATE"`, 1))})
	both(t, sides, request{path: bindings, body: object("ValidatingAdmissionPolicyBinding", "last", `{"policyName":"last","validationActions":["Deny"]}`)})
	for _, s := range sides {
		begin := time.Now()
		e2e.Eventually(t, 20*time.Second, "policies of "+s.name, func() error {
			if got := s.do(t, request{path: "/api/v1/namespaces/default/configmaps?dryRun=All", body: configMap("last", "{}")}); got.Code != http.StatusUnprocessableEntity {
				return fmt.Errorf("%d %v", got.Code, got.Body["message"])
			}
			return nil
		})
		t.Logf("%s: policies act after %v", s.name, time.Since(begin).Round(time.Millisecond))
	}
	t.Run("tables", func(t *testing.T) {
		for _, path := range []string{policies, bindings} {
			want, got := reference.table(t, path), ours.table(t, path)
			if want != got {
				t.Errorf("%s\n%s: %s\n%s: %s", path, reference.name, want, ours.name, got)
			}
		}
	})
	t.Run("protobuf", func(t *testing.T) {
		for n := range all {
			name := fmt.Sprint("s", n)
			var policy, binding [2]string
			for i, s := range sides {
				config := rest.CopyConfig(s.config)
				config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
				client := e2e.Typed(t, config).AdmissionregistrationV1()
				p, err := client.ValidatingAdmissionPolicies().Get(context.Background(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				b, err := client.ValidatingAdmissionPolicyBindings().Get(context.Background(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				policy[i], binding[i] = p.Spec.String(), b.Spec.String()
				p.Name, p.ResourceVersion = "copy-of-"+name, ""
				made, err := client.ValidatingAdmissionPolicies().Create(context.Background(), p, metav1.CreateOptions{DryRun: []string{"All"}})
				if err != nil || made.Spec.String() != p.Spec.String() {
					t.Errorf("%s: copy of %s: %v %v", s.name, name, err, made)
				}
			}
			if policy[0] != policy[1] || binding[0] != binding[1] {
				t.Errorf("%s: %v\n%v", name, policy, binding)
			}
		}
	})
	t.Run("changes", func(t *testing.T) { testPolicyChanges(t, reference, ours) })
	requests := 0
	for n, each := range all {
		ns := fmt.Sprint("s", n)
		t.Run(each.name, func(t *testing.T) {
			for _, r := range each.requests {
				r.path, r.body = strings.ReplaceAll(r.path, "@", ns), strings.ReplaceAll(r.body, "@", ns)
				compare(t, reference, ours, r)
				requests++
			}
		})
	}
	t.Logf("%d specs, %d policies, %d requests compared", len(refusedPolicies)+len(refusedBindings), len(all), requests)
}
