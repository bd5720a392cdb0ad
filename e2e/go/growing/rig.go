package growing

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	e2e "kintsugi.dev/e2e"
)

const (
	preload   = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
	smallDisk = "200m" // etcd takes files of 64 MiB for its log in advance
	smallOne  = "etcd-3"
)

// Member is a process at a host of its own; who ends without being asked is started again.
type Member struct {
	Name    string
	host    *Host
	words   []string
	process *e2e.Process
	wanted  bool
	mutex   sync.Mutex
}

// World is the installation under test: three members of etcd, two shards of two processes, two proxies.
type World struct {
	t        *testing.T
	dir      string // has state (what `up` has made), logs and disks
	network  *Network
	members  []*Member
	faketime bool
	begin    time.Time
	mutex    sync.Mutex
	said     []string // faults and what processes did, with times
	failures []string
	behind   []time.Duration     // when somebody else has compacted
	clusters map[string][]string // shard: logical clusters there
}

// Say notes something beside the history.
func (w *World) Say(format string, arguments ...any) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.said = append(w.said, fmt.Sprintf("+%.3f s ", w.now().Seconds())+fmt.Sprintf(format, arguments...))
}

// Fail notes what makes the run fail; it goes on.
func (w *World) Fail(format string, arguments ...any) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.failures = append(w.failures, fmt.Sprintf("+%.3f s ", w.now().Seconds())+fmt.Sprintf(format, arguments...))
}

func (w *World) now() time.Duration { return time.Since(w.begin) }

func (w *World) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *World) state(path string) string { return filepath.Join(w.dir, "state", path) }

var (
	etcds    = []string{"etcd-1", "etcd-2", "etcd-3"}
	replicas = []string{"root-a", "root-b", "shard-1-a", "shard-1-b"}
	proxies  = []string{"proxy", "proxy-2"}
	regions  = map[string]string{"root": "eu-west-1", "shard-1": "us-east-1"}
)

func shardOf(replica string) string { return replica[:len(replica)-2] }

// start lets `up` make keys and files, and runs what it has described at hosts of their own over an etcd that is empty.
func start(t *testing.T) *World {
	t.Helper()
	w := &World{t: t, dir: t.TempDir(), begin: time.Now(), clusters: map[string][]string{}}
	_, err := os.Stat(preload)
	w.faketime = err == nil
	t.Cleanup(w.end)
	w.must(command("mkdir", "-p", w.dir+"/logs", w.dir+"/disk"))
	var names []string
	w.network, err = newNetwork(append(append(append(names, etcds...), replicas...), proxies...))
	w.must(err)
	w.prepare()
	for _, name := range slices.Concat(etcds, replicas, proxies) {
		member := &Member{Name: name, host: w.network.Host(name), words: w.words(name)}
		w.members = append(w.members, member)
		w.must(w.Start(member))
		if name == etcds[2] {
			w.eventually("etcd has a leader", func() error { _, err := w.leader(); return err })
		}
		if slices.Contains(replicas, name) {
			w.eventually(name+" is ready", func() error { return w.ready(name, "shard-admin") })
		}
	}
	for _, proxy := range proxies {
		w.eventually(proxy+" is ready", func() error { return w.ready(proxy, "admin") })
	}
	return w
}

func (w *World) eventually(what string, check func() error) {
	w.t.Helper()
	e2e.Eventually(w.t, 40*time.Second, what, check)
}

func (w *World) ready(name, who string) error {
	client := w.Client(who)
	defer client.CloseIdleConnections()
	answer, err := w.ask(client, http.MethodGet, w.url(name)+"/readyz", nil)
	if err == nil && answer.status != http.StatusOK {
		err = fmt.Errorf("%d %s", answer.status, answer.text)
	}
	return err
}

// prepare runs `up` once.
func (w *World) prepare() {
	up, err := e2e.Start(e2e.Binary(w.t), w.dir+"/logs/up.log", "up", "--shards", "2", "--store", "etcd", "--proxies", "2",
		"--bind", "127.0.0.2", "--dir", w.state(""))
	w.must(err)
	w.eventually("up is ready", func() error {
		if up.Ended() {
			w.t.Fatalf("up ended: %v", up.Outcome())
		}
		_, err := os.Stat(w.state("ready"))
		return err
	})
	w.must(up.Stop())
	for _, old := range []string{"shards/root/mirror", "shards/shard-1/mirror", "proxy/data", "proxy-2/data", "etcd"} {
		w.must(os.RemoveAll(w.state(old)))
	}
	w.must(command("mkdir", "-p", w.dir+"/disk/"+smallOne))
	w.must(command("mount", "-t", "tmpfs", "-o", "size="+smallDisk, "disk", w.dir+"/disk/"+smallOne))
	for _, name := range []string{"shard-root", "shard-shard-1", "proxy", "etcd"} {
		w.must(w.sign(name))
	}
	// etcd's gateway comes to etcd with its server's certificate.
	var both []byte
	w.must(w.found())
	for _, ca := range []string{"client-ca.crt", "serving-ca.crt", another + ".crt"} {
		text, err := os.ReadFile(w.pki(ca))
		w.must(err)
		both = append(both, text...)
	}
	w.must(os.WriteFile(w.trusted(), both, 0o600))
	for _, name := range proxies {
		text, err := os.ReadFile(w.state(name + "/proxy.yaml"))
		w.must(err)
		for key, value := range map[string]string{"external_url": w.url(name), "endpoints": `["` + strings.Join(w.endpoints(), `", "`) + `"]`,
			"address": w.network.Host(name).address, "port": "6443"} {
			text = regexp.MustCompile(`(?m)^(\s*`+key+`:).*$`).ReplaceAll(text, []byte("${1} "+value))
		}
		w.must(os.WriteFile(w.state(name+"/proxy.yaml"), text, 0o600))
	}
}

func (w *World) pki(name string) string { return w.state("pki/" + name) }

func (w *World) trusted() string { return w.dir + "/disk/trusted.crt" }

// url of the server at a host.
func (w *World) url(name string) string {
	port := "7443"
	switch {
	case strings.HasPrefix(name, "etcd"):
		port = "2379"
	case strings.HasPrefix(name, "proxy"):
		port = "6443"
	}
	return "https://" + w.network.Host(name).address + ":" + port
}

// peer is the URL at which the other members reach one.
func (w *World) peer(name string) string { return "https://" + w.network.Host(name).address + ":2380" }

func (w *World) endpoints() (urls []string) {
	for _, name := range etcds {
		urls = append(urls, w.url(name))
	}
	return urls
}

// words is the command line of a member.
func (w *World) words(name string) []string {
	host := w.network.Host(name)
	if strings.HasPrefix(name, "etcd") {
		var cluster []string
		for _, one := range etcds {
			cluster = append(cluster, one+"="+w.peer(one))
		}
		peer := w.peer(name)
		return host.inside("etcd", "--name="+name, "--data-dir="+w.dir+"/disk/"+name+"/data", "--listen-client-urls="+w.url(name),
			"--advertise-client-urls="+w.url(name), "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
			"--initial-cluster="+strings.Join(cluster, ","), "--cert-file="+w.pki("etcd.crt"), "--key-file="+w.pki("etcd.key"),
			"--client-cert-auth", "--trusted-ca-file="+w.trusted(), "--peer-cert-file="+w.pki("etcd.crt"), "--peer-key-file="+w.pki("etcd.key"),
			"--peer-client-cert-auth", "--peer-trusted-ca-file="+w.trusted())
	}
	var words []string
	if w.faketime {
		words = []string{"env", "LD_PRELOAD=" + preload, "FAKETIME_TIMESTAMP_FILE=" + w.clock(name), "FAKETIME_CACHE_DURATION=1",
			"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_RESET=1"}
		w.must(os.WriteFile(w.clock(name), []byte("+0s\n"), 0o600))
	}
	words = append(words, e2e.Binary(w.t))
	if strings.HasPrefix(name, "proxy") {
		words = append(words, "proxy", "--config", w.state(name+"/proxy.yaml"))
	} else {
		words = append(words, "shard", "--join", w.state(""), "--name", shardOf(name), "--labels", "region="+regions[shardOf(name)],
			"--bind", host.address, "--port", "7443", "--store", "etcd="+strings.Join(w.endpoints(), ","),
			"--etcd-ca-file", w.pki("serving-ca.crt"), "--etcd-cert-file", w.pki("etcd-client.crt"), "--etcd-key-file", w.pki("etcd-client.key"),
			"--etcd-compaction", "own")
		if strings.HasSuffix(name, "-b") {
			words = append(words, "--replica", "second")
		}
	}
	return host.inside(append(words, "--allow-root", "--log-level=info", "--log-format=json")...)
}

// clock is the file that tells one of our processes how wrong its clock is.
func (w *World) clock(name string) string { return filepath.Join(w.dir, name+".clock") }

func (w *World) log(name string) string { return filepath.Join(w.dir, "logs", name+".log") }

// Start runs a member that does not run.
func (w *World) Start(m *Member) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var err error
	m.process, err = e2e.Start(m.words[0], w.log(m.Name), m.words[1:]...)
	m.wanted = err == nil
	return err
}

// Become changes the command line of a member that does not run.
func (m *Member) Become(words []string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.words = words
}

// Kill ends a member with SIGKILL.
func (m *Member) Kill() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.wanted = false
	m.process.Kill()
}

func (m *Member) signal(signal syscall.Signal) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !m.process.Ended() {
		_ = syscall.Kill(m.process.Pid, signal)
	}
}

// supervise starts again what has ended by itself, until ctx ends.
func (w *World) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		for _, m := range w.members {
			m.mutex.Lock()
			ended := m.wanted && m.process.Ended()
			m.mutex.Unlock()
			if !ended {
				continue
			}
			outcome := fmt.Sprint(m.process.Outcome())
			w.Say("%s has ended by itself: %s", m.Name, outcome)
			if !strings.HasPrefix(m.Name, "etcd") && strings.Contains(outcome, "signal") {
				w.Fail("%s has ended: %s", m.Name, outcome)
			}
			if err := w.Start(m); err != nil {
				w.Fail("%s: %v", m.Name, err)
			}
		}
		pause(ctx, 300*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (w *World) end() {
	for _, m := range w.members {
		m.signal(syscall.SIGCONT)
		m.Kill()
	}
	_ = command("umount", w.dir+"/disk/"+smallOne)
	keep := os.Getenv("KINTSUGI_KEEP")
	if keep != "" {
		_ = command("cp", "-r", w.dir+"/logs", keep)
	}
}

// Client with connections of its own and a certificate of pki.
func (w *World) Client(certificate string) *http.Client {
	pair, err := tls.LoadX509KeyPair(w.pki(certificate+".crt"), w.pki(certificate+".key"))
	w.must(err)
	ca, err := os.ReadFile(w.pki("serving-ca.crt"))
	w.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	return &http.Client{Transport: &http2.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots},
		ReadIdleTimeout: 4 * time.Second, PingTimeout: 3 * time.Second,
		DialTLSContext: func(ctx context.Context, network, address string, config *tls.Config) (net.Conn, error) {
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
		}}}
}

// Object is as much as the checker knows of one.
type Object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Data   map[string]string `json:"data"`
	Status json.RawMessage   `json:"status"`
	Spec   struct {
		Cluster string `json:"cluster"`
	} `json:"spec"`
	Items   []Object `json:"items"`
	Reason  string   `json:"reason"`
	Message string   `json:"message"`
	Code    int      `json:"code"`
	Details struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
	} `json:"details"`
}

type answer struct {
	status int
	text   string
	Object
}

// patience is how long a client waits for an answer.
const patience = 6 * time.Second

// exchange sends a request with JSON, or without a body, and reads the whole answer.
func exchange(client *http.Client, method, url string, body any) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// ask asks a server of ours.
func (w *World) ask(client *http.Client, method, url string, body any) (*answer, error) {
	status, text, err := exchange(client, method, url, body)
	if err != nil {
		return nil, err
	}
	out := &answer{status: status, text: string(text[:min(len(text), 300)])}
	_ = json.Unmarshal(text, &out.Object) // not JSON: no fields
	return out, nil
}

// fill makes logical clusters on both shards.
func (w *World) fill(each int) {
	client := w.Client("admin")
	root := w.url(proxies[0]) + "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces"
	for shard, region := range regions {
		for number := range each {
			name := fmt.Sprintf("%s-%d", shard, number)
			wish := map[string]any{"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": map[string]any{"name": name},
				"spec": map[string]any{"location": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"region": region}}}}}
			w.eventually("workspace "+name, func() error {
				made, err := w.ask(client, http.MethodPost, root, wish)
				if err == nil && made.status != http.StatusCreated && made.status != http.StatusConflict {
					err = fmt.Errorf("%d %s", made.status, made.text)
				}
				return err
			})
			w.eventually("workspace "+name+" is ready", func() error {
				found, err := w.ask(client, http.MethodGet, root+"/"+name, nil)
				if err != nil {
					return err
				}
				if !strings.Contains(string(found.Status), `"Ready"`) || found.Spec.Cluster == "" {
					return fmt.Errorf("%d %s %s", found.status, found.text, found.Status)
				}
				w.clusters[shard] = append(w.clusters[shard], found.Spec.Cluster)
				return nil
			})
			cluster := w.clusters[shard][number]
			w.eventually("namespace of "+name, func() error {
				for _, proxy := range proxies {
					found, err := w.ask(client, http.MethodGet, w.url(proxy)+"/clusters/"+cluster+"/api/v1/namespaces/default", nil)
					if err != nil || found.status != http.StatusOK {
						return fmt.Errorf("%s: %v %v", proxy, found, err)
					}
				}
				return nil
			})
		}
	}
}

// leader of etcd, by its name.
func (w *World) leader() (string, error) {
	client := w.Client("etcd-client")
	defer client.CloseIdleConnections()
	for _, name := range etcds {
		status, err := w.etcd(client, name, "maintenance/status", map[string]any{})
		if err != nil {
			continue
		}
		for _, one := range etcds {
			if id, err := w.etcd(client, one, "maintenance/status", map[string]any{}); err == nil && id.Header.Member == status.Leader {
				return one, nil
			}
		}
	}
	return "", fmt.Errorf("no member answers with a leader that answers")
}

type etcdAnswer struct {
	Header struct {
		Member   string `json:"member_id"`
		Revision string `json:"revision"`
	} `json:"header"`
	Leader  string       `json:"leader"`
	Members []etcdMember `json:"members"`
	Alarms  []struct {
		Member string `json:"memberID"`
		Alarm  string `json:"alarm"`
	} `json:"alarms"`
}

type etcdMember struct {
	ID    string   `json:"ID"`
	Peers []string `json:"peerURLs"`
}

// etcd asks a member by its gateway.
func (w *World) etcd(client *http.Client, member, method string, body any) (*etcdAnswer, error) {
	status, text, err := exchange(client, http.MethodPost, w.url(member)+"/v3/"+method, body)
	if err != nil {
		return nil, err
	}
	out := &etcdAnswer{}
	if status != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %d %s", member, method, status, text)
	}
	return out, json.Unmarshal(text, out)
}
