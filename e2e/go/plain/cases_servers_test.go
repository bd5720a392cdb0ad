package plain

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/merge"
)

// T45: a server that is silent at the start of a WatchList holds back its end, and nothing else.
func testSilentStart(p *place) {
	p.fill(3)
	want := p.union()
	silent := p.servers[1]
	pid := silent.process().Pid
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	w := p.all.Watch(p.t, p.asked(newest))
	for _, e := range w.UntilObjects(3*(len(p.servers)-1), patience) {
		if e.Type != "ADDED" || p.owner(e.Object) == silent.name {
			p.t.Errorf("%s %s", e.Type, e.Raw)
		}
	}
	for _, e := range w.Bookmarks() {
		at := p.slot(silent.name)
		if e.Object.End() || strings.Trim(e.Object.Metadata.ResourceVersion[at:at+20], "0") != "" {
			p.t.Errorf("%s", e.Raw)
		}
	}
	_ = syscall.Kill(pid, syscall.SIGCONT)
	w.UntilSynced(2 * patience)
	p.same("initial events", merge.Model{}.Apply(w.Events()), want)
}

// T67, T90: who may read on one server only is refused, and shown that one on demand.
func testRightsOfOne(p *place) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
		{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}}}
	p.fill(2)
	p.server("a").grant(p.t, "t67", rules, "u1")
	client := merge.NewClient(p.t, p.base()+"/clusters/*", trust(p.t, p.pki), load(p.t, p.pki.people["u1"]), 0)
	for _, path := range []string{p.path(), p.path("watch", "1"), p.asked(newest)} {
		client.Refused(p.t, http.StatusForbidden, path)
	}
	own := p.unionOf(p.servers[:1])
	e2e.Eventually(p.t, patience, "a's objects", func() error { // a has to hear of the right
		answer := client.Get(p.path(), "X-Kintsugi-Partial", "true")
		if answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		for _, s := range p.servers[1:] {
			if !slices.ContainsFunc(answer.Header.Values("Warning"), func(w string) bool { return strings.Contains(w, s.member) }) {
				return fmt.Errorf("no warning of %s: %v", s.name, answer.Header)
			}
		}
		return merge.ModelOf(answer.Object(p.t).Items).Equal(own)
	})
	w := client.Watch(p.t, p.asked(newest), "X-Kintsugi-Partial", "true")
	w.UntilSynced(patience)
	p.put("b", "hidden")
	p.put("a", "shown")
	p.allOf("a", w.UntilObjects(3, patience))
}

// T68: what looks like a version is none.
func testDecoys(p *place) {
	p.fill(1)
	w := p.watch(p.cursor())
	for _, s := range p.servers {
		name := "decoy-" + s.name
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			"resourceVersion": "99999999999999", "last": `{"metadata":{"resourceVersion":"99999999999999","name":"x"},"type":"DELETED"}`, "quote": `\"}}` + "\n\u2028"},
			Labels: map[string]string{"resourceVersion": "77777777"}}, Data: map[string]string{"resourceVersion": "99999999999999",
			"metadata": `"metadata":{"resourceVersion":"99999999999999"}`}}
		if _, err := p.at(s.name, name).CoreV1().ConfigMaps(p.ns).Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
			p.t.Fatal(err)
		}
	}
	p.follows(w, merge.ModelOf(p.all.List(p.t, p.path()).Items), patience)
	cursor := w.UntilMarked(patience)
	for _, s := range p.servers {
		now := p.direct[s.name].List(p.t, p.path()).Metadata.ResourceVersion
		if part := strings.TrimLeft(cursor[p.slot(s.name):p.slot(s.name)+20], "0"); older(now, part) {
			p.t.Errorf("%s is at %s, its cursor at %s", s.name, now, part)
		}
	}
	p.put("b", "b-after")
	p.follows(p.watch(cursor), p.union(), patience)
}

// T69: a server that ends in order (GOAWAY, END_STREAM) and comes back costs its watches nothing.
func testOrderlyEnd(p *place) {
	p.fill(2)
	w := p.all.Watch(p.t, p.asked(newest))
	w.UntilSynced(patience)
	b := p.server("b")
	if err := b.process().Stop(); err != nil {
		p.t.Error(err)
	}
	p.put("a", "a-meanwhile")
	b.again(p.t)
	p.put("b", "b-after")
	p.follows(w, nil, 2*patience)
	p.orderly(w.Objects())
}

// T70: a server gets another certificate.
func testRotation(p *place) {
	p.fill(1)
	w := p.watch(p.cursor())
	b := p.server("b")
	shown := func() (string, error) {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(b.url(), "https://"), &tls.Config{RootCAs: trust(p.t, p.pki)})
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
	}
	before, err := shown()
	if err != nil {
		p.t.Fatal(err)
	}
	b.rotate(p.t)
	p.put("b", "b-meanwhile")
	e2e.Eventually(p.t, patience, "the new certificate", func() error {
		now, err := shown()
		if err == nil && now == before {
			err = fmt.Errorf("still %s", now)
		}
		return err
	})
	p.put("b", "b-after")
	p.follows(w, p.union(), patience)
	if got := len(w.UntilObjects(2, patience)); got != 2 {
		p.t.Errorf("%d events", got)
	}
	p.same("a list", merge.ModelOf(p.all.List(p.t, p.path()).Items), p.union())
}

// T74: a Partition shows the servers of its labels, and follows them.
func testPartition(p *place) {
	p.fill(2)
	c, d := p.servers[len(p.servers)-2], p.servers[len(p.servers)-1]
	others := p.servers[:len(p.servers)-2]
	for _, s := range p.servers {
		if s != d {
			p.label(s, p.ns)
		}
	}
	made := p.client(p.t, "root").Do("POST", "/apis/topology.kcp.io/v1alpha1/partitions", []byte(`{"apiVersion":"topology.kcp.io/v1alpha1",
		"kind":"Partition","metadata":{"name":"`+p.ns+`"},"spec":{"selector":{"matchLabels":{"region":"`+p.ns+`"}}}}`), "Content-Type", merge.JSON)
	if made.Status != http.StatusCreated {
		p.t.Fatal(made)
	}
	part := p.all.At("/partitions/root/" + p.ns + "/clusters/*")
	before := p.unionOf(append(slices.Clone(others), c))
	e2e.Eventually(p.t, patience, "the Partition", func() error {
		answer := part.Get(p.path())
		if answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		return merge.ModelOf(answer.Object(p.t).Items).Equal(before)
	})
	offline := part.List(p.t, p.path()).Metadata.ResourceVersion
	w := part.Watch(p.t, p.asked(newest))
	w.UntilSynced(patience)
	p.label(c, "elsewhere")
	p.label(d, p.ns)
	p.put(d.name, "live")
	e2e.Eventually(p.t, patience, "d's objects for c's", func() error {
		return merge.Model{}.Apply(w.Events()).Equal(p.unionOf(append(slices.Clone(others), d)))
	})
	if w.Ended() {
		p.t.Error(w.Fault())
	}
	gone(p.t, part.Open(p.t, p.path("watch", "1", "resourceVersion", offline), nil))
}

// T99: the proxy's own numbers say which server is away, and when it is back.
func testTold(p *place) {
	p.fill(1)
	w := p.watch(p.cursor())
	b := p.server("b")
	up := func(want string) {
		p.t.Helper()
		e2e.Eventually(p.t, patience, "shard_up", func() error {
			for _, s := range p.servers {
				value := "1"
				if s == b {
					value = want
				}
				if line := fmt.Sprintf("\nkintsugi_shard_up{shard=%q} %s\n", s.member, value); !strings.Contains(p.admin(p.t, "/metrics"), line) {
					return fmt.Errorf("no%s", line)
				}
			}
			return nil
		})
	}
	up("1")
	b.kill()
	up("0")
	if told := p.admin(p.t, "/metrics"); !strings.Contains(told, fmt.Sprintf("kintsugi_shard_failures_total{shard=%q", b.member)) {
		p.t.Error("no failures are counted")
	}
	b.again(p.t)
	up("1")
	p.put("b", "b-after")
	w.UntilObjects(1, 2*patience)
}

func serverCases() []aCase {
	return []aCase{
		{"T45_a_silent_start", testSilentStart},
		{"T67_T90_rights_on_one_server", testRightsOfOne},
		{"T68_decoys", testDecoys},
		{"T69_an_orderly_end", testOrderlyEnd},
		{"T70_a_certificate_rotates", testRotation},
		{"T74_a_partition_follows_labels", testPartition},
		{"T99_what_is_away_is_told", testTold},
	}
}
