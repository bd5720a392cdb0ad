package merge

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// echo makes a shard switch protocols below pods, as exec, attach and port-forward do, and send back what it gets. It counts
// the sessions that run.
func echo(f *Fake) *atomic.Int64 {
	running := new(atomic.Int64)
	f.On(func(w http.ResponseWriter, r *http.Request, e Entry) bool {
		hijacker, ok := w.(http.Hijacker)
		if !ok || !strings.Contains(e.Path, "/pods/") || e.Header.Get("Upgrade") == "" {
			return false
		}
		conn, both, err := hijacker.Hijack()
		if err != nil {
			return false
		}
		running.Add(1)
		f.group.Go(func() {
			defer running.Add(-1)
			defer conn.Close()
			lines := []string{"HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: " + e.Header.Get("Upgrade")}
			for _, name := range []string{"X-Stream-Protocol-Version", "Sec-Websocket-Protocol"} {
				if value := e.Header.Get(name); value != "" {
					lines = append(lines, name+": "+value)
				}
			}
			if _, err := fmt.Fprintf(conn, "%s\r\n\r\n", strings.Join(lines, "\r\n")); err == nil {
				_, _ = io.Copy(conn, both)
			}
		})
		return true
	})
	return running
}

// asked tells whether the shard was asked for this subresource with this query.
func asked(e Entry, path string) bool {
	end, text, _ := strings.Cut(path, "?")
	want, err := url.ParseQuery(text)
	return err == nil && strings.HasSuffix(e.Path, "/pods/p"+end) && e.Query.Encode() == want.Encode()
}

// Ten minutes without a byte cannot be in a suite; that no timer of that length runs on upgraded connections is not seen here.
func TestT93_upgrades_pass_both_ways(t *testing.T) {
	begin(t)
	r := NewRig(t)
	running := echo(r.B)
	const pod = "/clusters/b/api/v1/namespaces/default/pods/p"
	socket := []string{"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: v5.channel.k8s.io"}
	spdy := []string{"Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"}
	for _, one := range []struct {
		method, path string
		header       []string
	}{
		{http.MethodGet, "/exec?command=sh&stdin=true&stdout=true", socket},
		{http.MethodPost, "/exec?command=tar&command=xmf&command=-&stdin=true", spdy},
		{http.MethodPost, "/attach?stdin=true", spdy},
		{http.MethodPost, "/portforward", []string{"Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: portforward.k8s.io"}},
		{http.MethodGet, "/portforward?ports=80", socket},
	} {
		r.B.Reset()
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), &tls.Config{RootCAs: r.serving.Pool(),
			Certificates: []tls.Certificate{r.admin.TLS}, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n%s\r\n\r\n", one.method, pod+one.path, strings.Join(one.header, "\r\n"))
		in := bufio.NewReader(conn)
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", one.path, err)
		}
		protocol := strings.TrimPrefix(one.header[0], "Upgrade: ")
		if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Upgrade") != protocol {
			t.Fatalf("%s: %s %v", one.path, answer.Status, answer.Header)
		}
		seen := r.B.Log(func(e Entry) bool { return strings.Contains(e.Path, "/pods/p/") })
		if len(seen) != 1 || seen[0].Method != one.method || seen[0].Header.Get("X-Remote-User") != "admin" || !asked(seen[0], one.path) {
			t.Fatalf("%s: the shard saw %v", one.path, seen)
		}
		for _, line := range one.header {
			name, value, _ := strings.Cut(line, ": ")
			if got := seen[0].Header.Get(name); got != value {
				t.Errorf("%s: the shard saw %s %q", one.path, name, got)
			}
		}
		for _, name := range []string{"X-Stream-Protocol-Version", "Sec-WebSocket-Protocol"} {
			if got := answer.Header.Get(name); got != seen[0].Header.Get(name) {
				t.Errorf("%s: %s %q came back", one.path, name, got)
			}
		}
		for n, part := range [][]byte{{0x80, 3, 0, 1}, bytes.Repeat([]byte("0123456789abcdef"), 1<<16), []byte("bye")} {
			go func() { _, _ = conn.Write(part) }()
			got := make([]byte, len(part))
			if _, err := io.ReadFull(in, got); err != nil || !bytes.Equal(got, part) {
				t.Fatalf("%s, part %d: %v", one.path, n, err)
			}
		}
		_ = conn.Close()
	}
	eventually(t, patience, "sessions at the shard end with their clients", func() error {
		if n := running.Load(); n != 0 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
}

func TestT93l_logs_follow(t *testing.T) {
	begin(t)
	r := NewRig(t)
	lines := make(chan string)
	r.B.On(func(w http.ResponseWriter, r *http.Request, e Entry) bool {
		if !strings.HasSuffix(e.Path, "/pods/p/log") {
			return false
		}
		w.Header().Set("Content-Type", "text/plain")
		for {
			select {
			case line, more := <-lines:
				if !more {
					return true
				}
				_, _ = io.WriteString(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return true
			}
		}
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.All.At("/clusters/b").Base+"/api/v1/namespaces/default/pods/p/log?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { lines <- "line 0\n" }()
	response, err := r.All.transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	in := bufio.NewReader(response.Body)
	for n := range 5 { // the next is written when the one before it has come
		if n > 0 {
			lines <- fmt.Sprintf("line %d\n", n)
		}
		if got, err := in.ReadString('\n'); err != nil || got != fmt.Sprintf("line %d\n", n) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	close(lines)
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v at the end", rest, err)
	}
}
