package model

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const expiredEvent = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"too old resource version","reason":"Expired","code":410}}` + "\n"

// Relay stands between the proxies and one shard. It ends TLS on both sides, shows the shard the client certificate that
// it was shown, and does to connections, requests and streams what it is told to.
type Relay struct {
	Name     string
	Port     int
	listener net.Listener
	target   string
	serving  tls.Certificate
	clients  map[string]tls.Certificate // by the subject's common name
	roots    *x509.CertPool
	rewrite  *strings.Replacer // of Shard objects; nil: none

	mutex    sync.Mutex
	held     chan struct{} // closed when bytes may pass again; nil: they pass
	delay    time.Duration // of each read and write
	answer   string        // "" or the fault that requests get
	answered func(string)
	conns    map[*relayConn]bool
	streams  map[*relayStream]bool
	feed     *connFeed
	closed   bool
}

type relayConn struct {
	net.Conn
	relay    *Relay
	upstream net.Conn // not used yet
	gone     chan struct{}
	once     sync.Once
	client   *http2.Transport
}

type relayStream struct {
	cancel context.CancelFunc
	fault  string
	watch  bool
}

// connFeed gives accepted connections to one http.Server; a new server takes over when the old one says GOAWAY.
type connFeed struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func (f *connFeed) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

func (f *connFeed) Close() error {
	f.once.Do(func() { close(f.done) })
	return nil
}

func (f *connFeed) Addr() net.Addr { return f.addr }

// NewRelay listens; pki is the folder of the installation's certificates.
func NewRelay(name, pki, target, certificate string, rewrite *strings.Replacer) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{Name: name, Port: listener.Addr().(*net.TCPAddr).Port, listener: listener, target: target, rewrite: rewrite,
		clients: map[string]tls.Certificate{}, roots: x509.NewCertPool(), conns: map[*relayConn]bool{},
		streams: map[*relayStream]bool{}, answered: func(string) {}}
	ca, err := os.ReadFile(filepath.Join(pki, "serving-ca.crt"))
	if err != nil {
		return nil, err
	}
	r.roots.AppendCertsFromPEM(ca)
	if r.serving, err = tls.LoadX509KeyPair(filepath.Join(pki, certificate+".crt"), filepath.Join(pki, certificate+".key")); err != nil {
		return nil, err
	}
	keys, _ := filepath.Glob(filepath.Join(pki, "*.key"))
	for _, key := range keys {
		if pair, err := tls.LoadX509KeyPair(strings.TrimSuffix(key, ".key")+".crt", key); err == nil {
			r.clients[pair.Leaf.Subject.CommonName] = pair
		}
	}
	r.serve()
	go r.accept()
	return r, nil
}

// serve starts a server for the connections to come.
func (r *Relay) serve() {
	feed := &connFeed{conns: make(chan net.Conn), done: make(chan struct{}), addr: r.listener.Addr()}
	server := &http.Server{Handler: http.HandlerFunc(r.handle), ErrorLog: nullLog,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{r.serving}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2"}},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, relayKey{}, conn.(*tls.Conn).NetConn().(*relayConn))
		}}
	r.mutex.Lock()
	before := r.feed
	r.feed = feed
	r.mutex.Unlock()
	go func() {
		_ = server.ServeTLS(feed, "", "")
		// Only Shutdown sends GOAWAY; running streams go on.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ctx)
	}()
	if before != nil {
		before.Close()
	}
}

type relayKey struct{}

func (r *Relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.take(conn)
	}
}

func (r *Relay) take(conn net.Conn) {
	upstream, err := net.DialTimeout("tcp", r.target, 5*time.Second)
	if err != nil {
		reset(conn)
		return
	}
	c := &relayConn{Conn: conn, relay: r, gone: make(chan struct{}), upstream: upstream}
	r.mutex.Lock()
	feed, closed := r.feed, r.closed
	r.conns[c] = true
	r.mutex.Unlock()
	if closed {
		c.Close()
		return
	}
	select {
	case feed.conns <- c:
	case <-feed.done:
		c.Close()
	}
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

func (c *relayConn) Close() error {
	c.once.Do(func() {
		close(c.gone)
		c.relay.mutex.Lock()
		delete(c.relay.conns, c)
		upstream := c.upstream
		c.upstream = nil
		c.relay.mutex.Unlock()
		if upstream != nil {
			upstream.Close()
		}
		if c.client != nil {
			c.client.CloseIdleConnections()
		}
	})
	return c.Conn.Close()
}

// pass waits while the relay holds everything back.
func (c *relayConn) pass() error {
	for {
		c.relay.mutex.Lock()
		held, delay := c.relay.held, c.relay.delay
		c.relay.mutex.Unlock()
		if held == nil {
			if delay > 0 {
				time.Sleep(delay)
			}
			return nil
		}
		select {
		case <-held:
		case <-c.gone:
			return net.ErrClosed
		}
	}
}

func (c *relayConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if held := c.pass(); held != nil {
		return 0, held
	}
	return n, err
}

func (c *relayConn) Write(bytes []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(bytes)
}

// upstreamConn tells when the shard has closed it.
type upstreamConn struct {
	net.Conn
	lost func()
}

func (u *upstreamConn) Read(into []byte) (int, error) {
	n, err := u.Conn.Read(into)
	if err != nil {
		u.lost()
	}
	return n, err
}

func (c *relayConn) transport(state *tls.ConnectionState) *http2.Transport {
	c.relay.mutex.Lock()
	defer c.relay.mutex.Unlock()
	if c.client != nil {
		return c.client
	}
	config := &tls.Config{RootCAs: c.relay.roots, NextProtos: []string{"h2"}, ServerName: "127.0.0.1"}
	if len(state.PeerCertificates) > 0 {
		if pair, known := c.relay.clients[state.PeerCertificates[0].Subject.CommonName]; known {
			config.Certificates = []tls.Certificate{pair}
		}
	}
	c.client = &http2.Transport{DisableCompression: true, DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
		c.relay.mutex.Lock()
		plain := c.upstream
		c.upstream = nil
		c.relay.mutex.Unlock()
		if plain == nil {
			var err error
			if plain, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", c.relay.target); err != nil {
				return nil, err
			}
		}
		secure := tls.Client(&upstreamConn{plain, func() {
			time.AfterFunc(100*time.Millisecond, func() { c.Close() }) // what has come is passed on before
		}}, config)
		return secure, secure.HandshakeContext(ctx)
	}}
	return c.client
}

func (r *Relay) handle(w http.ResponseWriter, request *http.Request) {
	conn := request.Context().Value(relayKey{}).(*relayConn)
	query := request.URL.Query()
	watch := query.Get("watch") == "true" || query.Get("watch") == "1"
	if r.refuse(w, request, watch) {
		return
	}
	ctx, cancel := context.WithCancel(request.Context())
	defer cancel()
	stream := &relayStream{cancel: cancel, watch: watch}
	out := request.Clone(ctx)
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", "https", r.target
	out.Header.Del("Connection")
	if request.ContentLength == 0 {
		out.Body = nil
	}
	answer, err := conn.transport(request.TLS).RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	r.mutex.Lock()
	r.streams[stream] = true
	r.mutex.Unlock()
	defer func() {
		r.mutex.Lock()
		delete(r.streams, stream)
		r.mutex.Unlock()
	}()
	header := w.Header()
	maps.Copy(header, answer.Header)
	header.Del("Connection")
	body := io.Reader(answer.Body)
	if r.rewrite != nil && strings.Contains(request.URL.Path, "/core.kcp.io/v1alpha1/shards") {
		header.Del("Content-Length")
		body = &rewriter{in: bufio.NewReader(answer.Body), replace: r.rewrite}
	}
	w.WriteHeader(answer.StatusCode)
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
	r.copy(w, body, stream, strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json"))
}

func (r *Relay) copy(w http.ResponseWriter, body io.Reader, stream *relayStream, isJSON bool) {
	buffer := make([]byte, 32<<10)
	atLineEnd := true
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			atLineEnd = buffer[n-1] == '\n'
			if _, failed := w.Write(buffer[:n]); failed != nil {
				return
			}
			if flusher, ok := w.(http.Flusher); ok {
				flusher.Flush()
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			continue
		}
		r.mutex.Lock()
		fault := stream.fault
		r.mutex.Unlock()
		switch {
		case fault == "end":
			return // END_STREAM, maybe within an event
		case fault == "expire" && atLineEnd && isJSON:
			_, _ = io.WriteString(w, expiredEvent)
			r.answered("expire")
			return
		}
		panic(http.ErrAbortHandler)
	}
}

// rewriter replaces addresses line by line.
type rewriter struct {
	in      *bufio.Reader
	replace *strings.Replacer
	rest    []byte
}

func (r *rewriter) Read(into []byte) (int, error) {
	if len(r.rest) == 0 {
		line, err := r.in.ReadString('\n')
		if line == "" && err != nil {
			return 0, err
		}
		r.rest = []byte(r.replace.Replace(line))
	}
	n := copy(into, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

var faultStatus = map[string]int{"429": 429, "500": 500, "503": 503, "html": 502, "410": 410}
var faultReason = map[string]string{"429": "TooManyRequests", "500": "InternalError", "503": "ServiceUnavailable", "410": "Expired"}

// refuse answers a request as a shard in trouble would.
func (r *Relay) refuse(w http.ResponseWriter, request *http.Request, watch bool) bool {
	r.mutex.Lock()
	fault := r.answer
	r.mutex.Unlock()
	if fault == "" {
		return false
	}
	if version := request.URL.Query().Get("resourceVersion"); fault == "410" && (!watch || version == "" || version == "0") {
		return false
	}
	r.answered(fault)
	if fault == "html" {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(faultStatus[fault])
		_, _ = io.WriteString(w, "<html><body>Bad Gateway</body></html>")
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	if fault == "429" || fault == "503" {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(faultStatus[fault])
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"injected","reason":%q,"code":%d}`,
		faultReason[fault], faultStatus[fault])
	return true
}

// Hold stops all bytes until the returned function is called.
func (r *Relay) Hold() func() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	held := make(chan struct{})
	r.held = held
	return func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.held = nil
		close(held)
	}
}

// Slow delays each read and write; 0 ends it.
func (r *Relay) Slow(delay time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.delay = delay
}

// Answer makes requests fail: "429", "500", "503", "html", "410" (watches from a revision); "" ends it.
func (r *Relay) Answer(fault string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.answer = fault
}

// Cut closes all connections, with RST or with FIN.
func (r *Relay) Cut(hard bool) int {
	r.mutex.Lock()
	conns := slices.Collect(maps.Keys(r.conns))
	r.mutex.Unlock()
	for _, conn := range conns {
		if tcp, ok := conn.Conn.(*net.TCPConn); ok && hard {
			_ = tcp.SetLinger(0)
		}
		conn.Close()
	}
	return len(conns)
}

// GoAway sends GOAWAY on all connections; running streams go on.
func (r *Relay) GoAway() { r.serve() }

// Break ends some of the running watches: "rst", "end" (END_STREAM), "expire" (ERROR 410).
func (r *Relay) Break(fault string, share float64, random *rand.Rand) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	broken := 0
	for stream := range r.streams {
		if stream.watch && stream.fault == "" && random.Float64() < share {
			stream.fault = fault
			stream.cancel()
			broken++
		}
	}
	return broken
}

// Close ends everything.
func (r *Relay) Close() {
	r.listener.Close()
	r.mutex.Lock()
	r.closed = true
	feed := r.feed
	r.mutex.Unlock()
	feed.Close()
	r.Cut(true)
}
