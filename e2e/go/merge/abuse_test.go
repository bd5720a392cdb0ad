package merge

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"kintsugi.dev/e2e"
)

// herd is many watches on few connections, of whom only is known what they were told.
type herd struct {
	mutex sync.Mutex
	told  map[[2]uint32]int    // by connection and stream: how often `what` came
	tail  map[[2]uint32]string // what may be the beginning of one more
	over  map[[2]uint32]string // ended
	what  []byte
}

// gather opens so many watches on each of so many connections.
func gather(t *testing.T, r *Rig, connections, each int, path, what string) *herd {
	t.Helper()
	h := &herd{told: map[[2]uint32]int{}, tail: map[[2]uint32]string{}, over: map[[2]uint32]string{}, what: []byte(what)}
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for n := range uint32(connections) {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			c := openRaw(t, r)
			go func() { _ = c.read(func(frame http2.Frame) { h.see(n, frame) }) }()
			for range each {
				if _, err := c.ask(http.MethodGet, path, true); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return h
}

func (h *herd) see(connection uint32, frame http2.Frame) {
	key := [2]uint32{connection, frame.Header().StreamID}
	data, ok := frame.(*http2.DataFrame)
	_, reset := frame.(*http2.RSTStreamFrame)
	ended := reset || (key[1] != 0 && frame.Header().Flags.Has(http2.FlagDataEndStream))
	if ended || ok {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		if ok {
			text := append([]byte(h.tail[key]), data.Data()...)
			h.told[key] += bytes.Count(text, h.what)
			h.tail[key] = string(text[max(0, len(text)-len(h.what)+1):])
		}
		if ended {
			h.over[key] = frame.Header().String()
			if ok {
				h.over[key] += " " + string(data.Data())
			}
		}
	}
}

// until waits until so many watches were told often enough, and none has ended.
func (h *herd) until(t *testing.T, deadline time.Duration, watches, often int) {
	t.Helper()
	eventually(t, deadline, fmt.Sprintf("%d times %s on each stream", often, h.what), func() error {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		count := 0
		for _, told := range h.told {
			if told >= often {
				count++
			}
		}
		if count != watches {
			return fmt.Errorf("on %d; ended %d", count, len(h.over))
		}
		return nil
	})
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for key, last := range h.over {
		t.Fatalf("%d streams have ended, %v with %s", len(h.over), key, last)
	}
}

// cpu is what the proxy has used so far.
func (r *Rig) cpu() time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.process.Pid))
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func testIdle(t *testing.T, connections, each, limit int) {
	r := NewRig(t, Set("aggregation.watch.bookmark_idle_ms", sized(1000, 60_000)))
	for _, f := range r.Shards { // as often as servers do
		f.Set(func(b *Behavior) { b.BookmarkEvery = time.Minute })
	}
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	r.Admin(0).Watch(t, resumed(cursor)) // the group with its streams to shards
	before := r.resident()
	h := gather(t, r, connections, each, resumed(cursor), `"BOOKMARK"`)
	h.until(t, time.Duration(sized(40, 90))*time.Second, connections*each, 1)
	if n := r.Metrics("kintsugi_watch_groups", ""); n != 1 {
		t.Errorf("%v groups", n)
	}
	one := (r.resident() - before) << 10 / (connections * each)
	t.Logf("%d bytes each", one)
	if one > limit {
		t.Errorf("%d bytes for each watch", one)
	}
	if !fullLoad {
		return
	}
	const minutes = 10
	used := r.cpu()
	time.Sleep(minutes * time.Minute)
	share := float64(r.cpu()-used) / float64(minutes*time.Minute)
	t.Logf("%.2f %% of a core, %d KiB", 100*share, r.resident())
	if share > 0.01 {
		t.Errorf("%.2f %% of a core", 100*share)
	}
	h.until(t, time.Second, connections*each, minutes*60/66-1) // one a minute, give or take a tenth
}

func TestT80_idle_watches_are_small(t *testing.T) {
	begin(t)
	testIdle(t, 50, 100, 4<<10)
}

// A connection with its TLS is what costs then.
func TestT80b_idle_watches_on_connections_of_their_own(t *testing.T) {
	begin(t)
	testIdle(t, sized(1000, 5000), 1, 64<<10)
}

func TestT84_ten_thousand_watches_come_back_at_once(t *testing.T) {
	begin(t)
	const connections, each = 100, 100
	r := NewRig(t)
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	put := func(round int) {
		for _, f := range r.Shards {
			f.Maps.Put(fmt.Sprint(f.Name, "-1"), Data("n", fmt.Sprint(round)))
		}
	}
	const event = `"type":"MODIFIED"`
	first := gather(t, r, connections, each, resumed(cursor), event)
	put(1)
	first.until(t, 60*time.Second, connections*each, 3)
	for _, kill := range []bool{false, true} {
		if kill {
			first = nil
			r.Restart(true) // there is no log then
		}
		for _, f := range r.Shards {
			f.Reset()
		}
		begin := time.Now()
		again := gather(t, r, connections, each, resumed(cursor), event)
		put(2)
		want := 6
		if kill {
			want = 9
		}
		again.until(t, 60*time.Second, connections*each, want)
		t.Logf("after %v all have everything, killed: %v", time.Since(begin).Round(10*time.Millisecond), kill)
		asked := 0
		for _, f := range r.Shards {
			asked += len(f.Asked(true))
		}
		if asked > 2*len(r.Shards) {
			t.Errorf("%d streams to shards", asked)
		}
	}
}

// Which of the two orders comes is chance where nobody waits: the server reads the stream too many before the client's SETTINGS ACK,
// or after it.
func TestT85b_one_stream_more_than_advertised(t *testing.T) {
	begin(t)
	oneStreamMore(t, false)
}

func TestT85c_one_stream_more_than_acknowledged(t *testing.T) {
	begin(t)
	oneStreamMore(t, true)
}

// oneStreamMore opens 101 streams where 100 are allowed: the last one is refused, the others and the connection stay.
func oneStreamMore(t *testing.T, acknowledged bool) {
	r := NewRig(t, Set("listener.max_streams", 100))
	r.Fill(1, 1, 1)
	c := openRaw(t, r)
	var mutex sync.Mutex
	codes, answered := map[uint32]http2.ErrCode{}, map[uint32]bool{}
	answers, over, settings := make(chan struct{}, 1), "goes on", make(chan struct{}, 1)
	look := func(frame http2.Frame) {
		mutex.Lock()
		defer mutex.Unlock()
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			codes[frame.StreamID] = frame.ErrCode
		case *http2.DataFrame:
			answered[frame.StreamID] = true
		case *http2.GoAwayFrame:
			over = fmt.Sprintf("ends with %v %q", frame.ErrCode, frame.DebugData())
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				settings <- struct{}{} // and read() has acknowledged them
			}
		case *http2.PingFrame:
			if frame.IsAck() {
				answers <- struct{}{}
			}
		}
	}
	ask := func() {
		t.Helper()
		if _, err := c.ask(http.MethodGet, ConfigMaps.Path()+"?watch=1", true); err != nil {
			t.Fatal(err)
		}
	}
	if !acknowledged {
		for range 101 {
			ask() // before anything is read
		}
	}
	go func() { _ = c.read(look) }()
	if acknowledged {
		<-settings
		if err := c.write(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{1}) }); err != nil {
			t.Fatal(err)
		}
		<-answers // what was sent before the ping has been read
		for range 101 {
			ask()
		}
	}
	eventually(t, patience, "100 watches and one refusal", func() error {
		mutex.Lock()
		defer mutex.Unlock()
		if len(answered) != 100 || len(codes) != 1 || codes[201] != http2.ErrCodeRefusedStream {
			return fmt.Errorf("%d answered, refused are %v, the connection %s", len(answered), codes, over)
		}
		return nil
	})
}

// flood is what one client does to hurt others; it returns when its connection is over.
type flood struct {
	name string
	send func(c *rawConn, n int) error
}

func TestT86_floods_end_the_one_connection(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	other := r.All.Watch(t, resumed(cursor))
	watchPath := resumed(cursor)
	filler := bytes.Repeat([]byte{0x40, 1, 'a', 1, 'b'}, 200) // literal fields
	for n, one := range []flood{
		{"rapid reset", func(c *rawConn, n int) error {
			id, err := c.ask(http.MethodGet, watchPath, true)
			if err != nil {
				return err
			}
			return c.write(func(f *http2.Framer) error { return f.WriteRSTStream(id, http2.ErrCodeCancel) })
		}},
		{"CONTINUATION", func(c *rawConn, n int) error {
			if n == 0 {
				head := http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.head(http.MethodGet, watchPath)}
				return c.write(func(f *http2.Framer) error { return f.WriteHeaders(head) })
			}
			return c.write(func(f *http2.Framer) error { return f.WriteContinuation(1, false, filler) })
		}},
		{"SETTINGS", func(c *rawConn, n int) error {
			setting := http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(1<<20 + n%2)}
			return c.write(func(f *http2.Framer) error { return f.WriteSettings(setting) })
		}},
		{"PING", func(c *rawConn, n int) error {
			return c.write(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{byte(n)}) })
		}},
		{"empty DATA", func(c *rawConn, n int) error {
			if n == 0 {
				_, err := c.ask(http.MethodPost, "/clusters/a"+ConfigMaps.In(), false)
				return err
			}
			return c.write(func(f *http2.Framer) error { return f.WriteData(1, false, nil) })
		}},
	} {
		before := r.resident()
		c := openRaw(t, r)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = c.read(func(http2.Frame) {})
		}()
		clock, sent := e2e.StartClock(), 0
		for clock.Spent() < 5*time.Second {
			if one.send(c, sent) != nil {
				break
			}
			sent++
		}
		select {
		case <-over:
		case <-time.After(patience):
		}
		took := clock.Spent()
		more := r.resident() - before
		t.Logf("%s: over after %v and %d frames, %d KiB more", one.name, took.Round(time.Millisecond), sent, more)
		if took > 2*time.Second {
			t.Errorf("%s: over after %v and %d frames", one.name, took, sent)
		}
		if more > 4<<10 {
			t.Errorf("%s: %d KiB more", one.name, more)
		}
		r.B.Maps.Put("b-1", Data("n", fmt.Sprint(n)))
		other.UntilObjects(n+1, patience)
		if answer := r.All.Get(ConfigMaps.Path()); answer.Status != http.StatusOK {
			t.Errorf("%s: %s", one.name, answer)
		}
	}
	if other.Ended() {
		t.Error(other.Fault())
	}
}

func TestT88_certificates_that_are_not_valid(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	other := NewAuthority(t, "clients") // the name of the right one
	groups := []string{"system:masters", "system:kcp:admin"}
	wrong, expired := other.Sign(t, "admin", groups, true, aDay), r.front.Sign(t, "admin", groups, true, Lifetime{-2 * time.Hour, -time.Hour})
	early := r.front.Sign(t, "admin", groups, true, Lifetime{time.Hour, 2 * time.Hour})
	usage, shard := r.front.Sign(t, "admin", groups, false, aDay), r.clients.Sign(t, "admin", groups, true, aDay)
	paths := []string{"/clusters/*" + ConfigMaps.Path() + "?labelSelector=!t88", "/clusters/*" + resumed("0", "timeoutSeconds", "1", "labelSelector", "!t88"),
		"/clusters/*" + query(ConfigMaps.Path(), "watch", "1", "timeoutSeconds", "1", "labelSelector", "!t88"), "/clusters/a" + ConfigMaps.Path() + "?labelSelector=!t88"}
	reached := func() (count int) {
		for _, f := range r.Shards {
			count += len(f.Log(func(e Entry) bool { return e.Query.Get("labelSelector") == "!t88" }))
		}
		return count
	}
	base := fmt.Sprintf("https://127.0.0.1:%d", r.Port)
	for name, identity := range map[string]*Pair{"of another authority": &wrong, "expired": &expired, "of tomorrow": &early,
		"of a server": &usage, "of a shard's client": &shard} {
		for _, path := range paths {
			c := NewClient(t, base, r.serving.Pool(), nil, 0)
			c.transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &identity.TLS, nil // whatever the server says that it takes
			}
			answer := c.Get(path, "X-Remote-User", "admin", "X-Remote-Group", "system:masters")
			if answer.Status == 0 && answer.Err != nil { // no handshake
				continue
			}
			if answer.Status != http.StatusUnauthorized {
				t.Errorf("%s, %s: %s", name, path, answer)
				continue
			}
			if o := answer.Object(t); o.Kind != "Status" || o.Code != http.StatusUnauthorized {
				t.Errorf("%s, %s: %s", name, path, answer)
			}
		}
	}
	if n := reached(); n != 0 {
		t.Errorf("%d requests reached a shard", n)
	}
	good := NewClient(t, base, r.serving.Pool(), &r.admin, 0)
	if answer := good.Get(paths[0]); answer.Status != http.StatusOK || reached() != 3 {
		t.Errorf("%s, %d requests at shards", answer, reached())
	}
}

func TestT88b_a_client_without_any_certificate(t *testing.T) {
	begin(t)
	for _, form := range []struct {
		name   string
		change []Option
	}{{"plain servers", nil}, {"kcp's shards", []Option{AsKcp()}}} {
		r := NewRig(t, form.change...)
		r.Fill(1, 1, 1)
		base := fmt.Sprintf("https://127.0.0.1:%d", r.Port)
		nobody := NewClient(t, base, r.serving.Pool(), nil, 0)
		own := NewClient(t, base+"/clusters/root", r.serving.Pool(), &r.admin, 0)
		answer := own.Do(http.MethodPost, "/apis/topology.kcp.io/v1alpha1/partitions", []byte(`{"apiVersion":"topology.kcp.io/v1alpha1",
			"kind":"Partition","metadata":{"name":"all"},"spec":{}}`), "Content-Type", JSON)
		if answer.Status != http.StatusCreated {
			t.Fatalf("%s", answer)
		}
		eventually(t, patience, "the Partition", func() error {
			if answer := r.All.At("/partitions/root/all/clusters/*").Get(ConfigMaps.Path()); answer.Status != http.StatusOK {
				return fmt.Errorf("%s", answer)
			}
			return nil
		})
		for _, f := range r.Shards {
			f.Reset()
		}
		const mark = "labelSelector=!t88"
		reached := func() (count int) {
			for _, f := range r.Shards {
				count += len(f.Log(func(e Entry) bool {
					return e.Query.Get("labelSelector") == "!t88" || e.Path == "/apis" || strings.HasPrefix(e.Path, "/openapi")
				}))
			}
			return count
		}
		for _, root := range []string{"/clusters/*", "/partitions/root/all/clusters/*"} {
			for _, path := range []string{ConfigMaps.Path() + "?" + mark, ConfigMaps.Path() + "?limit=1&" + mark, resumed("0") + "&" + mark,
				ConfigMaps.Path() + "?" + newest + "&" + mark, ConfigMaps.In() + "/a-1?" + mark, "/apis", "/openapi/v3"} {
				answer := nobody.Get(root+path, "X-Remote-User", "admin", "X-Remote-Group", "system:masters")
				if answer.Status != http.StatusUnauthorized {
					t.Errorf("%s, %s: %s", form.name, root+path, answer)
				} else if o := answer.Object(t); o.Kind != "Status" || o.Code != http.StatusUnauthorized || o.Reason != "Unauthorized" {
					t.Errorf("%s, %s: %s", form.name, root+path, answer)
				}
			}
		}
		if n := reached(); n != 0 {
			t.Errorf("%s: %d requests reached a shard", form.name, n)
		}
		// A token may be known to the shards, and what is for one of them it judges itself.
		token := nobody.Get("/clusters/*"+ConfigMaps.Path()+"?"+mark, "Authorization", "Bearer t88")
		if token.Status != http.StatusOK || reached() != 3 {
			t.Errorf("%s: %s, %d requests at shards", form.name, token, reached())
		}
		if one := nobody.Get("/shards/a/clusters/*" + ConfigMaps.Path() + "?" + mark); one.Status == http.StatusUnauthorized && form.change == nil {
			t.Errorf("%s: %s", form.name, one)
		}
	}
}
