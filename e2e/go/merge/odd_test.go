package merge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kintsugi.dev/e2e"
)

func TestT07o_checks_come_in_their_order(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.cursor.future_wait_ms", 200))
	r.Fill(1, 1, 1)
	const png = "image/png"
	unknown := "3" + strings.Repeat("7", 70)
	check := func() {
		for _, f := range r.Shards {
			f.Reset()
		}
		for _, one := range []struct {
			accept, query string
			code          int
		}{
			{png, "limit=abc", 406}, {png, "resourceVersionMatch=foo", 406}, {png, "watch=1&resourceVersion=abc", 406},
			{JSON, "limit=abc&resourceVersionMatch=foo", 400}, {JSON, "timeoutSeconds=&resourceVersionMatch=foo", 400}, {JSON, "limit=", 400},
			{JSON, "labelSelector=a%20in%20(&resourceVersionMatch=foo", 400}, {JSON, "watch=1&fieldSelector=a&sendInitialEvents=true", 400},
			{JSON, "resourceVersionMatch=foo&resourceVersion=abc", 422}, {JSON, "resourceVersionMatch=foo&resourceVersion=" + unknown, 422},
			{JSON, "sendInitialEvents=&continue=junk", 422}, {JSON, "fieldSelector=spec.x%3D1&resourceVersionMatch=foo", 422},
			{JSON, "continue=junk&resourceVersion=5", 400}, {JSON, "continue=junk&resourceVersion=abc", 400}, {JSON, "continue=junk", 400},
			{JSON, "resourceVersion=abc&fieldSelector=spec.x%3D1", 400}, {JSON, "resourceVersion=abc&limit=1", 400},
			{JSON, "resourceVersion=" + unknown, 410}, {JSON, "resourceVersion=" + unknown + "&limit=1", 410},
			{JSON, "watch=1&resourceVersion=abc", 400}, {JSON, "watch=1&limit=x", 400}, {JSON, "watch=1&resourceVersionMatch=foo&resourceVersion=abc", 422},
			{Proto, "resourceVersionMatch=foo", 422}, {TableV1, "continue=junk", 400}, {Proto, "resourceVersion=" + unknown, 410},
		} {
			answer := r.All.Get(ConfigMaps.Path()+"?"+one.query, "Accept", one.accept)
			if answer.Status != one.code || answer.Object(t).Code != one.code {
				t.Errorf("%s %s: %d expected, got %s", one.accept, one.query, one.code, answer)
			}
		}
		for _, f := range r.Shards {
			if asked := len(f.Asked(false)) + len(f.Asked(true)); asked != 0 {
				t.Errorf("shard %s was asked %d times", f.Name, asked)
			}
		}
	}
	check()
	r.C.Stop() // none of this is the shards' business
	check()
}

func TestT07r_first_values_count(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	for query, want := range map[string]int{"limit=2&limit=abc": 2, "watch=0&watch=1": 6, "watch=FALSE&limit=%2B4": 4, "resourceVersion=0&resourceVersion=abc": 6,
		"labelSelector=v%3D1&labelSelector=((": 0, "resourceVersionMatch=&resourceVersionMatch=foo": 6, "continue=&continue=x&limit=1": 1} {
		if list := r.All.List(t, ConfigMaps.Path()+"?"+query); len(list.Items) != want {
			t.Errorf("%s: %d items", query, len(list.Items))
		}
	}
	for _, query := range []string{"watch&limit=x&limit=1", "watch=1&timeoutSeconds=x&timeoutSeconds=1"} {
		r.All.Refused(t, http.StatusBadRequest, ConfigMaps.Path()+"?"+query)
	}
	for _, query := range []string{"watch", "watch=", "watch=no", "watch=true&watch=false", "watch=1&limit=1&continue=junk", "watch=1&continue=junk"} {
		r.All.Watch(t, ConfigMaps.Path()+"?"+query).UntilObjects(6, patience)
	}
	w := r.All.Watch(t, ConfigMaps.Path()+"?watch&sendInitialEvents=&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=")
	w.UntilSynced(patience)
	for _, off := range []string{"0", "false", "False"} { // present, so it is false for a watch, and forbidden for a list
		for _, rv := range []string{"", "0", "cursor"} {
			if rv == "cursor" {
				rv = r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
			}
			live := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "sendInitialEvents", off, "resourceVersionMatch", "NotOlderThan",
				"allowWatchBookmarks", off, "resourceVersion", rv))
			time.Sleep(100 * time.Millisecond)
			r.B.Maps.Put("b-1", Data("v", off+rv))
			if events := live.UntilObjects(1, patience); len(live.Bookmarks()) != 0 || events[0].Object.Metadata.Name != "b-1" {
				t.Errorf("RV %q: %s", short(rv), tell(live.Events()))
			}
			live.Close()
		}
		r.All.Refused(t, http.StatusUnprocessableEntity, query(ConfigMaps.Path(), "sendInitialEvents", off))
	}
}

func TestT07v_causes_name_the_value(t *testing.T) {
	begin(t)
	r := NewRig(t)
	for _, path := range []string{"?resourceVersion=0&resourceVersionMatch=foo", "?watch=1&sendInitialEvents=1&resourceVersionMatch=foo"} {
		s, _ := r.All.Refused(t, http.StatusUnprocessableEntity, ConfigMaps.Path()+path)
		found := false
		for _, cause := range s.Details.Causes {
			found = found || cause.Reason == "FieldValueNotSupported" && strings.Contains(cause.Message, `"foo"`)
		}
		if !found || !strings.Contains(s.Message, "resourceVersionMatch") {
			t.Errorf("%+v", s)
		}
	}
	// Two rules are broken: two causes.
	if s, _ := r.All.Refused(t, http.StatusUnprocessableEntity, ConfigMaps.Path()+"?resourceVersionMatch=NotOlderThan&sendInitialEvents=true"); len(s.Details.Causes) != 2 {
		t.Errorf("%+v", s)
	}
}

func TestT16m_methods_and_types_everywhere(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	for _, path := range []string{ConfigMaps.Path(), ConfigMaps.In() + "/a-1", ConfigMaps.Path() + "?limit=abc", "/api/v1/watch/configmaps", "/version", "/api",
		"/apis/apps/v1"} {
		for _, method := range []string{http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			answer := r.All.Do(method, path, nil)
			if answer.Status != http.StatusMethodNotAllowed || answer.Err != nil {
				t.Errorf("%s %s: %s", method, path, answer)
			} else if method == http.MethodHead && len(answer.Body) != 0 {
				t.Errorf("a body of HEAD %s: %s", path, answer)
			} else if method != http.MethodHead && (answer.Object(t).Kind != "Status" || answer.Object(t).Reason != "MethodNotAllowed") {
				t.Errorf("%s %s: %s", method, path, answer)
			}
		}
	}
	for _, path := range []string{ConfigMaps.Path(), ConfigMaps.Path() + "?watch=1", ConfigMaps.Path() + "?" + newest} {
		for _, accept := range []string{"image/png", "application/cbor", "application/cbor-seq, image/*", "application/yaml", "garbage", ","} {
			if answer := r.All.Get(path, "Accept", accept); answer.Status != http.StatusNotAcceptable {
				t.Errorf("%s of %s: %s", accept, path, answer)
			}
		}
		if s, _ := r.All.Refused(t, http.StatusNotAcceptable, path, "Accept", "image/png"); s.Reason != "NotAcceptable" || !strings.Contains(s.Message, JSON) ||
			!strings.Contains(s.Message, Proto) {
			t.Errorf("%s: %+v", path, s)
		}
	}
	for accept, kind := range map[string]string{"": JSON, "*/*": JSON, "text/html, */*;q=0.8": JSON, "application/cbor, application/json": JSON, "application/*": JSON,
		"image/png;q=1, " + Proto + ";q=0.1": Proto, "APPLICATION/JSON": JSON, "application/json; charset=utf-8": JSON} {
		answer := r.All.Get(ConfigMaps.Path(), "Accept", accept)
		if got := answer.Header.Get("Content-Type"); answer.Status != http.StatusOK || got != kind || len(answer.Object(t).Items) != 3 {
			t.Errorf("Accept %q: %s %s", accept, got, answer)
		}
	}
}

func TestT18f_get_in_every_form(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t, Set("aggregation.allow_partial", true))
	r.Fill(1, 1, 1)
	path, partial := ConfigMaps.In()+"/b-1", []string{"X-Kintsugi-Partial", "true"}
	rv := r.B.Maps.Versions()["b/t/b-1"]
	for name, f := range forms {
		answer := r.All.Get(path+"?"+strings.TrimPrefix(f.more, "&"), "Accept", f.one())
		o := answer.Object(t)
		if o.Kind == "Table" && len(o.Rows) == 1 {
			o = o.Rows[0].Object
		}
		if answer.Status != http.StatusOK || o.Marker() != "b" || o.Metadata.ResourceVersion != rv || o.Metadata.Name != "b-1" ||
			strings.HasPrefix(answer.Header.Get("Content-Type"), Proto) != f.proto {
			t.Errorf("%s: %s", name, answer)
		}
		r.All.Refused(t, http.StatusNotFound, ConfigMaps.In()+"/nothing", "Accept", f.one())
		r.All.Refused(t, http.StatusBadRequest, path+"?resourceVersion=abc", "Accept", f.one())
	}
	if s, _ := r.All.Refused(t, http.StatusNotAcceptable, path, "Accept", "image/png"); !strings.Contains(s.Message, Proto) {
		t.Error(s.Message)
	}
	r.A.Maps.Put("x")
	r.B.Maps.Put("x")
	s, _ := r.All.Refused(t, http.StatusConflict, ConfigMaps.In()+"/x", "Accept", Proto)
	var markers []string
	for _, cause := range s.Details.Causes {
		markers = append(markers, cause.Field)
	}
	if s.Reason != "Conflict" || !slices.Equal(markers, []string{"a", "b"}) {
		t.Errorf("%+v", s)
	}
	r.C.Stop()
	for _, header := range [][]string{nil, partial} {
		if o := r.All.List(t, path, header...); o.Marker() != "b" { // one has answered 200
			t.Errorf("%+v", o)
		}
	}
	s, answer := r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.In()+"/nothing")
	if answer.Header.Get("Retry-After") == "" || len(s.Details.Causes) != 1 || s.Details.Causes[0].Field != "c" {
		t.Errorf("%v %+v", answer.Header, s)
	}
	_, answer = r.All.Refused(t, http.StatusNotFound, ConfigMaps.In()+"/nothing", partial...)
	if warnings := answer.Header.Values("Warning"); len(warnings) != 1 || !strings.HasPrefix(warnings[0], "299 ") || !strings.Contains(warnings[0], "shard c") {
		t.Errorf("%v", answer.Header)
	}
}

func TestT38u_deprecated_paths(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	b1 := func(w *Recording) {
		t.Helper()
		if events := w.UntilObjects(1, patience); events[0].Object.Metadata.Name != "b-1" {
			t.Error(tell(events))
		}
	}
	r.All.Watch(t, "/api/v1/watch/configmaps").UntilObjects(6, patience)
	r.All.Watch(t, "/api/v1/watch/configmaps?watch=false&watch=0").UntilObjects(6, patience)
	r.A.Widgets.Put("a-w")
	r.All.Watch(t, "/apis/example.test/v1/watch/widgets?"+newest).UntilSynced(patience)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	w := r.All.Watch(t, "/api/v1/watch/configmaps?resourceVersion="+cursor)
	r.B.Maps.Put("b-live")
	w.UntilObjects(1, patience)
	r.All.Refused(t, http.StatusBadRequest, "/api/v1/watch/configmaps?resourceVersion=abc")
	r.All.Refused(t, http.StatusUnprocessableEntity, "/api/v1/watch/configmaps?resourceVersionMatch=Exact")
	r.All.Refused(t, http.StatusNotAcceptable, "/api/v1/watch/configmaps", "Accept", "image/png")
	gone(t, r.All.Open(t, "/api/v1/watch/configmaps?resourceVersion=5", nil))
	if r.Source != "static" {
		for _, path := range []string{"/api/v1/watch/namespaces/t/configmaps", "/api/v1/watch/namespaces/t/configmaps/b-1"} {
			r.All.Refused(t, http.StatusBadRequest, path)
		}
		return
	}
	r.All.Watch(t, "/api/v1/watch/namespaces/t/configmaps").UntilObjects(7, patience)
	b1(r.All.Watch(t, "/api/v1/watch/namespaces/t/configmaps/b-1"))
	b1(r.All.Watch(t, "/api/v1/watch/namespaces/t/configmaps/b-1?fieldSelector=metadata.namespace%3Dt"))
	b1(r.All.Watch(t, "/api/v1/watch/namespaces/t/configmaps/b-1?fieldSelector=metadata.name%3Db-1"))
	r.All.Watch(t, "/api/v1/watch/namespaces/t/configmaps/b-1?"+newest).UntilSynced(patience)
	r.All.Refused(t, http.StatusBadRequest, "/api/v1/watch/namespaces/t/configmaps/b-1?fieldSelector=metadata.name%3Da-1")
	r.All.Refused(t, http.StatusMethodNotAllowed, "/api/v1/watch/namespaces/t/configmaps/b-1/status")
}

// asOtherVersion lets shards serve widgets in v2 too.
func asOtherVersion(r *Rig) Resource {
	other := Widgets
	other.Version = "v2"
	for _, f := range r.Shards {
		f.On(func(w http.ResponseWriter, request *http.Request, e Entry) bool {
			if e.Path != other.Path() {
				return false
			}
			f.serveShelf(w, request, e, &Shelf{f, other}, "", "")
			return true
		})
	}
	return other
}

func TestT26v_versions_of_a_resource_share_cursors_but_not_tokens(t *testing.T) {
	begin(t)
	r := NewRig(t)
	other := asOtherVersion(r)
	for _, f := range r.Shards {
		f.Widgets.Put(f.Name + "-1")
		f.Widgets.Put(f.Name + "-2")
	}
	list := r.All.List(t, query(Widgets.Path(), "limit", "1"))
	cursor := r.All.List(t, Widgets.Path()).Metadata.ResourceVersion
	if again := r.All.List(t, other.Path()); again.APIVersion != "example.test/v2" || again.Metadata.ResourceVersion != cursor {
		t.Errorf("%s at %s, not %s", again.APIVersion, again.Metadata.ResourceVersion, cursor)
	}
	for _, how := range [][]string{{"resourceVersionMatch", "Exact"}, {"limit", "500"}, {"resourceVersionMatch", "NotOlderThan"}, {}} {
		if again := r.All.List(t, query(other.Path(), append(how, "resourceVersion", cursor)...)); len(again.Items) != 6 || again.Metadata.ResourceVersion != cursor {
			t.Errorf("%v: %d at %s", how, len(again.Items), again.Metadata.ResourceVersion)
		}
	}
	w := r.All.Watch(t, query(other.Path(), "watch", "1", "resourceVersion", cursor))
	r.B.Widgets.Put("b-live")
	w.UntilObjects(1, patience)
	r.All.Refused(t, http.StatusBadRequest, query(other.Path(), "limit", "1", "continue", list.Metadata.Continue))
	r.All.List(t, query(Widgets.Path(), "limit", "1", "continue", list.Metadata.Continue))
}

func TestT28c_cursors_and_tokens_from_before_a_shard_joined(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	before := Union(r.Maps()...)
	page := r.All.List(t, ConfigMaps.Path()+"?limit=4")
	rv := page.Metadata.ResourceVersion
	for _, f := range r.Shards {
		f.Maps.Put(f.Name+"-1", Data("v", "later"))
	}
	for n, name := range []string{"d", "e"} {
		f := r.AddFake(name)
		f.Maps.Put(name + "-1")
		r.Join(f)
		r.Ready(4 + n)
	}
	for _, how := range [][]string{{"resourceVersionMatch", "Exact"}, {"limit", "500"}} { // exactly that state, which had no d
		exact := r.All.List(t, query(ConfigMaps.Path(), append(how, "resourceVersion", rv)...))
		same(t, ModelOf(exact.Items), before)
		if older(exact.Metadata.ResourceVersion, rv) {
			t.Errorf("%v: %s is older than %s", how, exact.Metadata.ResourceVersion, rv)
		}
		w := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", exact.Metadata.ResourceVersion))
		w.UntilObjects(5, patience)
		same(t, ModelOf(exact.Items).Apply(w.Events()), Union(r.Maps()...))
	}
	for _, how := range [][]string{{"resourceVersionMatch", "NotOlderThan"}, {}, {"resourceVersionMatch", "NotOlderThan", "limit", "500"}} {
		newer := r.All.List(t, query(ConfigMaps.Path(), append(how, "resourceVersion", rv)...))
		items := newer.Items
		for token := newer.Metadata.Continue; token != ""; {
			next := r.All.List(t, query(ConfigMaps.Path(), "limit", "500", "continue", token))
			items, token = append(items, next.Items...), next.Metadata.Continue
		}
		same(t, ModelOf(items), Union(r.Maps()...))
	}
	got := ModelOf(page.Items)
	for page.Metadata.Continue != "" {
		page = r.All.List(t, query(ConfigMaps.Path(), "limit", "2", "continue", page.Metadata.Continue))
		got.with(ModelOf(page.Items))
		if page.Metadata.ResourceVersion != rv {
			t.Errorf("a page at %s, not %s", page.Metadata.ResourceVersion, rv)
		}
	}
	same(t, got, before)
	w := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", rv))
	w.UntilObjects(5, patience)
	same(t, got.Apply(w.Events()), Union(r.Maps()...))
}

func TestT24d_a_shard_forgets_again_and_again(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(6, 6, 6)
	page := r.All.List(t, query(ConfigMaps.Path(), "limit", "2"))
	got, refusals := ModelOf(page.Items), 0
	for token := page.Metadata.Continue; token != ""; {
		if refusals < 4 {
			for _, f := range r.Shards {
				f.Maps.Put(f.Name+"-1", Data("v", fmt.Sprint(refusals, len(got))))
				f.Forget()
			}
		}
		answer := r.All.Get(query(ConfigMaps.Path(), "limit", "2", "continue", token))
		o := answer.Object(t)
		switch {
		case answer.Status == http.StatusOK:
			got.with(ModelOf(o.Items))
		case answer.Status != http.StatusGone || o.Reason != "Expired" || o.Metadata.Continue == "" || !strings.Contains(o.Message, "inconsistent list"):
			t.Fatalf("refusal %d: %s", refusals, answer)
		default:
			refusals++
		}
		token = o.Metadata.Continue
	}
	if refusals < 2 {
		t.Errorf("%d refusals", refusals)
	}
	var names, want []string
	for key := range got {
		names = append(names, key)
	}
	for key := range Union(r.Maps()...) {
		want = append(want, key)
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
}

func TestT62t_a_list_has_the_time_that_its_client_gives_it(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	hold := make(chan struct{})
	defer close(hold)
	r.C.Set(func(b *Behavior) { b.HoldList = hold })
	clock := e2e.StartClock()
	s, answer := r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path()+"?timeout=300ms")
	if answer.Took < 290*time.Millisecond || clock.Of(answer.Took) > 1900*time.Millisecond || answer.Header.Get("Retry-After") == "" {
		t.Errorf("after %v with %v", answer.Took, answer.Header)
	}
	if len(s.Details.Causes) != 1 || s.Details.Causes[0].Field != "c" {
		t.Errorf("%+v", s)
	}
}

func TestT46w_initial_events_break_before_their_end(t *testing.T) {
	begin(t)
	for how, path := range map[string]string{"WatchList": ConfigMaps.Path() + "?" + newest,
		"without bookmarks": query(ConfigMaps.Path(), "watch", "1", "sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan"),
		"state":             query(ConfigMaps.Path(), "watch", "1"), "any state": query(ConfigMaps.Path(), "watch", "1", "resourceVersion", "0")} {
		r := NewRig(t)
		r.Fill(3, 3, 3)
		r.C.Set(func(b *Behavior) { b.NoEndBookmark = true })
		w := r.All.Watch(t, path)
		w.UntilObjects(9, patience)
		r.C.Maps.Delete("c-1")
		w.UntilEnd(patience)
		events := w.Events()
		if last := events[len(events)-1]; last.Type != "ERROR" || last.Object.Code != http.StatusTooManyRequests ||
			last.Object.Details.RetryAfterSeconds == 0 || w.Fault() != nil {
			t.Errorf("%s: %s", how, tell(events))
		}
		again := r.All.Watch(t, path)
		again.Until("model equal", patience, func(events []Event) error { return (Model{}).Apply(events).Equal(Union(r.Maps()...)) })
	}
}

func TestT56e_an_exact_state_of_the_future(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	if r.sequential() {
		t.Skip("cursors that are one number hold no state of a single shard that could be of the future")
	}
	now := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	future := now[:35] + fmt.Sprintf("%020d", r.B.RV()+1_000_000) + now[55:]
	for _, how := range []string{"&resourceVersionMatch=Exact", "&limit=1", "&limit=1&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=NotOlderThan", ""} {
		for _, accept := range []string{JSON, Proto, TableV1} {
			path := ConfigMaps.Path() + "?resourceVersion=" + future + how
			answer := r.All.Get(path, "Accept", accept)
			if how == "&limit=1" && answer.Status == http.StatusOK { // a page of a alone, which is at that state
				path = query(ConfigMaps.Path(), "limit", "5", "continue", answer.Object(t).Metadata.Continue)
				answer = r.All.Get(path, "Accept", accept)
			}
			s := answer.Object(t)
			if answer.Status != http.StatusGatewayTimeout || s.Reason != "Timeout" || answer.Header.Get("Retry-After") != "1" || s.Details.RetryAfterSeconds != 1 ||
				len(s.Details.Causes) != 1 || s.Details.Causes[0].Reason != "ResourceVersionTooLarge" {
				t.Errorf("%s as %s: %s %v", how, accept, answer, answer.Header)
			}
		}
	}
	if plain := r.Source == "static"; plain {
		if o := r.All.List(t, query(ConfigMaps.In()+"/a-1", "resourceVersion", future)); o.Marker() != "a" { // b has nothing to say
			t.Errorf("%+v", o)
		}
	}
}

func TestT57p_human_and_escaped_prefixes_are_one_route(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	list := r.All.List(t, ConfigMaps.Path()+"?limit=3")
	for _, prefix := range []string{"/clusters/%2A", "/clusters/%2a"} {
		c := r.All.At(prefix)
		if again := c.List(t, ConfigMaps.Path()); again.Metadata.ResourceVersion != list.Metadata.ResourceVersion {
			t.Errorf("%s: %s, not %s", prefix, again.Metadata.ResourceVersion, list.Metadata.ResourceVersion)
		}
		rest := c.List(t, query(ConfigMaps.Path(), "continue", list.Metadata.Continue))
		same(t, ModelOf(rest.Items).with(ModelOf(list.Items)), Union(r.Maps()...))
		w := c.Watch(t, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", list.Metadata.ResourceVersion))
		r.A.Maps.Put("a-1", Data("v", prefix))
		w.UntilObjects(1, patience)
		r.A.Maps.Put("a-1", Data("v", "0"))
		list = r.All.List(t, ConfigMaps.Path()+"?limit=3")
	}
}

func TestT41c_custom_objects_are_watched_as_JSON(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.B.Widgets.Put("b-w", Data("size", "1"))
	for _, accept := range []string{Proto + "," + JSON, Proto + ";q=0.9, */*;q=0.1"} {
		w := r.All.Watch(t, Widgets.Path()+"?"+newest, "Accept", accept)
		end := w.UntilSynced(patience)
		if got := w.Header.Get("Content-Type"); got != JSON || end.Object.Kind != "Widget" {
			t.Errorf("%s: %s, %s", accept, got, end.Raw)
		}
		w.Close()
	}
	if w := r.All.Open(t, Widgets.Path()+"?watch=1", nil, "Accept", Proto); w.Status != http.StatusNotAcceptable {
		t.Errorf("%d %s", w.Status, w.Refusal)
	}
	typed := r.All.Watch(t, Widgets.Path()+"?"+newest, "Accept", OnePB)
	if end := typed.UntilSynced(patience); end.Object.Kind != "PartialObjectMetadata" {
		t.Errorf("%+v", end.Object)
	}
}

func TestT08n_tables_without_objects(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	const none = "&includeObject=None"
	table := r.All.List(t, ConfigMaps.Path()+"?"+none[1:], "Accept", TableV1)
	if len(table.Rows) != 6 || table.Rows[0].Object.Kind != "" {
		t.Errorf("%+v", table)
	}
	w := r.All.Watch(t, ConfigMaps.Path()+"?"+newest+none, "Accept", TableV1)
	w.UntilSynced(patience)
	again := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "allowWatchBookmarks", "1", "resourceVersion", table.Metadata.ResourceVersion)+none, "Accept", TableV1)
	want := r.B.Maps.Put("b-live")
	w.UntilObjects(7, patience)
	event := again.UntilObjects(1, patience)[0]
	var row struct{ Rows []struct{ Cells []any } }
	if err := json.Unmarshal(event.Raw, &row); err != nil || len(row.Rows) != 1 || row.Rows[0].Cells[0] != "b-live" || len(event.Object.Columns) != 3 ||
		event.Object.Metadata.ResourceVersion != want {
		t.Errorf("%v %s", err, event.Raw)
	}
	again.UntilMarked(patience)
}

func TestT26r_routes_have_cursors_and_tokens_of_their_own(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.Fill(3, 3, 3)
	for _, f := range r.Shards {
		f.Labels = map[string]string{"region": "eu"}
	}
	r.Configure(r.Shards...)
	own := NewClient(t, fmt.Sprintf("https://127.0.0.1:%d/clusters/root", r.Port), r.serving.Pool(), &r.admin, 0)
	answer := own.Do(http.MethodPost, "/apis/topology.kcp.io/v1alpha1/partitions", []byte(`{"apiVersion":"topology.kcp.io/v1alpha1",
		"kind":"Partition","metadata":{"name":"eu"},"spec":{"selector":{"matchLabels":{"region":"eu"}}}}`), "Content-Type", JSON)
	if answer.Status != http.StatusCreated {
		t.Fatalf("%s", answer)
	}
	eu := r.All.At("/partitions/root/eu/clusters/*")
	eventually(t, patience, "the Partition", func() error {
		if answer := eu.Get(ConfigMaps.Path()); answer.Status != http.StatusOK || len(answer.Object(t).Items) != 9 {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	here, there := r.All.List(t, ConfigMaps.Path()+"?limit=4"), eu.List(t, ConfigMaps.Path()+"?limit=4")
	if here.Metadata.ResourceVersion[9:15] == there.Metadata.ResourceVersion[9:15] {
		t.Errorf("%s and %s", here.Metadata.ResourceVersion, there.Metadata.ResourceVersion)
	}
	for _, one := range []struct {
		at    *Client
		other Object
	}{{r.All, there}, {eu, here}} {
		one.at.Refused(t, http.StatusBadRequest, query(ConfigMaps.Path(), "limit", "4", "continue", one.other.Metadata.Continue))
		one.at.Refused(t, http.StatusGone, query(ConfigMaps.Path(), "resourceVersion", one.other.Metadata.ResourceVersion))
		gone(t, one.at.Open(t, resumed(one.other.Metadata.ResourceVersion), nil))
	}
	for _, prefix := range []string{"/partitions/root/eu/clusters/%2A", "/partitions/ro%6ft/e%75/clusters/*"} {
		again := r.All.At(prefix)
		if o := again.List(t, query(ConfigMaps.Path(), "limit", "9", "continue", there.Metadata.Continue)); len(o.Items) != 5 ||
			o.Metadata.ResourceVersion != there.Metadata.ResourceVersion {
			t.Errorf("%s: %d items at %s", prefix, len(o.Items), o.Metadata.ResourceVersion)
		}
	}
	r.All.At("/partitions/root/none/clusters/*").Nowhere(t, ConfigMaps.Path())
	r.All.At("/partitions/none/eu/clusters/*").Refused(t, http.StatusForbidden, ConfigMaps.Path())
}

func TestT21s_pages_of_what_is_left_out(t *testing.T) {
	begin(t)
	r := NewRig(t, AsKcp())
	r.Fill(1, 0, 3)
	want := Union(r.Maps()...)
	for _, f := range r.Shards {
		for n := range 9 {
			f.Maps.Put(fmt.Sprint("0-everywhere-", n), Annotation("kcp.io/cluster", "system:admin"))
			f.Maps.Put(fmt.Sprint("z-everywhere-", n), Annotation("kcp.io/cluster", "system:admin"))
		}
	}
	for _, limit := range []int{1, 2, 7} {
		all, each := pages(t, r.All, ConfigMaps.Path(), limit)
		complete(t, all, each, want)
		for n, page := range each {
			if len(page.Items) == 0 && n+1 < len(each) {
				t.Errorf("limit %d: page %d of %d is empty", limit, n, len(each))
			}
		}
	}
}
