package merge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kintsugi.dev/e2e"
)

// testProfile are the parameters of all rigs (docs/configuration.md has the defaults).
var testProfile = map[string]any{
	"aggregation.watch.bookmark_min_interval_ms": 200, "aggregation.watch.bookmark_idle_ms": 60_000,
	"aggregation.watch.headers_wait_ms": 1000, "aggregation.watch.max_stall_ms": 90_000,
	"aggregation.watch.group_linger_ms": 2000, "aggregation.watch.group_log_bytes": 1 << 20,
	"aggregation.watchlist.silence_ms": 2000, "aggregation.watchlist.initial_deadline_ms": 30_000,
	"aggregation.watchlist.give_up_ms": 40_000, "aggregation.list.first_byte_ms": 2000, "aggregation.list.deadline_ms": 20_000,
	"aggregation.list.max_streams": 1024, "aggregation.list.protobuf_spool_bytes": 1 << 20,
	"aggregation.resync.spread_ms": 2000, "aggregation.resync.max_per_second": 50, "aggregation.absent.reprobe_ms": 2000,
	"aggregation.cursor.future_wait_ms": 3000, "listener.watch_starts": 0,
}

// Rig is one proxy in front of scriptable shards.
type Rig struct {
	t       *testing.T
	Dir     string
	Port    int
	Shards  []*Fake
	A, B, C *Fake
	All     *Client // clusters/*, as an administrator
	Source  string  // static, or objects: the shards are Shard objects and speak as kcp does
	serving *Authority
	clients *Authority
	front   *Authority
	admin   Pair
	config  map[string]any
	process *e2e.Process
}

// Option changes the configuration of a Rig.
type Option func(*options)

type options struct {
	config map[string]any
	names  []string
	kcp    bool
}

// Set one key of proxy.yaml.
func Set(key string, value any) Option { return func(o *options) { o.config[key] = value } }

// PartialPolicy is configuration `part`.
func PartialPolicy() Option { return Set("aggregation.policy", "partial") }

// Names of the shards, instead of a, b and c.
func Names(names ...string) Option { return func(o *options) { o.names = names } }

// AsKcp makes the shards speak as kcp does (clusters in paths, markers in objects); they are Shard objects of the proxy.
func AsKcp() Option { return func(o *options) { o.kcp = true } }

// allAsKcp runs everything so.
var allAsKcp = os.Getenv("MERGE_SHARDS") == "kcp"

// NewRig starts shards a, b and c and a proxy before them; everything ends with the test.
func NewRig(t *testing.T, change ...Option) *Rig {
	t.Helper()
	o := options{config: maps.Clone(testProfile), names: []string{"a", "b", "c"}}
	if os.Getenv("MERGE_CURSOR") == "sequence" { // everything in sequence mode; what looks into vectors fails then
		o.config["aggregation.cursor.mode"] = "sequence"
	}
	if loops, err := strconv.Atoi(os.Getenv("MERGE_LOOPS")); err == nil { // everything on several event loops
		o.config["loops"] = loops
	}
	for _, one := range change {
		one(&o)
	}
	dir, err := os.MkdirTemp("", "kintsugi-merge-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &Rig{t: t, Dir: dir, Source: "static", config: o.config}
	if o.kcp || allAsKcp {
		r.Source = "objects"
	}
	r.authorities()
	r.files()
	for _, name := range o.names {
		r.AddFake(name)
	}
	r.A = r.Shards[0]
	if len(r.Shards) > 2 {
		r.B, r.C = r.Shards[1], r.Shards[2]
	}
	r.Port = e2e.FreePort(t)
	r.Configure(r.Shards...)
	r.StartProxy()
	if r.Source == "objects" {
		for _, f := range r.Shards {
			r.Register(f)
		}
	}
	r.All = r.User("admin", "system:masters", "system:kcp:admin")
	r.Ready(len(r.Shards))
	return r
}

// Replica starts a second proxy before the same shards (P2), with a folder of its own.
func (r *Rig) Replica(change ...Option) *Rig {
	t := r.t
	t.Helper()
	if r.Source == "objects" {
		t.Skip("replicas that know the same shards without a root shard are static")
	}
	o := options{config: maps.Clone(r.config)}
	for _, one := range change {
		one(&o)
	}
	dir, err := os.MkdirTemp("", "kintsugi-merge-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	q := *r
	q.Dir, q.config, q.All, q.process = dir, o.config, nil, nil
	q.files()
	q.Port = e2e.FreePort(t)
	q.Configure(q.Shards...)
	q.StartProxy()
	q.Ready(-1)
	return &q
}

// sequential tells whether cursors are numbers.
func (r *Rig) sequential() bool {
	return len(r.Shards) > 1024 || r.config["aggregation.cursor.mode"] == "sequence"
}

// AddFake starts one more shard, which the proxy does not know yet. Each counts from another thousand.
func (r *Rig) AddFake(name string) *Fake {
	r.t.Helper()
	n := uint64(len(r.Shards) + 1)
	f := NewFake(r.t, name, n*1000, r.serving.Sign(r.t, "shard-"+name, nil, false, aDay), r.clients.Pool())
	if r.Source == "objects" {
		f.store.marker = name
	}
	r.Shards = append(r.Shards, f)
	return f
}

func (r *Rig) path(name string) string { return filepath.Join(r.Dir, name) }

func (r *Rig) authorities() {
	t := r.t
	r.serving, r.clients, r.front = NewAuthority(t, "serving"), NewAuthority(t, "shard clients"), NewAuthority(t, "clients")
	r.admin = r.front.Sign(t, "admin", []string{"system:masters", "system:kcp:admin"}, true, aDay)
}

func (r *Rig) files() {
	t := r.t
	proxy := r.serving.Sign(t, "proxy", nil, false, aDay)
	back := r.clients.Sign(t, "front-proxy", nil, true, aDay)
	write(t, r.path("proxy.crt"), proxy.Cert)
	write(t, r.path("proxy.key"), proxy.Key)
	write(t, r.path("client-ca.crt"), r.front.PEM)
	write(t, r.path("serving-ca.crt"), r.serving.PEM)
	write(t, r.path("back.crt"), back.Cert)
	write(t, r.path("back.key"), back.Key)
	own := r.clients.Sign(t, "proxy-own", []string{"system:masters"}, true, aDay)
	encode := base64.StdEncoding.EncodeToString
	write(t, r.path("shards.kubeconfig"), []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: base
  cluster: {server: "https://127.0.0.1:1", certificate-authority-data: %s}
users:
- name: own
  user: {client-certificate-data: %s, client-key-data: %s}
contexts:
- name: base
  context: {cluster: base, user: own}
current-context: base
`, encode(r.serving.PEM), encode(own.Cert), encode(own.Key))))
}

// yaml is proxy.yaml. JSON is YAML.
func (r *Rig) yaml(shards []*Fake) []byte {
	config := map[string]any{"apiVersion": "kintsugi.dev/v1alpha1", "kind": "ProxyConfiguration", "data_dir": "data", "loops": 1,
		"wildcard": "serve"}
	put := func(key string, value any) {
		at := config
		parts := strings.Split(key, ".")
		for _, part := range parts[:len(parts)-1] {
			next, ok := at[part].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[part] = next
			}
			at = next
		}
		at[parts[len(parts)-1]] = value
	}
	for key, value := range map[string]any{
		"listener.port": r.Port, "listener.cert_file": "proxy.crt", "listener.key_file": "proxy.key",
		"authentication.client_ca_file": "client-ca.crt", "topology.source": r.Source, "topology.shards_kubeconfig": "shards.kubeconfig",
		"backend.ca_file": "serving-ca.crt", "backend.cert_file": "back.crt", "backend.key_file": "back.key",
		"admin.socket": "admin.sock", "shutdown.grace_ms": 20_000, "shutdown.spread_ms": 2000, "reload.poll_ms": 500,
	} {
		put(key, value)
	}
	if r.Source == "static" {
		putStatic(put, shards)
	}
	for key, value := range r.config {
		put(key, value)
	}
	text, err := json.MarshalIndent(config, "", " ")
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// Configure writes proxy.yaml for these shards; a running proxy reads it again.
func (r *Rig) Configure(shards ...*Fake) {
	r.t.Helper()
	write(r.t, r.path("proxy.yaml"), r.yaml(shards))
}

// StartProxy starts (again) the proxy at the same port and waits until it is ready.
func (r *Rig) StartProxy() {
	t := r.t
	t.Helper()
	process, err := e2e.Start(e2e.Binary(t), r.path("proxy.log"), "proxy", "--config", r.path("proxy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.process = process
	t.Cleanup(func() {
		process.Kill()
		if t.Failed() && r.process == process {
			t.Logf("--- end of the proxy's log\n%s", r.LogTail())
		}
	})
	probe := NewClient(t, fmt.Sprintf("https://127.0.0.1:%d", r.Port), r.serving.Pool(), &r.admin, 0)
	eventually(t, 30*time.Second, "proxy ready", func() error {
		if process.Ended() {
			t.Fatalf("the proxy ended: %s", r.LogTail())
		}
		if r.Source == "objects" { // ready means more than that without any Shard
			if answer := probe.Get("/clusters/root" + shardsPath); answer.Status != http.StatusOK {
				return fmt.Errorf("%s", answer)
			}
			return nil
		}
		if answer := probe.Get("/readyz"); answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
}

// LogTail is the end of the proxy's log.
func (r *Rig) LogTail() string {
	text, _ := os.ReadFile(r.path("proxy.log"))
	return string(text[max(0, len(text)-3000):])
}

// Signal sends a signal to the proxy.
func (r *Rig) Signal(number syscall.Signal) { _ = syscall.Kill(r.process.Pid, number) }

// Restart ends the proxy in order (or kills it) and starts it again.
func (r *Rig) Restart(kill bool) {
	r.t.Helper()
	if kill {
		r.process.Kill()
	} else if err := r.process.Stop(); err != nil {
		r.t.Errorf("the proxy: %v", err)
	}
	r.StartProxy()
	r.Ready(-1)
}

const shardsPath = "/apis/core.kcp.io/v1alpha1/shards"

// Register makes a shard a member (source objects).
func (r *Rig) Register(f *Fake) {
	r.t.Helper()
	body := must(json.Marshal(map[string]any{"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard", "metadata": map[string]any{
		"name": f.Name}, "spec": map[string]any{"baseURL": f.URL()}}))
	own := NewClient(r.t, fmt.Sprintf("https://127.0.0.1:%d/clusters/root", r.Port), r.serving.Pool(), &r.admin, 0)
	answer := own.Do(http.MethodPost, shardsPath, body, "Content-Type", JSON)
	if answer.Status != http.StatusCreated {
		r.t.Fatalf("Shard %s: %s", f.Name, answer)
	}
}

// Join makes a shard a member, whatever the source.
func (r *Rig) Join(f *Fake) {
	r.t.Helper()
	if r.Source == "objects" {
		r.Register(f)
		return
	}
	r.Configure(r.Shards...)
}

// Leave takes a shard out, whatever the source.
func (r *Rig) Leave(f *Fake) {
	r.t.Helper()
	r.Shards = slices.DeleteFunc(slices.Clone(r.Shards), func(one *Fake) bool { return one == f })
	if r.Source == "objects" {
		own := NewClient(r.t, fmt.Sprintf("https://127.0.0.1:%d/clusters/root", r.Port), r.serving.Pool(), &r.admin, 0)
		if answer := own.Do(http.MethodDelete, shardsPath+"/"+f.Name, nil); answer.Status != http.StatusOK {
			r.t.Fatalf("%s", answer)
		}
		return
	}
	r.Configure(r.Shards...)
}

// Readdress tells the proxy where a shard that has moved is now.
func (r *Rig) Readdress(f *Fake) {
	r.t.Helper()
	if r.Source == "objects" {
		own := NewClient(r.t, fmt.Sprintf("https://127.0.0.1:%d/clusters/root", r.Port), r.serving.Pool(), &r.admin, 0)
		patch := fmt.Sprintf(`{"spec":{"baseURL":%q,"virtualWorkspaceURL":%q}}`, f.URL(), f.URL())
		if answer := own.Do(http.MethodPatch, shardsPath+"/"+f.Name, []byte(patch), "Content-Type", "application/merge-patch+json"); answer.Status != http.StatusOK {
			r.t.Fatalf("%s", answer)
		}
		return
	}
	r.Configure(r.Shards...)
}

// Ready waits until merged lists cover so many shards (-1: all).
func (r *Rig) Ready(count int) {
	r.t.Helper()
	if count < 0 {
		count = len(r.Shards)
	}
	if r.All == nil {
		r.All = r.User("admin", "system:masters", "system:kcp:admin")
	}
	eventually(r.t, 30*time.Second, fmt.Sprintf("a list over %d shards", count), func() error {
		answer := r.All.Get(Deployments.Path())
		if answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		o, err := parse(answer.Body)
		if err != nil {
			return fmt.Errorf("%s", answer)
		}
		if n, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64); r.sequential() && err == nil && n >= 1<<44 {
			return nil
		}
		if len(o.Metadata.ResourceVersion) != digits(count) {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
}

// digits of a vector over so many shards.
func digits(shards int) int {
	if shards <= 64 {
		return 15 + 20*shards
	}
	return max(15+20*65, 15+14*shards)
}

// User is a client of clusters/* with a certificate of its own and its own connections.
func (r *Rig) User(name string, groups ...string) *Client {
	r.t.Helper()
	pair := r.front.Sign(r.t, name, groups, true, aDay)
	return NewClient(r.t, fmt.Sprintf("https://127.0.0.1:%d/clusters/*", r.Port), r.serving.Pool(), &pair, 0)
}

// Admin is a client like All with connections of its own and this receive window.
func (r *Rig) Admin(window int) *Client {
	r.t.Helper()
	return NewClient(r.t, fmt.Sprintf("https://127.0.0.1:%d/clusters/*", r.Port), r.serving.Pool(), &r.admin, window)
}

// Direct is a client of one shard.
func (r *Rig) Direct(f *Fake) *Client {
	r.t.Helper()
	pair := r.clients.Sign(r.t, "tester", nil, true, aDay)
	return NewClient(r.t, f.URL(), r.serving.Pool(), &pair, 0)
}

// Rest is the access of client-go to clusters/*.
func (r *Rig) Rest() *rest.Config {
	return &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d/clusters/*", r.Port), QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAData: r.serving.PEM, CertData: r.admin.Cert, KeyData: r.admin.Key}}
}

// Maps and Widgets are the shelves of all shards.
func (r *Rig) Maps() []*Shelf {
	var out []*Shelf
	for _, f := range r.Shards {
		out = append(out, f.Maps)
	}
	return out
}

// Fill puts name-1 … name-count on each shard.
func (r *Rig) Fill(counts ...int) {
	for n, count := range counts {
		for i := range count {
			r.Shards[n].Maps.Put(fmt.Sprintf("%s-%d", r.Shards[n].Name, i+1), Data("v", "0"))
		}
	}
}

// Metrics of the proxy: the sum of all lines of a name whose labels contain the given text.
func (r *Rig) Metrics(name, labels string) float64 {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", r.path("admin.sock"))
		}}}
	response, err := client.Get("http://admin/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	sum := 0.0
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		head, value, ok := strings.Cut(lines.Text(), " ")
		base, rest, _ := strings.Cut(head, "{")
		if !ok || base != name || !strings.Contains(rest, labels) {
			continue
		}
		number, _ := strconv.ParseFloat(value, 64)
		sum += number
	}
	return sum
}
