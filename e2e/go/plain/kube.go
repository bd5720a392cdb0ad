package plain

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	e2e "kintsugi.dev/e2e"
)

const serverVersion = "v1.36.3"

// repository is the folder that the sources are in.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../../..")
}

// buildServer makes kube-apiserver out of the module e2e/kube, or skips the test where its modules cannot be had. The
// first time takes minutes, later ones a second.
func buildServer(t *testing.T) string {
	t.Helper()
	if program := os.Getenv("KINTSUGI_KUBE_APISERVER"); program != "" {
		return program
	}
	program := filepath.Join(repository(), "build/e2e/kube-apiserver")
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + serverVersion +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
	command := exec.Command("go", "build", "-ldflags", flags, "-o", program, "./cmd/kube-apiserver")
	command.Dir = filepath.Join(repository(), "e2e/kube")
	begin := time.Now()
	if out, err := command.CombinedOutput(); err != nil {
		t.Skipf("kube-apiserver cannot be built: %v\n%s", err, out)
	}
	t.Logf("kube-apiserver %s built in %v", serverVersion, time.Since(begin).Round(time.Millisecond))
	return program
}

// kube is a kube-apiserver with an etcd of its own.
type kube struct {
	name      string
	program   string
	dir       string
	oldEtcd   string   // Debian's program, "": the one inside `program`
	flags     []string // more of the API server
	port      int
	etcdPort  int
	etcd, api *e2e.Process
	pki       *pki
}

func newKube(t *testing.T, name, program, dir string, p *pki) *kube {
	t.Helper()
	k := &kube{name: name, program: program, dir: filepath.Join(dir, name), pki: p, port: e2e.FreePort(t), etcdPort: e2e.FreePort(t)}
	if err := os.Mkdir(k.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *kube) url() string           { return fmt.Sprintf("https://127.0.0.1:%d", k.port) }
func (k *kube) audit() string         { return filepath.Join(k.dir, "audit.log") }
func (k *kube) store() string         { return filepath.Join(k.dir, "etcd") }
func (k *kube) process() *e2e.Process { return k.api }
func (k *kube) move(port int)         { k.port = port }
func (k *kube) kill()                 { k.api.Kill() }

func (k *kube) stop() {
	for _, process := range []*e2e.Process{k.api, k.etcd} {
		if process != nil {
			process.Kill()
		}
	}
}

func (k *kube) start() error {
	if k.etcd == nil || k.etcd.Ended() {
		if err := k.startEtcd(); err != nil {
			return err
		}
	}
	return k.startAPI()
}

func (k *kube) startEtcd() error {
	client := fmt.Sprintf("http://127.0.0.1:%d", k.etcdPort)
	log := filepath.Join(k.dir, "etcd.log")
	var err error
	if k.oldEtcd == "" {
		k.etcd, err = e2e.Start(k.program, log, "etcd", k.store(), client, "http://127.0.0.1:0")
		return err
	}
	k.etcd, err = e2e.Start(k.oldEtcd, log, "--data-dir", k.store(), "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", "http://127.0.0.1:0", "--unsafe-no-fsync",
		"--log-level", "error")
	return err
}

func (k *kube) startAPI() (err error) {
	p := k.pki
	flags := append([]string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", k.etcdPort), "--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", k.port), "--cert-dir=" + k.dir,
		"--tls-cert-file=" + p.serving.cert, "--tls-private-key-file=" + p.serving.key,
		"--client-ca-file=" + p.clients.cert, "--requestheader-client-ca-file=" + p.proxies.cert,
		"--requestheader-allowed-names=kcp-front-proxy", "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://" + k.name, "--service-account-key-file=" + p.clients.key,
		"--service-account-signing-key-file=" + p.clients.key, "--service-cluster-ip-range=10.9.0.0/24",
		"--authorization-mode=RBAC", "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
		"--profiling=false", "--v=0", "--audit-policy-file=" + p.audit, "--audit-log-path=" + k.audit()}, k.flags...)
	k.api, err = e2e.Start(k.program, filepath.Join(k.dir, "api.log"), flags...)
	return err
}

// etcdCall asks etcd by its JSON gateway.
func (k *kube) etcdCall(t *testing.T, path, body string) map[string]any {
	t.Helper()
	answer, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/v3/kv/%s", k.etcdPort, path), "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	out := map[string]any{}
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("etcd of %s, %s: %s %v", k.name, path, answer.Status, err)
	}
	return out
}

// advance lets etcd begin at a later revision, so that the servers' numbers are not each other's.
func (k *kube) advance(t *testing.T, revisions int) {
	e2e.Eventually(t, startDeadline, "etcd of "+k.name, func() error {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/health", k.etcdPort))
		if err == nil {
			answer.Body.Close()
		}
		return err
	})
	for range revisions {
		k.etcdCall(t, "put", `{"key":"eA==","value":"eA=="}`)
	}
}

// forget makes etcd forget everything before now, and some that nobody can have seen.
func (k *kube) forget(t *testing.T) {
	t.Helper()
	for _, value := range []string{"eA==", "eQ==", "eg=="} {
		k.etcdCall(t, "put", fmt.Sprintf(`{"key":"eA==","value":%q}`, value))
	}
	header := k.etcdCall(t, "range", `{"key":"eA=="}`)["header"].(map[string]any)
	k.etcdCall(t, "compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, header["revision"]))
}

// rotate writes another certificate over the one that all servers and the proxy show; they watch the files.
func (k *kube) rotate(t *testing.T) {
	t.Helper()
	made := k.pki.again(t, "serving")
	for from, to := range map[string]string{made.key: k.pki.serving.key, made.cert: k.pki.serving.cert} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
}

// kinds of servers: a is as new as it gets, b too, but ends connections now and then (GOAWAY), c has Debian's etcd (its
// WatchLists end with an ERROR, it sends no bookmarks), d behaves as Kubernetes 1.33 (it refuses WatchList).
var kinds = map[string][]string{"b": {"--goaway-chance=0.02"}, "d": {"--emulated-version=kube=1.33"}}

// kubes are kube-apiservers, each one logical cluster named like it.
var kubes = fleet{name: "kube-apiserver", plain: true, start: startKubes, topology: staticTopology, bare: true,
	noWatchList: "d", document: [2]string{"apis/apps/v1", "DeploymentList"}}

func startKubes(r *rig, names []string) {
	t := r.t
	t.Helper()
	program := buildServer(t)
	old, err := exec.LookPath("etcd")
	if err != nil {
		t.Log("no etcd of the distribution: without an old server")
		names = slices.DeleteFunc(names, func(name string) bool { return name == "c" })
	}
	var all []*kube
	for _, name := range names {
		k := newKube(t, name, program, r.dir, r.pki)
		k.flags = kinds[name]
		if name == "c" {
			k.oldEtcd = old
		}
		all = append(all, k)
		r.servers = append(r.servers, &server{machine: k, name: name, member: name, homes: []home{{marker: name, cluster: name}}, pki: r.pki})
		if err := k.startEtcd(); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for n, k := range all {
		group.Go(func() { k.advance(t, 1000*n) })
	}
	group.Wait()
	for _, k := range all {
		if err := k.startAPI(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range r.servers {
		s.ready(t)
		s.letIn(t)
	}
}

// oneKube runs a kube-apiserver until the end of the test.
func oneKube(t *testing.T) *server {
	t.Helper()
	program := buildServer(t)
	dir, err := os.MkdirTemp("", "kintsugi-e2e-kube-")
	if err != nil {
		t.Fatal(err)
	}
	p := makePKI(t, dir)
	k := newKube(t, "kube", program, dir, p)
	t.Cleanup(func() {
		k.stop()
		_ = os.RemoveAll(dir)
	})
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	s := &server{machine: k, name: k.name, homes: []home{{}}, pki: p}
	s.ready(t)
	return s
}
