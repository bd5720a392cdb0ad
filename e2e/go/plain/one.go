package plain

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

// StartOne runs one kube-apiserver until the end of the test and returns its administrator's access. The test is skipped
// where the server cannot be built.
func StartOne(t *testing.T) *rest.Config {
	t.Helper()
	program := buildServer(t)
	dir, err := os.MkdirTemp("", "kintsugi-e2e-plain-")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{name: "kube", program: program, dir: filepath.Join(dir, "kube"), pki: makePKI(t, dir), port: e2e.FreePort(t),
		etcdPort: e2e.FreePort(t)}
	t.Cleanup(func() {
		s.stop()
		_ = os.RemoveAll(dir)
	})
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.startEtcd(); err != nil {
		t.Fatal(err)
	}
	if err := s.startAPI(); err != nil {
		t.Fatal(err)
	}
	s.ready(t)
	return &rest.Config{Host: s.url(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAFile: s.pki.servers.cert,
		CertFile: s.pki.master.cert, KeyFile: s.pki.master.key}}
}
