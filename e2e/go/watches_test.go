package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// connected is a typed client on HTTP/2 connections of its own.
type connected struct {
	*kubernetes.Clientset
	dials     atomic.Int32
	transport *http.Transport
}

func connect(t *testing.T, config *rest.Config) *connected {
	t.Helper()
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &connected{}
	c.transport = &http.Transport{TLSClientConfig: security, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c.dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}
	if c.Clientset, err = kubernetes.NewForConfigAndClient(config, &http.Client{Transport: c.transport}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.transport.CloseIdleConnections)
	return c
}

// expected is the part of a watch's events that a test asks about.
type expected struct {
	stream  watch.Interface
	names   []string // of the ADDED events in this order
	present int
}

// await reads the stream until all names came, and refuses anything else.
func (e *expected) await(ctx context.Context) error {
	defer e.stream.Stop()
	last := uint64(0)
	for e.present < len(e.names) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d events came", e.present, len(e.names))
		case event, open := <-e.stream.ResultChan():
			object, ok := event.Object.(*corev1.ConfigMap)
			if !open || !ok || event.Type != watch.Added {
				return fmt.Errorf("after %d events: open %v, %v %v", e.present, open, event.Type, event.Object)
			}
			if object.Name != e.names[e.present] {
				return fmt.Errorf("event %d is about %s, not %s", e.present, object.Name, e.names[e.present])
			}
			version, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
			if err != nil || version <= last {
				return fmt.Errorf("resourceVersion %q after %d", object.ResourceVersion, last)
			}
			last = version
			e.present++
		}
	}
	return nil
}

func TestTwoThousandWatches(t *testing.T) {
	const connections, watches, objects = 20, 100, 10
	installation := StartInstallation(t)
	config := installation.Config(installation.MakeWorkspace("watched", "us-east-1"))
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	list, err := Typed(t, config).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := resident(t, installation, "proxy")
	var names []string
	for n := range objects {
		names = append(names, fmt.Sprintf("fan-%d", n))
	}
	var faults failures
	var clients []*connected
	opened := make([][]*expected, connections)
	var opening sync.WaitGroup
	begin := time.Now()
	for n := range connections {
		format := config
		if n%2 == 1 {
			format = ProtobufOnly(config)
		}
		client := connect(t, format)
		clients = append(clients, client)
		opening.Go(func() {
			var err error
			opened[n], err = openWatches(ctx, client, list.ResourceVersion, watches, names)
			if err != nil {
				faults.add("connection %d, watch %d: %w", n, len(opened[n]), err)
			}
		})
	}
	opening.Wait()
	if err := faults.err(); err != nil {
		t.Fatal(err)
	}
	dials := int32(0)
	for _, client := range clients {
		dials += client.dials.Load()
	}
	t.Logf("%d watches on %d connections open after %v, the proxy grew by %d KiB", connections*watches, dials,
		time.Since(begin).Round(time.Millisecond), resident(t, installation, "proxy")-before)
	if dials != connections {
		t.Errorf("the client dialled %d times for %d connections", dials, connections)
	}
	var reading sync.WaitGroup
	for n, streams := range opened {
		for m, stream := range streams {
			reading.Go(func() {
				if err := stream.await(ctx); err != nil {
					faults.add("connection %d, watch %d: %w", n, m, err)
				}
			})
		}
	}
	begin = time.Now()
	for _, name := range names {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": strings.Repeat("v", 200)}}
		if _, err := Typed(t, config).CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	created := time.Since(begin)
	reading.Wait()
	if err := faults.err(); err != nil {
		t.Fatal(err)
	}
	events := 0
	for _, stream := range slices.Concat(opened...) {
		events += stream.present
	}
	t.Logf("%d events delivered %v after the first write, the writes took %v; the proxy has %d KiB", events,
		time.Since(begin).Round(time.Millisecond), created.Round(time.Millisecond), resident(t, installation, "proxy"))
}

// openWatches opens watches on one connection; every tenth asks for one object only.
func openWatches(ctx context.Context, client *connected, version string, count int, names []string) ([]*expected, error) {
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.List(ctx, metav1.ListOptions{Limit: 1}); err != nil { // makes the one connection
		return nil, err
	}
	var opened []*expected
	for n := range count {
		options := metav1.ListOptions{ResourceVersion: version}
		wanted := names
		if n%10 == 0 {
			wanted = names[n/10%len(names):][:1]
			options.FieldSelector = "metadata.name=" + wanted[0]
		}
		stream, err := maps.Watch(ctx, options)
		if err != nil {
			return opened, err
		}
		opened = append(opened, &expected{stream: stream, names: wanted})
	}
	return opened, nil
}

func resident(t *testing.T, installation *Installation, process string) int {
	t.Helper()
	size, err := installation.ResidentKiB(process)
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func TestUnreadWatchesHurtNobody(t *testing.T) {
	const writers, updates, size, readers = 4, 500, 48 << 10, 3
	const bound = 64 << 10 // KiB; what one unread watch would get is 96 MiB
	installation := StartInstallation(t)
	cluster := installation.MakeWorkspace("unread", "us-east-1")
	config := installation.Config(cluster)
	client := Typed(t, Protobuf(config))
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	maps := client.CoreV1().ConfigMaps("default")
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		openUnread(t, config, list.ResourceVersion, 1024, true)
		openUnread(t, config, list.ResourceVersion, 1<<30, false)
	}
	var faults failures
	var group sync.WaitGroup
	lags := make([][]time.Duration, readers)
	for n := range readers {
		stream, err := connect(t, ProtobufOnly(config)).CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer stream.Stop()
			var err error
			if lags[n], err = readAll(ctx, stream, writers, updates); err != nil {
				faults.add("reader %d after %d events: %w", n, len(lags[n]), err)
			}
		})
	}
	before, most := resident(t, installation, "proxy"), atomic.Int64{}
	shard := resident(t, installation, "shard-1")
	sampled, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				if now, err := installation.ResidentKiB("proxy"); err == nil {
					most.Store(max(most.Load(), int64(now)))
				}
			}
		}
	}()
	begin := time.Now()
	body := strings.Repeat("0123456789abcdef", size/16)
	for n := range writers {
		group.Go(func() {
			if err := produce(ctx, client, n, updates, body); err != nil {
				faults.add("writer %d: %w", n, err)
				cancel()
			}
		})
	}
	group.Wait()
	close(stop)
	<-sampled
	if err := faults.err(); err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(lags...)
	slices.Sort(all)
	t.Logf("%d events of %d KiB to %d readers in %v beside 4 unread watches; lag p50 %v, p99 %v, max %v", writers*updates, size>>10,
		readers, time.Since(begin).Round(time.Millisecond), all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	t.Logf("proxy %d KiB before, %d KiB at most; shard-1 %d KiB before, %d KiB now", before, most.Load(), shard,
		resident(t, installation, "shard-1"))
	if grown := int(most.Load()) - before; grown >= bound {
		t.Errorf("the proxy grew by %d KiB", grown)
	}
}

// produce makes one ConfigMap and updates it; data.n counts, data.at is the time of sending.
func produce(ctx context.Context, client kubernetes.Interface, writer, updates int, body string) error {
	maps := client.CoreV1().ConfigMaps("default")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", writer)}}
	for n := range updates {
		object.Data = map[string]string{"n": strconv.Itoa(n), "at": strconv.FormatInt(time.Now().UnixNano(), 10), "body": body}
		var err error
		if n == 0 {
			object, err = maps.Create(ctx, object, metav1.CreateOptions{})
		} else {
			object, err = maps.Update(ctx, object, metav1.UpdateOptions{})
		}
		if err != nil {
			return fmt.Errorf("update %d: %w", n, err)
		}
	}
	return nil
}

// readAll wants every update of every writer in order, and returns how late each was.
func readAll(ctx context.Context, stream watch.Interface, writers, updates int) ([]time.Duration, error) {
	var lags []time.Duration
	seen := map[string]int{}
	for len(lags) < writers*updates {
		select {
		case <-ctx.Done():
			return lags, ctx.Err()
		case event, open := <-stream.ResultChan():
			object, ok := event.Object.(*corev1.ConfigMap)
			if !open || !ok {
				return lags, fmt.Errorf("open %v, %v %v", open, event.Type, event.Object)
			}
			if object.Data["n"] != strconv.Itoa(seen[object.Name]) {
				return lags, fmt.Errorf("%s: update %s, not %d", object.Name, object.Data["n"], seen[object.Name])
			}
			seen[object.Name]++
			at, _ := strconv.ParseInt(object.Data["at"], 10, 64)
			lags = append(lags, time.Since(time.Unix(0, at)).Round(10*time.Microsecond))
		}
	}
	return lags, nil
}

// openUnread opens a watch over raw HTTP/2 with a receive window per stream, and never gives that window back.
// With frames it goes on reading frames and answers pings; without it never reads its socket again.
func openUnread(t *testing.T, config *rest.Config, version string, window uint32, frames bool) {
	t.Helper()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	security.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", server.Host, security)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", server.Host},
		{":path", server.Path + "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=" + version}, {"accept", "application/json"}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = conn.Write([]byte(http2.ClientPreface))
	err = errors.Join(err, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	if window > 65535 {
		err = errors.Join(err, framer.WriteWindowUpdate(0, window-65535))
	}
	err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndStream: true, EndHeaders: true}))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		answer, err := nextFrame(framer)
		if err != nil {
			t.Fatalf("unread watch: %v", err)
		}
		if headers, ok := answer.(*http2.MetaHeadersFrame); ok {
			if headers.PseudoValue("status") != "200" {
				t.Fatalf("unread watch: %v", headers.Fields)
			}
			break
		}
	}
	_ = conn.SetReadDeadline(time.Time{})
	if frames {
		go func() {
			for {
				if _, err := nextFrame(framer); err != nil {
					return
				}
			}
		}()
	}
}

// nextFrame reads a frame and answers it where the protocol demands that.
func nextFrame(framer *http2.Framer) (http2.Frame, error) {
	frame, err := framer.ReadFrame()
	if err != nil {
		return nil, err
	}
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			err = framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			err = framer.WritePing(true, frame.Data)
		}
	case *http2.GoAwayFrame:
		err = fmt.Errorf("GOAWAY %v", frame.ErrCode)
	}
	return frame, err
}
