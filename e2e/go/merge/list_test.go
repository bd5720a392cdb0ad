package merge

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const newest = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

func query(path string, pairs ...string) string {
	q := url.Values{}
	for n := 0; n+1 < len(pairs); n += 2 {
		q.Set(pairs[n], pairs[n+1])
	}
	return path + "?" + q.Encode()
}

func names(items []Object) []string {
	var out []string
	for _, item := range items {
		out = append(out, item.Metadata.Name)
	}
	return out
}

func same(t *testing.T, got, want Model) {
	t.Helper()
	if err := got.Equal(want); err != nil {
		t.Error(err)
	}
}

func TestT01_list_has_all_objects(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 2, 1)
	for _, f := range r.Shards {
		f.Widgets.Put(f.Name+"-w", Data("size", "1"))
	}
	list := r.All.List(t, ConfigMaps.Path())
	if list.Kind != "ConfigMapList" || list.APIVersion != "v1" || list.Metadata.ResourceVersion == "" || list.Metadata.Continue != "" {
		t.Errorf("%s %s %v", list.Kind, list.APIVersion, list.Metadata)
	}
	same(t, ModelOf(list.Items), Union(r.Maps()...))
	if len(list.Items) != 6 {
		t.Errorf("%d items", len(list.Items))
	}
	list = r.All.List(t, Widgets.Path())
	if list.Kind != "WidgetList" || list.APIVersion != "example.test/v1" {
		t.Errorf("%s %s", list.Kind, list.APIVersion)
	}
	same(t, ModelOf(list.Items), Union(r.A.Widgets, r.B.Widgets, r.C.Widgets))
	for _, item := range list.Items {
		if item.Spec["size"] != "1" || item.Kind != "Widget" {
			t.Errorf("%+v", item)
		}
	}
}

func testJoinsLater(t *testing.T, change func(*Behavior)) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 2)
	r.C.Set(change)
	list := r.All.List(t, ConfigMaps.Path())
	same(t, ModelOf(list.Items), Union(r.A.Maps, r.B.Maps))
	rv := list.Metadata.ResourceVersion
	if len(rv) != 75 {
		t.Errorf("cursor %s", rv)
	}
	w := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "true", "resourceVersion", rv, "allowWatchBookmarks", "true"))
	r.C.Set(func(b *Behavior) { *b = Behavior{} })
	r.C.Maps.Put("c-1")
	begun := time.Now()
	events := w.UntilObjects(1, patience)
	if events[0].Type != "ADDED" || events[0].Object.Key() != "c/t/c-1" {
		t.Error(tell(events))
	}
	t.Logf("after %v", time.Since(begun))
	if cursor := w.UntilMarked(patience); len(cursor) != 75 || cursor <= rv {
		t.Errorf("cursor %s after %s", cursor, rv)
	}
}

func TestT02a_empty_shard_joins_watch(t *testing.T) { testJoinsLater(t, func(*Behavior) {}) }

func TestT02b_absent_resource_joins_watch(t *testing.T) {
	testJoinsLater(t, func(b *Behavior) { b.Absent = true })
}

func TestT02d_a_resource_is_installed(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.absent.reprobe_ms", 120_000))
	r.A.Widgets.Put("a-1")
	r.C.Set(func(b *Behavior) { b.Absent = true })
	served := r.C.On(func(w http.ResponseWriter, _ *http.Request, e Entry) bool {
		if e.Path != "/apis/example.test/v1" {
			return false
		}
		answerStatus(w, notFound())
		return true
	})
	discover := func() { r.All.List(t, "/apis/example.test/v1") }
	discover()
	list := r.All.List(t, Widgets.Path())
	watches := []*Recording{r.All.Watch(t, query(Widgets.Path(), "watch", "1", "resourceVersion", list.Metadata.ResourceVersion)),
		r.All.Watch(t, Widgets.Path()+"?"+newest)}
	watches[1].UntilSynced(patience)
	served.Off()
	r.C.Set(func(b *Behavior) { b.Absent = false })
	r.C.Widgets.Put("c-1")
	discover()
	for n, w := range watches {
		if events := w.UntilObjects(1+n, patience); events[n].Type != "ADDED" || events[n].Object.Key() != "c/t/c-1" {
			t.Error(tell(events))
		}
	}
}

func TestT02c_list_without_version_joins_watch(t *testing.T) {
	testJoinsLater(t, func(b *Behavior) { b.EmptyRV = true; b.NoBookmarks = true })
}

func TestT03_selectors_and_namespaces(t *testing.T) {
	begin(t)
	r := NewRig(t)
	for _, f := range r.Shards {
		f.Maps.Put(f.Name+"-1", Labels("app", "web", "tier", "fe"))
		f.Maps.Put(f.Name+"-2", Labels("app", "web", "tier", "db"))
		f.Maps.Put(f.Name + "-3")
	}
	const selector = "app=web,tier!=db"
	want := Model{}.with(r.A.Maps.selects(selector)).with(r.B.Maps.selects(selector)).with(r.C.Maps.selects(selector))
	same(t, ModelOf(r.All.List(t, query(ConfigMaps.Path(), "labelSelector", selector)).Items), want)
	if got := names(r.All.List(t, query(ConfigMaps.Path(), "fieldSelector", "metadata.name=b-1")).Items); !slices.Equal(got, []string{"b-1"}) {
		t.Error(got)
	}
	r.All.Refused(t, http.StatusBadRequest, query(ConfigMaps.Path(), "labelSelector", "a in ("))
	if r.Source == "static" {
		same(t, ModelOf(r.All.List(t, ConfigMaps.In()).Items), Union(r.Maps()...))
		if none := r.All.List(t, "/api/v1/namespaces/other/configmaps"); len(none.Items) != 0 {
			t.Error(names(none.Items))
		}
	} else {
		r.All.Refused(t, http.StatusBadRequest, ConfigMaps.In())
	}
}

func TestT04_acknowledged_writes_are_listed(t *testing.T) {
	begin(t)
	r := NewRig(t)
	for n := range 100 {
		name := fmt.Sprintf("b-%d", n)
		r.B.Maps.Put(name)
		if got := names(r.All.List(t, ConfigMaps.Path()).Items); !slices.Contains(got, name) {
			t.Fatalf("%s is not in %v", name, got)
		}
		r.All.List(t, ConfigMaps.Path()+"?resourceVersion=0")
	}
}

func TestT05_T06_cursors_ask_for_a_state(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 2, 1)
	first := r.All.List(t, ConfigMaps.Path())
	rv := first.Metadata.ResourceVersion
	for n := range 50 {
		for _, f := range r.Shards {
			f.Maps.Put(fmt.Sprintf("%s-%d", f.Name, n%5+1), Data("v", fmt.Sprint(n)))
		}
	}
	r.A.Maps.Delete("a-2")
	newer := r.All.List(t, query(ConfigMaps.Path(), "resourceVersion", rv))
	same(t, ModelOf(newer.Items), Union(r.Maps()...))
	if older(newer.Metadata.ResourceVersion, rv) || newer.Metadata.ResourceVersion == rv {
		t.Errorf("%s after %s", newer.Metadata.ResourceVersion, rv)
	}
	for _, how := range [][]string{{"resourceVersionMatch", "Exact"}, {"limit", "500"}} {
		exact := r.All.List(t, query(ConfigMaps.Path(), append(how, "resourceVersion", rv)...))
		same(t, ModelOf(exact.Items), ModelOf(first.Items))
		if exact.Metadata.ResourceVersion != rv {
			t.Errorf("%v: %s, not %s", how, exact.Metadata.ResourceVersion, rv)
		}
	}
	r.B.Forget()
	if s, _ := r.All.Refused(t, http.StatusGone, query(ConfigMaps.Path(), "resourceVersionMatch", "Exact", "resourceVersion", rv)); s.Reason != "Expired" {
		t.Error(s.Reason)
	}
}

func TestT06f_a_state_that_was_forgotten(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 2, 1)
	first := r.All.List(t, ConfigMaps.Path())
	rv := first.Metadata.ResourceVersion
	r.B.Maps.Put("b-new")
	r.B.Forget()
	for _, how := range [][]string{{"resourceVersionMatch", "Exact"}, {"limit", "500"}} {
		path := query(ConfigMaps.Path(), append(how, "resourceVersion", rv)...)
		// A page may end before a shard that cannot answer; the next one cannot be had then.
		if answer := r.All.Get(path); answer.Status == http.StatusOK && how[0] == "limit" {
			page := answer.Object(t)
			for _, item := range page.Items {
				if ModelOf(first.Items)[item.Key()] != item.Metadata.ResourceVersion {
					t.Errorf("%s was not so at %s", item.Key(), rv)
				}
			}
			path = query(ConfigMaps.Path(), "limit", "500", "continue", page.Metadata.Continue)
		}
		if s, _ := r.All.Refused(t, http.StatusGone, path); s.Reason != "Expired" {
			t.Errorf("%v: %s", how, s.Reason)
		}
	}
}

func TestT07_T30_T48_forbidden_combinations(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	for _, one := range Combinations(cursor) {
		s, _ := r.All.Refused(t, one.Code, ConfigMaps.Path()+"?"+one.Query)
		if one.Code == 400 && s.Reason != "BadRequest" {
			t.Errorf("%s: reason %s", one.Query, s.Reason)
		}
		if one.Field == "" {
			continue
		}
		if s.Reason != "Invalid" || s.Details.Group != "meta.k8s.io" || s.Details.Kind != "ListOptions" {
			t.Errorf("%s: %+v", one.Query, s)
		}
		var fields []string
		for _, cause := range s.Details.Causes {
			fields = append(fields, cause.Field)
		}
		if !slices.Contains(fields, one.Field) {
			t.Errorf("%s: causes name %v, not %s", one.Query, fields, one.Field)
		}
	}
	for _, fine := range []string{"limit=-1", "limit=0"} {
		if list := r.All.List(t, ConfigMaps.Path()+"?"+fine); len(list.Items) != 3 || list.Metadata.Continue != "" {
			t.Errorf("%s: %d items", fine, len(list.Items))
		}
	}
}

func TestT08_tables(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 2, 1)
	for _, accept := range []string{TableV1, TableBeta} {
		table := r.All.List(t, ConfigMaps.Path(), "Accept", accept)
		if table.Kind != "Table" || len(table.Columns) != 3 || len(table.Rows) != 6 {
			t.Errorf("%s: %s, %d columns, %d rows", accept, table.Kind, len(table.Columns), len(table.Rows))
		}
		got := Model{}
		for _, row := range table.Rows {
			got[row.Object.Key()] = row.Object.Metadata.ResourceVersion
		}
		same(t, got, Union(r.Maps()...))
	}
	r.B.Set(func(b *Behavior) { b.ExtraColumn = true })
	if answer := r.All.Get(ConfigMaps.Path(), "Accept", TableV1); answer.Status != http.StatusNotAcceptable {
		t.Errorf("different columns: %s", answer)
	}
	list := r.All.List(t, ConfigMaps.Path(), "Accept", Kubectl)
	if list.Kind != "ConfigMapList" {
		t.Errorf("different columns: %s", list.Kind)
	}
	same(t, ModelOf(list.Items), Union(r.Maps()...))
}

func TestT08k_kubectl_prints(t *testing.T) {
	begin(t)
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("no kubectl on this machine")
	}
	r := NewRig(t)
	r.Fill(3, 2, 1)
	write(t, r.path("admin.crt"), r.admin.Cert)
	write(t, r.path("admin.key"), r.admin.Key)
	command := exec.Command(kubectl, "--kubeconfig=/dev/null", "--cache-dir="+filepath.Join(r.Dir, "cache"), "--server="+r.All.Base,
		"--certificate-authority="+r.path("serving-ca.crt"), "--client-certificate="+r.path("admin.crt"),
		"--client-key="+r.path("admin.key"), "get", "configmaps", "-A")
	command.Env = append(command.Environ(), "HOME="+r.Dir)
	out, err := command.CombinedOutput()
	if err != nil || strings.Count(string(out), "\n") != 7 || !strings.Contains(string(out), "b-2") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestT09_partial_metadata(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 2, 1)
	list := r.All.List(t, ConfigMaps.Path(), "Accept", Partial)
	if list.Kind != "PartialObjectMetadataList" {
		t.Error(list.Kind)
	}
	same(t, ModelOf(list.Items), Union(r.Maps()...))
}

func protobufList(t *testing.T, c *Client, path, accept string) Object {
	t.Helper()
	answer := c.Get(path, "Accept", accept)
	if answer.Status != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), Proto) {
		t.Fatalf("%s: %s %s", path, answer.Header.Get("Content-Type"), answer)
	}
	list, err := decodeProto(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestT09p_partial_metadata_as_protobuf(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 2, 1)
	list := protobufList(t, r.All, ConfigMaps.Path(), PartialPB)
	if list.Kind != "PartialObjectMetadataList" {
		t.Error(list.Kind)
	}
	same(t, ModelOf(list.Items), Union(r.Maps()...))
}

func TestT10_protobuf(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 2, 1)
	list := protobufList(t, r.All, ConfigMaps.Path(), Proto)
	same(t, ModelOf(list.Items), Union(r.Maps()...))
	got, path, asked := Model{}, ConfigMaps.Path()+"?limit=2", 0
	for {
		page := protobufList(t, r.All, path, Proto)
		if len(page.Items) > 2 {
			t.Errorf("%d items", len(page.Items))
		}
		got.with(ModelOf(page.Items))
		if asked++; asked > 6 {
			t.Fatalf("no end after %d pages", asked)
		}
		if page.Metadata.Continue == "" {
			break
		}
		path = ConfigMaps.Path() + "?limit=2&continue=" + page.Metadata.Continue
	}
	same(t, got, Union(r.Maps()...))
	r.A.Widgets.Put("a-w")
	answer := r.All.Get(Widgets.Path(), "Accept", Proto+","+JSON)
	if widgets := answer.Object(t); widgets.Kind != "WidgetList" || len(widgets.Items) != 1 {
		t.Error(answer)
	}
}

func TestT10s_protobuf_beyond_the_spool_is_json(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.list.protobuf_spool_bytes", 64<<10))
	big := strings.Repeat("x", 4000)
	for n := range 40 {
		r.Shards[n%3].Maps.Put(fmt.Sprintf("%s-%d", r.Shards[n%3].Name, n), Data("v", big))
	}
	answer := r.All.Get(ConfigMaps.Path(), "Accept", Proto+","+JSON)
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), JSON) {
		t.Errorf("%s", answer.Header)
	}
	same(t, ModelOf(answer.Object(t).Items), Union(r.Maps()...))
	if only := r.All.Get(ConfigMaps.Path(), "Accept", Proto); only.Status != http.StatusNotAcceptable {
		t.Error(only)
	}
}

func TestT11_one_version_of_an_object(t *testing.T) {
	begin(t)
	r := NewRig(t)
	rv := r.B.Maps.Put("b-1")
	at := []string{rv, r.All.List(t, ConfigMaps.Path()).Items[0].Metadata.ResourceVersion,
		r.All.List(t, ConfigMaps.Path(), "Accept", TableV1).Rows[0].Object.Metadata.ResourceVersion,
		r.Direct(r.B).List(t, ConfigMaps.In()+"/b-1").Metadata.ResourceVersion,
		r.All.Watch(t, ConfigMaps.Path()+"?watch=1").UntilObjects(1, patience)[0].Object.Metadata.ResourceVersion}
	if len(slices.Compact(at)) != 1 {
		t.Error(at)
	}
}

var cursorText = regexp.MustCompile(`^[1-9][0-9]*$`)

func TestT12_T14_cursors(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	one, two := r.All.List(t, ConfigMaps.Path()), r.All.List(t, ConfigMaps.Path())
	rv := one.Metadata.ResourceVersion
	if !cursorText.MatchString(rv) || len(rv) != 75 || rv != two.Metadata.ResourceVersion {
		t.Errorf("%s and %s", rv, two.Metadata.ResourceVersion)
	}
	w := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "allowWatchBookmarks", "true", "resourceVersion", rv))
	for n := range 20 {
		r.Shards[n%3].Maps.Put(fmt.Sprint("m-", n))
		w.UntilObjects(n+1, patience)
		w.UntilMarked(patience)
	}
	last := rv
	for _, e := range w.Bookmarks() {
		now := e.Object.Metadata.ResourceVersion
		if !cursorText.MatchString(now) || len(now) != 75 || older(now, last) {
			t.Errorf("%s after %s", now, last)
		}
		last = now
	}
}

func TestT13_bookmarks_never_go_back(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	step := func(what string) {
		for n := range 30 {
			for _, f := range r.Shards {
				f.Maps.Put(fmt.Sprintf("%s-%d", f.Name, n%4), Data("v", what))
			}
		}
		w.Until(what, patience, func([]Event) error { return (Model{}).Apply(w.Objects()).Equal(Union(r.Maps()...)) })
		w.UntilMarked(patience)
	}
	step("first")
	r.B.Cut(true)
	step("after a cut")
	d := r.AddFake("d")
	d.Maps.Put("d-1")
	r.Join(d)
	step("with one more shard")
	last := ""
	for _, e := range w.Bookmarks() {
		now := e.Object.Metadata.ResourceVersion
		if older(now, last) {
			t.Errorf("%s after %s", now, last)
		}
		last = now
	}
	if len(last) != 15+20*4 {
		t.Errorf("the last cursor is %s", last)
	}
}

func TestT15_gzip(t *testing.T) {
	begin(t)
	r := NewRig(t)
	for n := range 210 {
		r.Shards[n%3].Maps.Put(fmt.Sprint("m-", n), Data("v", strings.Repeat("y", 1000)))
	}
	answer := r.All.Get(ConfigMaps.Path(), "Accept-Encoding", "gzip")
	body := answer.Body
	switch answer.Header.Get("Content-Encoding") {
	case "gzip":
		in := bytes.NewReader(body)
		unzip, err := gzip.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		unzip.Multistream(false)
		if body, err = io.ReadAll(unzip); err != nil || in.Len() != 0 {
			t.Fatalf("%v, %d bytes behind the first member", err, in.Len())
		}
	case "", "identity":
	default:
		t.Error(answer.Header)
	}
	var list Object
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	same(t, ModelOf(list.Items), Union(r.Maps()...))
}

func TestT16_other_methods_and_types(t *testing.T) {
	begin(t)
	r := NewRig(t)
	for _, method := range []string{http.MethodHead, http.MethodOptions, http.MethodTrace} {
		answer := r.All.Do(method, ConfigMaps.Path(), nil)
		if answer.Status != http.StatusMethodNotAllowed || method == http.MethodHead && len(answer.Body) != 0 ||
			method != http.MethodHead && answer.Object(t).Kind != "Status" {
			t.Errorf("%s: %s", method, answer)
		}
	}
	r.All.Refused(t, http.StatusNotAcceptable, ConfigMaps.Path(), "Accept", "image/png")
	r.All.Refused(t, http.StatusNotAcceptable, ConfigMaps.Path(), "Accept", "application/cbor")
}

func TestT17_native_and_unknown_versions(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	native := r.A.Maps.Put("a-9")
	r.C.Maps.Put("c-9")
	same(t, ModelOf(r.All.List(t, query(ConfigMaps.Path(), "resourceVersion", native, "resourceVersionMatch", "NotOlderThan")).Items),
		Union(r.Maps()...))
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest+"&resourceVersion="+native)
	w.UntilSynced(patience)
	same(t, Model{}.Apply(w.Objects()), Union(r.Maps()...))
	unknown := "3" + strings.Repeat("7", 70)
	r.All.Refused(t, http.StatusGone, query(ConfigMaps.Path(), "resourceVersion", unknown, "resourceVersionMatch", "NotOlderThan"))
	gone(t, r.All.Open(t, ConfigMaps.Path()+"?"+newest+"&resourceVersion="+unknown, nil))
}

// gone expects 410, as the answer or as the last event.
func gone(t *testing.T, w *Recording) {
	t.Helper()
	if w.Status == http.StatusGone {
		return
	}
	w.UntilEnd(patience)
	events := w.Events()
	if w.Status != http.StatusOK || w.Fault() != nil || len(events) == 0 || events[len(events)-1].Type != "ERROR" ||
		events[len(events)-1].Object.Code != http.StatusGone {
		t.Errorf("no 410: %d %s, %v, %s", w.Status, w.Refusal, w.Fault(), tell(events))
	}
}

func TestT18_get_by_name(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	if r.Source == "objects" {
		r.All.Refused(t, http.StatusMethodNotAllowed, ConfigMaps.In()+"/b-1")
		return
	}
	got := r.All.List(t, ConfigMaps.In()+"/b-1") // T11: the same version by GET
	if got.Marker() != "b" || got.Metadata.ResourceVersion != r.B.Maps.Versions()["b/t/b-1"] {
		t.Errorf("%+v", got)
	}
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	r.All.List(t, query(ConfigMaps.In()+"/b-1", "resourceVersion", cursor))
	r.All.Refused(t, http.StatusNotFound, ConfigMaps.In()+"/nothing")
	r.A.Maps.Put("x")
	r.B.Maps.Put("x")
	s, _ := r.All.Refused(t, http.StatusConflict, ConfigMaps.In()+"/x")
	if !strings.Contains(s.Message, "a") || !strings.Contains(s.Message, "b") {
		t.Error(s.Message)
	}
}

func TestT19_mixed_content_types(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	r.B.Set(func(b *Behavior) { b.JSONOnly = true })
	answer := r.All.Get(ConfigMaps.Path(), "Accept", Proto+","+JSON)
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), JSON) {
		t.Errorf("%s", answer.Header)
	}
	same(t, ModelOf(answer.Object(t).Items), Union(r.Maps()...))
	r.All.Refused(t, http.StatusNotAcceptable, ConfigMaps.Path(), "Accept", Proto)
	r.B.Answer(0, http.StatusOK, map[string]string{"Content-Type": "text/html"}, "<html>hello</html>")
	s, answer := r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path())
	if answer.Header.Get("Retry-After") == "" || len(s.Details.Causes) == 0 {
		t.Error(answer)
	}
}
