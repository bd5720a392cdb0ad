// Package kubectl tests what users type: the newest kubectl against a workspace, through the proxy.
package kubectl

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	e2e "kintsugi.dev/e2e"
)

const version = "v1.37.2"

// tool runs kubectl in one logical cluster.
type tool struct {
	t            *testing.T
	program      string
	installation *e2e.Installation
	server       string // "": the current context
}

func (k *tool) in(cluster string) *tool {
	inside := *k
	inside.server = k.installation.Config(cluster).Host
	return &inside
}

func (k *tool) try(arguments ...string) (string, int) {
	k.t.Helper()
	base := []string{"--kubeconfig=" + k.installation.Kubeconfig(), "--cache-dir=" + filepath.Join(k.installation.Dir, "cache")}
	if k.server != "" {
		base = append(base, "--server="+k.server)
	}
	command := exec.Command(k.program, append(base, arguments...)...)
	command.Env = append(os.Environ(), "HOME="+k.installation.Dir)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		k.t.Fatal(err)
	}
	return out.String(), command.ProcessState.ExitCode()
}

func (k *tool) must(arguments ...string) string {
	k.t.Helper()
	out, status := k.try(arguments...)
	if status != 0 {
		k.t.Fatalf("kubectl %s: exit status %d\n%s", strings.Join(arguments, " "), status, out)
	}
	return out
}

// says wants a line of output that matches a pattern.
func (k *tool) says(pattern string, arguments ...string) {
	k.t.Helper()
	if out := k.must(arguments...); !regexp.MustCompile("(?m)" + pattern).MatchString(out) {
		k.t.Errorf("kubectl %s does not say %q:\n%s", strings.Join(arguments, " "), pattern, out)
	}
}

func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubectl")
	flags := "-X k8s.io/component-base/version.gitVersion=" + version +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"
	begin := time.Now()
	out, err := exec.Command("go", "build", "-ldflags", flags, "-o", program, "kintsugi.dev/e2e/cmd/kubectl").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Logf("kubectl %s built in %v", version, time.Since(begin).Round(time.Millisecond))
	return program
}

func TestKubectl(t *testing.T) {
	root := &tool{t: t, program: build(t)}
	root.installation = e2e.StartInstallation(t)
	k := root.in(root.installation.MakeWorkspace("typed", "ap-south-1"))
	in := func(k *tool, test func(*testing.T, *tool)) func(*testing.T) {
		return func(t *testing.T) {
			own := *k
			own.t = t
			test(t, &own)
		}
	}
	t.Run("Root", in(root, func(_ *testing.T, k *tool) {
		k.says(`^Server Version: v1\.`, "version")
		k.says(`^NAME\s+REGION\s+URL\s+EXTERNAL URL\s+AGE\s*$`, "get", "shards")
		k.says(`^shard-2\s+ap-south-1\s+https://127\.0\.0\.1:\d+\s`, "get", "shards")
		k.says(`^typed\s`, "get", "workspaces")
	}))
	t.Run("ConfigMap", in(k, configMap))
	t.Run("StrategicPatch", in(k, strategicPatch))
	t.Run("NamespaceAndSecret", in(k, namespaceAndSecret))
	t.Run("Discovery", in(k, discovery))
}

func configMap(t *testing.T, k *tool) {
	k.says(`^configmap/a created$`, "create", "configmap", "a", "--from-literal=k=v")
	k.says(`^configmap/a labeled$`, "label", "configmap", "a", "x=y")
	k.says(`^configmap/a annotated$`, "annotate", "configmap", "a", "note=1")
	k.says(`^configmap/a patched$`, "patch", "configmap", "a", "--type=merge", "-p", `{"data":{"m":"1"}}`)
	k.says(`^configmap/a patched$`, "patch", "configmap", "a", "--type=json", "-p", `[{"op":"add","path":"/data/j","value":"2"}]`)
	var found struct {
		Metadata struct{ Labels, Annotations map[string]string }
		Data     map[string]string
	}
	if err := json.Unmarshal([]byte(k.must("get", "configmap", "a", "-o", "json")), &found); err != nil {
		t.Fatal(err)
	}
	if d := found.Data; len(d) != 3 || d["k"] != "v" || d["m"] != "1" || d["j"] != "2" {
		t.Errorf("data %v", d)
	}
	if found.Metadata.Labels["x"] != "y" || found.Metadata.Annotations["note"] != "1" {
		t.Errorf("metadata %v", found.Metadata)
	}
	k.says(`^NAME\s+DATA\s+AGE\s*$`, "get", "cm", "-o", "wide")
	k.says(`^a\s+3\s+\d+s\s*$`, "get", "cm", "-o", "wide")
	k.says(`^  name: a$`, "get", "cm", "a", "-o", "yaml")
	k.says(`^configmap/a$`, "get", "cm", "-l", "x=y", "-o", "name")
	k.says(`No resources found`, "get", "cm", "-l", "x=z")
	k.says(`^configmap "a" deleted`, "delete", "configmap", "a")
	out, status := k.try("get", "configmap", "a")
	if status != 1 || !strings.Contains(out, `Error from server (NotFound): configmaps "a" not found`) {
		t.Errorf("exit status %d, %s", status, out)
	}
}

// strategicPatch also tells that lists with keys are merged, and what the patch asks to be removed.
func strategicPatch(t *testing.T, k *tool) {
	k.must("create", "configmap", "strategic", "--from-literal=k=v", "--from-literal=gone=1")
	k.says(`^configmap/strategic patched$`, "patch", "configmap", "strategic", "--type=strategic", "-p", `{"data":{"s":"3","gone":null}}`)
	k.says(`^v3$`, "get", "configmap", "strategic", "-o", "jsonpath={.data.k}{.data.s}{.data.gone}")
	k.must("create", "serviceaccount", "strategic")
	for _, secret := range []string{"a", "b"} {
		k.must("patch", "serviceaccount", "strategic", "-p", `{"secrets":[{"name":"`+secret+`"}]}`) // is the default type
	}
	k.says(`^(a b|b a)$`, "get", "serviceaccount", "strategic", "-o", "jsonpath={.secrets[*].name}")
	k.must("patch", "serviceaccount", "strategic", "-p", `{"secrets":[{"$patch":"delete","name":"a"}]}`)
	k.says(`^b$`, "get", "serviceaccount", "strategic", "-o", "jsonpath={.secrets[*].name}")
	out, status := k.try("patch", "configmap", "strategic", "-p", `{"data":{"$patch":"nope"}}`)
	if status != 1 || !strings.Contains(out, "nope") {
		t.Errorf("exit status %d, %s", status, out)
	}
}

func namespaceAndSecret(_ *testing.T, k *tool) {
	k.says(`^namespace/n1 created$`, "create", "namespace", "n1")
	k.says(`^secret/s created$`, "create", "secret", "generic", "s", "--from-literal=p=q", "-n", "n1")
	k.says(`^cQ==$`, "get", "secret", "s", "-n", "n1", "-o", "jsonpath={.data.p}")
	k.says(`^s\s+Opaque\s+1\s`, "get", "secrets", "-n", "n1")
	k.says(`^secret "s" deleted`, "delete", "secret", "s", "-n", "n1")
	k.says(`^namespace "n1" deleted`, "delete", "namespace", "n1", "--timeout=20s")
}

func discovery(_ *testing.T, k *tool) {
	k.says(`^yes$`, "auth", "can-i", "create", "configmaps")
	k.says(`^Username\s+kcp-admin$`, "auth", "whoami")
	k.says(`^configmaps\s+cm\s+v1\s+true\s+ConfigMap\s*$`, "api-resources")
	for _, kind := range []string{"workspaces", "apiexports", "apibindings", "clusterroles", "customresourcedefinitions"} {
		k.says(`^`+kind+`\s`, "api-resources")
	}
	k.says(`^v1$`, "api-versions")
}
