package merge

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// form is one way to write objects.
type form struct {
	accept, more string // more: of the query
	kind, list   string // of one object and of a list
	apiVersion   string
	proto        bool
}

var forms = map[string]form{
	"JSON":              {accept: JSON, kind: "ConfigMap", list: "ConfigMapList", apiVersion: "v1"},
	"protobuf":          {accept: Proto, kind: "ConfigMap", list: "ConfigMapList", apiVersion: "v1", proto: true},
	"table":             {accept: TableV1, kind: "Table", list: "Table", apiVersion: "meta.k8s.io/v1"},
	"old table":         {accept: TableBeta, kind: "Table", list: "Table", apiVersion: "meta.k8s.io/v1beta1"},
	"table of objects":  {accept: Kubectl, more: "&includeObject=Object", kind: "Table", list: "Table", apiVersion: "meta.k8s.io/v1"},
	"metadata":          {accept: Partial, kind: "PartialObjectMetadata", list: "PartialObjectMetadataList", apiVersion: "meta.k8s.io/v1"},
	"protobuf metadata": {accept: PartialPB, kind: "PartialObjectMetadata", list: "PartialObjectMetadataList", apiVersion: "meta.k8s.io/v1", proto: true},
}

// listed are the objects of a list or Table.
func listed(o Object) []Object {
	out := o.Items
	for _, row := range o.Rows {
		out = append(out, row.Object)
	}
	return out
}

// unrolled are events with the objects of their rows.
func unrolled(events []Event) []Event {
	var out []Event
	for _, e := range events {
		if e.Object.Kind == "Table" {
			e.Object = e.Row()
		}
		out = append(out, e)
	}
	return out
}

// unzipped is the body, which has to be one gzip member if it says so.
func unzipped(t *testing.T, answer Answer) Answer {
	t.Helper()
	if answer.Header.Get("Content-Encoding") != "gzip" {
		return answer
	}
	in := bytes.NewReader(answer.Body)
	unzip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	unzip.Multistream(false)
	if answer.Body, err = io.ReadAll(unzip); err != nil || in.Len() != 0 {
		t.Fatalf("%v, %d bytes behind the first member", err, in.Len())
	}
	return answer
}

// one is the Accept of watches and single objects.
func (f form) one() string {
	return strings.ReplaceAll(f.accept, "PartialObjectMetadataList", "PartialObjectMetadata")
}

func (f form) query(pairs ...string) string { return query(ConfigMaps.Path(), pairs...) + f.more }

func (f form) get(t *testing.T, c *Client, path string, header ...string) Object {
	t.Helper()
	answer := unzipped(t, c.Get(path, append(header, "Accept", f.accept)...))
	if got := answer.Header.Get("Content-Type"); answer.Status != http.StatusOK || strings.HasPrefix(got, Proto) != f.proto {
		t.Fatalf("%s: %s %s", short(path), got, answer)
	}
	list := answer.Object(t)
	if list.Kind != f.list || list.APIVersion != f.apiVersion && !f.proto {
		t.Errorf("%s %s", list.APIVersion, list.Kind)
	}
	return list
}

func (f form) watch(t *testing.T, r *Rig, from Model, path string) *Recording {
	t.Helper()
	w := r.All.Watch(t, path+f.more, "Accept", f.one())
	w.Until("model equal", patience, func(events []Event) error { return from.Apply(unrolled(events)).Equal(Union(r.Maps()...)) })
	return w
}

// follow writes on every shard and checks what comes of it.
func (f form) follow(t *testing.T, r *Rig, w *Recording, from Model) {
	t.Helper()
	for _, one := range r.Shards {
		one.Maps.Put(one.Name+"-live", Labels("app", "web"))
		one.Maps.Put(one.Name+"-2", Data("v", "live"))
		one.Maps.Put(one.Name+"-live", Labels("app", "web"), Data("v", "2"))
		one.Maps.Delete(one.Name + "-live")
	}
	w.Until("model equal", patience, func(events []Event) error { return from.Apply(unrolled(events)).Equal(Union(r.Maps()...)) })
	orderly(t, pick(unrolled(w.Events()), func(e Event) bool { return e.Type != "BOOKMARK" }))
	for n, e := range w.Events() {
		if e.Object.Kind != f.kind || e.Object.APIVersion != f.apiVersion && !f.proto {
			t.Errorf("event %d is a %s %s", n, e.Object.APIVersion, e.Object.Kind)
		}
		if e.Object.Kind == "Table" && (len(e.Object.Columns) != 0) != (n == 0) {
			t.Errorf("event %d: %s", n, e.Raw)
		}
	}
}

func TestT08_T09_T10_T15_T20_every_form_of_a_list(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(70, 0, 61)
	for _, one := range r.Shards { // beyond 128 KiB in every form
		for n := range 70 {
			if one != r.B {
				one.Maps.Put(fmt.Sprintf("%s-%d", one.Name, n+1), Labels("app", "web"), Annotation("big", strings.Repeat("y", 2000)))
			}
		}
	}
	want := Union(r.Maps()...)
	for name, f := range forms {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			for _, header := range [][]string{nil, {"Accept-Encoding", "gzip"}, {"Accept-Encoding", "gzip;q=0, identity"}} {
				answer := r.All.Get(f.query(), append([]string{"Accept", f.accept}, header...)...)
				if zip := answer.Header.Get("Content-Encoding") == "gzip"; zip && len(header) == 0 || zip && strings.Contains(header[1], "q=0") {
					t.Errorf("%v: %v", header, answer.Header)
				}
				same(t, ModelOf(listed(f.get(t, r.All, f.query(), header...))), want)
			}
			for _, limit := range []string{"7", "70", "71", "500"} {
				var all, each []Object
				for token := ""; ; {
					page := f.get(t, r.All, f.query("limit", limit, "continue", token), "Accept-Encoding", "gzip")
					page.Items = listed(page)
					all, each = append(all, page.Items...), append(each, page)
					if token = page.Metadata.Continue; token == "" {
						break
					}
					if len(page.Items) == 0 || fmt.Sprint(len(page.Items)) > limit && len(fmt.Sprint(len(page.Items))) >= len(limit) {
						t.Errorf("%d items on a page of %s", len(page.Items), limit)
					}
				}
				complete(t, all, each, want)
			}
			cursor := f.get(t, r.All, f.query()).Metadata.ResourceVersion
			for _, how := range [][]string{{"resourceVersionMatch", "Exact"}, {"limit", "500"}, {"resourceVersionMatch", "NotOlderThan"}, {}} {
				again := f.get(t, r.All, f.query(append(how, "resourceVersion", cursor)...))
				if again.Metadata.ResourceVersion != cursor {
					t.Errorf("%v: %s, not %s", how, again.Metadata.ResourceVersion, cursor)
				}
			}
			same(t, ModelOf(listed(f.get(t, r.All, f.query("resourceVersion", "0", "limit", "1")))), want)
			if none := f.get(t, r.All, f.query("labelSelector", "app=nobody")); len(listed(none)) != 0 || len(none.Metadata.ResourceVersion) < 14 {
				t.Errorf("%+v", none)
			}
		})
	}
}

func TestT34_T40_T41_T44_T47_every_form_of_a_watch(t *testing.T) {
	for shard, change := range map[string]func(*Behavior){
		"good":    func(*Behavior) {},
		"refuses": func(b *Behavior) { b.RefuseInitial = http.StatusBadRequest },
		"ignores": func(b *Behavior) { b.IgnoreInitial = true },
		"no-end":  func(b *Behavior) { b.NoEndBookmark = true },
	} {
		for name, f := range forms {
			t.Run(shard+"/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
				begin(t)
				r := NewRig(t, Set("aggregation.watchlist.silence_ms", 300))
				r.Fill(3, 3, 3)
				r.C.Set(change)
				list := f.get(t, r.All, f.query())
				quiet := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", list.Metadata.ResourceVersion, "timeoutSeconds", "1",
					"allowWatchBookmarks", "1")+f.more, "Accept", f.one())
				quiet.UntilEnd(patience)
				if events := quiet.Events(); len(events) == 0 || events[len(events)-1].Type != "BOOKMARK" || events[0].Object.Kind != f.kind {
					t.Errorf("quiet: %s", tell(events))
				}
				w := f.watch(t, r, Model{}, ConfigMaps.Path()+"?"+newest)
				w.UntilSynced(patience)
				f.follow(t, r, w, Model{})
				end := w.UntilMarked(patience)
				w.Close()
				list = f.get(t, r.All, f.query())
				from := ModelOf(listed(list))
				at := f.watch(t, r, from, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", list.Metadata.ResourceVersion))
				f.follow(t, r, at, from)
				at.Close()
				again := f.watch(t, r, from, query(ConfigMaps.Path(), "watch", "1", "allowWatchBookmarks", "1", "resourceVersion", end))
				f.follow(t, r, again, from)
				for _, rv := range []string{"", "0"} {
					state := f.watch(t, r, Model{}, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", rv, "allowWatchBookmarks", "1"))
					if shard == "no-end" { // nothing tells when its initial events are over
						continue
					}
					f.follow(t, r, state, Model{})
					state.UntilMarked(patience)
					for _, e := range unrolled(state.Bookmarks()) {
						if e.Object.End() {
							t.Errorf("RV %q: an end that was not asked for", rv)
						}
					}
				}
			})
		}
	}
}
