package model

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

const (
	workspacesPerShard = 2
	lateShard          = "late"
	refusal            = 5 * time.Second  // until a watch whose position is gone has said so
	slack              = 15 * time.Second // until a fault has its last effect: 410s are spread
	farewell           = 50 * time.Second // until a proxy has heard that a shard has left: root may be silent for long
)

var nullLog = log.New(io.Discard, "", 0)

// Shard is a shard process with its relay.
type Shard struct {
	Name       string
	Relay      *Relay
	port       int
	process    *e2e.Process // nil: supervised by `up`
	workspaces []string     // paths
	clusters   []string
	base       string // its own address
	busy, held sync.Mutex
}

// Proxy is one replica. Proxies only know relays.
type Proxy struct {
	Name    string
	port    int
	config  string
	process *e2e.Process
	mutex   sync.Mutex
}

// mishap is something that has happened to the installation and excuses something.
type mishap struct {
	at         time.Time
	what, whom string
}

// World is the installation under test, and what is known about it.
type World struct {
	t            *testing.T
	ctx          context.Context
	installation *e2e.Installation
	shards       []*Shard // the last one comes and goes
	proxies      []*Proxy
	truth        *Truth
	slots        *Slots
	begin        time.Time
	mutex        sync.Mutex
	mishaps      []mishap
	lateThere    bool
	remembering  int             // proxies that have not heard of a removal yet
	away         map[string]bool // proxies
	failures     []string
}

// Fail records a failure; the run goes on.
func (w *World) Fail(who, format string, arguments ...any) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.failures = append(w.failures, fmt.Sprintf("+%.3f s %s: %s", time.Since(w.begin).Seconds(), who, fmt.Sprintf(format, arguments...)))
}

func (w *World) Failed() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.failures) > 0
}

// Happened records a mishap.
func (w *World) Happened(what, whom string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.mishaps = append(w.mishaps, mishap{time.Now(), what, whom})
}

// since tells whether something like it has happened; "" is anything.
func (w *World) since(when time.Time, like func(*mishap) bool) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i := range w.mishaps {
		if m := &w.mishaps[i]; m.at.After(when) && like(m) {
			return true
		}
	}
	return false
}

func (w *World) expiredSince(shard string, when time.Time) bool {
	return w.since(when, func(m *mishap) bool { return m.what == "expire" && (shard == "" || m.whom == shard) })
}

func (w *World) removedSince(shard string, when time.Time) bool {
	w.mutex.Lock()
	remembering := w.remembering > 0
	w.mutex.Unlock()
	return remembering || w.since(when, func(m *mishap) bool { return m.what == "remove" && (shard == "" || m.whom == shard) })
}

// Away records that a proxy is not there, or is there again.
func (w *World) Away(what, proxy string, away bool) {
	w.Happened(what, proxy)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.away[proxy] = away
}

// disturbedSince tells whether a proxy was away.
func (w *World) disturbedSince(proxy string, when time.Time) bool {
	w.mutex.Lock()
	away := w.away[proxy]
	w.mutex.Unlock()
	return away || w.since(when, func(m *mishap) bool { return m.whom == proxy })
}

// Union of what the shards have, for a resource.
func (w *World) Union(resource string, s Selection) map[string]uint64 {
	found := map[string]uint64{}
	for _, shard := range w.shards {
		if w.there(shard) {
			maps.Copy(found, w.truth.Log(shard.Name, resource).Now(s))
		}
	}
	return found
}

// there tells whether a shard is part of the installation.
func (w *World) there(shard *Shard) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return shard.Name != lateShard || w.lateThere
}

func (w *World) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *World) pki(name string) string { return filepath.Join(w.installation.State, "pki", name) }

// Client of anything in the installation, with a connection of its own and a certificate of pki.
func (w *World) Client(certificate string) *http.Client {
	pair, err := tls.LoadX509KeyPair(w.pki(certificate+".crt"), w.pki(certificate+".key"))
	w.must(err)
	ca, err := os.ReadFile(w.pki("serving-ca.crt"))
	w.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http2.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots},
		ReadIdleTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}}
}

// start makes the installation: root from `up`, other shards of its own, relays, two proxies.
func start(t *testing.T, ctx context.Context, shards int) *World {
	t.Helper()
	w := &World{t: t, ctx: ctx, truth: &Truth{logs: map[string]*Log{}, owners: map[string]string{}}, slots: &Slots{}, begin: time.Now(),
		away: map[string]bool{}}
	w.installation = e2e.StartInstallation(t, "--shards", "1", "--regions", "model-root")
	w.shards = []*Shard{{Name: "root", port: w.rootPort()}}
	for number := 1; number < shards; number++ {
		w.shards = append(w.shards, w.newShard(fmt.Sprintf("s%d", number)))
	}
	w.shards = append(w.shards, w.newShard(lateShard))
	t.Cleanup(w.end)
	for _, shard := range w.shards {
		if shard.Name != "root" {
			w.must(w.StartShard(shard))
		}
		shard.base = fmt.Sprintf("https://127.0.0.1:%d", shard.port)
	}
	for _, shard := range w.shards {
		w.fill(shard)
	}
	w.must(w.RemoveLate())
	w.startRelays()
	w.startProxies()
	w.mishaps = nil
	return w
}

func (w *World) rootPort() int {
	text, err := os.ReadFile(filepath.Join(w.installation.State, "shards", "root", "port"))
	w.must(err)
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	w.must(err)
	return port
}

func (w *World) newShard(name string) *Shard {
	return &Shard{Name: name, port: e2e.FreePort(w.t)}
}

// StartShard runs a shard that does not run, and waits until it is in root.
func (w *World) StartShard(shard *Shard) error {
	var err error
	shard.process, err = e2e.Start(e2e.Binary(w.t), filepath.Join(w.installation.Dir, shard.Name+".log"), "shard", "--join",
		w.installation.State, "--name", shard.Name, "--labels", "region=model-"+shard.Name, "--port", strconv.Itoa(shard.port))
	return err
}

// listens waits until the shard takes connections.
func (shard *Shard) listens() error {
	for clock := e2e.StartClock(); clock.Spent() < 40*time.Second; time.Sleep(10 * time.Millisecond) {
		if connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", shard.port)); err == nil {
			return connection.Close()
		}
		if shard.process.Ended() {
			return fmt.Errorf("%s: %w", shard.Name, shard.process.Outcome())
		}
	}
	return fmt.Errorf("%s does not listen", shard.Name)
}

// fill makes workspaces on a shard.
func (w *World) fill(shard *Shard) {
	client := e2e.Dynamic(w.t, w.installation.Config("root")).Resource(e2e.Workspaces)
	for number := range workspacesPerShard {
		name := fmt.Sprintf("model-%s-%d", shard.Name, number)
		shard.workspaces = append(shard.workspaces, w.installation.MakeWorkspace(name, "model-"+shard.Name))
		made, err := client.Get(w.ctx, name, metav1.GetOptions{})
		w.must(err)
		cluster, _ := made.Object["spec"].(map[string]any)["cluster"].(string)
		shard.clusters = append(shard.clusters, cluster)
		w.truth.own(cluster, shard.Name)
	}
	for _, resource := range resources {
		w.must(w.truth.Follow(w.ctx, w.Client("shard-admin"), shard.Name, shard.base, resource))
	}
}

func (w *World) startRelays() {
	var addresses []string
	for _, shard := range w.shards {
		relay, err := NewRelay(shard.Name, w.pki(""), fmt.Sprintf("127.0.0.1:%d", shard.port), "shard-"+shard.Name, nil)
		w.must(err)
		relay.answered = func(fault string) {
			if fault == "410" || fault == "expire" {
				w.Happened("expire", shard.Name)
			}
		}
		shard.Relay = relay
		addresses = append(addresses, shard.base+`"`, fmt.Sprintf(`https://127.0.0.1:%d"`, relay.Port))
	}
	// Proxies read of root where the shards are: there they find the relays.
	w.shards[0].Relay.rewrite = strings.NewReplacer(addresses...)
}

func (w *World) end() {
	for _, proxy := range w.proxies {
		if proxy.process != nil {
			_ = syscall.Kill(proxy.process.Pid, syscall.SIGCONT)
			proxy.process.Kill()
		}
	}
	for _, shard := range w.shards {
		if shard.Relay != nil {
			shard.Relay.Close()
		}
		if shard.process != nil {
			_ = syscall.Kill(shard.process.Pid, syscall.SIGCONT)
			shard.process.Kill()
		}
	}
}

// startProxies makes two replicas with one slot table and token key.
func (w *World) startProxies() {
	for number := range 2 {
		name := fmt.Sprintf("p%d", number+1)
		folder := filepath.Join(w.installation.Dir, name)
		w.must(os.Mkdir(folder, 0o700))
		proxy := &Proxy{Name: name, port: e2e.FreePort(w.t), config: filepath.Join(w.installation.State, "proxy", name+".yaml")}
		w.must(w.configure(proxy, folder))
		w.proxies = append(w.proxies, proxy)
		w.must(proxy.Start(w))
		e2e.Eventually(w.t, 30*time.Second, name+" lists all shards", func() error { return w.listed(proxy) })
	}
}

// configure takes what `up` has written for its own proxy, and changes the addresses.
func (w *World) configure(proxy *Proxy, folder string) error {
	text, err := os.ReadFile(filepath.Join(w.installation.State, "proxy", "proxy.yaml"))
	if err != nil {
		return err
	}
	access, err := os.ReadFile(filepath.Join(w.installation.State, "shards", "root", "admin.kubeconfig"))
	if err != nil {
		return err
	}
	root := w.shards[0]
	access = []byte(strings.ReplaceAll(string(access), fmt.Sprintf("127.0.0.1:%d", root.port), fmt.Sprintf("127.0.0.1:%d", root.Relay.Port)))
	kubeconfig := filepath.Join(folder, "root.kubeconfig")
	if err := os.WriteFile(kubeconfig, access, 0o600); err != nil {
		return err
	}
	config := string(text)
	for key, value := range map[string]string{"data_dir": filepath.Join(folder, "data"), "socket": filepath.Join(folder, "admin.sock"),
		"root_kubeconfig": kubeconfig, "shards_kubeconfig": kubeconfig} {
		config = regexp.MustCompile(`(?m)^(\s*`+key+`:).*$`).ReplaceAllString(config, "${1} "+value)
	}
	config = strings.ReplaceAll(config, fmt.Sprintf("port: %d", w.installation.Port), fmt.Sprintf("port: %d", proxy.port))
	config = regexp.MustCompile(`(?m)^shutdown:.*\n(^\s+.*\n)*`).ReplaceAllString(config, "")
	config += "aggregation:\n  shared_file: " + filepath.Join(w.installation.Dir, "replicas") + "\n  resync: {spread_ms: 2000}\n  watch: {group_linger_ms: 2000, group_log_bytes: 1048576, resume_events: 256}\nshutdown: {spread_ms: 1000, grace_ms: 5000}\n"
	return os.WriteFile(proxy.config, []byte(config), 0o600)
}

// Start runs a proxy that does not run.
func (p *Proxy) Start(w *World) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var err error
	logs, level := w.installation.Dir, "info"
	if wished := os.Getenv("KINTSUGI_MODEL_LOGS"); wished != "" {
		logs, level = wished, "debug"
	}
	p.process, err = e2e.Start(e2e.Binary(w.t), filepath.Join(logs, p.Name+".log"), "proxy", "--config", p.config, "--log-level", level)
	return err
}

func (p *Proxy) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", p.port) }

// Config for client-go at a logical cluster.
func (p *Proxy) Config(w *World, cluster string) *rest.Config {
	config := w.installation.Config(cluster)
	config.Host = p.URL() + "/clusters/" + cluster
	return config
}

// listed tells whether a proxy has a slot for every shard and an answer of it.
func (w *World) listed(proxy *Proxy) error {
	if proxy.process.Ended() {
		w.t.Fatalf("%s has ended", proxy.Name)
	}
	client := w.Client("admin")
	defer client.CloseIdleConnections()
	client.Timeout = 15 * time.Second
	var list Object
	if status, err := get(client, proxy.URL()+"/clusters/*/api/v1/configmaps?limit=1", &list); err != nil || status != http.StatusOK {
		return fmt.Errorf("status %d, %v: %s", status, err, list.Message)
	}
	vector, err := parseVector(list.Metadata.ResourceVersion)
	if err != nil {
		return err
	}
	delivered := 0
	for _, component := range vector.Components {
		if component != notDelivered {
			delivered++
		}
	}
	members := len(w.shards) - 1
	w.mutex.Lock()
	if w.lateThere {
		members++
	}
	w.mutex.Unlock()
	if delivered != members {
		return fmt.Errorf("%d of %d shards are in the list", delivered, members)
	}
	return w.learnSlots()
}

// learnSlots reads the UIDs of the shards from root itself.
func (w *World) learnSlots() error {
	var list struct {
		Items []Object `json:"items"`
	}
	client := w.Client("shard-admin")
	defer client.CloseIdleConnections()
	client.Timeout = 5 * time.Second
	status, err := get(client, w.shards[0].base+"/clusters/root/apis/core.kcp.io/v1alpha1/shards", &list)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("shards in root: %d %v", status, err)
	}
	for i := range list.Items {
		w.slots.Add(list.Items[i].Metadata.Name, list.Items[i].Metadata.UID)
	}
	return nil
}

func get(client *http.Client, url string, into any) (int, error) {
	answer, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return answer.StatusCode, err
	}
	return answer.StatusCode, nil
}

// RemoveLate takes the last shard out of the installation and ends it.
func (w *World) RemoveLate() error {
	shard := w.shards[len(w.shards)-1]
	w.Happened("remove", shard.Name)
	client := w.Client("shard-admin")
	defer client.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodDelete, w.shards[0].base+"/clusters/root/apis/core.kcp.io/v1alpha1/shards/"+shard.Name, nil)
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		answer, err := client.Do(request)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusNotFound {
				break
			}
			err = fmt.Errorf("removing %s: %s", shard.Name, answer.Status)
		}
		if attempt > 100 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.mutex.Lock()
	w.lateThere = false
	w.remembering += len(w.proxies)
	w.mutex.Unlock()
	for _, proxy := range w.proxies {
		go w.untilForgotten(proxy, shard)
	}
	time.Sleep(100 * time.Millisecond) // for the last writes
	for _, resource := range resources {
		if err := w.finish(shard, resource); err != nil {
			return err
		}
	}
	err = shard.process.Stop()
	w.Happened("remove", shard.Name)
	return err
}

// untilForgotten waits until a proxy, which hears of it from a root that may be silent, no longer knows a shard.
func (w *World) untilForgotten(proxy *Proxy, shard *Shard) {
	known := fmt.Sprintf("%q", shard.Name)
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		text, err := proxy.Debug(w, "shards")
		w.mutex.Lock()
		back := w.lateThere
		w.mutex.Unlock()
		if back || err == nil && !strings.Contains(text, known) {
			break
		}
	}
	w.Happened("remove", shard.Name)
	w.mutex.Lock()
	w.remembering--
	w.mutex.Unlock()
}

// AddLate brings the last shard back, with what it had.
func (w *World) AddLate() error {
	shard := w.shards[len(w.shards)-1]
	w.Happened("add", shard.Name)
	for _, resource := range resources {
		log := w.truth.Log(shard.Name, resource)
		log.mutex.Lock()
		log.final = false
		log.mutex.Unlock()
	}
	if err := w.StartShard(shard); err != nil {
		return err
	}
	for clock := e2e.StartClock(); ; time.Sleep(50 * time.Millisecond) {
		before := len(w.slots.uids)
		if err := w.learnSlots(); err == nil && len(w.slots.uids) > before {
			break
		}
		if clock.Spent() > 30*time.Second {
			return fmt.Errorf("%s is not in root after 30 s", shard.Name)
		}
	}
	w.mutex.Lock()
	w.lateThere = true
	w.mutex.Unlock()
	return nil
}

// Debug is what a proxy says of its "streams", "shards" and so on.
func (p *Proxy) Debug(w *World, what string) (string, error) {
	socket := filepath.Join(w.installation.Dir, p.Name, "admin.sock")
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://admin/debug/" + what)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// readyDeadline is beyond the 30 s for which a proxy waits for a shard that accepts connections and is silent.
const readyDeadline = 50 * time.Second

// Ready waits until a proxy that was started answers.
func (p *Proxy) Ready(w *World) error {
	client := w.Client("admin")
	defer client.CloseIdleConnections()
	client.Timeout = 3 * time.Second
	for clock := e2e.StartClock(); ; time.Sleep(20 * time.Millisecond) {
		answer, err := client.Get(p.URL() + "/readyz")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s", answer.Status)
		}
		if clock.Spent() > readyDeadline {
			return fmt.Errorf("%s is not ready after %v: %v", p.Name, readyDeadline, err)
		}
	}
}

// finish waits until the history of a shard is complete; nothing is written any more.
func (w *World) finish(shard *Shard, resource string) error {
	log := w.truth.Log(shard.Name, resource)
	client := w.Client("shard-admin")
	defer client.CloseIdleConnections()
	client.Timeout = 10 * time.Second
	for clock := e2e.StartClock(); ; time.Sleep(50 * time.Millisecond) {
		var list struct {
			Items []Object `json:"items"`
		}
		status, err := get(client, shard.base+"/clusters/*/api/v1/"+resource, &list)
		if err == nil && status == http.StatusOK {
			have := map[string]uint64{}
			for i := range list.Items {
				if o := &list.Items[i]; visible(o) {
					have[o.key()] = o.version()
				}
			}
			_, text := difference(have, log.Now(Everything))
			if text == "" {
				log.mutex.Lock()
				log.final = true
				log.mutex.Unlock()
				return nil
			}
			err = fmt.Errorf("the shard's own watch is not where its list is: %s", text)
		}
		if clock.Spent() > 60*time.Second {
			return fmt.Errorf("%s of %s: %d %w", resource, shard.Name, status, err)
		}
	}
}
