package merge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kintsugi.dev/e2e"
)

// rights of users by shard: "u1": "abc".
type rights struct {
	mutex sync.Mutex
	may   map[string]string
}

func (o *rights) set(user, shards string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.may[user] = shards
}

func (o *rights) allow(shard string) func(Review) bool {
	return func(asked Review) bool {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		if strings.HasPrefix(asked.Attributes.Verb, "impersonate") { // servers before 1.36 know only this verb itself
			return asked.Attributes.Verb == "impersonate" && strings.Contains(o.may[asked.User+" as "+asked.Attributes.Name], shard)
		}
		return strings.Contains(o.may[asked.User], shard) || asked.User == "admin"
	}
}

// grantsEverywhere scripts the roles and bindings of a shard: unreadable, or changing when told.
type grantsEverywhere struct {
	mutex  sync.Mutex
	change chan struct{}
}

func (g *grantsEverywhere) changed() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	close(g.change)
	g.change = make(chan struct{})
}

func (g *grantsEverywhere) next() chan struct{} {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.change
}

func (g *grantsEverywhere) serve(w http.ResponseWriter, r *http.Request, e Entry) bool {
	if !strings.Contains(e.Path, "/rbac.authorization.k8s.io/") {
		return false
	}
	if g == nil {
		answerStatus(w, newStatus(http.StatusForbidden, "Forbidden", "not for you", nil))
		return true
	}
	change := g.next()
	if !e.Watch() {
		_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
		return true
	}
	w.Header().Set("Content-Type", JSON)
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return true
		case <-change:
			_, _ = w.Write([]byte(`{"type":"MODIFIED","object":{"kind":"ClusterRole","metadata":{"name":"x","resourceVersion":"2"}}}` + "\n"))
			w.(http.Flusher).Flush()
			change = g.next()
		}
	}
}

// newReviewed is configuration `rev`, with one object on each shard. grants nil: roles cannot be read.
func newReviewed(t *testing.T, may map[string]string, grants *grantsEverywhere, change ...Option) (*Rig, *rights) {
	t.Helper()
	plainOnly(t)
	r := NewRig(t, append([]Option{Set("aggregation.share", "reviewed"), Set("aggregation.authz.cache_ms", 1000),
		Set("aggregation.authz.recheck_ms", 3000), Set("aggregation.authz.grace_ms", 10_000)}, change...)...)
	o := &rights{may: may}
	for _, f := range r.Shards {
		o.judge(f, grants)
	}
	r.Fill(1, 1, 1)
	return r, o
}

func (o *rights) judge(f *Fake, grants *grantsEverywhere) {
	f.On(grants.serve)
	f.Set(func(b *Behavior) { b.Grants = o.allow(f.Name) })
}

// own checks that nothing but the proxy itself has asked a shard for objects.
func own(t *testing.T, r *Rig) {
	t.Helper()
	for _, f := range r.Shards {
		for _, e := range f.Log(func(e Entry) bool { return collectionPath(e.Path) }) {
			users := e.Header.Values("X-Remote-User")
			if !slices.Equal(users, []string{"system:kintsugi"}) || len(e.Header.Values("X-Remote-Group"))+len(e.Header.Values("Authorization")) != 0 {
				t.Errorf("%s was asked as %v: %s", f.Name, users, e.Full)
			}
			for name := range e.Header {
				if strings.HasPrefix(name, "Impersonate-") || strings.HasPrefix(name, "X-Remote-Extra") {
					t.Errorf("%s was told %s", f.Name, name)
				}
			}
		}
	}
}

func only(t *testing.T, w *Recording, shards string) {
	t.Helper()
	for _, e := range w.Objects() {
		if !strings.Contains(shards, e.Object.Marker()) {
			t.Errorf("an object of %s: %s", e.Object.Marker(), e.Raw)
		}
	}
}

func forbidden(t *testing.T, w *Recording, deadline time.Duration) {
	t.Helper()
	w.UntilEnd(deadline)
	events := w.Events()
	if last := events[len(events)-1]; last.Type != "ERROR" || last.Object.Code != http.StatusForbidden || w.Fault() != nil {
		t.Errorf("%s, %v", tell(events), w.Fault())
	}
}

func TestT90_rights_of_reviewed_callers(t *testing.T) {
	begin(t)
	r, _ := newReviewed(t, map[string]string{"u1": "abc", "u2": "a"}, nil)
	u1, u2, u3 := r.User("u1"), r.User("u2"), r.User("u3")
	w := u1.Watch(t, ConfigMaps.Path()+"?watch=1&allowWatchBookmarks=1")
	w.UntilObjects(3, patience)
	cursor := w.UntilMarked(patience)
	list := u1.List(t, query(ConfigMaps.Path(), "limit", "1"))
	native := w.Objects()[0].Object.Metadata.ResourceVersion
	for _, u := range []*Client{u2, u3} {
		for _, path := range []string{ConfigMaps.Path(), ConfigMaps.In(), ConfigMaps.Path() + "?watch=1", ConfigMaps.Path() + "?" + newest,
			"/api/v1/watch/configmaps", resumed(cursor), resumed(native), query(ConfigMaps.Path(), "limit", "1", "continue", list.Metadata.Continue),
			query(ConfigMaps.Path(), "resourceVersion", cursor, "resourceVersionMatch", "Exact"),
			query(ConfigMaps.Path(), "watch", "1", "fieldSelector", "metadata.name=b-1")} {
			u.Refused(t, http.StatusForbidden, path)
		}
	}
	o, _ := u2.Refused(t, http.StatusForbidden, ConfigMaps.Path())
	if o.Reason != "Forbidden" || !strings.Contains(o.Message, `User "u2" cannot list resource "configmaps"`) {
		t.Errorf("%+v", o)
	}
	own(t, r)
}

func TestT90q_partial_rights_of_reviewed_callers(t *testing.T) {
	begin(t)
	r, _ := newReviewed(t, map[string]string{"u1": "abc", "u2": "a"}, nil, PartialPolicy())
	u1, u2, u3 := r.User("u1"), r.User("u2"), r.User("u3")
	w1 := u1.Watch(t, ConfigMaps.Path()+"?watch=1&allowWatchBookmarks=1")
	w1.UntilObjects(3, patience)
	cursor := w1.UntilMarked(patience)
	answer := u2.Get(ConfigMaps.Path())
	if answer.Status != http.StatusOK || len(answer.Header.Values("Warning")) != 2 {
		t.Fatalf("%s %v", answer, answer.Header)
	}
	same(t, ModelOf(answer.Object(t).Items), Union(r.A.Maps))
	if rv := answer.Object(t).Metadata.ResourceVersion; strings.Trim(rv[35:], "0") != "" {
		t.Errorf("the cursor of a list without b and c: %s", rv)
	}
	w2 := u2.Watch(t, ConfigMaps.Path()+"?watch=1&allowWatchBookmarks=1")
	if len(w2.Header.Values("Warning")) != 2 {
		t.Errorf("%v", w2.Header)
	}
	w2.UntilObjects(1, patience)
	for _, f := range r.Shards {
		f.Maps.Put(f.Name + "-2")
	}
	w1.UntilObjects(6, patience)
	w2.UntilObjects(2, patience)
	if rv := w2.UntilMarked(patience); strings.Trim(rv[35:], "0") != "" {
		t.Errorf("the cursor of a watch without b and c: %s", rv)
	}
	only(t, w2, "a")
	gone(t, u2.Open(t, resumed(cursor), nil)) // it was told of b and c
	token := u1.List(t, query(ConfigMaps.Path(), "limit", "1")).Metadata.Continue
	if code := u2.Get(query(ConfigMaps.Path(), "limit", "1", "continue", token)).Status; code != http.StatusBadRequest { // it is another's (SE-166)
		t.Errorf("a token of pages with b and c: %d", code)
	}
	u3.Refused(t, http.StatusForbidden, ConfigMaps.Path())
	u3.Refused(t, http.StatusForbidden, ConfigMaps.Path()+"?watch=1")
	own(t, r)
}

func TestT43r_reviewed_callers_share_streams(t *testing.T) {
	begin(t)
	may := map[string]string{}
	for n := range 10 {
		may[fmt.Sprint("user-", n)] = "abc"
	}
	r, _ := newReviewed(t, may, nil)
	cursor := r.User("user-0").List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	var watches []*Recording
	for n := range 10 {
		user := r.User(fmt.Sprint("user-", n))
		watches = append(watches, user.Watch(t, resumed(cursor)), user.Watch(t, resumed(cursor)))
	}
	r.B.Maps.Put("b-live")
	for _, w := range watches {
		w.UntilObjects(1, patience)
	}
	oneStreamEach(t, r)
	counted(t, r, "three streams instead of 60", series{{"watch_group_streams", ""}: 3, {"watch_unshared_streams", ""}: 60})
	other := r.User("user-0").Watch(t, query(ConfigMaps.Path(), "watch", "1", "labelSelector", "app=web"))
	eventually(t, patience, "a stream of its own for another question", func() error {
		if got := len(r.A.Streams()); got != 2 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	other.Close()
	own(t, r)
}

func TestT103_revoked_rights(t *testing.T) {
	begin(t)
	r, o := newReviewed(t, map[string]string{"u1": "abc", "u4": "abc"}, nil)
	w1 := r.User("u1").Watch(t, ConfigMaps.Path()+"?watch=1")
	w4 := r.User("u4").Watch(t, ConfigMaps.Path()+"?watch=1")
	w1.UntilObjects(3, patience)
	w4.UntilObjects(3, patience)
	o.set("u1", "ac")
	clock, begun := e2e.StartClock(), time.Now()
	forbidden(t, w1, 2*patience)
	if took := clock.Of(w1.EndedAt().Sub(begun)); took > 6*time.Second {
		t.Errorf("after %v", took)
	}
	r.B.Maps.Put("b-2")
	w4.UntilObjects(4, patience)
	only(t, w1, "abc")
	r.User("u1").Refused(t, http.StatusForbidden, ConfigMaps.Path()+"?watch=1")
	if n := r.Metrics("kintsugi_watch_evictions_total", "forbidden"); n != 1 {
		t.Errorf("%v evictions", n)
	}
}

func TestT103g_changed_grants_are_noticed_at_once(t *testing.T) {
	begin(t)
	grants := &grantsEverywhere{change: make(chan struct{})}
	r, o := newReviewed(t, map[string]string{"u1": "abc", "u4": "abc"}, grants, Set("aggregation.authz.recheck_ms", 600_000))
	w1 := r.User("u1").Watch(t, ConfigMaps.Path()+"?watch=1")
	w4 := r.User("u4").Watch(t, ConfigMaps.Path()+"?watch=1")
	w1.UntilObjects(3, patience)
	w4.UntilObjects(3, patience)
	eventually(t, patience, "watches of roles", func() error {
		for _, f := range r.Shards {
			if n := len(f.Log(func(e Entry) bool { return strings.Contains(e.Path, "/rbac.") && e.Watch() })); n != 4 {
				return fmt.Errorf("%s: %d", f.Name, n)
			}
		}
		return nil
	})
	time.Sleep(1500 * time.Millisecond) // what follows the beginning of a watch of roles is over
	o.set("u1", "ac")
	clock, begun := e2e.StartClock(), time.Now()
	grants.changed()
	forbidden(t, w1, patience)
	if took := clock.Of(w1.EndedAt().Sub(begun)); took > 2*time.Second {
		t.Errorf("after %v", took)
	}
	r.B.Maps.Put("b-2")
	w4.UntilObjects(4, patience)
	o.set("u1", "abc")
	grants.changed()
	r.User("u1").List(t, ConfigMaps.Path()) // at once, too: what was known is forgotten
}

func TestT103o_an_outage_of_reviews(t *testing.T) {
	begin(t)
	r, _ := newReviewed(t, map[string]string{"u1": "abc", "u2": "abc"}, nil, Set("aggregation.authz.grace_ms", 6000))
	w := r.User("u1").Watch(t, ConfigMaps.Path()+"?watch=1&allowWatchBookmarks=1")
	w.UntilObjects(3, patience)
	begun := time.Now()
	out := r.B.On(func(writer http.ResponseWriter, _ *http.Request, e Entry) bool {
		_, asks := ReadReview(e)
		if asks {
			writer.WriteHeader(http.StatusInternalServerError)
		}
		return asks
	})
	for _, path := range []string{ConfigMaps.Path(), ConfigMaps.Path() + "?watch=1", ConfigMaps.Path() + "?" + newest} {
		if _, answer := r.User("u2").Refused(t, http.StatusTooManyRequests, path); answer.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", path, answer.Header)
		}
	}
	r.B.Maps.Put("b-2")
	w.UntilObjects(4, patience)
	w.UntilEnd(2 * patience)
	events := w.Events()
	if took := w.EndedAt().Sub(begun); events[len(events)-1].Type != "BOOKMARK" || w.Fault() != nil || took < 6*time.Second {
		t.Errorf("after %v: %s, %v", took, tell(events), w.Fault())
	}
	out.Off()
	again := r.User("u1").Watch(t, resumed(w.Cursor()))
	r.B.Maps.Put("b-3")
	again.UntilObjects(1, patience)
}

func TestT103p_partial_reads_without_answers_of_one(t *testing.T) {
	begin(t)
	r, _ := newReviewed(t, map[string]string{"u1": "abc"}, nil, PartialPolicy())
	out := r.B.On(func(writer http.ResponseWriter, _ *http.Request, e Entry) bool {
		_, asks := ReadReview(e)
		if asks {
			writer.WriteHeader(http.StatusForbidden) // to the proxy itself
		}
		return asks
	})
	w := r.User("u1").Watch(t, ConfigMaps.Path()+"?watch=1&allowWatchBookmarks=1")
	w.UntilObjects(2, patience)
	only(t, w, "ac")
	if n := r.Metrics("kintsugi_shard_failures_total", `shard="b",reason="identity"`); n < 1 {
		t.Errorf("%v", n)
	}
	out.Off()
	w.UntilEnd(2 * patience) // in order, so that the client comes back for the rest
	if events := w.Events(); events[len(events)-1].Type != "BOOKMARK" {
		t.Error(tell(events))
	}
	again := r.User("u1").Watch(t, resumed(w.Cursor()))
	again.UntilObjects(1, patience)
	only(t, again, "b")
}

func TestT71r_a_shard_joins_reviewed_watches(t *testing.T) {
	begin(t)
	r, o := newReviewed(t, map[string]string{"u1": "abcd", "u4": "abc"}, nil)
	w1 := r.User("u1").Watch(t, ConfigMaps.Path()+"?watch=1")
	w4 := r.User("u4").Watch(t, ConfigMaps.Path()+"?watch=1")
	w1.UntilObjects(3, patience)
	w4.UntilObjects(3, patience)
	d := r.AddFake("d")
	o.judge(d, nil)
	d.Maps.Put("d-1")
	r.Join(d)
	forbidden(t, w4, 2*patience) // a list would be forbidden, too
	only(t, w4, "abc")
	w1.Until("the object of the new shard", 2*patience, func(events []Event) error {
		if added(events, "d") != 1 {
			return fmt.Errorf("%s", tell(events))
		}
		return nil
	})
	d.Maps.Put("d-2")
	w1.UntilObjects(5, patience)
	own(t, r)
}

func TestT89r_impersonation_is_reviewed(t *testing.T) {
	begin(t)
	r, _ := newReviewed(t, map[string]string{"u1": "abc", "helper": "", "helper as u1": "abc", "other as u1": "ab"}, nil)
	r.User("helper").Refused(t, http.StatusForbidden, ConfigMaps.Path())
	same(t, ModelOf(r.User("helper").List(t, ConfigMaps.Path(), "Impersonate-User", "u1").Items), Union(r.Maps()...))
	r.User("helper").Watch(t, ConfigMaps.Path()+"?watch=1", "Impersonate-User", "u1").UntilObjects(3, patience)
	r.User("other").Refused(t, http.StatusForbidden, ConfigMaps.Path(), "Impersonate-User", "u1")
	r.User("u1").Refused(t, http.StatusForbidden, ConfigMaps.Path(), "Impersonate-User", "admin")
	r.User("u1").Refused(t, http.StatusBadRequest, ConfigMaps.Path(), "Impersonate-Group", "people")
	r.User("u3").Refused(t, http.StatusForbidden, ConfigMaps.Path(), "X-Remote-User", "u1", "X_remote_user", "u1")
	r.User("u3").Refused(t, http.StatusForbidden, ConfigMaps.Path(), "X-Remote-User", "system:kintsugi")
	own(t, r)
}

// impersonations answers reviews of `impersonate…` by who asks, verb, resource and name; everything else goes by users.
func impersonations(f *Fake, allowed []string, readers ...string) {
	f.Set(func(b *Behavior) {
		b.Grants = func(asked Review) bool {
			a := asked.Attributes
			if strings.HasPrefix(a.Verb, "impersonate") {
				resource := a.Resource
				if a.Subresource != "" {
					resource += "/" + a.Subresource
				}
				return slices.Contains(allowed, strings.TrimSpace(asked.User+" "+a.Verb+" "+resource+" "+a.Name))
			}
			return slices.Contains(readers, asked.User+" "+strings.Join(asked.Groups, ",")) || asked.User == "admin"
		}
	})
}

// What a server of Kubernetes 1.36 lets somebody do as somebody else: constrained impersonation, then the classic one.
func TestT89s_constrained_impersonation_is_reviewed(t *testing.T) {
	const watched = "helper impersonate-on:user-info:watch configmaps"
	const listed = "helper impersonate-on:user-info:list configmaps"
	const isU1 = "helper impersonate:user-info users u1"
	asU1 := []string{"Impersonate-User", "u1"}
	inTeam := append(slices.Clone(asU1), "Impersonate-Group", "team")
	inMany := append(slices.Clone(asU1), "Impersonate-Group", "g1", "Impersonate-Group", "g2", "Impersonate-Group", "g3", "Impersonate-Group", "g4")
	node := []string{"Impersonate-User", "system:node:n1"}
	begin(t)
	r, _ := newReviewed(t, nil, nil, Set("aggregation.authz.cache_ms", 1))
	const u1 = "u1 system:authenticated"
	for _, c := range []struct {
		name    string
		allowed []string
		headers []string
		reader  string
		watch   bool
		status  int
		message string
	}{
		{"constrained", []string{listed, isU1}, asU1, u1, false, 200, ""},
		{"the verb counts", []string{listed, isU1}, asU1, u1, true, 403, "impersonate-on:user-info:watch"},
		{"of a watch", []string{watched, isU1}, asU1, u1, true, 200, ""},
		{"nobody of it", []string{listed}, asU1, u1, false, 403, "impersonate:user-info"},
		{"the group counts", []string{listed, isU1}, inTeam, "u1 team,system:authenticated", false, 403, "impersonate:user-info"},
		{"with its group", []string{listed, isU1, "helper impersonate:user-info groups team"}, inTeam, "u1 team,system:authenticated",
			false, 200, ""},
		{"all groups at once", []string{listed, isU1, "helper impersonate:user-info groups *"}, inMany,
			"u1 g1,g2,g3,g4,system:authenticated", false, 200, ""},
		{"all groups classic", []string{"helper impersonate users u1", "helper impersonate groups g1", "helper impersonate groups g2",
			"helper impersonate groups g3", "helper impersonate groups g4"}, inMany, "u1 g1,g2,g3,g4,system:authenticated", false, 200, ""},
		{"classic", []string{"helper impersonate users u1"}, asU1, u1, false, 200, ""},
		{"classic watch", []string{"helper impersonate users u1"}, asU1, u1, true, 200, ""},
		{"nothing at all", nil, asU1, u1, false, 403, "impersonate-on:user-info:list"},
		{"u1 may not read", []string{listed, isU1}, asU1, "u2", false, 403, `User \"u1\" cannot list`},
		{"masters never", []string{listed, isU1, "helper impersonate:user-info groups system:masters"},
			append(slices.Clone(asU1), "Impersonate-Group", "system:masters"), u1, false, 403, "forbidden"},
		{"a node", []string{"helper impersonate-on:arbitrary-node:list configmaps", "helper impersonate:arbitrary-node nodes n1"}, node,
			"system:node:n1 system:nodes,system:authenticated", false, 200, ""},
		{"a node classic", []string{"helper impersonate users system:node:n1"}, node, "system:node:n1 system:authenticated", false, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range r.Shards {
				impersonations(f, c.allowed, c.reader)
			}
			path := ConfigMaps.Path()
			if c.watch {
				path += "?watch=1&timeoutSeconds=1"
			}
			answer := r.User("helper").Get(path, c.headers...)
			if answer.Status != c.status || !strings.Contains(string(answer.Body), c.message) {
				t.Errorf("%v", answer)
			}
		})
	}
	// A right of one kind is as good as one of the other, server by server, also while a watch runs.
	impersonations(r.A, []string{watched, isU1}, u1)
	impersonations(r.B, []string{"helper impersonate users u1"}, u1)
	impersonations(r.C, []string{watched, isU1}, u1)
	w := r.User("helper").Watch(t, ConfigMaps.Path()+"?watch=1", asU1...)
	w.UntilObjects(3, patience)
	asked := func(f *Fake, verb string, times int) {
		t.Helper()
		eventually(t, patience, "reviews at "+f.Name, func() error {
			count := 0
			for _, e := range f.Log(nil) {
				if one, asks := ReadReview(e); asks && one.Attributes.Verb == verb {
					count++
				}
			}
			if count < times {
				return fmt.Errorf("%s is asked about %d times", verb, count)
			}
			return nil
		})
	}
	// Both rights for a while: who is asked about one before a change and about the other behind it may find neither.
	for _, f := range []*Fake{r.A, r.B} {
		impersonations(f, []string{watched, isU1, "helper impersonate users u1"}, u1)
		f.Reset()
	}
	asked(r.A, "impersonate-on:user-info:watch", 2)
	asked(r.B, "impersonate-on:user-info:watch", 2)
	r.A.Reset()
	r.B.Reset()
	impersonations(r.A, []string{"helper impersonate users u1"}, u1)
	impersonations(r.B, []string{watched, isU1}, u1)
	asked(r.A, "impersonate", 1)
	asked(r.B, "impersonate:user-info", 1)
	r.A.Maps.Put("a-later")
	r.B.Maps.Put("b-later")
	w.UntilObjects(5, patience)
	impersonations(r.C, nil, u1)
	forbidden(t, w, 2*patience)
	own(t, r)
}

func TestT90r_what_is_reviewed(t *testing.T) {
	begin(t)
	r, _ := newReviewed(t, map[string]string{"u1": "abc"}, nil)
	u1 := r.User("u1", "people")
	u1.List(t, query(ConfigMaps.In(), "labelSelector", "app=web", "fieldSelector", "metadata.name=x"))
	u1.Watch(t, Widgets.Path()+"?"+newest)
	var asked []string
	for _, e := range r.C.Log(nil) {
		if one, ok := ReadReview(e); ok && one.User == "u1" {
			a := one.Attributes
			asked = append(asked, fmt.Sprintf("%s %s/%s %s %q %q %q %q", a.Verb, a.Group, a.Version, a.Resource, a.Namespace, a.Name,
				a.LabelSelector.RawSelector, a.FieldSelector.RawSelector))
			if !slices.Contains(one.Groups, "people") || !slices.Contains(one.Groups, "system:authenticated") || len(one.Extra) != 1 {
				t.Errorf("%+v", one)
			}
			if got := e.Header.Values("X-Remote-User"); !slices.Equal(got, []string{"system:kintsugi"}) {
				t.Errorf("asked as %v", got)
			}
		}
	}
	want := []string{`list /v1 configmaps "t" "x" "app=web" "metadata.name=x"`, `watch example.test/v1 widgets "" "" "" ""`}
	if !slices.Equal(asked, want) {
		t.Errorf("%q", asked)
	}
	r.User("masters", "system:masters").Refused(t, http.StatusForbidden, ConfigMaps.Path()) // the group is never passed on
}

// What a server might read in another way than the proxy is never read with its own credential.
func TestT90s_odd_requests(t *testing.T) {
	begin(t)
	r, _ := newReviewed(t, map[string]string{"u1": "abc"}, nil)
	u1 := r.User("u1")
	r.A.Reset()
	for _, path := range []string{"/api/v1/namespaces/t/config%6Daps", "/api/v1/namespaces/%74/configmaps", "/api/v1/namespaces/x%2F..%2Ft/configmaps"} {
		u1.Get(path)
	}
	for _, e := range r.A.Log(func(e Entry) bool { _, asks := ReadReview(e); return !asks && strings.Contains(e.Path, "maps") }) {
		// In plain words there is one way to read it.
		asItself := strings.SplitN(e.Full, "?", 2)[0] == "/api/v1/namespaces/t/configmaps"
		if got := e.Header.Values("X-Remote-User"); !slices.Equal(got, []string{"u1"}) && !asItself {
			t.Errorf("%s as %v", e.Full, got)
		}
	}
	r.A.Reset()
	u1.List(t, ConfigMaps.In()+"?fieldSelector=metadata.name%3Dnone&fieldSelector=&unknown=1&labelSelector=a%3Db&labelSelector=")
	for _, e := range r.A.Asked(false) {
		if len(e.Query["fieldSelector"]) != 1 || len(e.Query["labelSelector"]) != 1 || e.Query.Has("unknown") {
			t.Errorf("%v", e.Query)
		}
	}
	answer := r.All.At("/clusters/*").Do(http.MethodGet, "/apis/example.test/v1", nil)
	if answer.Status != http.StatusOK {
		t.Fatal(answer)
	}
	for _, e := range r.A.Log(func(e Entry) bool { return strings.HasSuffix(e.Path, "/apis/example.test/v1") }) {
		if got := e.Header.Get("X-Remote-User"); got != "admin" { // discovery speaks for the caller
			t.Errorf("asked as %s", got)
		}
	}
}

func TestT67r_a_shard_that_refuses_the_proxy(t *testing.T) {
	begin(t)
	r, _ := newReviewed(t, map[string]string{"u1": "abc"}, nil)
	r.B.Answer(0, http.StatusForbidden, map[string]string{"Content-Type": JSON}, `{"kind":"Status","apiVersion":"v1","code":403,"reason":"Forbidden"}`)
	r.User("u1").Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path())
	r.User("u1").Refused(t, http.StatusTooManyRequests, ConfigMaps.Path()+"?watch=1")
	r.User("u1").Refused(t, http.StatusTooManyRequests, ConfigMaps.Path()+"?"+newest)
	if n := r.Metrics("kintsugi_shard_failures_total", `shard="b",reason="identity"`); n < 3 {
		t.Errorf("%v", n)
	}
}
