package merge

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawConn is a client's connection of HTTP/2 whose frames a test writes itself.
type rawConn struct {
	t       *testing.T
	conn    *tls.Conn
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	writing sync.Mutex
	next    uint32
}

// openRaw connects as an administrator, with wide windows; nobody reads yet.
func openRaw(t *testing.T, r *Rig) *rawConn {
	t.Helper()
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), &tls.Config{RootCAs: r.serving.Pool(),
		Certificates: []tls.Certificate{r.admin.TLS}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &rawConn{t: t, conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	c.encoder = hpack.NewEncoder(&c.block)
	c.framer.AllowIllegalWrites = true
	if _, err = conn.Write([]byte(http2.ClientPreface)); err == nil {
		err = c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	}
	if err == nil {
		err = c.framer.WriteWindowUpdate(0, 1<<30)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// head is the header block of a request, at clusters/* if it names no cluster.
func (c *rawConn) head(method, path string) []byte {
	c.block.Reset()
	if !strings.HasPrefix(path, "/clusters/") {
		path = "/clusters/*" + path
	}
	for _, field := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "x"}, {":path", path},
		{"accept", JSON}} {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	return bytes.Clone(c.block.Bytes())
}

// ask opens a stream; its number comes back. end: without a body.
func (c *rawConn) ask(method, path string, end bool) (uint32, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	id := c.next
	c.next += 2
	return id, c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.head(method, path), EndStream: end, EndHeaders: true})
}

// write sends frames while nothing else does.
func (c *rawConn) write(frames func(*http2.Framer) error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return frames(c.framer)
}

// read hands each frame to see until the connection is over, and acknowledges what has to be.
func (c *rawConn) read(see func(http2.Frame)) error {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				c.writing.Lock()
				_ = c.framer.WriteSettingsAck()
				c.writing.Unlock()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				c.writing.Lock()
				_ = c.framer.WritePing(true, frame.Data)
				c.writing.Unlock()
			}
		}
		see(frame)
	}
}
