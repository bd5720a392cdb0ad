package merge

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// dialHTTP1 connects as the administrator, for HTTP/1.1.
func dialHTTP1(t *testing.T, r *Rig) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), &tls.Config{RootCAs: r.serving.Pool(),
		Certificates: []tls.Certificate{r.admin.TLS}, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// askHTTP1 sends a GET over HTTP/1.1.
func askHTTP1(t *testing.T, r *Rig, path string) *http.Response {
	t.Helper()
	conn := dialHTTP1(t, r)
	fmt.Fprintf(conn, "GET /clusters/*%s HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n", path)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// AGG-1301, over HTTP/1.1: a list that breaks has no last chunk.
func TestT65h_a_list_that_breaks_has_no_last_chunk(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.list.deadline_ms", 3000))
	r.Fill(300, 300, 300)
	whole := askHTTP1(t, r, ConfigMaps.Path())
	text, err := io.ReadAll(whole.Body)
	if err != nil || whole.StatusCode != http.StatusOK || len(whole.TransferEncoding) != 1 || whole.TransferEncoding[0] != "chunked" {
		t.Fatalf("%v %d %v", err, whole.StatusCode, whole.TransferEncoding)
	}
	if o, err := parse(text); err != nil || len(o.Items) != 900 {
		t.Fatalf("%v, %d items", err, len(o.Items))
	}
	gate := make(chan struct{})
	defer close(gate)
	r.C.Set(func(b *Behavior) { b.HoldBody = gate })
	answer := askHTTP1(t, r, ConfigMaps.Path())
	text, err = io.ReadAll(answer.Body)
	if answer.StatusCode == http.StatusOK && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v after %d bytes", err, len(text))
	}
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%d: nothing was sent before", answer.StatusCode)
	}
}

// AGG-1301, over HTTP/1.1: watches end with their last chunk, after a second and a bookmark or an ERROR event.
func TestT37h_watches_end_with_a_last_chunk(t *testing.T) {
	begin(t)
	r := NewRig(t, Set("aggregation.resync.mode", "expire"))
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	begun := time.Now()
	answer := askHTTP1(t, r, resumed(cursor, "timeoutSeconds", "2"))
	text, err := io.ReadAll(answer.Body)
	if took := time.Since(begun); err != nil || took < 1900*time.Millisecond {
		t.Errorf("%v after %v", err, took)
	}
	var last struct{ Type string }
	if err := json.Unmarshal(text, &last); err != nil || last.Type != "BOOKMARK" {
		t.Errorf("%s", text)
	}
	begun = time.Now()
	answer = askHTTP1(t, r, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", cursor, "timeoutSeconds", "1"))
	text, err = io.ReadAll(answer.Body)
	if took := time.Since(begun); err != nil || took < 900*time.Millisecond || len(text) != 0 {
		t.Errorf("%v after %v: %s", err, took, text)
	}
	answer = askHTTP1(t, r, resumed(cursor))
	go func() {
		time.Sleep(200 * time.Millisecond)
		r.A.Stop()
		r.A.Maps.Put("a-2")
		r.A.Forget()
		r.A.Start(t)
	}()
	text, err = io.ReadAll(answer.Body)
	lines := bufio.NewScanner(bytes.NewReader(text))
	var final struct {
		Type   string
		Object Object
	}
	for lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &final); err != nil {
			t.Fatalf("%s", text)
		}
	}
	if err != nil || final.Type != "ERROR" || final.Object.Code != http.StatusGone {
		t.Errorf("%v %s", err, text)
	}
}
