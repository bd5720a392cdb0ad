package plain

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/merge"
)

// define makes the CRD of a resource on a plain server and waits until it is served.
func (p *place) define(server string, resource merge.Resource) {
	p.t.Helper()
	s := p.server(server)
	client, err := apiextensions.NewForConfig(s.config(s.homes[0].prefix))
	if err != nil {
		p.t.Fatal(err)
	}
	yes := true
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Create(context.Background(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: resource.Plural + "." + resource.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: resource.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: resource.Plural, Kind: resource.Kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: resource.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
					XPreserveUnknownFields: &yes}}}}}}, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	e2e.Eventually(p.t, patience, resource.Plural+" on "+server, func() error {
		if answer := p.direct[server].Get(custom(p.ns, resource)); answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
}

func custom(ns string, resource merge.Resource) string {
	return "/apis/" + resource.Group + "/" + resource.Version + "/namespaces/" + ns + "/" + resource.Plural
}

// make an object of a custom resource on a server.
func (p *place) make(server string, resource merge.Resource, name string) {
	p.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"%s/%s","kind":%q,"metadata":{"name":%q},"spec":{"size":1}}`, resource.Group, resource.Version,
		resource.Kind, name)
	e2e.Eventually(p.t, patience, name+" on "+server, func() error {
		answer := p.direct[server].Do("POST", custom(p.ns, resource), []byte(body), "Content-Type", merge.JSON)
		if answer.Status != http.StatusCreated {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
}

func testLists(p *place) {
	p.fill(3, 2, 1, 1)
	list := p.all.List(p.t, p.path())
	if list.Kind != "ConfigMapList" || list.APIVersion != "v1" || list.Metadata.Continue != "" || len(list.Items) != len(p.union()) {
		p.t.Errorf("%s %s %v, %d items", list.Kind, list.APIVersion, list.Metadata, len(list.Items))
	}
	p.same("configmaps", merge.ModelOf(list.Items), p.union())
	if again := p.cursor(); again != list.Metadata.ResourceVersion || len(again) != p.width() { // T12, T14
		p.t.Errorf("%s, then %s", list.Metadata.ResourceVersion, again)
	}
}

// T02b: a server without the resource is empty until it has it.
func testCustomLists(p *place) {
	resource := merge.Resource{Group: p.ns + ".example.test", Version: "v1", Plural: "widgets", Kind: "Widget"}
	last := p.servers[len(p.servers)-1].name
	var group sync.WaitGroup
	for _, s := range p.servers {
		if s.name != last {
			group.Go(func() {
				p.define(s.name, resource)
				p.make(s.name, resource, "w-"+s.name)
			})
		}
	}
	group.Wait()
	path := custom(p.ns, resource)
	list := p.all.List(p.t, path)
	if list.Kind != "WidgetList" || len(list.Items) != len(p.servers)-1 || len(list.Metadata.ResourceVersion) != p.width() ||
		strings.Trim(list.Metadata.ResourceVersion[p.slot(last):], "0") != "" {
		p.t.Errorf("%s %s, %d items", list.Kind, list.Metadata.ResourceVersion, len(list.Items))
	}
	if answer := p.all.Get(path, "Accept", merge.Proto+","+merge.JSON); !strings.HasPrefix(answer.Header.Get("Content-Type"), merge.JSON) { // T10
		p.t.Errorf("custom objects as %s", answer.Header.Get("Content-Type"))
	}
	live := p.all.Watch(p.t, query(path, "watch", "1", "resourceVersion", list.Metadata.ResourceVersion))
	p.define(last, resource)
	p.make(last, resource, "w-"+last)
	e := live.UntilObjects(1, patience)[0]
	if e.Type != "ADDED" || e.Object.Marker() != last {
		p.t.Errorf("%s %s", e.Type, e.Raw)
	}
}

func testSelectors(p *place) {
	for n, s := range p.servers {
		p.put(s.name, s.name+"-1", "app", "web", "tier", "db")
		p.put(s.name, s.name+"-2", "app", "web")
		p.put(s.name, s.name+"-3", "n", fmt.Sprint(n))
	}
	for selector, text := range map[string]string{"labelSelector": "app=web,tier!=db", "fieldSelector": "metadata.name=b-1"} {
		list := p.all.List(p.t, p.path(selector, text))
		p.same(text, merge.ModelOf(list.Items), p.union(selector, text))
		if len(list.Items) == 0 {
			p.t.Errorf("%s: nothing", text)
		}
	}
	p.all.Refused(p.t, 400, p.path("labelSelector", "a in ("))
	p.all.Refused(p.t, 400, p.path("fieldSelector", "spec.nosuch=1"))
}

func testFreshness(p *place) {
	for n := range 30 {
		name := fmt.Sprint("b-", n)
		version := p.put("b", name)
		if got := merge.ModelOf(p.all.List(p.t, p.path()).Items)[p.key("b", name)]; got != version {
			p.t.Fatalf("%s at %q after it was made at %s", name, got, version)
		}
		p.all.List(p.t, p.path("resourceVersion", "0"))
	}
}

func testExactLists(p *place) {
	p.fill(3)
	first := p.all.List(p.t, p.path())
	version := first.Metadata.ResourceVersion
	for _, s := range p.servers {
		for n := range 10 {
			p.put(s.name, fmt.Sprintf("%s-%d", s.name, n%4+1))
		}
	}
	p.remove("a", "a-2")
	newer := p.all.List(p.t, p.path("resourceVersion", version))
	p.same("not older", merge.ModelOf(newer.Items), p.union())
	if !older(version, newer.Metadata.ResourceVersion) {
		p.t.Errorf("%s after %s", newer.Metadata.ResourceVersion, version)
	}
	for _, how := range [][]string{{"resourceVersionMatch", "Exact"}, {"limit", "500"}} {
		exact := p.all.List(p.t, p.path(append(how, "resourceVersion", version)...))
		p.same(fmt.Sprint(how), merge.ModelOf(exact.Items), merge.ModelOf(first.Items))
		if exact.Metadata.ResourceVersion != version {
			p.t.Errorf("%v: %s, not %s", how, exact.Metadata.ResourceVersion, version)
		}
	}
}

func testCombinations(p *place) {
	p.fill(1)
	for _, one := range merge.Combinations(p.cursor()) {
		s, _ := p.all.Refused(p.t, one.Code, p.asked(one.Query))
		var fields []string
		for _, cause := range s.Details.Causes {
			fields = append(fields, cause.Field)
		}
		if one.Field != "" && (s.Reason != "Invalid" || s.Details.Kind != "ListOptions" || !slices.Contains(fields, one.Field)) {
			p.t.Errorf("%s: %+v", one.Query, s)
		}
	}
	for _, fine := range []string{"limit=-1", "limit=0", "watch=0", "watch=FALSE", "resourceVersion="} {
		p.same(fine, merge.ModelOf(p.all.List(p.t, p.asked(fine)).Items), p.union())
	}
}

func testTables(p *place) {
	p.fill(2)
	want := p.union()
	for _, accept := range []string{merge.TableV1, merge.TableBeta, merge.Kubectl} {
		table := p.all.List(p.t, p.path(), "Accept", accept)
		got := merge.Model{}
		for _, row := range table.Rows {
			got[row.Object.Key()] = row.Object.Metadata.ResourceVersion
		}
		p.same(accept, got, want)
		if table.Kind != "Table" || len(table.Columns) != 3 {
			p.t.Errorf("%s: %s, %d columns", accept, table.Kind, len(table.Columns))
		}
	}
	for _, accept := range []string{merge.Partial, merge.PartialPB, merge.Proto} { // T09, T10
		answer := p.all.Get(p.path(), "Accept", accept)
		list := answer.Object(p.t)
		p.same(accept, merge.ModelOf(list.Items), want)
		if wanted, _, _ := strings.Cut(accept, ";"); !strings.HasPrefix(answer.Header.Get("Content-Type"), wanted) {
			p.t.Errorf("%s: %s", accept, answer.Header.Get("Content-Type"))
		}
		if accept != merge.Proto && list.Kind != "PartialObjectMetadataList" {
			p.t.Errorf("%s: %s", accept, list.Kind)
		}
	}
	for _, accept := range []string{"image/png", "application/cbor"} {
		p.all.Refused(p.t, 406, p.path(), "Accept", accept)
	}
	for _, method := range []string{"HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "DELETE"} { // T16, T92
		answer := p.all.Do(method, p.path(), nil)
		if answer.Status != http.StatusMethodNotAllowed || method != "HEAD" && answer.Object(p.t).Kind != "Status" {
			p.t.Errorf("%s: %s", method, answer)
		}
	}
}

// T10s, T15: what is too large to be spooled comes as JSON of the same state; large lists are compressed for who likes that.
func testLargeLists(p *place) {
	for _, s := range p.servers {
		patch := fmt.Sprintf(`{"data":{"large":%q}}`, strings.Repeat(s.name, 300_000))
		p.put(s.name, "large")
		if answer := s.reader(p.t, s.home("large").prefix).Do("PATCH", p.object("large"), []byte(patch), "Content-Type", "application/merge-patch+json"); answer.Status != 200 {
			p.t.Fatal(answer)
		}
	}
	want := p.union()
	answer := p.all.Get(p.path(), "Accept", merge.Proto+","+merge.JSON)
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), merge.JSON) {
		p.t.Errorf("beyond the spool: %s", answer.Header.Get("Content-Type"))
	}
	p.same("beyond the spool", merge.ModelOf(answer.Object(p.t).Items), want)
	if only := p.all.Get(p.path(), "Accept", merge.Proto); only.Status != http.StatusNotAcceptable {
		p.t.Error(only)
	}
	small := p.all.Get(p.path("limit", "2"), "Accept", merge.Proto)
	if small.Status != 200 || !strings.HasPrefix(small.Header.Get("Content-Type"), merge.Proto) {
		p.t.Errorf("a page: %d %v", small.Status, small.Header)
	}
	zipped := p.all.Get(p.path(), "Accept-Encoding", "gzip")
	in, err := gzip.NewReader(bytes.NewReader(zipped.Body))
	if err != nil || zipped.Header.Get("Content-Encoding") != "gzip" || len(zipped.Body) > 100_000 {
		p.t.Fatalf("%v, %d bytes, %v", err, len(zipped.Body), zipped.Header)
	}
	in.Multistream(false)
	text, err := io.ReadAll(in)
	list := merge.Object{}
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.same("gzip", merge.ModelOf(list.Items), want)
}

func testVersionsOfItems(p *place) {
	made := p.put("b", "b-1")
	got := map[string]string{
		"LIST":   p.all.List(p.t, p.path()).Items[0].Metadata.ResourceVersion,
		"row":    p.all.List(p.t, p.path(), "Accept", merge.TableV1).Rows[0].Object.Metadata.ResourceVersion,
		"WATCH":  p.all.Watch(p.t, p.path("watch", "1")).UntilObjects(1, patience)[0].Object.Metadata.ResourceVersion,
		"direct": p.direct["b"].List(p.t, p.path()).Items[0].Metadata.ResourceVersion,
	}
	if p.plain {
		got["GET"] = p.all.List(p.t, p.object("b-1")).Metadata.ResourceVersion
	}
	for what, version := range got {
		if version != made {
			p.t.Errorf("%s: %s, not %s", what, version, made)
		}
	}
	for _, match := range []string{"", "NotOlderThan"} { // T17
		list := p.all.List(p.t, p.path("resourceVersion", made, "resourceVersionMatch", match))
		p.same("at a native version", merge.ModelOf(list.Items), p.union())
	}
	w := p.all.Watch(p.t, p.asked(newest+"&resourceVersion="+made))
	w.UntilSynced(patience)
	p.same("WatchList at a native version", merge.Model{}.Apply(w.Events()), p.union())
	p.all.Refused(p.t, 410, p.path("resourceVersion", strings.Repeat("7", 40)))
}

func pages(p *place, limit int) (all, each []merge.Object) {
	p.t.Helper()
	for token := ""; ; {
		page := p.all.List(p.t, p.path("limit", fmt.Sprint(limit), "continue", token))
		if len(page.Items) > limit || len(page.Items) == 0 && page.Metadata.Continue != "" {
			p.t.Errorf("%d items on a page of %d", len(page.Items), limit)
		}
		all, each = append(all, page.Items...), append(each, page)
		if token = page.Metadata.Continue; token == "" {
			return all, each
		}
	}
}

// T21: the second server has nothing, the first has 4.
func testPages(p *place) {
	p.fill(4, 0, 7, 3)
	want := p.union()
	for _, limit := range []int{1, 2, 4, 7, 500} {
		all, each := pages(p, limit)
		p.same(fmt.Sprint("limit ", limit), merge.ModelOf(all), want)
		left := len(want)
		for _, page := range each {
			left -= len(page.Items)
			if rest := page.Metadata.Remaining; page.Metadata.ResourceVersion != each[0].Metadata.ResourceVersion || rest != nil && int(*rest) != left {
				p.t.Errorf("limit %d: %+v, %d remain", limit, page.Metadata, left)
			}
		}
		if len(all) != len(want) {
			p.t.Errorf("limit %d: %d items of %d", limit, len(all), len(want))
		}
	}
}

// T23, T25, T26.
func testPagesOfOneState(p *place) {
	p.fill(4)
	want := p.union()
	page := p.all.List(p.t, p.path("limit", "3"))
	token := page.Metadata.Continue
	for _, bad := range []string{"x", token[1:], token[:len(token)-1], token[:10] + "A" + token[11:], token + "A"} {
		if bad != token {
			p.all.Refused(p.t, 400, p.path("limit", "3", "continue", bad))
		}
	}
	for _, other := range []string{p.path("labelSelector", "app=db", "continue", token), query("/api/v1/configmaps", "continue", token),
		p.of("secrets", "continue", token)} {
		p.all.Refused(p.t, 400, other)
	}
	p.all.Refused(p.t, 400, p.path("limit", "3", "continue", token, "resourceVersion", "5"))
	got := merge.ModelOf(page.Items)
	last := p.servers[len(p.servers)-1].name
	p.put("a", "a-new")
	p.put(last, last+"-new")
	p.remove(last, last+"-3")
	p.put("b", "b-2")
	for token != "" {
		page = p.all.List(p.t, p.path("limit", "3", "continue", token))
		for key, version := range merge.ModelOf(page.Items) {
			got[key] = version
		}
		token = page.Metadata.Continue
	}
	p.same("pages", got, want)
}

func listCases() []aCase {
	return []aCase{
		{"T01_T12_T14_lists", testLists},
		{"T01_T02_T10_custom_resources", testCustomLists},
		{"T03_selectors", testSelectors},
		{"T04_acknowledged_writes_are_listed", testFreshness},
		{"T05_T06_cursors_ask_for_a_state", testExactLists},
		{"T07_T30_T48_forbidden_combinations", testCombinations},
		{"T08_T09_T10_T16_T92_representations", testTables},
		{"T10_T15_large_lists", testLargeLists},
		{"T11_T17_versions_of_objects", testVersionsOfItems},
		{"T20_T21_pages", testPages},
		{"T23_T25_T26_pages_of_one_state", testPagesOfOneState},
		{"T57_versions_of_nobody", testVersionsOfNobody},
	}
}

// T57: 400 for what nobody ever made, 410 for the rest.
func testVersionsOfNobody(p *place) {
	p.fill(1)
	other := p.all.List(p.t, p.of("secrets")).Metadata.ResourceVersion
	for _, one := range merge.VersionsOfNobody(p.cursor(), other) {
		paths := []string{p.path("resourceVersion", one.Version, "resourceVersionMatch", "Exact"), p.path("resourceVersion", one.Version)}
		if p.plain {
			paths = append(paths, query(p.object("a-1"), "resourceVersion", one.Version))
		}
		for _, path := range paths {
			p.all.Refused(p.t, one.Code, path)
		}
		w := p.all.Open(p.t, p.path("watch", "1", "resourceVersion", one.Version), nil)
		if one.Code == 410 {
			gone(p.t, w)
		} else if w.Status != one.Code {
			p.t.Errorf("watch at %.40s: %d", one.Version, w.Status)
		}
		w.Close()
	}
}
