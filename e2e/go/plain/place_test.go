package plain

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/merge"
)

const (
	patience = 20 * time.Second // for what has to happen soon
	newest   = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
)

// place is a namespace on every server, and who reads and writes there.
type place struct {
	*rig
	t      *testing.T
	ns     string
	all    *merge.Client                    // clusters/*
	own    map[string]*kubernetes.Clientset // by marker: the servers themselves, one logical cluster
	direct map[string]*merge.Client         // by server: the same, everything that the proxy merges
}

// client reads a logical cluster ("*": all) as the administrator.
func (r *rig) client(t *testing.T, cluster string) *merge.Client {
	t.Helper()
	return merge.NewClient(t, r.base()+"/clusters/"+cluster, trust(t, r.pki), load(t, r.pki.user), 0)
}

func (r *rig) place(t *testing.T, ns string) *place {
	t.Helper()
	p := &place{rig: r, t: t, ns: ns, all: r.client(t, "*"), own: map[string]*kubernetes.Clientset{}, direct: map[string]*merge.Client{}}
	for _, s := range r.servers {
		p.reach(s)
		for _, h := range s.homes {
			object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
			if _, err := p.own[h.marker].CoreV1().Namespaces().Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
				t.Fatalf("namespace on %s: %v", s.name, err)
			}
		}
	}
	return p
}

// reach makes the clients of a server where it is now.
func (p *place) reach(s *server) {
	p.direct[s.name] = s.reader(p.t, s.all)
	for _, h := range s.homes {
		p.own[h.marker] = e2e.Typed(p.t, s.config(h.prefix))
	}
}

// at is the logical cluster that a server has objects of a name in, as the server itself shows it.
func (p *place) at(server, name string) *kubernetes.Clientset {
	return p.own[p.server(server).home(name).marker]
}

// owner is the server of an object that was read at clusters/*.
func (p *place) owner(o merge.Object) string {
	for _, s := range p.servers {
		for _, h := range s.homes {
			if h.marker == o.Marker() {
				return s.name
			}
		}
	}
	return "none: " + o.Marker()
}

// key of an object of a server.
func (p *place) key(server, name string) string {
	return p.server(server).home(name).marker + "/" + p.ns + "/" + name
}

// query is a path with pairs of names and values; pairs without a value are left out.
func query(path string, pairs ...string) string {
	values := url.Values{}
	for n := 0; n+1 < len(pairs); n += 2 {
		if pairs[n+1] != "" {
			values.Set(pairs[n], pairs[n+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// selector is what the cases' objects of a namespace are selected by, where the path does not say it: not of embedded
// shards' own ConfigMaps; and AGG-202 wants no namespaces in merged URLs of an installation.
func (r *rig) selector(ns string) string {
	switch {
	case r.bare:
		return ""
	case r.plain:
		return "metadata.name!=" + rootCA
	}
	return "metadata.name!=" + rootCA + ",metadata.namespace=" + ns
}

// within is a query for what a resource of a group has in a namespace.
func (r *rig) within(group, ns, resource string, pairs []string) string {
	selector := r.selector(ns)
	pairs = slices.Clone(pairs)
	for n := 0; n+1 < len(pairs); n += 2 {
		if pairs[n] == "fieldSelector" && pairs[n+1] != "" {
			selector = strings.TrimPrefix(selector+","+pairs[n+1], ",")
			pairs[n+1] = ""
		}
	}
	if r.plain {
		group += "/namespaces/" + ns
	}
	return query(group+"/"+resource, append(pairs, "fieldSelector", selector)...)
}

// of a core resource, what belongs to the place.
func (p *place) of(resource string, pairs ...string) string {
	return p.within("/api/v1", p.ns, resource, pairs)
}

// path of the ConfigMaps of the place.
func (p *place) path(pairs ...string) string { return p.of("configmaps", pairs...) }

// asked is path with a query as it stands.
func (p *place) asked(text string) string {
	values, err := url.ParseQuery(text)
	if err != nil {
		p.t.Fatal(err)
	}
	path := p.path("fieldSelector", values.Get("fieldSelector"))
	values.Del("fieldSelector")
	if strings.Contains(path, "?") {
		return path + "&" + values.Encode()
	}
	return path + "?" + values.Encode()
}

// object is where one ConfigMap is written, behind a logical cluster.
func (p *place) object(name string) string {
	return "/api/v1/namespaces/" + p.ns + "/configmaps/" + name
}

// put makes or changes a ConfigMap of one server, not by the proxy, and returns its version.
func (p *place) put(server, name string, labels ...string) string {
	p.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Data: map[string]string{"at": fmt.Sprint(time.Now().UnixNano())}}
	for n := 0; n+1 < len(labels); n += 2 {
		object.Labels[labels[n]] = labels[n+1]
	}
	maps := p.at(server, name).CoreV1().ConfigMaps(p.ns)
	made, err := maps.Update(context.Background(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		made, err = maps.Create(context.Background(), object, metav1.CreateOptions{})
	}
	if err != nil {
		p.t.Fatalf("%s on %s: %v", name, server, err)
	}
	return made.ResourceVersion
}

func (p *place) remove(server, name string) {
	p.t.Helper()
	if err := p.at(server, name).CoreV1().ConfigMaps(p.ns).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		p.t.Fatalf("%s on %s: %v", name, server, err)
	}
}

// fill puts <server>-1 … <server>-count on every server, in the order of the servers; those without a count get the last.
func (p *place) fill(counts ...int) {
	p.t.Helper()
	for n, s := range p.servers {
		for i := range counts[min(n, len(counts)-1)] {
			p.put(s.name, fmt.Sprintf("%s-%d", s.name, i+1))
		}
	}
}

// union of what the servers themselves list, marked.
func (p *place) union(pairs ...string) merge.Model { return p.unionOf(p.servers, pairs...) }

func (p *place) unionOf(servers []*server, pairs ...string) merge.Model {
	p.t.Helper()
	out := merge.Model{}
	for _, s := range servers {
		for _, item := range p.direct[s.name].List(p.t, p.path(pairs...)).Items {
			out[p.marker(s, item)+"/"+item.Metadata.Namespace+"/"+item.Metadata.Name] = item.Metadata.ResourceVersion
		}
	}
	return out
}

// marker of an object that its server shows, at clusters/*.
func (r *rig) marker(s *server, o merge.Object) string {
	if r.plain {
		return s.name
	}
	return o.Marker()
}

func (p *place) same(what string, got, want merge.Model) {
	p.t.Helper()
	if err := got.Equal(want); err != nil {
		p.t.Errorf("%s: %v", what, err)
	}
}

// cursor of a list of now.
func (p *place) cursor() string {
	p.t.Helper()
	return p.all.List(p.t, p.path()).Metadata.ResourceVersion
}

// watch at a version, with bookmarks.
func (p *place) watch(version string, more ...string) *merge.Recording {
	p.t.Helper()
	return p.all.Watch(p.t, p.path(append([]string{"watch", "1", "allowWatchBookmarks", "true", "resourceVersion", version}, more...)...))
}

// follows waits until a model and the events of a watch make what the servers hold.
func (p *place) follows(w *merge.Recording, from merge.Model, deadline time.Duration) {
	p.t.Helper()
	e2e.Eventually(p.t, deadline, "the watch tells what the servers hold", func() error {
		err := from.Apply(w.Events()).Equal(p.union())
		if err != nil && w.Ended() {
			events := w.Events()
			p.t.Fatalf("the watch ended (%v, %s): %v", w.Fault(), events[len(events)-1].Raw, err)
		}
		return err
	})
}

// older compares versions as clients do.
func older(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// width of a cursor over the servers.
func (p *place) width() int { return 15 + 20*len(p.servers) }

// slot is where the component of a server begins in a cursor.
func (p *place) slot(name string) int {
	return 15 + 20*slices.IndexFunc(p.servers, func(s *server) bool { return s.name == name })
}

func (r *rig) server(name string) *server {
	return r.servers[slices.IndexFunc(r.servers, func(s *server) bool { return s.name == name })]
}

// allOf sees that no event is of another server than this one.
func (p *place) allOf(server string, events []merge.Event) {
	p.t.Helper()
	for _, e := range events {
		if p.owner(e.Object) != server {
			p.t.Errorf("%s %s", e.Type, e.Raw)
		}
	}
}

// orderly checks that nothing comes twice and no object goes back.
func (p *place) orderly(events []merge.Event) {
	p.t.Helper()
	last := map[string]string{}
	for _, e := range events {
		key, version := e.Object.Key(), e.Object.Metadata.ResourceVersion
		if !older(last[key], version) {
			p.t.Errorf("%s at %s after %s", key, version, last[key])
		}
		last[key] = version
	}
}

// gone checks that a watch is refused with 410, or ends with that ERROR.
func gone(t *testing.T, w *merge.Recording) {
	t.Helper()
	if w.Status == 410 {
		return
	}
	w.UntilEnd(patience)
	events := w.Events()
	if w.Status != 200 || w.Fault() != nil || len(events) == 0 || events[len(events)-1].Type != "ERROR" ||
		events[len(events)-1].Object.Code != 410 {
		t.Errorf("no 410: %d %s, %v, %d events", w.Status, w.Refusal, w.Fault(), len(events))
	}
}

// watchedFor counts the groups of watches of the place that the proxy follows at a server.
func (p *place) watchedFor(server string) int {
	p.t.Helper()
	var told struct {
		MergedWatches []struct {
			Path, Query string
			Shards      []struct{ Shard, State string }
		}
	}
	if err := json.Unmarshal([]byte(p.debug(p.t, "streams")), &told); err != nil {
		p.t.Fatal(err)
	}
	sum := 0
	for _, group := range told.MergedWatches {
		if strings.Contains(group.Path+"?"+group.Query, p.ns) {
			for _, shard := range group.Shards {
				if shard.Shard == p.server(server).member {
					sum++
				}
			}
		}
	}
	return sum
}

// streams that a server serves of ConfigMaps in the namespace of the place: a kube-apiserver counts them itself.
func (p *place) streams(server string) int {
	p.t.Helper()
	if !p.bare {
		return p.watchedFor(server)
	}
	sum := 0
	text := string(p.direct[server].Get("/metrics").Body)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `resource="configmaps",scope="namespace"`) &&
			strings.Contains(line, `verb="WATCH"`) {
			n := 0
			_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
			sum += n
		}
	}
	return sum
}
