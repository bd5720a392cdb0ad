// Package e2e tests a running installation with the clients that its users have: client-go and kubectl.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	startDeadline = 60 * time.Second
	stopDeadline  = 40 * time.Second
	logTail       = 3000
)

// Workspaces is the resource that makes logical clusters.
var Workspaces = schema.GroupVersionResource{Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces"}

// Shards is the resource of which there is one object per shard, in root.
var Shards = schema.GroupVersionResource{Group: "core.kcp.io", Version: "v1alpha1", Resource: "shards"}

// Installation is a running `kintsugi up` in a temporary folder.
type Installation struct {
	t     *testing.T
	Dir   string // the temporary folder
	State string // what --dir was given
	Port  int
	up    *Process
}

// Process is a program that this test started itself.
type Process struct {
	Pid  int
	done chan struct{}
	err  error
	log  string
}

// Binary is the program under test: $KINTSUGI, or the release build.
func Binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KINTSUGI")
	if path == "" {
		_, file, _, _ := runtime.Caller(0)
		path = filepath.Join(filepath.Dir(file), "../../build/release/bin/kintsugi")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no program to test, set KINTSUGI: %v", err)
	}
	return path
}

// Start runs a program until Stop or Kill; it gets SIGTERM if the test process dies first.
func Start(program, log string, arguments ...string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	process := &Process{done: make(chan struct{}), log: log}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that forked ends.
		runtime.LockOSThread()
		command := exec.Command(program, arguments...)
		command.Stdout, command.Stderr = out, out
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		if err := command.Start(); err != nil {
			started <- err
			return
		}
		process.Pid = command.Process.Pid
		started <- nil
		process.err = command.Wait()
		close(process.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return process, nil
}

// Ended tells whether the process is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Outcome is how a process that is gone has ended.
func (p *Process) Outcome() error {
	<-p.done
	return p.err
}

// Kill ends the process at once and waits for its end.
func (p *Process) Kill() {
	if !p.Ended() {
		_ = syscall.Kill(p.Pid, syscall.SIGKILL)
	}
	<-p.done
}

// Stop ends the process in order; an error if that takes too long or the exit status is not 0.
func (p *Process) Stop() error {
	if !p.Ended() {
		_ = syscall.Kill(p.Pid, syscall.SIGTERM)
	}
	for clock := StartClock(); clock.Spent() < stopDeadline; {
		select {
		case <-p.done:
			return p.err
		case <-time.After(100 * time.Millisecond):
		}
	}
	p.Kill()
	return fmt.Errorf("did not end within %v of SIGTERM", stopDeadline)
}

// Eventually calls check until it returns nil; the test fails with the last error after the deadline, by a Clock.
func Eventually(t *testing.T, deadline time.Duration, what string, check func() error) {
	t.Helper()
	clock := StartClock()
	for pause := 5 * time.Millisecond; ; pause = min(pause*3/2, 200*time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if clock.Spent() > deadline {
			t.Fatalf("%s: not within %v; last: %v", what, deadline, err)
		}
		time.Sleep(pause)
	}
}

// StartInstallation runs `kintsugi up` until the end of the test and waits until everything is ready.
func StartInstallation(t *testing.T, options ...string) *Installation {
	t.Helper()
	program := Binary(t)
	dir, err := os.MkdirTemp("", "kintsugi-e2e-go-")
	if err != nil {
		t.Fatal(err)
	}
	i := &Installation{t: t, Dir: dir, State: filepath.Join(dir, "state")}
	t.Cleanup(i.end)
	i.Port = FreePort(t)
	arguments := append([]string{"up", "--dir", i.State, "--port", strconv.Itoa(i.Port)}, options...)
	begin := time.Now()
	if i.up, err = Start(program, filepath.Join(dir, "up.log"), arguments...); err != nil {
		t.Fatal(err)
	}
	Eventually(t, startDeadline, "kintsugi up ready", func() error {
		if i.up.Ended() {
			t.Fatalf("kintsugi up ended: %v\n%s", i.up.err, tail(i.up.log))
		}
		_, err := os.Stat(filepath.Join(i.State, "ready"))
		return err
	})
	t.Logf("up after %v", time.Since(begin).Round(time.Millisecond))
	return i
}

// JoinShard starts one more shard, which joins the installation, and waits until its Shard object is there.
func (i *Installation) JoinShard(name, region string) *Process {
	i.t.Helper()
	shard, err := Start(Binary(i.t), filepath.Join(i.Dir, name+".log"), "shard", "--join", i.State, "--name", name,
		"--labels", "region="+region, "--port", strconv.Itoa(FreePort(i.t)))
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		if err := shard.Stop(); err != nil {
			i.t.Errorf("%s: %v", name, err)
		}
	})
	shards := Dynamic(i.t, i.Config("root")).Resource(Shards)
	Eventually(i.t, 30*time.Second, "Shard "+name, func() error {
		if shard.Ended() {
			i.t.Fatalf("%s ended: %v\n%s", name, shard.err, tail(shard.log))
		}
		_, err := shards.Get(context.Background(), name, metav1.GetOptions{})
		return err
	})
	return shard
}

func (i *Installation) end() {
	pids := map[string]int{}
	files, _ := filepath.Glob(filepath.Join(i.State, "run", "*.pid"))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pid")
		if pid, err := i.Pid(name); err == nil {
			pids[name] = pid
		}
	}
	if i.up != nil {
		if err := i.up.Stop(); err != nil {
			i.t.Errorf("kintsugi up: %v", err)
		}
	}
	for name, pid := range pids {
		if runs(pid) && strings.Contains(commandLine(pid), i.State) {
			i.t.Errorf("%s (%d) outlives `up`", name, pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if i.t.Failed() {
		i.printLogs()
	}
	if os.Getenv("KINTSUGI_KEEP") != "" {
		i.t.Logf("kept %s", i.Dir)
		return
	}
	_ = os.RemoveAll(i.Dir)
}

func (i *Installation) printLogs() {
	logs, _ := filepath.Glob(filepath.Join(i.State, "logs", "*.log"))
	more, _ := filepath.Glob(filepath.Join(i.Dir, "*.log"))
	for _, log := range append(logs, more...) {
		i.t.Logf("--- end of %s\n%s", filepath.Base(log), tail(log))
	}
}

// Pid of a process that `up` supervises: "proxy" or a shard's name.
func (i *Installation) Pid(process string) (int, error) {
	text, err := os.ReadFile(filepath.Join(i.State, "run", process+".pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(bytes.TrimSpace(text)))
}

// Kill sends a signal to a supervised process and returns the pid that it had.
func (i *Installation) Kill(process string, signal syscall.Signal) (int, error) {
	pid, err := i.Pid(process)
	if err == nil {
		err = syscall.Kill(pid, signal)
	}
	return pid, err
}

// Restarted waits until a supervised process has another pid than before.
func (i *Installation) Restarted(process string, before int, deadline time.Duration) error {
	clock := StartClock()
	for {
		pid, err := i.Pid(process)
		if err == nil && pid != before {
			return nil
		}
		if clock.Spent() > deadline {
			return fmt.Errorf("%s was not restarted within %v (%v)", process, deadline, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ResidentKiB is the resident memory of a supervised process.
func (i *Installation) ResidentKiB(process string) (int, error) {
	pid, err := i.Pid(process)
	if err != nil {
		return 0, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(status), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, errors.New("no VmRSS")
}

// Kubeconfig is the admin's kubeconfig.
func (i *Installation) Kubeconfig() string { return filepath.Join(i.State, "admin.kubeconfig") }

// Config is the admin's access to a logical cluster through the proxy, without a client-side rate limit.
func (i *Installation) Config(cluster string) *rest.Config {
	i.t.Helper()
	config, err := LoadConfig(i.Kubeconfig(), cluster)
	if err != nil {
		i.t.Fatal(err)
	}
	return config
}

// ShardConfig is direct access to a logical cluster at its shard.
func (i *Installation) ShardConfig(shard, cluster string) (*rest.Config, error) {
	return LoadConfig(filepath.Join(i.State, "shards", shard, "admin.kubeconfig"), cluster)
}

// LoadConfig reads context base of a kubeconfig and appends the path of a logical cluster ("": none).
func LoadConfig(kubeconfig, cluster string) (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: "base"}).ClientConfig()
	if err != nil {
		return nil, err
	}
	if cluster != "" {
		config.Host = strings.TrimSuffix(config.Host, "/") + "/clusters/" + cluster
	}
	config.QPS = -1
	return config, nil
}

// Protobuf makes typed clients of config send and ask for protobuf.
func Protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// ProtobufOnly makes typed clients of config send protobuf and refuse anything else; a server may answer those that
// accept JSON too with JSON.
func ProtobufOnly(config *rest.Config) *rest.Config {
	config = Protobuf(config)
	config.AcceptContentTypes = config.ContentType
	return config
}

// Typed is a client-go clientset.
func Typed(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Dynamic is a client-go dynamic client.
func Dynamic(t *testing.T, config *rest.Config) *dynamic.DynamicClient {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// MakeWorkspace makes a child of root on a shard of the region and waits until it is Ready and its default
// namespace can be read through the proxy. It returns the path of the logical cluster.
func (i *Installation) MakeWorkspace(name, region string) string {
	i.t.Helper()
	ctx := context.Background()
	client := Dynamic(i.t, i.Config("root")).Resource(Workspaces)
	workspace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"location": map[string]any{"selector": map[string]any{
			"matchLabels": map[string]any{"region": region}}}}}}
	if _, err := client.Create(ctx, workspace, metav1.CreateOptions{}); err != nil {
		i.t.Fatalf("workspace %s: %v", name, err)
	}
	path := "root:" + name
	inside := Typed(i.t, i.Config(path))
	Eventually(i.t, 30*time.Second, "workspace "+path, func() error {
		found, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if phase, _, _ := unstructured.NestedString(found.Object, "status", "phase"); phase != "Ready" {
			return fmt.Errorf("status %v", found.Object["status"])
		}
		_, err = inside.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return path
}

// Ports below those that the system gives to outgoing connections and to servers that ask for any.
const firstPort, portCount = 12_000, 20_000

var givenPorts atomic.Int64

func init() { givenPorts.Store(int64(os.Getpid()) * 61) }

// Listen takes a free port that nobody else gets by chance: a server that comes later or is away for a while finds it free.
// A process gets each port once.
func Listen(t *testing.T) net.Listener {
	t.Helper()
	for range portCount {
		port := firstPort + givenPorts.Add(1)%portCount
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return listener
		}
	}
	t.Fatal("no free port")
	return nil
}

// FreePort is such a port for a server that starts later.
func FreePort(t *testing.T) int {
	t.Helper()
	listener := Listen(t)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func runs(pid int) bool { return syscall.Kill(pid, 0) == nil }

func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
}

func tail(path string) string {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "(no file)"
	}
	return string(text[max(0, len(text)-logTail):])
}
