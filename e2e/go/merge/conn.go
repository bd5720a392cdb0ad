package merge

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"
)

// gate lets bytes of connections through, or holds them as a network that drops every packet.
type gate struct {
	mutex sync.Mutex
	open  chan struct{} // closed while the gate is open
	pace  time.Duration // added to each write
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut(shut bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	select {
	case <-g.open:
		if shut {
			g.open = make(chan struct{})
		}
	default:
		if !shut {
			close(g.open)
		}
	}
}

func (g *gate) slow(pace time.Duration) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.pace = pace
}

func (g *gate) state() (<-chan struct{}, time.Duration) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.open, g.pace
}

// link is one TCP connection of a Fake.
type link struct {
	net.Conn
	gate   *gate
	closed chan struct{}
	once   sync.Once
	goaway func()
}

func (l *link) pass() error {
	open, pace := l.gate.state()
	if pace > 0 {
		select {
		case <-l.closed:
			return net.ErrClosed
		case <-time.After(pace):
		}
	}
	select {
	case <-open:
		return nil
	default:
	}
	select {
	case <-l.closed:
		return net.ErrClosed
	case <-open:
		return nil
	}
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		open, _ := l.gate.state()
		select {
		case <-l.closed:
			return 0, net.ErrClosed
		case <-open:
		}
	}
	return n, err
}

func (l *link) Write(p []byte) (int, error) {
	if err := l.pass(); err != nil {
		return 0, err
	}
	return l.Conn.Write(p)
}

func (l *link) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Conn.Close()
}

// cut ends the connection with FIN, or with RST.
func (l *link) cut(rst bool) {
	if tcp, ok := l.Conn.(*net.TCPConn); ok && rst {
		_ = tcp.SetLinger(0)
	}
	_ = l.Close()
}

// oneConn is a listener that accepts one connection, for HTTP/1.1.
type oneConn struct {
	conn  net.Conn
	taken bool
	done  chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if l.taken {
		<-l.done
		return nil, io.EOF
	}
	l.taken = true
	return l.conn, nil
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

func handshake(raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	conn := tls.Server(raw, config)
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	return conn, raw.SetDeadline(time.Time{})
}
