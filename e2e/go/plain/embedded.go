package plain

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	e2e "kintsugi.dev/e2e"
)

// shards are embedded shards, each by itself: its logical cluster root is what a plain server has.
var shards = fleet{name: "embedded shard", plain: true, start: startShards, topology: staticTopology,
	document: [2]string{"apis/rbac.authorization.k8s.io/v1", "ClusterRoleList"}}

// installation is embedded shards that are one installation: a is the root shard, and each has two workspaces.
var installation = fleet{name: "installation", start: startInstallation, topology: rootTopology, members: registered, relabel: labelled,
	document: [2]string{"apis/rbac.authorization.k8s.io/v1", "ClusterRoleList"}}

const workspacesPerShard = 2

// embedded is the process of an embedded shard.
type embedded struct {
	t     *testing.T
	shard string
	dir   string // of the installation that it belongs to
	port  int
	run   *e2e.Process
	pki   *pki
}

func (e *embedded) url() string           { return fmt.Sprintf("https://127.0.0.1:%d", e.port) }
func (e *embedded) audit() string         { return e.store() + "-audit.log" }
func (e *embedded) store() string         { return filepath.Join(e.dir, "shards", e.shard, "data") }
func (e *embedded) process() *e2e.Process { return e.run }
func (e *embedded) move(port int)         { e.port = port }
func (e *embedded) kill()                 { e.run.Kill() }

func (e *embedded) stop() {
	if e.run != nil {
		e.run.Kill()
	}
}

func (e *embedded) start() (err error) {
	if err = os.MkdirAll(filepath.Dir(e.store()), 0o700); err != nil {
		return err
	}
	e.run, err = e2e.Start(e2e.Binary(e.t), filepath.Join(e.dir, e.shard+".log"), "shard", "--join", e.dir, "--name", e.shard,
		"--port", strconv.Itoa(e.port), "--audit-log", e.audit())
	return err
}

// forget goes on with a backup: it has what lives, and no history.
func (e *embedded) forget(t *testing.T) {
	t.Helper()
	backup := e.store() + "-backup"
	if out, err := exec.Command(e2e.Binary(t), "store", "backup", "--from", e.store(), "--to", backup).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.RemoveAll(e.store()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(e2e.Binary(t), "store", "restore", "--from", backup, "--to", e.store()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// rotate writes another certificate where the shard watches its own.
func (e *embedded) rotate(t *testing.T) {
	t.Helper()
	made := e.pki.again(t, "serving")
	for ending, file := range map[string]string{".key": made.key, ".crt": made.cert} {
		if err := os.Rename(file, filepath.Join(e.dir, "pki", "shard-"+e.shard+ending)); err != nil {
			t.Fatal(err)
		}
	}
}

// makeJoinable makes the folder that shards join.
func makeJoinable(t *testing.T, dir string, p *pki) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]pair{"serving-ca": p.servers, "client-ca": p.clients, "requestheader-ca": p.proxies, "shard-admin": p.master} {
		for ending, file := range map[string]string{".crt": files.cert, ".key": files.key} {
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "pki", name+ending), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func startShards(r *rig, names []string) {
	r.t.Helper()
	for _, name := range names {
		dir := filepath.Join(r.dir, name)
		makeJoinable(r.t, dir, r.pki)
		s := &server{name: name, member: name, all: "/clusters/root", pki: r.pki,
			homes:   []home{{prefix: "/clusters/root", cluster: name, marker: name}},
			machine: &embedded{t: r.t, shard: "root", dir: dir, port: e2e.FreePort(r.t), pki: r.pki}}
		r.servers = append(r.servers, s)
		if err := s.start(); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, s := range r.servers {
		s.ready(r.t)
		s.letIn(r.t)
	}
}

// joined is the folder of the installation.
func (r *rig) joined() string { return filepath.Join(filepath.Dir(r.servers[0].store()), "../..") }

func rootTopology(r *rig) string {
	access := filepath.Join(r.joined(), "shards/root/admin.kubeconfig")
	return fmt.Sprintf("  {source: kcp, root_kubeconfig: %s, shards_kubeconfig: %s}\nwildcard: serve\n", access, access)
}

func startInstallation(r *rig, names []string) {
	r.t.Helper()
	dir := filepath.Join(r.dir, "installation")
	makeJoinable(r.t, dir, r.pki)
	for n, name := range names {
		member := "shard-" + name // slots are in the order of the names of those that are there first
		if n == 0 {
			member = "root"
		}
		s := &server{name: name, member: member, all: "/clusters/*", pki: r.pki,
			machine: &embedded{t: r.t, shard: member, dir: dir, port: e2e.FreePort(r.t), pki: r.pki}}
		r.servers = append(r.servers, s)
		if err := s.start(); err != nil {
			r.t.Fatal(err)
		}
		if n == 0 {
			s.ready(r.t)
		}
	}
	objects := e2e.Dynamic(r.t, r.servers[0].config("/clusters/root")).Resource(e2e.Shards)
	for _, s := range r.servers {
		s.ready(r.t)
		e2e.Eventually(r.t, startDeadline, "Shard "+s.member, func() error {
			_, err := objects.Get(context.Background(), s.member, metav1.GetOptions{})
			return err
		})
	}
	r.startProxy()
	r.settle()
}

// settle makes workspaces on all shards.
func (r *rig) settle() {
	r.t.Helper()
	ctx := context.Background()
	client := e2e.Dynamic(r.t, r.config("root")).Resource(e2e.Workspaces)
	each := func(do func(s *server, name string)) {
		for _, s := range r.servers {
			for n := range workspacesPerShard {
				do(s, fmt.Sprintf("%s%d", s.name, n))
			}
		}
	}
	each(func(s *server, name string) {
		made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"location": map[string]any{"selector": map[string]any{
				"matchLabels": map[string]any{"name": s.member}}}}}}
		e2e.Eventually(r.t, startDeadline, "workspace "+name, func() error {
			_, err := client.Create(ctx, made, metav1.CreateOptions{})
			return err
		})
	})
	each(func(s *server, name string) {
		e2e.Eventually(r.t, startDeadline, "workspace "+name, func() error {
			found, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			cluster, _, _ := unstructured.NestedString(found.Object, "spec", "cluster")
			if phase, _, _ := unstructured.NestedString(found.Object, "status", "phase"); phase != "Ready" {
				return fmt.Errorf("status %v", found.Object["status"])
			}
			if _, err = e2e.Typed(r.t, r.config(cluster)).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err == nil {
				s.homes = append(s.homes, home{prefix: "/clusters/" + cluster, cluster: cluster, marker: cluster})
			}
			return err
		})
	})
}

// registered lets the installation have just these shards.
func registered(r *rig, servers []*server) {
	r.t.Helper()
	ctx := context.Background()
	client := e2e.Dynamic(r.t, servers[0].config("/clusters/root")).Resource(e2e.Shards)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	there := map[string]bool{}
	for _, one := range list.Items {
		there[one.GetName()] = true
	}
	for _, s := range servers {
		if !there[s.member] {
			made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard",
				"metadata": map[string]any{"name": s.member, "labels": map[string]any{"name": s.member}},
				"spec":     map[string]any{"baseURL": s.url(), "virtualWorkspaceURL": s.url(), "externalURL": r.base()}}}
			if _, err := client.Create(ctx, made, metav1.CreateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}
		delete(there, s.member)
	}
	for name := range there {
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func labelled(r *rig, s *server) {
	r.t.Helper()
	client := e2e.Dynamic(r.t, r.servers[0].config("/clusters/root")).Resource(e2e.Shards)
	patch := fmt.Sprintf(`{"metadata":{"labels":{"region":%q}}}`, s.region)
	if _, err := client.Patch(context.Background(), s.member, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}
