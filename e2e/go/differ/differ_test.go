package differ

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// together is the number of cases that run at once.
const together = 4

// sides are the two servers.
type sides struct{ kube, ours *rest.Config }

var sent, meant atomic.Int64

func newTarget(t *testing.T, config *rest.Config, ns string) *target {
	t.Helper()
	clients := map[bool]*http.Client{}
	for identity, config := range map[bool]*rest.Config{true: config, false: rest.AnonymousClientConfig(config)} {
		config.NextProtos = []string{"h2", "http/1.1"}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		clients[identity] = client
	}
	base := strings.TrimSuffix(config.Host, "/")
	_, host, _ := strings.Cut(base, "://")
	host, _, _ = strings.Cut(host, "/")
	return &target{base: base, client: clients[true], plain: clients[false], normal: newNormal(base[strings.Index(base, host)+len(host):]+"/openapi", host),
		watches: map[string]*stream{},
		vars:    map[string]string{"ns": ns, "core": "/api/v1/namespaces/" + ns}}
}

// compare sends one step to both servers.
func compare(t *testing.T, kube, ours *target, c testCase, s step) {
	where := fmt.Sprintf("%s line %d: %s %s", c.name, s.line, s.method, s.path)
	if kube.vars["each"] != "" {
		where += " [" + kube.vars["each"] + "]"
	}
	want, err := kube.do(&s)
	if err != nil && s.random && strings.Contains(err.Error(), "INTERNAL_ERROR") {
		return // it panicked
	}
	if err != nil {
		t.Fatalf("%s: kube-apiserver: %v", where, err)
	}
	got, err := ours.do(&s)
	if err != nil {
		t.Fatalf("%s: ours: %v", where, err)
	}
	sent.Add(1)
	for name, path := range s.save {
		kube.vars[name], ours.vars[name] = saved(want, path), saved(got, path)
	}
	found := differ(kube, ours, want, got)
	kept := []difference{}
	for _, one := range found {
		ignored := slices.ContainsFunc(s.ignore, func(e *regexp.Regexp) bool { return e.MatchString(one.path) })
		if !ignored && !known(s, want, got, one) {
			kept = append(kept, one)
		}
	}
	if s.differs != "" {
		if len(kept) == 0 {
			t.Errorf("%s: does not differ any more (%s)", where, s.differs)
		}
		meant.Add(1)
		return
	}
	if len(kept) == 0 {
		if len(found) > 0 {
			meant.Add(1)
		}
		return
	}
	lines := []string{where}
	for _, one := range kept {
		if want.status != got.status && one.path != "status" && one.path != "/message" {
			continue
		}
		lines = append(lines, "   "+one.String())
	}
	if os.Getenv("KINTSUGI_DIFFER_BODIES") != "" {
		lines = append(lines, "   sent: "+s.body, "   kube: "+string(want.body), "   ours: "+string(got.body))
	}
	t.Error(strings.Join(lines, "\n"))
}

func saved(a *answer, path string) string {
	switch v := pointer(a.value, path).(type) {
	case string:
		return v
	case nil:
		return "<nothing>"
	default:
		return show(v)
	}
}

// differ compares two answers: the code, the headers, the body.
func differ(kube, ours *target, want, got *answer) (found []difference) {
	if want.status != got.status {
		found = append(found, difference{"status", fmt.Sprint(want.status), fmt.Sprint(got.status)})
	}
	for _, name := range compared {
		a, b := want.header.Values(name), got.header.Values(name)
		for n := range a {
			a[n] = kube.normal.text(a[n])
		}
		for n := range b {
			b[n] = ours.normal.text(b[n])
		}
		if !slices.Equal(a, b) {
			found = append(found, difference{"header " + name, show(a), show(b)})
		}
	}
	left, right := copied(want.value), copied(got.value)
	return append(found, differences("", kube.normal.value(left, ""), ours.normal.value(right, ""))...)
}

// copied is a value that may be rewritten.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name := range out {
			out[name] = copied(out[name])
		}
		return out
	case []any:
		out := slices.Clone(v)
		for n := range out {
			out[n] = copied(out[n])
		}
		return out
	}
	return v
}

func run(t *testing.T, both sides, c testCase, ns string) {
	kube, ours := newTarget(t, both.kube, ns), newTarget(t, both.ours, ns)
	defer kube.close()
	defer ours.close()
	namespace, _ := json.Marshal(map[string]any{"metadata": map[string]any{"name": ns}})
	made := step{method: "POST", path: "/api/v1/namespaces", body: string(namespace), status: http.StatusCreated}
	for _, side := range []*target{kube, ours} {
		if got, err := side.do(&made); err != nil || got.status != http.StatusCreated {
			t.Fatalf("namespace at %s: %v %v", side.base, got, err)
		}
	}
	for _, s := range c.steps {
		if len(s.each) == 0 {
			compare(t, kube, ours, c, s)
		}
		for _, one := range s.each {
			kube.vars["each"], ours.vars["each"], s.differs = one, one, s.but[one]
			s.anyOrder = slices.Contains(s.unordered, one)
			compare(t, kube, ours, c, s)
			kube.vars["each"], ours.vars["each"] = "", ""
		}
	}
}

// TestSameAnswers is the differential test. KINTSUGI_DIFFER selects cases by a part of their name.
func TestSameAnswers(t *testing.T) {
	cases, err := readCases()
	if err != nil {
		t.Fatal(err)
	}
	both := sides{kube: startKube(t), ours: startOurs(t)}
	t.Run("cases", func(t *testing.T) {
		places := make(chan struct{}, together)
		for n, c := range cases {
			if !strings.Contains(c.name, os.Getenv("KINTSUGI_DIFFER")) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				run(t, both, c, fmt.Sprintf("d-%d", n))
			})
		}
	})
	t.Logf("%d cases, %d requests compared, %d answers differ on purpose", len(cases), sent.Load(), meant.Load())
}

// Every step of the cases can be read, and names of cases are unique.
func TestCases(t *testing.T) {
	cases, err := readCases()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range cases {
		if names[c.name] {
			t.Errorf("two cases %s", c.name)
		}
		names[c.name] = true
	}
}
