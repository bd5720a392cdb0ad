package merge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// synthetic lets a shard list so many objects of 2 KiB, which nobody stores.
func synthetic(f *Fake, count int) {
	filler := strings.Repeat("x", 1850)
	rv := f.RV()
	f.On(func(w http.ResponseWriter, _ *http.Request, e Entry) bool {
		if e.Watch() || !strings.HasSuffix(e.Path, "/configmaps") {
			return false
		}
		first, _ := strconv.Atoi(e.Query.Get("continue"))
		end, next := count, ""
		if limit, _ := strconv.Atoi(e.Query.Get("limit")); limit > 0 && first+limit < count {
			end, next = first+limit, strconv.Itoa(first+limit)
		}
		w.Header().Set("Content-Type", "application/json")
		out := bufio.NewWriterSize(w, 64<<10)
		fmt.Fprintf(out, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},"items":[`, rv, next)
		for n := first; n < end; n++ {
			if n > first {
				_ = out.WriteByte(',')
			}
			fmt.Fprintf(out, `{"metadata":{"name":"%s-%07d","namespace":"t","uid":"%s-%07d","resourceVersion":"%d"},"data":{"v":"%s"}}`,
				f.Name, n, f.Name, n, rv, filler)
		}
		_, _ = out.WriteString("]}\n")
		_ = out.Flush()
		return true
	})
}

// peak watches the proxy's memory until the returned function, which tells the most [KiB].
func (r *Rig) peak() func() int {
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		for {
			most.Store(max(most.Load(), int64(r.resident())))
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() int { close(done); return int(most.Load()) }
}

// readAll takes a list as it comes, at most so many bytes a second (0: as fast as it can): how many objects, and its end.
func readAll(t *testing.T, c *Client, path string, rate int) (objects int, end []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 58*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = headers(nil)
	response, err := c.transport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v %v", path, response, err)
	}
	defer response.Body.Close()
	begin, total := time.Now(), 0
	piece := make([]byte, 256<<10)
	name := []byte(`"namespace":"t"`)
	for {
		n, err := response.Body.Read(piece)
		text := append(end, piece[:n]...) // names may be cut by a piece
		objects += bytes.Count(text, name) - bytes.Count(end, name)
		end = bytes.Clone(text[max(0, len(text)-4096):])
		if total += n; rate > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(total) * time.Second / time.Duration(rate))))
		}
		if err == io.EOF {
			return objects, end
		}
		if err != nil {
			t.Fatalf("%s after %d bytes: %v", path, total, err)
		}
	}
}

func TestT22_lists_of_100_000_objects_of_2_KiB(t *testing.T) {
	begin(t)
	plainOnly(t)
	const each = 33_334
	r := NewRig(t, Set("aggregation.list.deadline_ms", 55_000), Set("aggregation.list.first_byte_ms", 10_000))
	for _, f := range r.Shards {
		synthetic(f, each)
	}
	r.All.List(t, ConfigMaps.Path()+"?limit=500")
	before := r.resident()
	for what, read := range map[string]func(){
		"pages of 500": func() {
			count, pages := 0, 0
			for token := ""; ; pages++ {
				page := r.All.List(t, query(ConfigMaps.Path(), "limit", "500", "continue", token))
				count += len(page.Items)
				if token = page.Metadata.Continue; token == "" {
					break
				}
			}
			if count != 3*each {
				t.Errorf("%d objects on %d pages", count, pages)
			}
		},
		"as fast as it can": func() { complete22(t, r, 3*each, 0) },
		"10 MB/s":           func() { complete22(t, r, 3*each, 10<<20) },
	} {
		start, most := time.Now(), r.peak()
		read()
		more := most() - before
		t.Logf("%s: %v, %d KiB more", what, time.Since(start).Round(10*time.Millisecond), more)
		if more > 32<<10 {
			t.Errorf("%s: %d KiB more", what, more)
		}
	}
}

func complete22(t *testing.T, r *Rig, want, rate int) {
	t.Helper()
	count, end := readAll(t, r.All, ConfigMaps.Path(), rate)
	var last struct{ Metadata Meta }
	at := bytes.LastIndex(end, []byte(`],"metadata":`))
	if at < 0 || json.Unmarshal(append([]byte("{"), end[at+2:]...), &last) != nil || len(last.Metadata.ResourceVersion) != 75 {
		t.Errorf("it ends with %q", end[max(0, len(end)-300):])
	}
	if count != want {
		t.Errorf("%d objects", count)
	}
}
