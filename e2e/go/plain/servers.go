// Package plain tests a proxy in front of plain Kubernetes API servers (topology source `static`).
package plain

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

const (
	serverVersion = "v1.36.3"
	startDeadline = 90 * time.Second
	admins        = "admins" // the group that may do everything on every server
)

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

// server is one API server with an etcd of its own.
type server struct {
	name      string
	program   string
	dir       string
	oldEtcd   string // Debian's program, "": the one inside `program`
	port      int
	etcdPort  int
	etcd, api *e2e.Process
	pki       *pki
}

func (s *server) url() string { return fmt.Sprintf("https://127.0.0.1:%d", s.port) }

func (s *server) startEtcd() error {
	client := fmt.Sprintf("http://127.0.0.1:%d", s.etcdPort)
	data, log := filepath.Join(s.dir, "etcd"), filepath.Join(s.dir, "etcd.log")
	var err error
	if s.oldEtcd == "" {
		s.etcd, err = e2e.Start(s.program, log, "etcd", data, client, "http://127.0.0.1:0")
		return err
	}
	s.etcd, err = e2e.Start(s.oldEtcd, log, "--data-dir", data, "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", "http://127.0.0.1:0", "--unsafe-no-fsync",
		"--log-level", "error")
	return err
}

func (s *server) startAPI() (err error) {
	p := s.pki
	s.api, err = e2e.Start(s.program, filepath.Join(s.dir, "api.log"),
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", s.etcdPort), "--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", s.port), "--cert-dir="+s.dir,
		"--tls-cert-file="+p.serving.cert, "--tls-private-key-file="+p.serving.key,
		"--client-ca-file="+p.clients.cert, "--requestheader-client-ca-file="+p.proxies.cert,
		"--requestheader-allowed-names=proxy", "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://"+s.name, "--service-account-key-file="+p.clients.key,
		"--service-account-signing-key-file="+p.clients.key, "--service-cluster-ip-range=10.9.0.0/24",
		"--authorization-mode=RBAC", "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
		"--profiling=false", "--v=0")
	return err
}

// ready waits until the server says so: its roles are there then.
func (s *server) ready(t *testing.T) {
	t.Helper()
	e2e.Eventually(t, startDeadline, s.name+" ready", func() error {
		if s.api.Ended() || s.etcd.Ended() {
			t.Fatalf("%s ended, see %s", s.name, s.dir)
		}
		return s.direct(t).RESTClient().Get().AbsPath("/readyz").Do(context.Background()).Error()
	})
}

// direct is a client of the server itself, as its administrator.
func (s *server) direct(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	return e2e.Typed(t, &rest.Config{Host: s.url(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAFile: s.pki.servers.cert,
		CertFile: s.pki.master.cert, KeyFile: s.pki.master.key}})
}

// letIn gives the group of the proxy's callers every right.
func (s *server) letIn(t *testing.T) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: admins},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: admins}}}
	_, err := s.direct(t).RbacV1().ClusterRoleBindings().Create(context.Background(), binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("rights on %s: %v", s.name, err)
	}
}

func (s *server) kill() {
	s.api.Kill()
}

func (s *server) stop() {
	for _, process := range []*e2e.Process{s.api, s.etcd} {
		if process != nil {
			process.Kill()
		}
	}
}

// rig is a proxy in front of API servers.
type rig struct {
	t       *testing.T
	dir     string
	port    int
	proxy   *e2e.Process
	servers []*server
	pki     *pki
	more    []string
}

// startRig starts servers a, b and c, of which c has Debian's etcd, and a proxy in front of them. Lines of `more` come
// behind the rest of its configuration.
func startRig(t *testing.T, more ...string) *rig {
	t.Helper()
	program := buildServer(t)
	dir, err := os.MkdirTemp("", "kintsugi-e2e-plain-")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, pki: makePKI(t, dir), more: more}
	t.Cleanup(r.end)
	old, err := exec.LookPath("etcd")
	names := []string{"a", "b", "c"}
	if err != nil {
		t.Log("no etcd of the distribution: without an old server")
		names = names[:2]
	}
	begin := time.Now()
	for _, name := range names {
		s := &server{name: name, program: program, dir: filepath.Join(dir, name), pki: r.pki,
			port: e2e.FreePort(t), etcdPort: e2e.FreePort(t)}
		if name == "c" {
			s.oldEtcd = old
		}
		r.servers = append(r.servers, s)
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := s.startEtcd(); err != nil {
			t.Fatal(err)
		}
		if err := s.startAPI(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range r.servers {
		s.ready(t)
		s.letIn(t)
	}
	t.Logf("%d servers ready after %v", len(r.servers), time.Since(begin).Round(time.Millisecond))
	r.startProxy()
	return r
}

func (r *rig) startProxy() {
	r.t.Helper()
	r.port = e2e.FreePort(r.t)
	text := fmt.Sprintf(`apiVersion: kintsugi.dev/v1alpha1
kind: ProxyConfiguration
data_dir: %s
listener: {port: %d, cert_file: %s, key_file: %s}
authentication: {client_ca_file: %s}
backend: {ca_file: %s, cert_file: %s, key_file: %s}
admin: {socket: %s}
topology:
  source: static
  shards:
`, filepath.Join(r.dir, "proxy"), r.port, r.pki.serving.cert, r.pki.serving.key, r.pki.clients.cert,
		r.pki.servers.cert, r.pki.proxy.cert, r.pki.proxy.key, filepath.Join(r.dir, "admin.sock"))
	for _, s := range r.servers {
		identity := ""
		if s.name == "b" { // the other way to say who asks
			identity = fmt.Sprintf(", identity: impersonate, cert_file: %s, key_file: %s", r.pki.master.cert, r.pki.master.key)
		}
		text += fmt.Sprintf("    - {name: %s, uid: uid-%s, url: %q, labels: {region: eu}%s}\n", s.name, s.name, s.url(), identity)
	}
	for _, line := range r.more {
		text += line + "\n"
	}
	config := filepath.Join(r.dir, "proxy.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	var err error
	if r.proxy, err = e2e.Start(e2e.Binary(r.t), filepath.Join(r.dir, "proxy.log"), "proxy", "--config", config); err != nil {
		r.t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(r.config(""))
	if err != nil {
		r.t.Fatal(err)
	}
	e2e.Eventually(r.t, startDeadline, "proxy ready", func() error {
		answer, err := client.Get(r.base() + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %s", answer.Status)
		}
		return nil
	})
}

func (r *rig) base() string { return fmt.Sprintf("https://127.0.0.1:%d", r.port) }

// config is the administrator's access to a logical cluster ("*": all of them) through the proxy.
func (r *rig) config(cluster string) *rest.Config {
	config := &rest.Config{Host: r.base(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAFile: r.pki.servers.cert,
		CertFile: r.pki.user.cert, KeyFile: r.pki.user.key}}
	if cluster != "" {
		config.Host += "/clusters/" + cluster
	}
	return config
}

func (r *rig) end() {
	if r.proxy != nil {
		if err := r.proxy.Stop(); err != nil {
			r.t.Errorf("proxy: %v", err)
		}
	}
	for _, s := range r.servers {
		s.stop()
	}
	if r.t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(r.dir, "*.log"))
		more, _ := filepath.Glob(filepath.Join(r.dir, "*", "*.log"))
		for _, log := range append(logs, more...) {
			text, _ := os.ReadFile(log)
			r.t.Logf("--- end of %s\n%s", log, text[max(0, len(text)-3000):])
		}
	}
	if os.Getenv("KINTSUGI_KEEP") != "" {
		r.t.Logf("kept %s", r.dir)
		return
	}
	_ = os.RemoveAll(r.dir)
}

// signal sends a signal to the proxy.
func (r *rig) signal(signal syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(r.proxy.Pid, signal); err != nil {
		r.t.Fatal(err)
	}
}
