package merge

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	wsText  = 1
	wsClose = 8
	wsPing  = 9
	wsPong  = 10
)

// socket is a client's end of a WebSocket.
type socket struct {
	t        *testing.T
	conn     *tls.Conn
	in       *bufio.Reader
	Response *http.Response
}

// dial asks for a WebSocket below clusters/*; more are further lines of the request.
func dial(t *testing.T, r *Rig, path string, more ...string) *socket {
	t.Helper()
	conn := dialHTTP1(t, r)
	lines := append([]string{"GET /clusters/*" + path + " HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}, more...)
	fmt.Fprintf(conn, "%s\r\n\r\n", strings.Join(lines, "\r\n"))
	s := &socket{t: t, conn: conn, in: bufio.NewReader(conn)}
	response, err := http.ReadResponse(s.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Response = response
	return s
}

// opened is dial for what has to be upgraded.
func opened(t *testing.T, r *Rig, path string, more ...string) *socket {
	t.Helper()
	s := dial(t, r, path, more...)
	if s.Response.StatusCode != http.StatusSwitchingProtocols || s.Response.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("%s: %s %v", path, s.Response.Status, s.Response.Header)
	}
	return s
}

func (s *socket) send(opcode byte, payload string) {
	s.t.Helper()
	mask := [4]byte{1, 2, 3, 4}
	frame := append([]byte{0x80 | opcode, 0x80 | byte(len(payload))}, mask[:]...)
	for n := range len(payload) {
		frame = append(frame, payload[n]^mask[n%4])
	}
	if _, err := s.conn.Write(frame); err != nil {
		s.t.Fatal(err)
	}
}

// receive is the next whole frame.
func (s *socket) receive() (byte, []byte) {
	s.t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		s.t.Fatal(err)
	}
	size := uint64(head[1])
	if size >= 126 {
		more := make([]byte, map[uint64]int{126: 2, 127: 8}[size])
		if _, err := io.ReadFull(s.in, more); err != nil {
			s.t.Fatal(err)
		}
		size = binary.BigEndian.Uint64(append(make([]byte, 8-len(more)), more...))
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(s.in, payload); err != nil {
		s.t.Fatal(err)
	}
	if head[0]&0x80 == 0 {
		s.t.Fatal("a fragment")
	}
	return head[0] & 0xf, payload
}

// event is the next message, which has to be one event.
func (s *socket) event() Event {
	s.t.Helper()
	opcode, payload := s.receive()
	var wire struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(payload, &wire); err != nil || opcode != wsText {
		s.t.Fatalf("%d %q: %v", opcode, payload, err)
	}
	o, err := parse(wire.Object)
	if err != nil {
		s.t.Fatal(err)
	}
	return Event{At: time.Now(), Type: wire.Type, Raw: wire.Object, Object: o}
}

func (s *socket) ends(code int) {
	s.t.Helper()
	opcode, payload := s.receive()
	if opcode != wsClose || len(payload) < 2 || int(binary.BigEndian.Uint16(payload)) != code {
		s.t.Errorf("%d %v, not a close with %d", opcode, payload, code)
	}
	if rest, err := io.ReadAll(s.in); err != nil || len(rest) > 0 {
		s.t.Errorf("%q, %v behind the close", rest, err)
	}
}

func TestT42_web_sockets(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	big := r.B.Maps.Put("b-big", Data("v", strings.Repeat("x", 200_000)))
	s := opened(t, r, ConfigMaps.Path()+"?"+newest, "Sec-WebSocket-Protocol: base64.binary.k8s.io")
	if got := s.Response.Header.Get("Sec-WebSocket-Protocol"); got != "base64.binary.k8s.io" {
		t.Errorf("subprotocol %q", got)
	}
	model, large := map[string]string{}, false
	for len(model) < 7 {
		e := s.event()
		if e.Type != "ADDED" {
			t.Fatalf("%s %s", e.Type, e.Raw)
		}
		model[e.Object.Key()] = e.Object.Metadata.ResourceVersion
		large = large || e.Object.Metadata.ResourceVersion == big
	}
	end := s.event()
	if end.Type != "BOOKMARK" || !end.Object.End() || !large {
		t.Fatalf("%s %s, %v", end.Type, end.Raw, large)
	}
	live := opened(t, r, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", end.Object.Metadata.ResourceVersion))
	for _, f := range r.Shards {
		f.Maps.Put(f.Name + "-live")
	}
	for range 3 {
		if e := live.event(); e.Type != "ADDED" || !strings.HasSuffix(e.Object.Metadata.Name, "-live") {
			t.Errorf("%s %s", e.Type, e.Raw)
		}
	}
	live.send(wsPing, "there?")
	if opcode, payload := live.receive(); opcode != wsPong || string(payload) != "there?" {
		t.Errorf("%d %q", opcode, payload)
	}
	live.send(wsClose, "\x03\xe9")
	live.ends(1001)
	brief := opened(t, r, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", end.Object.Metadata.ResourceVersion,
		"fieldSelector", "metadata.name=nobody", "timeoutSeconds", "1"))
	brief.ends(1000)
}

func TestT42r_web_sockets_are_refused_before_the_upgrade(t *testing.T) {
	begin(t)
	r := NewRig(t)
	for path, code := range map[string]int{
		ConfigMaps.Path() + "?watch=1&resourceVersion=abc":                                 http.StatusBadRequest,
		ConfigMaps.Path() + "?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact":   http.StatusUnprocessableEntity,
		"/api/v1/nothing?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan": http.StatusNotFound,
		ConfigMaps.Path(): http.StatusOK,
	} {
		if s := dial(t, r, path); s.Response.StatusCode != code {
			t.Errorf("%s: %s", path, s.Response.Status)
		}
	}
	s := dial(t, r, ConfigMaps.Path()+"?watch=1", "Accept: "+Proto)
	if s.Response.StatusCode != http.StatusNotAcceptable {
		t.Errorf("protobuf: %s", s.Response.Status)
	}
	r.A.Maps.Put("a-1")
	old := opened(t, r, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", "17"))
	if e := old.event(); e.Type != "ERROR" || e.Object.Code != http.StatusGone {
		t.Errorf("%s %s", e.Type, e.Raw)
	}
	old.ends(1000)
}
