package merge

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"kintsugi.dev/e2e"
)

// Behavior is what a Fake does differently from a good server. The zero value is a good server.
type Behavior struct {
	EmptyRV       bool          // lists say resourceVersion ""
	ZeroRV        bool          // lists say "0"
	Absent        bool          // configmaps and widgets are 404
	RefuseInitial int           // this status for sendInitialEvents
	IgnoreInitial bool          // sendInitialEvents is as if it were not there
	NoEndBookmark bool          // initial events without their end
	SilentInitial bool          // with NoEndBookmark: not even the initial events
	NoBookmarks   bool          // no periodic bookmarks
	BookmarkEvery time.Duration // 0: 200 ms
	EventPause    time.Duration // between two initial events
	Replay        uint64        // watches begin so much before the resourceVersion that was asked for
	GzipWatch     bool          // one gzip member per flush, whatever was asked
	GzipList      bool          // the same of lists
	ExtraColumn   bool          // tables have one more column
	JSONOnly      bool          // answers JSON whatever was asked
	TooLargeWait  time.Duration // before 504 for a resourceVersion of the future; 0: 50 ms
	Deny          func(user string) bool
	Grants        func(asked Review) bool // what reviews allow; nil: all
	HoldHeaders   <-chan struct{}         // watches answer nothing until it is closed
	HoldInitial   <-chan struct{}         // initial events wait until it is closed
	HoldList      <-chan struct{}         // lists answer nothing until it is closed
	HoldBody      <-chan struct{}         // lists stop after half of their body until it is closed
}

// Entry is one request that reached a Fake.
type Entry struct {
	At     time.Time
	Method string
	Path   string // without /clusters/*
	Full   string
	Query  url.Values
	Header http.Header
	Conn   string // remote address
	Body   []byte
}

// Watch tells whether it asked for a watch.
func (e Entry) Watch() bool { w := e.Query.Get("watch"); return w == "true" || w == "1" }

// Fake is a shard whose every answer can be scripted.
type Fake struct {
	Name, UID string
	Labels    map[string]string // of the shard, where the configuration describes it
	Maps      *Shelf
	Widgets   *Shelf
	Clusters  *Shelf

	store      *store
	tls        atomic.Pointer[tls.Config]
	address    string
	maxStreams atomic.Uint32
	gate       *gate
	ctx        context.Context
	end        context.CancelFunc
	group      sync.WaitGroup

	mutex     sync.Mutex
	listener  net.Listener
	links     map[*link]bool
	behavior  Behavior
	intercept []*Intercept
	entries   []Entry
	streams   map[*Stream]bool
	accepted  []time.Time
	held      atomic.Int64
}

// Intercept answers requests in the place of the Fake while it returns true.
type Intercept struct {
	fake *Fake
	do   func(w http.ResponseWriter, r *http.Request, e Entry) bool
}

// NewFake starts a shard whose revisions begin after first.
func NewFake(t *testing.T, name string, first uint64, cert Pair, clients *x509.CertPool) *Fake {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &Fake{Name: name, UID: "uid-" + name, store: newStore(first), gate: newGate(), ctx: ctx, end: cancel,
		links: map[*link]bool{}, streams: map[*Stream]bool{}}
	f.maxStreams.Store(250)
	f.Maps, f.Widgets, f.Clusters = &Shelf{f, ConfigMaps}, &Shelf{f, Widgets}, &Shelf{f, Clusters}
	f.SetCert(cert, clients)
	f.Start(t)
	t.Cleanup(func() {
		f.end()
		f.Stop()
		f.group.Wait()
	})
	return f
}

// SetCert changes what new connections get, and whose client certificates they accept.
func (f *Fake) SetCert(cert Pair, clients *x509.CertPool) {
	f.tls.Store(&tls.Config{Certificates: []tls.Certificate{cert.TLS}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients,
		NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
}

// URL of the shard.
func (f *Fake) URL() string { return "https://" + f.address }

// Start listens (again, at the same address).
func (f *Fake) Start(t *testing.T) {
	t.Helper()
	var listener net.Listener
	if f.address == "" {
		listener = e2e.Listen(t)
	} else {
		var err error
		if listener, err = net.Listen("tcp", f.address); err != nil {
			t.Fatalf("shard %s: %v", f.Name, err)
		}
	}
	f.mutex.Lock()
	f.listener, f.address = listener, listener.Addr().String()
	f.mutex.Unlock()
	f.group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.group.Go(func() { f.serve(conn) })
		}
	})
}

// Move lets the shard listen at another port; running connections stay.
func (f *Fake) Move(t *testing.T) {
	t.Helper()
	f.mutex.Lock()
	_ = f.listener.Close()
	f.address = ""
	f.mutex.Unlock()
	f.Start(t)
}

// Stop refuses connections and cuts those that are there, as a process that was killed.
func (f *Fake) Stop() {
	f.mutex.Lock()
	listener := f.listener
	f.mutex.Unlock()
	_ = listener.Close()
	f.Cut(true)
}

// Cut ends all connections, with RST or with FIN.
func (f *Fake) Cut(rst bool) {
	for _, l := range f.open() {
		l.cut(rst)
	}
}

// Goaway asks all connections to take their new requests elsewhere.
func (f *Fake) Goaway() {
	for _, l := range f.open() {
		if l.goaway != nil {
			l.goaway()
		}
	}
}

// Blackhole drops all packets, or lets them through again.
func (f *Fake) Blackhole(on bool) { f.gate.shut(on) }

// Slow adds a pause to each write of every connection.
func (f *Fake) Slow(pace time.Duration) { f.gate.slow(pace) }

func (f *Fake) open() []*link {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var out []*link
	for l := range f.links {
		out = append(out, l)
	}
	return out
}

// Accepted are the times of all connects.
func (f *Fake) Accepted() []time.Time {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.accepted)
}

func (f *Fake) serve(raw net.Conn) {
	l := &link{Conn: raw, gate: f.gate, closed: make(chan struct{})}
	server := &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return f.ctx }}
	h2 := &http2.Server{MaxConcurrentStreams: f.maxStreams.Load()}
	if err := http2.ConfigureServer(server, h2); err != nil {
		panic(err)
	}
	l.goaway = func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ended)
	}
	f.mutex.Lock()
	f.links[l] = true
	f.accepted = append(f.accepted, time.Now())
	f.mutex.Unlock()
	defer func() {
		_ = l.Close()
		f.mutex.Lock()
		delete(f.links, l)
		f.mutex.Unlock()
	}()
	if f.ctx.Err() != nil {
		return
	}
	conn, err := handshake(l, f.tls.Load())
	if err != nil {
		return
	}
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		h2.ServeConn(conn, &http2.ServeConnOpts{Context: f.ctx, BaseConfig: server})
		return
	}
	only := &oneConn{conn: conn, done: l.closed}
	_ = server.Serve(only)
}

// Set changes the behavior.
func (f *Fake) Set(change func(*Behavior)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change(&f.behavior)
}

func (f *Fake) is() Behavior {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.behavior
}

// On answers requests with do while it returns true, in the place of the Fake.
func (f *Fake) On(do func(w http.ResponseWriter, r *http.Request, e Entry) bool) *Intercept {
	one := &Intercept{f, do}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.intercept = append(f.intercept, one)
	return one
}

// Off ends an Intercept.
func (i *Intercept) Off() {
	i.fake.mutex.Lock()
	defer i.fake.mutex.Unlock()
	i.fake.intercept = slices.DeleteFunc(slices.Clone(i.fake.intercept), func(one *Intercept) bool { return one == i })
}

// Answer gives a fixed answer to the collections of configmaps and widgets (times 0: always).
func (f *Fake) Answer(times int, status int, header map[string]string, body string) *Intercept {
	var left atomic.Int64
	left.Store(int64(times))
	return f.On(func(w http.ResponseWriter, _ *http.Request, e Entry) bool {
		if !collectionPath(e.Path) || (times > 0 && left.Add(-1) < 0) {
			return false
		}
		for key, value := range header {
			w.Header().Set(key, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	})
}

func collectionPath(path string) bool {
	return strings.HasSuffix(path, "/configmaps") || strings.HasSuffix(path, "/widgets")
}

// Log of all requests of a collection.
func (f *Fake) Log(match func(Entry) bool) []Entry {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var out []Entry
	for _, e := range f.entries {
		if match == nil || match(e) {
			out = append(out, e)
		}
	}
	return out
}

// Asked are the requests to the collections that tests use: lists or watches.
func (f *Fake) Asked(watch bool) []Entry {
	return f.Log(func(e Entry) bool { return collectionPath(e.Path) && e.Watch() == watch && e.Method == http.MethodGet })
}

// Reset forgets the log.
func (f *Fake) Reset() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.entries = nil
	f.held.Store(0)
}

// Held counts the lists of which one half was sent (Behavior.HoldBody).
func (f *Fake) Held() int { return int(f.held.Load()) }

// Streams are the watches that run now, of the collections that tests use.
func (f *Fake) Streams() []*Stream {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var out []*Stream
	for s := range f.streams {
		out = append(out, s)
	}
	return out
}

func trimCluster(path string) string {
	if rest, ok := strings.CutPrefix(path, "/clusters/"); ok {
		if at := strings.IndexByte(rest, '/'); at >= 0 {
			return rest[at:]
		}
	}
	return path
}

// ServeHTTP answers as an API server would.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if r.Body != nil && r.Method != http.MethodGet {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	e := Entry{At: time.Now(), Method: r.Method, Path: trimCluster(r.URL.Path), Full: r.URL.Path, Query: r.URL.Query(),
		Header: r.Header.Clone(), Conn: r.RemoteAddr, Body: body}
	f.mutex.Lock()
	f.entries = append(f.entries, e)
	intercept := f.intercept
	f.mutex.Unlock()
	if id := r.Header.Get("Audit-Id"); id != "" {
		w.Header().Set("Audit-Id", id)
	}
	for _, one := range intercept {
		if one.do(w, r, e) {
			return
		}
	}
	f.route(w, r, e)
}

func (f *Fake) String() string { return fmt.Sprintf("shard %s at %s", f.Name, f.address) }

func (f *Fake) mutexed(change func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change()
}
