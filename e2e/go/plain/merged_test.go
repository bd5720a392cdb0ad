package plain

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	e2e "kintsugi.dev/e2e"
)

const marker = "kcp.io/cluster"

// namespace makes a fresh one on every server.
func (r *rig) namespace(t *testing.T, name string) string {
	t.Helper()
	for _, s := range r.servers {
		for _, h := range s.homes {
			object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			client := e2e.Typed(t, r.config(h.cluster)).CoreV1().Namespaces()
			if _, err := client.Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
				t.Fatalf("namespace on %s: %v", s.name, err)
			}
		}
	}
	return name
}

// everywhere is a typed client's way to the ConfigMaps of a namespace of all servers.
func (r *rig) everywhere(t *testing.T, ns string) (typedcorev1.ConfigMapInterface, metav1.ListOptions) {
	t.Helper()
	client := e2e.Typed(t, r.config("*")).CoreV1()
	if !r.plain {
		return client.ConfigMaps(""), metav1.ListOptions{FieldSelector: r.selector(ns)}
	}
	return client.ConfigMaps(ns), metav1.ListOptions{FieldSelector: r.selector(ns)}
}

// T01, T11, T76: a list over all servers has every object with its marker and its own resourceVersion.
func testList(t *testing.T, r *rig) {
	ctx := context.Background()
	ns := r.namespace(t, "list")
	want := map[string]string{}
	for _, s := range r.servers {
		for _, name := range []string{"same", "of-" + s.name} {
			want[s.home(name).marker+"/"+name] = r.put(t, s.name, ns, name).ResourceVersion
		}
	}
	for _, limit := range []int64{0, 1, 2, 500} {
		got := map[string]string{}
		maps, options := r.everywhere(t, ns)
		options.Limit = limit
		for page := 0; page == 0 || options.Continue != ""; page++ {
			list, err := maps.List(ctx, options)
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

// watched is what is watched by kubectl, and how it is made and changed.
type watched struct {
	kind         string
	make, change []string
	field        string
}

var (
	deployments = watched{"deployment", []string{"--image=x"}, []string{"scale", "deployment", "web", "--replicas=2"}, ".spec.replicas"}
	configMaps  = watched{"configmap", []string{"--from-literal=n=1"}, []string{"patch", "configmap", "web", `-p={"data":{"n":"2"}}`}, ".data.n"}
)

// The issue's own words: `kubectl get deployments -A -w` over several servers. Workspaces have no Deployments.
func testKubectl(t *testing.T, r *rig) {
	ns := r.namespace(t, "kubectl")
	what := configMaps
	if r.bare {
		what = deployments
	}
	lines := map[string]bool{}
	for _, s := range r.servers {
		name := "web-" + s.name
		out, err := r.kubectl(t, s.home(name).cluster, append([]string{"create", what.kind, name, "-n", ns}, what.make...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", s.name, err, out)
		}
		lines[s.home(name).marker+"/"+name+" "] = true
	}
	out, err := r.kubectl(t, "*", "get", what.kind, "-A").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "NAMESPACE") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, s := range r.servers {
		if strings.Count(string(out), "web-"+s.name) != 1 {
			t.Errorf("not one row for %s:\n%s", s.name, out)
		}
	}
	watch := r.kubectl(t, "*", "get", what.kind, "-A", "-w", "--field-selector=metadata.namespace="+ns,
		"-o=jsonpath={.metadata.annotations.kcp\\.io/cluster}/{.metadata.name} {"+what.field+"}{\"\\n\"}")
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
	for in, value := bufio.NewScanner(pipe), 1; value <= 2; value++ {
		missing := map[string]bool{}
		for line := range lines {
			missing[line+strconv.Itoa(value)] = true
		}
		for len(missing) > 0 {
			if !in.Scan() {
				t.Fatalf("kubectl ended, still missing %v\n%s", missing, complaints.String())
			}
			delete(missing, in.Text())
		}
		if value == 2 {
			break
		}
		for _, s := range r.servers {
			change := slices.Clone(what.change)
			change[2] += "-" + s.name
			if out, err := r.kubectl(t, s.home(change[2]).cluster, append(change, "-n", ns)...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", s.name, err, out)
			}
		}
	}
}
