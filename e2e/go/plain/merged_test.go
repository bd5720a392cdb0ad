package plain

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	e2e "kintsugi.dev/e2e"
)

const marker = "kcp.io/cluster"

func TestPlainServers(t *testing.T) {
	r := startRig(t)
	t.Run("list", func(t *testing.T) { testList(t, r) })
	t.Run("get", func(t *testing.T) { testGet(t, r) })
	t.Run("old paths", func(t *testing.T) { testOldWatchPaths(t, r) })
	t.Run("informers", func(t *testing.T) { testInformers(t, r) })
	t.Run("same names", func(t *testing.T) { testSameNames(t, r) })
	t.Run("writes", func(t *testing.T) { testWrites(t, r) })
	t.Run("identity", func(t *testing.T) { testIdentity(t, r) })
	t.Run("one server", func(t *testing.T) { testOneServer(t, r) })
	t.Run("kubectl", func(t *testing.T) { testKubectl(t, r) })
	t.Run("kill", func(t *testing.T) { testKill(t, r) })
}

// namespace makes a fresh one on every server.
func (r *rig) namespace(t *testing.T, name string) string {
	t.Helper()
	for _, s := range r.servers {
		client := e2e.Typed(t, r.config(s.name))
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
			t.Fatalf("namespace on %s: %v", s.name, err)
		}
	}
	return name
}

// T01, T11, T76: a list over all servers has every object with its marker and its own resourceVersion.
func testList(t *testing.T, r *rig) {
	ctx := context.Background()
	ns := r.namespace(t, "list")
	want := map[string]string{}
	for _, s := range r.servers {
		maps := e2e.Typed(t, r.config(s.name)).CoreV1().ConfigMaps(ns)
		for _, name := range []string{"same", "of-" + s.name} {
			made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want[s.name+"/"+name] = made.ResourceVersion
		}
	}
	for _, limit := range []int64{0, 1, 2, 500} {
		got := map[string]string{}
		options := metav1.ListOptions{Limit: limit}
		for page := 0; page == 0 || options.Continue != ""; page++ {
			list, err := e2e.Typed(t, r.config("*")).CoreV1().ConfigMaps(ns).List(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range list.Items {
				got[item.Annotations[marker]+"/"+item.Name] = item.ResourceVersion
			}
			options.Continue = list.Continue
			if page > 20 {
				t.Fatal("the list does not end")
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
}

// tool runs kubectl over all servers.
func (r *rig) kubectl(t *testing.T, cluster string, arguments ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("no kubectl on this machine")
	}
	base := []string{"--server=" + r.base() + "/clusters/" + cluster, "--certificate-authority=" + r.pki.servers.cert,
		"--client-certificate=" + r.pki.user.cert, "--client-key=" + r.pki.user.key, "--kubeconfig=/dev/null",
		"--cache-dir=" + filepath.Join(r.dir, "cache-"+strings.ReplaceAll(cluster, "*", "all"))}
	command := exec.Command(program, append(base, arguments...)...)
	command.Env = append(os.Environ(), "HOME="+r.dir)
	return command
}

// The issue's own words: `kubectl get deployments -A -w` over several servers.
func testKubectl(t *testing.T, r *rig) {
	ns := r.namespace(t, "kubectl")
	for _, s := range r.servers {
		out, err := r.kubectl(t, s.name, "create", "deployment", "web-"+s.name, "--image=x", "-n", ns).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", s.name, err, out)
		}
	}
	out, err := r.kubectl(t, "*", "get", "deployments", "-A").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "NAMESPACE") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, s := range r.servers {
		if strings.Count(string(out), "web-"+s.name) != 1 {
			t.Errorf("not one row for %s:\n%s", s.name, out)
		}
	}
	watch := r.kubectl(t, "*", "get", "deployments", "-A", "-w",
		"-o=jsonpath={.metadata.annotations.kcp\\.io/cluster}/{.metadata.name} {.spec.replicas}{\"\\n\"}")
	pipe, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	watch.Stderr = &complaints
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(60*time.Second, func() { _ = watch.Process.Kill() })
	defer func() {
		timer.Stop()
		_ = watch.Process.Kill()
		_ = watch.Wait()
	}()
	missing := map[string]bool{}
	for _, s := range r.servers {
		missing[fmt.Sprintf("%s/web-%s 1", s.name, s.name)] = true
	}
	changed := false
	for lines := bufio.NewScanner(pipe); len(missing) > 0; {
		if !lines.Scan() {
			t.Fatalf("kubectl ended, still missing %v\n%s", missing, complaints.String())
		}
		t.Log(lines.Text())
		delete(missing, lines.Text())
		if len(missing) == 0 && !changed {
			changed = true
			for _, s := range r.servers {
				missing[fmt.Sprintf("%s/web-%s 2", s.name, s.name)] = true
				if out, err := r.kubectl(t, s.name, "scale", "deployment", "web-"+s.name, "--replicas=2", "-n", ns).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", s.name, err, out)
				}
			}
		}
	}
}
