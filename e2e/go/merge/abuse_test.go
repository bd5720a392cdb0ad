package merge

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// T80 in the size of a suite; `idle` of bench/run_merged.py measures the whole size, and the CPU.
func TestT80_idle_watches_are_small(t *testing.T) {
	begin(t)
	const connections, each = 20, 100
	r := NewRig(t, Set("aggregation.watch.bookmark_idle_ms", 1000))
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	r.Admin(0).Watch(t, resumed(cursor)) // the group with its streams to shards
	before := r.resident()
	var mutex sync.Mutex
	marked, over := map[[2]uint32]bool{}, map[[2]uint32]string{}
	for n := range uint32(connections) {
		c := openRaw(t, r)
		go func() {
			_ = c.read(func(frame http2.Frame) {
				mutex.Lock()
				defer mutex.Unlock()
				key := [2]uint32{n, frame.Header().StreamID}
				if data, ok := frame.(*http2.DataFrame); ok && bytes.Contains(data.Data(), []byte(`"BOOKMARK"`)) {
					marked[key] = true
				}
				_, reset := frame.(*http2.RSTStreamFrame)
				if reset || (key[1] != 0 && frame.Header().Flags.Has(http2.FlagDataEndStream)) {
					over[key] = frame.Header().String()
				}
			})
		}()
		for range each {
			if _, err := c.ask(http.MethodGet, resumed(cursor), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, patience, "a bookmark on every stream", func() error {
		mutex.Lock()
		defer mutex.Unlock()
		if len(marked) != connections*each {
			return fmt.Errorf("on %d", len(marked))
		}
		return nil
	})
	mutex.Lock()
	defer mutex.Unlock()
	if len(over) > 0 {
		t.Errorf("ended: %v", over)
	}
	if n := r.Metrics("kintsugi_watch_groups", ""); n != 1 {
		t.Errorf("%v groups", n)
	}
	one := (r.resident() - before) << 10 / (connections * each)
	t.Logf("%d bytes each", one)
	if one > 4<<10 {
		t.Errorf("%d bytes for each watch", one)
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
