package plain

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/merge"
)

// T59, T61: a server that is started again (its past is gone, and in its first second it knows of no rights) is
// followed again by streams that stay; who resumes before that past gets 410 or the difference.
func testRestart(p *place) {
	p.fill(3)
	w := p.all.Watch(p.t, p.asked(newest))
	w.UntilSynced(patience)
	for _, s := range p.servers {
		p.put(s.name, s.name+"-last")
		w.UntilMarked(patience)
		s.restart(p.t, nil)
		p.put(s.name, s.name+"-after")
		p.remove(s.name, s.name+"-2")
		p.follows(w, nil, 40*time.Second)
		p.put(s.name, s.name+"-later")
		p.follows(w, nil, patience)
	}
	if w.Ended() {
		p.t.Errorf("the stream ended: %v", w.Fault())
	}
	p.orderly(w.Objects())
}

// reads waits until a proxy that is new, or one of whose servers is, reads all servers.
func (p *place) reads(proxy *merge.Client) {
	p.t.Helper()
	e2e.Eventually(p.t, patience, "all servers are read", func() error {
		if answer := proxy.Get(p.path()); answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
}

// T06, T24, T55, T61: a server has forgotten its past.
func testForgotten(p *place) {
	p.fill(4)
	first := p.all.List(p.t, p.path())
	page := p.all.List(p.t, p.path("limit", "6")) // ends within b
	p.put("b", "b-between")                       // else the watches that are open remember the list's state
	open := p.all.Watch(p.t, p.asked(newest))
	open.UntilSynced(patience)
	old := first.Metadata.ResourceVersion
	b := p.server("b")
	b.restart(p.t, func() { b.forget(p.t) })
	p.put("b", "b-new")
	p.remove("b", "b-1")
	p.reads(p.all)
	if s, _ := p.all.Refused(p.t, http.StatusGone, p.path("resourceVersion", old, "resourceVersionMatch", "Exact")); s.Reason != "Expired" {
		p.t.Error(s.Reason)
	}
	got, refusals := merge.ModelOf(page.Items), 0
	for token := page.Metadata.Continue; token != ""; {
		answer := p.all.Get(p.path("limit", "6", "continue", token))
		o := answer.Object(p.t)
		if answer.Status == http.StatusGone && o.Metadata.Continue != "" && refusals == 0 {
			refusals++
		} else if answer.Status != http.StatusOK {
			p.t.Fatal(answer)
		}
		for key, version := range merge.ModelOf(o.Items) {
			got[key] = version
		}
		token = o.Metadata.Continue
	}
	want := p.union()
	for key, version := range want {
		if got[key] != version {
			p.t.Errorf("pages: %s is %q, not %q", key, got[key], version)
		}
	}
	if refusals != 1 {
		p.t.Errorf("%d refusals", refusals)
	}
	gone(p.t, p.all.Open(p.t, p.path("watch", "1", "resourceVersion", old), nil))
	p.follows(open, nil, 40*time.Second)
	if open.Ended() {
		p.t.Errorf("the running watch ended: %v", open.Fault())
	}
}

// T58: a server comes back with a backup of its store.
func testRollback(p *place) {
	p.fill(2)
	a := p.server("a")
	backup := filepath.Join(p.dir, "backup")
	a.stop()
	if err := os.CopyFS(backup, os.DirFS(a.store())); err != nil {
		p.t.Fatal(err)
	}
	a.again(p.t)
	for n := range 60 {
		p.put("a", fmt.Sprint("a-", n%10))
	}
	w := p.all.Watch(p.t, p.asked(newest))
	w.UntilSynced(patience)
	p.put("a", "a-last")
	before := w.UntilMarked(patience)
	a.stop()
	if err := os.RemoveAll(a.store()); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(backup, a.store()); err != nil {
		p.t.Fatal(err)
	}
	a.again(p.t)
	p.put("a", "a-other")
	gone(p.t, w)
	p.reads(p.all)
	list := p.all.List(p.t, p.path())
	p.same("after the rollback", merge.ModelOf(list.Items), p.union())
	if list.Metadata.ResourceVersion[3:9] <= before[3:9] {
		p.t.Errorf("generation %s after %s", list.Metadata.ResourceVersion[3:9], before[3:9])
	}
	gone(p.t, p.all.Open(p.t, p.path("watch", "1", "resourceVersion", before), nil))
}

// T62, T63, T64: a server is away.
func testAway(p *place) {
	p.fill(2)
	before := p.all.List(p.t, p.path())
	running := p.watch(before.Metadata.ResourceVersion)
	victim := p.server("b")
	victim.kill()
	e2e.Eventually(p.t, patience, "503", func() error {
		if answer := p.all.Get(p.path()); answer.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	s, answer := p.all.Refused(p.t, http.StatusServiceUnavailable, p.path())
	if answer.Header.Get("Retry-After") == "" || len(s.Details.Causes) != 1 || s.Details.Causes[0].Field != victim.member {
		p.t.Errorf("%s %v", answer, answer.Header)
	}
	for _, path := range []string{p.path("watch", "1"), p.asked(newest)} {
		if _, refused := p.all.Refused(p.t, http.StatusTooManyRequests, path); refused.Header.Get("Retry-After") == "" {
			p.t.Errorf("%s: %v", path, refused.Header)
		}
	}
	partial := p.all.Get(p.path(), "X-Kintsugi-Partial", "true")
	list := partial.Object(p.t)
	at := p.slot("b")
	if partial.Status != 200 || !strings.Contains(partial.Header.Get("Warning"), victim.member) || len(list.Items) != len(before.Items)-2 ||
		strings.Trim(list.Metadata.ResourceVersion[at:at+20], "0") != "" {
		p.t.Errorf("partial: %d %v %s", partial.Status, partial.Header, list.Metadata.ResourceVersion)
	}
	p.put("a", "a-meanwhile")
	running.UntilObjects(1, patience)
	from := p.all.Watch(p.t, p.path("watch", "1", "resourceVersion", list.Metadata.ResourceVersion), "X-Kintsugi-Partial", "true")
	victim.again(p.t)
	p.put("b", "b-back")
	p.follows(from, merge.ModelOf(list.Items), 40*time.Second)
	p.follows(running, merge.ModelOf(before.Items), 40*time.Second)
}

// T60, T66: a server stands still for a while.
func testStopped(p *place) {
	p.fill(1)
	w := p.watch(p.cursor())
	c := p.servers[1]
	_ = syscall.Kill(c.process().Pid, syscall.SIGSTOP)
	for n := range 10 {
		p.put("a", fmt.Sprint("a-live-", n))
	}
	w.UntilObjects(10, patience)
	_ = syscall.Kill(c.process().Pid, syscall.SIGCONT)
	p.put(c.name, "late")
	w.UntilObjects(11, patience)
}

// T71, T72, T27, T28: a server leaves and comes back under open watches and between pages.
func testLeavesAndJoins(p *place) {
	p.fill(5)
	w := p.all.Watch(p.t, p.asked(newest))
	w.UntilSynced(patience)
	cursor := w.UntilMarked(patience)
	page := p.all.List(p.t, p.path("limit", "3"))
	last := p.servers[len(p.servers)-1]
	whole := p.servers
	p.t.Cleanup(func() { p.have(whole) })
	p.have(slices.Clone(whole[:len(whole)-1]))
	p.follows(w, nil, patience) // DELETED of all that is gone
	deleted := 0
	for _, e := range w.Objects() {
		if e.Type == "DELETED" && slices.ContainsFunc(last.homes, func(h home) bool { return h.marker == e.Object.Marker() }) {
			deleted++
		}
	}
	if deleted != 5 {
		p.t.Errorf("%d deletions", deleted)
	}
	p.all.Refused(p.t, http.StatusGone, p.path("limit", "3", "continue", page.Metadata.Continue))
	gone(p.t, p.all.Open(p.t, p.path("watch", "1", "resourceVersion", cursor), nil))
	page = p.all.List(p.t, p.path("limit", "4"))
	got := merge.ModelOf(page.Items)
	without := p.union()
	p.have(whole)
	p.follows(w, nil, patience)
	for page.Metadata.Continue != "" {
		page = p.all.List(p.t, p.path("limit", "4", "continue", page.Metadata.Continue))
		for key, version := range merge.ModelOf(page.Items) {
			got[key] = version
		}
	}
	p.same("pages under the old generation", got, without)
	joined := p.watch(page.Metadata.ResourceVersion)
	for _, e := range joined.UntilObjects(5, patience) {
		if e.Type != "ADDED" || p.owner(e.Object) != last.name {
			p.t.Errorf("%s %s", e.Type, e.Raw)
		}
	}
	if w.Ended() || !older(cursor, w.UntilMarked(patience)) {
		p.t.Errorf("%s after %s", w.Cursor(), cursor)
	}
}

// T53, T29, T97: the proxy stops in order and starts again: no list. Then it is killed.
func testRestartedProxy(p *place) {
	p.fill(3)
	var observers []*reflected
	for n := range 6 {
		observers = append(observers, reflect(p.t, p.rig, p.ns, n%2 == 0))
	}
	p.converges(p.t, p.ns, observers, patience)
	page := p.all.List(p.t, p.path("limit", "4"))
	w := p.watch(page.Metadata.ResourceVersion)
	counts := func() (out string) {
		for _, o := range observers {
			o.mutex.Lock()
			out += fmt.Sprintf("%d/%d ", o.lists, o.watchLists)
			o.mutex.Unlock()
		}
		return out
	}
	before := counts()
	if err := p.rig.proxy.Stop(); err != nil {
		p.t.Error(err)
	}
	if w.UntilEnd(patience); w.Fault() != nil || len(w.Bookmarks()) == 0 {
		p.t.Errorf("%v, %d bookmarks", w.Fault(), len(w.Bookmarks()))
	}
	p.writing(20)
	p.rig.startProxy()
	p.converges(p.t, p.ns, observers, 40*time.Second)
	if after := counts(); after != before {
		p.t.Errorf("lists and WatchLists %s, then %s", before, after)
	}
	rest := p.all.List(p.t, p.path("limit", "500", "continue", page.Metadata.Continue))
	if rest.Metadata.ResourceVersion != page.Metadata.ResourceVersion {
		p.t.Errorf("%s after %s", rest.Metadata.ResourceVersion, page.Metadata.ResourceVersion)
	}
	p.rig.proxy.Kill()
	p.writing(20)
	p.rig.startProxy()
	p.converges(p.t, p.ns, observers, 40*time.Second)
}

// T14, T54, T100: replicas of one configuration mint the same cursors and take each other's. T105, T107: options.
func testReplicas(p *place) {
	p.fill(2)
	file := filepath.Join(p.t.TempDir(), "shared")
	generation, common := "", "  shared_file: "+file
	if p.plain {
		generation, common = "  generation: 7\n", "  token_keys_file: "+file
		if err := os.WriteFile(file, []byte("7 "+strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	start := func(more ...string) *merge.Client {
		return p.rig.another(p.t, generation, append([]string{"aggregation:", common}, more...)...).client(p.t, "*")
	}
	one, two := start(), start("  watchlist: {mode: refuse}")
	for _, replica := range []*merge.Client{one, two} {
		p.reads(replica)
	}
	first, cursor := merge.Object{}, ""
	e2e.Eventually(p.t, patience, "two replicas say the same", func() error { // servers write for themselves now and then
		first = one.List(p.t, p.path("limit", "3"))
		cursor = first.Metadata.ResourceVersion
		if second := two.List(p.t, p.path("limit", "3")); cursor != second.Metadata.ResourceVersion || p.plain && cursor[3:9] != "000007" {
			return fmt.Errorf("%s and %s", cursor, second.Metadata.ResourceVersion)
		}
		return nil
	})
	rest := two.List(p.t, p.path("limit", "500", "continue", first.Metadata.Continue))
	got := merge.ModelOf(append(first.Items, rest.Items...))
	p.same("pages of two replicas", got, p.union())
	for _, s := range p.servers {
		p.put(s.name, s.name+"-live")
	}
	resumed := two.Watch(p.t, p.path("watch", "1", "resourceVersion", cursor))
	resumed.UntilObjects(len(p.servers), patience)
	p.follows(resumed, got, patience)
	if s, _ := two.Refused(p.t, 422, p.asked(newest)); len(s.Details.Causes) != 1 || s.Details.Causes[0].Field != "sendInitialEvents" {
		p.t.Errorf("%+v", s)
	}
	if p.plain { // T112: of another installation; proxies that know the same Shard objects may have the same slots
		gone(p.t, p.all.Open(p.t, p.path("watch", "1", "resourceVersion", cursor), nil))
	}
	numbers := p.rig.another(p.t, "", "aggregation:", "  cursor: {mode: sequence}").client(p.t, "*")
	p.reads(numbers)
	list := numbers.List(p.t, p.path())
	if version := list.Metadata.ResourceVersion; len(version) > 20 || older(version, "17592186044416") {
		p.t.Errorf("a number: %s", version)
	}
	w := numbers.Watch(p.t, p.path("watch", "1", "resourceVersion", list.Metadata.ResourceVersion))
	p.put("a", "a-more")
	w.UntilObjects(1, patience)
}

// T73: a server moves to another port under an open watch.
func testMoves(p *place) {
	p.fill(2)
	w := p.all.Watch(p.t, p.asked(newest))
	w.UntilSynced(patience)
	b := p.server("b")
	b.kill()
	b.move(e2e.FreePort(p.t))
	b.again(p.t)
	p.configure()
	p.reach(b)
	p.put("b", "b-moved")
	p.put("a", "a-live")
	p.follows(w, nil, 2*patience)
	p.orderly(w.Objects())
}

func faultCases() []aCase {
	return []aCase{
		{"T73_a_server_moves", testMoves},
		{"T14_T54_T100_T105_T107_T112_replicas", testReplicas},
		{"T59_T61_servers_start_again", testRestart},
		{"T06_T24_T55_T61_a_forgotten_past", testForgotten},
		{"T60_T66_a_server_stands_still", testStopped},
		{"T62_T63_T64_a_server_is_away", testAway},
		{"T27_T28_T71_T72_a_server_leaves_and_joins", testLeavesAndJoins},
		{"T29_T53_T97_the_proxy_starts_again", testRestartedProxy},
		{"T58_a_backup_is_restored", testRollback},
	}
}
