package merge

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// adding lets a shard answer as it does, with more headers.
func (f *Fake) adding(pairs ...string) *Intercept {
	return f.On(func(w http.ResponseWriter, _ *http.Request, e Entry) bool {
		if strings.Contains(e.Path, "/configmaps") {
			for n := 0; n+1 < len(pairs); n += 2 {
				w.Header().Add(pairs[n], pairs[n+1])
			}
		}
		return false
	})
}

// lastSeen is the newest request of configmaps that a shard has got.
func (f *Fake) lastSeen(t *testing.T) Entry {
	t.Helper()
	seen := f.Log(func(e Entry) bool { return strings.Contains(e.Path, "/configmaps") })
	if len(seen) == 0 {
		t.Fatalf("%s was not asked", f.Name)
	}
	return seen[len(seen)-1]
}

// mergedReads are a list, watches and a GET of a-1.
func mergedReads(t *testing.T, c *Client, name string, header ...string) map[string]http.Header {
	t.Helper()
	out := map[string]http.Header{}
	answer := c.Get(ConfigMaps.Path(), header...)
	out["list"] = answer.Header
	watch := c.Watch(t, query(ConfigMaps.Path(), "watch", "1", "labelSelector", "!"+name), header...)
	watch.Close()
	out["watch"] = watch.Header
	initial := c.Watch(t, ConfigMaps.Path()+"?"+newest+"&labelSelector=!l"+name, header...)
	initial.UntilSynced(patience)
	initial.Close()
	out["WatchList"] = initial.Header
	one := c.Get(ConfigMaps.In()+"/a-1", header...)
	if answer.Status != http.StatusOK || one.Status != http.StatusOK {
		t.Fatalf("%s %s", answer, one)
	}
	out["get"] = one.Header
	return out
}

// AGG-1705: what comes back of the shards' headers.
func TestT67h_headers_of_answers(t *testing.T) {
	begin(t)
	plainOnly(t) // GET
	r := NewRig(t)
	r.Fill(1, 1, 1)
	for n, f := range r.Shards {
		f.adding("Warning", `299 - "v1beta1 is deprecated"`, "Warning", fmt.Sprintf(`299 - "only %s says so"`, f.Name),
			"X-Kubernetes-PF-FlowSchema-UID", "flow", "X-Kubernetes-PF-PriorityLevel-UID", "level",
			"Cache-Control", "no-cache, private", "Vary", "Accept", "X-Shard-Only", fmt.Sprint(n))
	}
	for what, header := range mergedReads(t, r.All, "x") {
		warnings := header.Values("Warning")
		want := []string{`299 - "v1beta1 is deprecated"`}
		for _, f := range r.Shards {
			if what != "get" || f == r.A {
				want = append(want, fmt.Sprintf(`299 - "only %s says so"`, f.Name))
			}
		}
		slices.Sort(warnings)
		slices.Sort(want)
		if !slices.Equal(warnings, want) {
			t.Errorf("%s: Warning %v, not %v", what, warnings, want)
		}
		for _, name := range []string{"X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID", "X-Shard-Only", "Connection", "Transfer-Encoding"} {
			if header.Get(name) != "" {
				t.Errorf("%s: %s", what, name)
			}
		}
		if header.Get("Cache-Control") != "no-cache, private" {
			t.Errorf("%s: Cache-Control %q", what, header.Get("Cache-Control"))
		}
		if header.Get("Audit-ID") == "" {
			t.Errorf("%s: no Audit-ID", what)
		}
	}
}

func TestT67i_at_most_64_warnings(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	for _, f := range r.Shards {
		var pairs []string
		for n := range 40 {
			pairs = append(pairs, "Warning", fmt.Sprintf(`299 - "%s %d"`, f.Name, n))
		}
		f.adding(pairs...)
	}
	list := r.All.Get(ConfigMaps.Path())
	watch := r.All.Watch(t, ConfigMaps.Path()+"?watch=1")
	for what, header := range map[string]http.Header{"list": list.Header, "watch": watch.Header} {
		if n := len(header.Values("Warning")); n != 64 {
			t.Errorf("%s: %d warnings", what, n)
		}
	}
}

// AGG-1705: what the shards get of the client's headers.
func TestT89h_headers_of_requests(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	own := r.User("own", "people")
	mergedReads(t, own, "y", "Traceparent", parent, "Tracestate", "a=b", "Impersonate-User", "jane", "Impersonate-Group", "devs",
		"Impersonate-Extra-Scopes", "view", "Impersonate-Uid", "7", "X-Kcp-Virtual-Resource-Hops", "2", "User-Agent", "tester/1",
		"Audit-ID", "one-for-all", "X-Forwarded-For", "9.9.9.9", "X-Remote-Extra-Foo", "forged", "X-Remote-Uid", "0", "Accept-Encoding", "gzip")
	for _, f := range r.Shards {
		for _, e := range f.Log(func(e Entry) bool { return strings.Contains(e.Path, "/configmaps") }) {
			for name, want := range map[string]string{"Traceparent": parent, "Tracestate": "a=b", "Impersonate-User": "jane", "Impersonate-Group": "devs",
				"Impersonate-Extra-Scopes": "view", "Impersonate-Uid": "7", "X-Kcp-Virtual-Resource-Hops": "2", "User-Agent": "tester/1",
				"Audit-ID": "one-for-all", "X-Remote-User": "own", "X-Remote-Extra-Foo": "", "X-Remote-Uid": ""} {
				if got := e.Header.Get(name); got != want {
					t.Errorf("%s %s: %s is %q, not %q", f.Name, e.Full, name, got, want)
				}
			}
			if via := e.Header.Get("Via"); !strings.HasPrefix(via, "2.0 kintsugi-") {
				t.Errorf("Via %q", via)
			}
			if got := e.Header.Get("Accept-Encoding"); e.Watch() && got != "identity" && got != "" {
				t.Errorf("Accept-Encoding %q", got)
			}
		}
	}
}

// AGG-1705: fields of one connection end there, whatever the protocol, also those that Connection names.
func TestT89i_fields_of_the_connection(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	pair := r.front.Sign(t, "hopper", []string{"system:masters", "system:kcp:admin"}, true, aDay)
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), &tls.Config{RootCAs: r.serving.Pool(), Certificates: []tls.Certificate{pair.TLS},
		NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /clusters/*%s HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nConnection: keep-alive, X-Secret, X-Remote-User\r\n"+
		"X-Secret: s\r\nKeep-Alive: timeout=5\r\nProxy-Authorization: p\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: X-T\r\n"+
		"X-Remote-User: root\r\nX-Remote-Group: system:masters\r\nX_Remote_User: root\r\n\r\n", ConfigMaps.Path())
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v %d %s", err, answer.StatusCode, body)
	}
	e := r.B.lastSeen(t)
	for _, name := range []string{"X-Secret", "Keep-Alive", "Proxy-Connection", "Trailer", "Connection", "X_remote_user", "Upgrade", "Transfer-Encoding"} {
		if got := e.Header.Get(name); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := e.Header.Values("X-Remote-User"); !slices.Equal(got, []string{"hopper"}) {
		t.Errorf("%v", got)
	}
}

// AGG-1705: impersonation needs an identity.
func TestT89j_nobody_impersonates(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	nobody := NewClient(t, r.All.Base, r.serving.Pool(), nil, 0)
	asked := len(r.A.Asked(false))
	if answer := nobody.Get(ConfigMaps.Path(), "Impersonate-User", "admin", "Impersonate-Group", "system:masters"); answer.Status != http.StatusUnauthorized {
		t.Errorf("%s", answer)
	}
	if len(r.A.Asked(false)) != asked {
		t.Error("a shard is asked")
	}
	// Who impersonates shares nothing with who does not.
	r.All.Watch(t, ConfigMaps.Path()+"?watch=1").UntilObjects(3, patience)
	r.All.Watch(t, ConfigMaps.Path()+"?watch=1", "Impersonate-User", "jane").UntilObjects(3, patience)
	eventually(t, patience, "two streams", func() error {
		if n := len(r.A.Streams()); n != 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// AGG-1705: a shard that has seen the request too often says so.
func TestT104h_a_shards_508_is_passed_on(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	defer r.B.refusing(http.StatusLoopDetected, "LoopDetected").Off()
	for _, path := range []string{ConfigMaps.Path(), ConfigMaps.Path() + "?watch=1", ConfigMaps.Path() + "?" + newest} {
		if s, _ := r.All.Refused(t, http.StatusLoopDetected, path, "X-Kcp-Virtual-Resource-Hops", "9"); s.Message != "b says no" {
			t.Errorf("%s: %s", path, s.Message)
		}
	}
	for _, f := range r.Shards {
		if got := f.lastSeen(t).Header.Get("X-Kcp-Virtual-Resource-Hops"); got != "9" {
			t.Errorf("%s: %q", f.Name, got)
		}
	}
}

// AGG-1705: a list or watch over shards of which one is the proxy itself.
func TestT104m_merged_reads_in_a_circle(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	write(t, r.path("client-ca.crt"), append(slices.Clone(r.front.PEM), r.clients.PEM...))
	self := &Fake{Name: "self", UID: "uid-self", address: fmt.Sprintf("127.0.0.1:%d/clusters/*", r.Port)}
	r.Configure(append(slices.Clone(r.Shards), self)...)
	eventually(t, patience, "508", func() error {
		if answer := r.All.Get(ConfigMaps.Path()); answer.Status != http.StatusLoopDetected {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	r.All.Refused(t, http.StatusLoopDetected, ConfigMaps.Path()+"?watch=1")
}

// AGG-1705: refusals have an Audit-ID too, and Retry-After is the longest.
func TestT96r_refusals_have_an_audit_id(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	for code, path := range map[int]string{400: ConfigMaps.Path() + "?limit=abc", 405: ConfigMaps.Path() + "/a/status",
		422: ConfigMaps.Path() + "?resourceVersionMatch=Exact", 410: query(ConfigMaps.Path(), "resourceVersion", "3"+strings.Repeat("7", 70))} {
		_, answer := r.All.Refused(t, code, path, "Audit-ID", "mine")
		if got := answer.Header.Get("Audit-ID"); got != "mine" {
			t.Errorf("%d: %q", code, got)
		}
	}
	w := r.All.Watch(t, ConfigMaps.Path()+"?watch=1", "Audit-ID", "watching")
	if got := w.Header.Get("Audit-ID"); got != "watching" {
		t.Errorf("watch: %q", got)
	}
	for _, f := range r.Shards {
		asked := f.Asked(true)
		if got := asked[len(asked)-1].Header.Get("Audit-ID"); got != "watching" {
			t.Errorf("%s: %q", f.Name, got)
		}
	}
	r.A.Stop()
	if _, answer := r.All.Refused(t, http.StatusServiceUnavailable, ConfigMaps.Path(), "Audit-ID", "away"); answer.Header.Get("Audit-ID") != "away" {
		t.Errorf("503: %v", answer.Header)
	}
}
