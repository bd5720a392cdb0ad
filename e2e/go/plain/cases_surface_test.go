package plain

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/merge"
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// T94: discovery is the union.
func testGroupOfOne(p *place) {
	resource := merge.Resource{Group: p.ns + ".example.test", Version: "v1", Plural: "gizmos", Kind: "Gizmo"}
	last := p.servers[len(p.servers)-1].name // one server only has it
	p.define(last, resource)
	var tag string
	e2e.Eventually(p.t, patience, "the group", func() error {
		answer := p.all.Get("/apis", "Accept", aggregated)
		if answer.Status != 200 || !strings.Contains(string(answer.Body), resource.Group) || !strings.Contains(string(answer.Body), `"gizmos"`) {
			return fmt.Errorf("%d, %d bytes", answer.Status, len(answer.Body))
		}
		tag = answer.Header.Get("ETag")
		return nil
	})
	if again := p.all.Get("/apis", "Accept", aggregated, "If-None-Match", tag); again.Status != http.StatusNotModified {
		p.t.Errorf("If-None-Match %s: %s", tag, again)
	}
	if plain := p.all.Get("/apis/" + resource.Group + "/v1"); plain.Status != 200 {
		p.t.Error(plain)
	}
}

// T94: discovery with the verbs that can be had; T95: OpenAPI by hash.
func testDiscovery(p *place) {
	verbs := "[list watch]"
	if p.plain {
		verbs = "[get list watch]"
	}
	var resources struct {
		Resources []struct {
			Name  string
			Verbs []string
		}
	}
	if err := json.Unmarshal(p.all.Get("/api/v1").Body, &resources); err != nil {
		p.t.Fatal(err)
	}
	for _, one := range resources.Resources {
		if one.Name == "configmaps" && fmt.Sprint(one.Verbs) != verbs || one.Name == "pods/exec" {
			p.t.Errorf("%+v", one)
		}
	}
	if answer := p.all.Get("/version"); answer.Status != 200 || !strings.Contains(string(answer.Body), `"gitVersion"`) {
		p.t.Error(answer)
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	root := p.all.Get("/openapi/v3")
	if err := json.Unmarshal(root.Body, &index); err != nil || index.Paths[p.document[0]].ServerRelativeURL == "" {
		p.t.Fatalf("%v: %s", err, root)
	}
	link := index.Paths[p.document[0]].ServerRelativeURL
	document := p.all.At("").Get(link)
	if document.Status != 200 || !strings.Contains(document.Header.Get("Cache-Control"), "immutable") || !strings.Contains(string(document.Body), p.document[1]) {
		p.t.Errorf("%s: %s %v", link, document, document.Header)
	}
	stale := regexp.MustCompile(`hash=[^&]*`).ReplaceAllString(link, "hash=0000")
	if moved := p.all.At("").Get(stale); moved.Status/100 != 3 || moved.Header.Get("Location") == "" {
		p.t.Errorf("%s: %s %v", stale, moved, moved.Header)
	}
}

// T96: one ID in what every server writes down.
func testAudit(p *place) {
	id := "4f2c7a10-0000-4000-8000-" + fmt.Sprintf("%012d", p.port)
	if answer := p.all.Get(p.path(), "Audit-ID", id); answer.Header.Get("Audit-ID") != id {
		p.t.Errorf("%v", answer.Header)
	}
	own := p.all.Get(p.path()).Header.Get("Audit-ID")
	for _, s := range p.servers {
		e2e.Eventually(p.t, patience, "the audit log of "+s.name, func() error {
			text, err := os.ReadFile(s.audit())
			if err == nil && (own == "" || !strings.Contains(string(text), id) || !strings.Contains(string(text), own)) {
				err = fmt.Errorf("neither %s nor %q in %d bytes", id, own, len(text))
			}
			return err
		})
	}
}

// T92: writes as the servers take them; T16, T92, AGG-201: at clusters/* they are refused, and the answer says where they go.
func testWritesOfAllKinds(p *place) {
	body := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"},"nosuch":true}`)
	path := "/api/v1/namespaces/" + p.ns + "/configmaps"
	for _, s := range p.servers {
		home := s.homes[0]
		c := p.client(p.t, home.cluster)
		if answer := c.Do("POST", path+"?fieldValidation=Strict", body, "Content-Type", merge.JSON); answer.Status != 400 {
			p.t.Errorf("%s, Strict: %s", s.name, answer)
		}
		answer := c.Do("POST", path+"?fieldValidation=Warn&dryRun=All", body, "Content-Type", merge.JSON)
		if answer.Status != 201 || !strings.Contains(answer.Header.Get("Warning"), "nosuch") {
			p.t.Errorf("%s, Warn: %s %v", s.name, answer, answer.Header)
		}
		if left := c.Get(path + "/x"); left.Status != 404 {
			p.t.Errorf("%s: dry run left %s", s.name, left)
		}
		applied := c.Do("PATCH", path+"/x?fieldManager=me&force=true", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"2"}}`),
			"Content-Type", "application/apply-patch+yaml")
		if applied.Status != 201 {
			p.t.Errorf("%s, apply: %s", s.name, applied)
		}
		if none := c.Do("DELETE", path, nil); none.Status != 200 || len(p.direct[s.name].List(p.t, p.path()).Items) != 0 {
			p.t.Errorf("%s, deletecollection: %s", s.name, none)
		}
	}
	p.put("b", "only")
	way := "/clusters/<name>/"
	if !p.plain {
		way = "in the `*` logical cluster" // as kcp says it
	}
	for _, refused := range []string{"POST " + path, "PUT " + path + "/only", "PATCH " + path + "/only", "DELETE " + path + "/only", "DELETE " + path,
		"GET " + path + "/only/status", "GET /api/v1/namespaces/" + p.ns + "/pods/x/log"} {
		method, where, _ := strings.Cut(refused, " ")
		answer := p.all.Do(method, where, body, "Content-Type", merge.JSON)
		if answer.Status != 405 || !strings.Contains(answer.Object(p.t).Message, way) {
			p.t.Errorf("%s: %s", refused, answer)
		}
	}
	for _, single := range []string{"/metrics", "/healthz", "/", "/logs", "/.well-known/openid-configuration"} {
		if answer := p.all.Get(single); answer.Status != 405 {
			p.t.Errorf("%s: %s", single, answer)
		}
	}
}

// Kinds that have no versions and cannot be watched come whole, whatever the limit.
func testWithoutVersions(p *place) {
	for _, limit := range []string{"", "1", "500"} {
		for _, accept := range []string{merge.JSON, merge.TableV1} {
			list := p.all.List(p.t, query("/api/v1/componentstatuses", "limit", limit), "Accept", accept)
			if count := len(list.Items) + len(list.Rows); count != 3*len(p.servers) || list.Metadata.Continue != "" {
				p.t.Errorf("limit %q: %d objects", limit, count)
			}
		}
	}
}

// T89: what a client says about itself reaches no server.
func testForgedHeaders(p *place) {
	for _, header := range []string{"X-Remote-User", "X_Remote_User", "X-Remote-Group", "X-Remote-Extra-Scopes"} {
		answer := p.all.Get(p.path(), header, "system:masters")
		if answer.Status != 200 {
			p.t.Errorf("%s: %s", header, answer)
		}
	}
	for _, s := range p.servers {
		text, err := os.ReadFile(s.audit())
		if err != nil {
			p.t.Fatal(err)
		}
		lines := slices.Collect(strings.Lines(string(text)))
		for _, line := range lines[max(0, len(lines)-200):] {
			if strings.Contains(line, p.ns) && strings.Contains(line, `"username":"system:masters"`) {
				p.t.Errorf("%s: %s", s.name, line)
			}
		}
	}
}

func surfaceCases() []aCase {
	return []aCase{
		{"T94_a_group_of_one_server", testGroupOfOne},
		{"T94_T95_discovery_and_OpenAPI", testDiscovery},
		{"T96_audit_IDs", testAudit},
		{"T16_T92_writes_of_all_kinds", testWritesOfAllKinds},
		{"T89_forged_headers", testForgedHeaders},
		{"T49_T59_T71_T72_clients_of_all_sorts", testClients},
		{"T08_T92_T94_T95_kubectl", testKubectlForms},
		{"T93_exec_logs_and_port_forward", testUpgrades},
		{"T02_kinds_without_versions", testWithoutVersions},
	}
}
