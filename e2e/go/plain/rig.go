// Package plain tests a proxy in front of API servers of several sorts: kube-apiservers, embedded shards by themselves (both
// with topology source `static`), and an installation of embedded shards.
package plain

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

// rig is a proxy in front of API servers.
type rig struct {
	t     *testing.T
	dir   string
	port  int
	proxy *e2e.Process
	fleet
	servers    []*server
	pki        *pki
	generation string   // a line of proxy.yaml below `topology:`
	more       []string // lines behind the rest of it
}

// another starts one more proxy in front of the same servers, which ends with the test.
func (r *rig) another(t *testing.T, generation string, more ...string) *rig {
	t.Helper()
	q := &rig{t: t, dir: t.TempDir(), fleet: r.fleet, servers: r.servers, pki: r.pki, generation: generation, more: more}
	q.startProxy()
	t.Cleanup(func() {
		if err := q.proxy.Stop(); err != nil {
			t.Errorf("proxy: %v", err)
		}
	})
	return q
}

// startRig starts servers a, b and c and a proxy in front of them. Lines of `more` come behind the rest of its
// configuration.
func startRig(t *testing.T, more ...string) *rig {
	t.Helper()
	return startServers(t, []string{"a", "b", "c"}, more...)
}

// startServers is startRig with other kube-apiservers.
func startServers(t *testing.T, names []string, more ...string) *rig {
	t.Helper()
	return startFleet(t, kubes, names, more...)
}

// startFleet starts API servers of a sort and a proxy in front of them.
func startFleet(t *testing.T, f fleet, names []string, more ...string) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "kintsugi-e2e-plain-")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, fleet: f, pki: makePKI(t, dir), more: more}
	t.Cleanup(r.end)
	begin := time.Now()
	f.start(r, slices.Clone(names))
	if r.proxy == nil {
		r.startProxy()
	}
	t.Logf("%d servers ready after %v", len(r.servers), time.Since(begin).Round(time.Millisecond))
	return r
}

// configure writes proxy.yaml for the servers; a running proxy reads it again.
func (r *rig) configure() {
	r.t.Helper()
	text := fmt.Sprintf(`apiVersion: kintsugi.dev/v1alpha1
kind: ProxyConfiguration
data_dir: %s
listener: {port: %d, cert_file: %s, key_file: %s}
authentication: {client_ca_file: %s}
backend: {ca_file: %s, cert_file: %s, key_file: %s}
admin: {socket: %s}
reload: {poll_ms: 500}
topology:
%s`, filepath.Join(r.dir, "proxy"), r.port, r.pki.serving.cert, r.pki.serving.key, r.pki.clients.cert,
		r.pki.servers.cert, r.pki.proxy.cert, r.pki.proxy.key, filepath.Join(r.dir, "admin.sock"),
		r.topology(r))
	for _, line := range r.more {
		text += line + "\n"
	}
	path := filepath.Join(r.dir, "proxy.yaml")
	err := os.WriteFile(path+".new", []byte(text), 0o600) // a proxy that runs reads all of it or nothing
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// have lets these servers be the members.
func (r *rig) have(servers []*server) {
	r.t.Helper()
	r.servers = servers
	if r.members != nil {
		r.members(r, servers)
		return
	}
	r.configure()
}

// label gives a server a region.
func (r *rig) label(s *server, region string) {
	r.t.Helper()
	s.region = region
	if r.relabel != nil {
		r.relabel(r, s)
		return
	}
	r.configure()
}

// startProxy starts (again) the proxy at its port and waits until it is ready.
func (r *rig) startProxy() {
	r.t.Helper()
	if r.port == 0 {
		r.port = e2e.FreePort(r.t)
		r.configure()
	}
	config := filepath.Join(r.dir, "proxy.yaml")
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

// debug is what the proxy says of itself at /debug/<topic>.
func (r *rig) debug(t *testing.T, topic string) string { return r.admin(t, "/debug/"+topic) }

// admin is what the proxy says of itself at a path.
func (r *rig) admin(t *testing.T, path string) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(r.dir, "admin.sock"))
	}}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("http://admin" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// signal sends a signal to the proxy.
func (r *rig) signal(signal syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(r.proxy.Pid, signal); err != nil {
		r.t.Fatal(err)
	}
}
