package merge

import (
	"crypto/tls"
	"fmt"
	"math/big"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// certificate is the serial number of what the proxy shows to new connections.
func (r *Rig) certificate() (*big.Int, error) {
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), &tls.Config{RootCAs: r.serving.Pool(),
		Certificates: []tls.Certificate{r.admin.TLS}, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber, nil
}

func TestT98_reloads_under_load(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.Fill(2, 2, 2)
	for _, f := range r.Shards {
		f.Widgets.Put(f.Name + "-w")
	}
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	var watches []*Recording
	for range 5 {
		c := r.Admin(0)
		for range sized(10, 40) {
			watches = append(watches, c.Watch(t, resumed(cursor)))
		}
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	var asked, written, failed atomic.Int64
	load := func(request func(n int) Answer, want int) {
		ask := func(n int) {
			asked.Add(1)
			if answer := request(n); answer.Status != want || answer.Err != nil {
				if failed.Add(1) < 10 {
					t.Errorf("request %d: %s", n, answer)
				}
			}
		}
		group.Go(func() {
			tick := time.NewTicker(time.Duration(sized(4, 8)) * time.Millisecond)
			defer tick.Stop()
			open := make(chan struct{}, sized(1, 64)) // whole: at that rate, however long answers take
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				open <- struct{}{}
				group.Go(func() {
					ask(n)
					<-open
				})
			}
		})
	}
	all, brief, writer := r.Admin(0), r.Admin(0), r.Admin(0).At("/clusters/b")
	brief.transport.DisableKeepAlives = true // a connection for each request
	for range sized(3, 6) {                  // each 250 a second at most; whole: 125 a second
		load(func(int) Answer { return all.Get(Widgets.Path()) }, http.StatusOK) // they do not grow
	}
	load(func(int) Answer { return brief.Get(ConfigMaps.Path() + "?limit=2") }, http.StatusOK)
	load(func(n int) Answer {
		written.Add(1)
		return writer.Do(http.MethodPost, ConfigMaps.In(), []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b-w%d"}}`, n)),
			"Content-Type", JSON)
	}, http.StatusCreated)
	ended := sync.OnceFunc(func() {
		close(stop)
		group.Wait()
	})
	defer ended()
	begun := time.Now()
	for n := range 20 {
		time.Sleep(time.Duration(sized(0, 500)) * time.Millisecond)
		serving, back := r.serving.Sign(t, "proxy", nil, false, aDay), r.clients.Sign(t, "front-proxy", nil, true, aDay)
		write(t, r.path(fmt.Sprint("back", n, ".crt")), back.Cert)
		write(t, r.path(fmt.Sprint("back", n, ".key")), back.Key)
		r.config["backend.cert_file"], r.config["backend.key_file"] = fmt.Sprint("back", n, ".crt"), fmt.Sprint("back", n, ".key")
		write(t, r.path(fmt.Sprint("proxy", n, ".crt")), serving.Cert)
		write(t, r.path(fmt.Sprint("proxy", n, ".key")), serving.Key)
		r.config["listener.cert_file"], r.config["listener.key_file"] = fmt.Sprint("proxy", n, ".crt"), fmt.Sprint("proxy", n, ".key")
		r.config["limits.body_bytes"] = 1<<20 + n
		r.Configure(r.Shards...)
		want := serving.TLS.Leaf.SerialNumber
		eventually(t, patience, fmt.Sprint("reload ", n), func() error {
			if got, err := r.certificate(); err != nil || got.Cmp(want) != 0 {
				return fmt.Errorf("certificate %v, %v", got, err)
			}
			return nil
		})
		r.A.Maps.Put(fmt.Sprint("a-during", n))
	}
	ended()
	t.Logf("%d requests, %d of them writes, %.0f a second", asked.Load(), written.Load(), float64(asked.Load())/time.Since(begun).Seconds())
	if failed.Load() > 0 {
		return
	}
	for n, w := range watches {
		orderly(t, w.UntilObjects(20+int(written.Load()), patience))
		if w.Ended() {
			t.Fatalf("watch %d ended: %v", n, w.Fault())
		}
	}
}
