package merge

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"kintsugi.dev/e2e"
)

const patience = 20 * time.Second // for what has to happen soon; machines that run tests may be busy

// Client speaks HTTP/2 to one server and records what comes back.
type Client struct {
	t         *testing.T
	Base      string // https://address/prefix
	transport *http.Transport
}

// NewClient has a connection (pool) of its own; window 0: the usual 4 MiB per stream.
func NewClient(t *testing.T, base string, trust *x509.CertPool, identity *Pair, window int) *Client {
	t.Helper()
	config := &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}
	if identity != nil {
		config.Certificates = []tls.Certificate{identity.TLS}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 64,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{t: t, Base: base, transport: transport}
}

// At is the same client at another prefix.
func (c *Client) At(prefix string) *Client {
	parsed, err := url.Parse(c.Base)
	if err != nil {
		c.t.Fatal(err)
	}
	other := *c
	other.Base = parsed.Scheme + "://" + parsed.Host + prefix
	return &other
}

// Answer is a complete response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error // of the body: the stream was reset
	Took   time.Duration
}

// Object is the body, JSON or protobuf.
func (a Answer) Object(t *testing.T) Object {
	t.Helper()
	o, err := decodeProto(a.Body)
	if err != nil || a.Err != nil {
		t.Fatalf("no object (%v, %v): %s", err, a.Err, a)
	}
	return o
}

func (a Answer) String() string {
	return fmt.Sprintf("%d %s (%d bytes, %v)", a.Status, a.Body[:min(len(a.Body), 400)], len(a.Body), a.Err)
}

// Header pairs of a request.
func headers(pairs []string) http.Header {
	h := http.Header{"Accept": {JSON}}
	for n := 0; n+1 < len(pairs); n += 2 {
		if pairs[n] == "Accept" {
			h.Set(pairs[n], pairs[n+1])
		} else {
			h.Add(pairs[n], pairs[n+1])
		}
	}
	return h
}

// Do makes a request; header are pairs of name and value.
func (c *Client) Do(method, path string, body []byte, header ...string) Answer {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	begin := time.Now()
	request, err := http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(body))
	if err != nil {
		return Answer{Err: err}
	}
	request.Header = headers(header)
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return Answer{Err: err, Took: time.Since(begin)}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Header: response.Header, Body: text, Err: err, Took: time.Since(begin)}
}

// Get is a read; the answer may be anything.
func (c *Client) Get(path string, header ...string) Answer {
	return c.Do(http.MethodGet, path, nil, header...)
}

// List is a read that has to succeed.
func (c *Client) List(t *testing.T, path string, header ...string) Object {
	t.Helper()
	answer := c.Get(path, header...)
	if answer.Status != http.StatusOK || answer.Err != nil {
		t.Fatalf("GET %s: %s", path, answer)
	}
	return answer.Object(t)
}

// Refused is a read that has to fail with a Status of this code.
func (c *Client) Refused(t *testing.T, code int, path string, header ...string) (Object, Answer) {
	t.Helper()
	answer := c.Get(path, header...)
	if answer.Status != code {
		t.Fatalf("GET %s: %d expected, got %s", short(path), code, answer)
	}
	o := answer.Object(t)
	if o.Kind != "Status" || o.Code != code {
		t.Fatalf("GET %s: no Status of code %d: %s", short(path), code, answer)
	}
	return o, answer
}

// Nowhere is a GET of a path that leads nowhere (E4).
func (c *Client) Nowhere(t *testing.T, path string) {
	t.Helper()
	if answer := c.Get(path); answer.Status != http.StatusNotFound || string(answer.Body) != "404 page not found\n" {
		t.Fatalf("GET %s: 404 expected, got %s", short(path), answer)
	}
}

func short(path string) string { return path[:min(len(path), 300)] }

// Event is one event of a watch.
type Event struct {
	At     time.Time
	Type   string
	Raw    []byte // the object, JSON or protobuf
	Object Object
}

// Row is the object of a Table's only row.
func (e Event) Row() Object {
	if len(e.Object.Rows) != 1 {
		return Object{}
	}
	return e.Object.Rows[0].Object
}

// Recording is a running or ended watch with everything that came.
type Recording struct {
	t        *testing.T
	Path     string
	Status   int
	Header   http.Header
	Begin    time.Time
	Headers  time.Time // when the response headers came
	Refusal  []byte    // body, if Status is not 200
	cancel   context.CancelFunc
	done     chan struct{}
	pauses   chan struct{} // nil: reads all the time
	mutex    sync.Mutex
	events   []Event
	fault    error // nil: END_STREAM
	torn     bool
	endedAt  time.Time
	bytes    int64
	decoding error
}

// Watch starts a watch and records it until the test ends. path has its query.
func (c *Client) Watch(t *testing.T, path string, header ...string) *Recording {
	t.Helper()
	r := c.Open(t, path, nil, header...)
	if r.Status != http.StatusOK {
		t.Fatalf("WATCH %s: %d %s", short(path), r.Status, r.Refusal)
	}
	return r
}

// Open is Watch for any answer. It reads nothing of the body before go is closed (nil: reads at once).
func (c *Client) Open(t *testing.T, path string, hold chan struct{}, header ...string) *Recording {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r := &Recording{t: t, Path: path, Begin: time.Now(), cancel: cancel, done: make(chan struct{}), pauses: hold}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = headers(header)
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		r.fault, r.endedAt = err, time.Now()
		close(r.done)
		return r
	}
	r.Headers, r.Status, r.Header = time.Now(), response.StatusCode, response.Header
	if r.Status != http.StatusOK {
		r.Refusal, r.fault = io.ReadAll(response.Body)
		response.Body.Close()
		close(r.done)
		return r
	}
	go r.read(response)
	return r
}

func (r *Recording) read(response *http.Response) {
	defer close(r.done)
	defer response.Body.Close()
	if r.pauses != nil {
		<-r.pauses
	}
	var err error
	body := &counter{response.Body, r, nil}
	in := bufio.NewReaderSize(body, 64<<10)
	if strings.HasPrefix(response.Header.Get("Content-Type"), Proto) {
		err = r.readProto(in)
	} else {
		err = r.readJSON(in)
	}
	ended := errors.Is(body.err, io.EOF) // END_STREAM, perhaps in the middle of an event
	torn := ended && errors.Is(err, io.ErrUnexpectedEOF)
	if errors.Is(err, io.EOF) || torn {
		err = nil
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.fault, r.torn, r.endedAt = err, torn, time.Now()
}

type counter struct {
	io.Reader
	r   *Recording
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.err = err
	c.r.mutex.Lock()
	c.r.bytes += int64(n)
	c.r.mutex.Unlock()
	return n, err
}

func (r *Recording) add(e Event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.events = append(r.events, e)
}

func (r *Recording) readJSON(in io.Reader) error {
	decoder := json.NewDecoder(in)
	for {
		var wire struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := decoder.Decode(&wire); err != nil {
			return err
		}
		o, err := parse(wire.Object)
		if err != nil {
			return err
		}
		r.add(Event{At: time.Now(), Type: wire.Type, Raw: wire.Object, Object: o})
	}
}

func (r *Recording) readProto(in io.Reader) error {
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return err
		}
		text := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(in, text); err != nil {
			return io.ErrUnexpectedEOF
		}
		var wire metav1.WatchEvent
		if err := wire.Unmarshal(text); err != nil {
			return err
		}
		e, err := decodeProto(wire.Object.Raw)
		if err != nil {
			return fmt.Errorf("%s %q: %w", wire.Type, wire.Object.Raw[:min(len(wire.Object.Raw), 80)], err)
		}
		r.add(Event{At: time.Now(), Type: wire.Type, Raw: wire.Object.Raw, Object: e})
	}
}

var rawProto = protobuf.NewSerializer(scheme, scheme)

// decodeProto reads an object, list or Status as client-go does.
func decodeProto(text []byte) (Object, error) {
	var out Object
	if len(text) > 0 && text[0] == '{' {
		return parse(text)
	}
	decoded, _, err := rawProto.Decode(text, nil, nil)
	if err != nil {
		return out, err
	}
	switch typed := decoded.(type) {
	case *corev1.ConfigMap:
		typed.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
	case *corev1.ConfigMapList:
		typed.TypeMeta = metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}
	case *metav1.PartialObjectMetadata:
		typed.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	case *metav1.PartialObjectMetadataList:
		typed.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}
	case *metav1.Status:
		typed.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	default:
		return out, fmt.Errorf("a %T", runtime.Object(decoded))
	}
	again, err := json.Marshal(decoded)
	if err != nil {
		return out, err
	}
	return parse(again)
}

// Close ends the watch from the client's side.
func (r *Recording) Close() {
	r.cancel()
	<-r.done
}

// Events that came so far.
func (r *Recording) Events() []Event {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.events)
}

// Bytes that came so far.
func (r *Recording) Bytes() int64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.bytes
}

// Objects are the events about objects.
func (r *Recording) Objects() []Event {
	return pick(r.Events(), func(e Event) bool { return e.Type == "ADDED" || e.Type == "MODIFIED" || e.Type == "DELETED" })
}

// Bookmarks are the bookmarks.
func (r *Recording) Bookmarks() []Event {
	return pick(r.Events(), func(e Event) bool { return e.Type == "BOOKMARK" })
}

func pick(events []Event, match func(Event) bool) []Event {
	var out []Event
	for _, e := range events {
		if match(e) {
			out = append(out, e)
		}
	}
	return out
}

// Ended tells whether the stream is over.
func (r *Recording) Ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Fault is how it ended: nil for END_STREAM.
func (r *Recording) Fault() error {
	<-r.done
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.fault
}

// Torn tells whether END_STREAM came in the middle of an event.
func (r *Recording) Torn() bool {
	<-r.done
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.torn
}

// EndedAt is when it ended.
func (r *Recording) EndedAt() time.Time {
	<-r.done
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.endedAt
}

// Cursor of the last bookmark ("" if there was none).
func (r *Recording) Cursor() string {
	marks := r.Bookmarks()
	if len(marks) == 0 {
		return ""
	}
	return marks[len(marks)-1].Object.Metadata.ResourceVersion
}

// Until waits for a condition on all events so far.
func (r *Recording) Until(what string, deadline time.Duration, check func([]Event) error) {
	r.t.Helper()
	eventually(r.t, deadline, what, func() error {
		err := check(r.Events())
		if err != nil && r.Ended() {
			err = fmt.Errorf("%w; the stream ended: %v", err, r.Fault())
		}
		return err
	})
}

// UntilEnd waits until the stream is over.
func (r *Recording) UntilEnd(deadline time.Duration) {
	r.t.Helper()
	r.Until("end of the stream", deadline, func(events []Event) error {
		if r.Ended() {
			return nil
		}
		return fmt.Errorf("runs, with %s", tell(events))
	})
}

// UntilSynced waits for the end of the initial events and returns its bookmark.
func (r *Recording) UntilSynced(deadline time.Duration) Event {
	r.t.Helper()
	var end Event
	r.Until("end of the initial events", deadline, func(events []Event) error {
		for _, e := range events {
			if e.Type == "BOOKMARK" && (e.Object.End() || e.Row().End()) {
				end = e
				return nil
			}
		}
		return fmt.Errorf("only %s", tell(events))
	})
	return end
}

// UntilObjects waits for exactly so many events about objects (more are a fault).
func (r *Recording) UntilObjects(count int, deadline time.Duration) []Event {
	r.t.Helper()
	r.Until(fmt.Sprintf("%d events", count), deadline, func([]Event) error {
		if got := r.Objects(); len(got) != count {
			return fmt.Errorf("%d: %s", len(got), tell(got))
		}
		return nil
	})
	return r.Objects()
}

// UntilMarked waits for a bookmark behind the last event about an object, and returns its cursor.
func (r *Recording) UntilMarked(deadline time.Duration) string {
	r.t.Helper()
	r.Until("a bookmark behind the last event", deadline, func(events []Event) error {
		if len(events) == 0 || events[len(events)-1].Type != "BOOKMARK" {
			return fmt.Errorf("%s", tell(events))
		}
		return nil
	})
	return r.Cursor()
}

func tell(events []Event) string {
	out := fmt.Sprintf("%d events", len(events))
	for _, e := range events[max(0, len(events)-8):] {
		name := e.Object.Metadata.Name
		if e.Type == "ERROR" {
			name = fmt.Sprintf("%d %s", e.Object.Code, e.Object.Message)
		}
		out += fmt.Sprintf(" %s %s@%s", e.Type, name, e.Object.Metadata.ResourceVersion)
	}
	return out
}

func eventually(t *testing.T, deadline time.Duration, what string, check func() error) {
	t.Helper()
	clock := e2e.StartClock()
	for pause := 2 * time.Millisecond; ; pause = min(pause*3/2, 50*time.Millisecond) {
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
