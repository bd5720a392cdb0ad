package plain

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"

	e2e "kintsugi.dev/e2e"
)

// kubelet is what API servers think runs the pods of a node: it sends back what it gets.
type kubelet struct{ port int }

func startKubelet(t *testing.T, serving pair) *kubelet {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(serving.cert, serving.key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{port: listener.Addr().(*net.TCPAddr).Port}
	server := &http.Server{Handler: http.HandlerFunc(k.serve), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return k
}

func (k *kubelet) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/containerLogs/"):
		for n := range 3 {
			fmt.Fprintf(w, "line %d follow %s\n", n, r.URL.Query().Get("follow"))
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	case strings.HasPrefix(r.URL.Path, "/exec/"):
		k.exec(w, r)
	case strings.HasPrefix(r.URL.Path, "/portForward/"):
		k.forward(w, r)
	default:
		http.NotFound(w, r)
	}
}

// upgraded hands out streams by their type as they are opened.
func upgraded(w http.ResponseWriter, r *http.Request, protocol string) (httpstream.Connection, chan httpstream.Stream) {
	w.Header().Set(httpstream.HeaderProtocolVersion, protocol)
	streams := make(chan httpstream.Stream, 16)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	return conn, streams
}

// exec writes the command and then what comes in.
func (k *kubelet) exec(w http.ResponseWriter, r *http.Request) {
	conn, streams := upgraded(w, r, "v4.channel.k8s.io")
	if conn == nil {
		return
	}
	defer conn.Close()
	query := r.URL.Query()
	want := 1 // the stream of errors
	for _, flag := range []string{"input", "output", "error", "stdin", "stdout", "stderr"} {
		if query.Get(flag) == "1" || query.Get(flag) == "true" {
			want++
		}
	}
	byType := map[string]httpstream.Stream{}
	for len(byType) < want {
		select {
		case s := <-streams:
			byType[s.Headers().Get(corev1.StreamType)] = s
		case <-time.After(patience):
			return
		}
	}
	out := byType[corev1.StreamTypeStdout]
	fmt.Fprintf(out, "ran %s\n", strings.Join(r.URL.Query()["command"], " "))
	if in := byType[corev1.StreamTypeStdin]; in != nil {
		_, _ = io.Copy(out, in)
	}
	_ = out.Close()
	fmt.Fprint(byType[corev1.StreamTypeError], `{"metadata":{},"status":"Success"}`)
	_ = byType[corev1.StreamTypeError].Close()
	select {
	case <-conn.CloseChan():
	case <-time.After(time.Second):
	}
}

func (k *kubelet) forward(w http.ResponseWriter, r *http.Request) {
	conn, streams := upgraded(w, r, "portforward.k8s.io")
	if conn == nil {
		return
	}
	defer conn.Close()
	for {
		select {
		case s := <-streams:
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
				go func() {
					_, _ = io.Copy(s, s)
					_ = s.Close()
				}()
			}
		case <-conn.CloseChan():
			return
		case <-time.After(time.Minute):
			return
		}
	}
}

// T93: exec, logs and port-forward at one server by kubectl; at clusters/* they are refused with the way there.
func testUpgrades(p *place) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		p.t.Skip("no kubectl on this machine")
	}
	k := startKubelet(p.t, p.pki.serving)
	ctx := context.Background()
	for _, s := range p.servers[:2] { // with both identities
		core := p.own[s.name].CoreV1()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
		made, err := core.Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil {
			p.t.Fatal(err)
		}
		made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		made.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(k.port)
		if _, err = core.Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			p.t.Fatal(err)
		}
		pod, err := core.Pods(p.ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-" + s.name},
			Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "x"}}}}, metav1.CreateOptions{})
		if err != nil {
			p.t.Fatal(err)
		}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.PodIP = "127.0.0.1"
		if _, err = core.Pods(p.ns).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			p.t.Fatal(err)
		}
		big := strings.Repeat("a line of input\n", 5000)
		for name, one := range map[string]struct {
			arguments   []string
			input, want string
		}{
			"logs": {[]string{"logs", "-f", pod.Name}, "", "line 0 follow true\nline 1 follow true\nline 2 follow true\n"},
			"exec": {[]string{"exec", pod.Name, "--", "ls", "-l"}, "", "ran ls -l\n"},
			"cat":  {[]string{"exec", "-i", pod.Name, "--", "cat"}, big, "ran cat\n" + big},
		} {
			p.t.Run(name+" on "+s.name, func(t *testing.T) {
				command := p.kubectl(t, s.name, append([]string{"-n", p.ns}, one.arguments...)...)
				var complaints bytes.Buffer
				command.Stdin, command.Stderr = strings.NewReader(one.input), &complaints
				timer := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
				defer timer.Stop()
				out, err := command.Output()
				if err != nil || string(out) != one.want {
					t.Errorf("%v: %d bytes %.200s\n%s", err, len(out), out, complaints.String())
				}
				refused := p.kubectl(t, "*", append([]string{"-n", p.ns}, one.arguments...)...)
				if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "/clusters/<name>/") {
					t.Errorf("at clusters/*: %v %s", err, out)
				}
			})
		}
		p.forwarded(s.name, pod.Name)
	}
}

// forwarded talks through kubectl port-forward.
func (p *place) forwarded(server, pod string) {
	port := e2e.FreePort(p.t)
	command := p.kubectl(p.t, server, "-n", p.ns, "port-forward", pod, strconv.Itoa(port)+":80")
	var complaints bytes.Buffer
	command.Stdout, command.Stderr = &complaints, &complaints
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}()
	e2e.Eventually(p.t, patience, "port-forward at "+server, func() error {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err = conn.Write([]byte("hello")); err != nil {
			return err
		}
		answer := make([]byte, 5)
		if _, err = io.ReadFull(conn, answer); err != nil || string(answer) != "hello" {
			return fmt.Errorf("%q: %w", answer, err)
		}
		return nil
	})
}
