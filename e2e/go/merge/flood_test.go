package merge

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"kintsugi.dev/e2e"
)

// ends reads until the server has closed the connection, at most until deadline.
func (c *rawConn) ends(deadline time.Time) error {
	_ = c.conn.SetReadDeadline(deadline)
	err := c.read(func(http2.Frame) {})
	if timeout, ok := err.(interface{ Timeout() bool }); ok && timeout.Timeout() {
		return fmt.Errorf("still open")
	}
	return nil
}

// floods of one client, each on a connection of its own. They write until the connection breaks or the time is over.
var floods = []struct {
	name string
	run  func(c *rawConn, more func() bool)
}{
	{"rapid reset", func(c *rawConn, more func() bool) {
		for more() {
			id, err := c.ask(http.MethodGet, ConfigMaps.Path()+"?watch=1", true)
			if err != nil {
				return
			}
			c.writing.Lock()
			err = c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
			c.writing.Unlock()
			if err != nil {
				return
			}
		}
	}},
	{"resets of 200 together", func(c *rawConn, more func() bool) {
		for more() {
			var ids []uint32
			for range 200 {
				id, err := c.ask(http.MethodGet, ConfigMaps.Path()+"?watch=1", true)
				if err != nil {
					return
				}
				ids = append(ids, id)
			}
			for _, id := range ids {
				c.writing.Lock()
				err := c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
				c.writing.Unlock()
				if err != nil {
					return
				}
			}
		}
	}},
	{"CONTINUATION", func(c *rawConn, more func() bool) {
		c.writing.Lock() // nothing between the frames of a block
		defer c.writing.Unlock()
		err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.head(http.MethodGet, ConfigMaps.Path()), EndStream: true})
		for err == nil && more() {
			err = c.framer.WriteContinuation(1, false, []byte("\x00\x01x\x01y"))
		}
	}},
	{"SETTINGS", func(c *rawConn, more func() bool) {
		c.repeat(more, func() error {
			return c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		})
	}},
	{"PING", func(c *rawConn, more func() bool) {
		c.repeat(more, func() error { return c.framer.WritePing(false, [8]byte{1}) })
	}},
	{"empty DATA", func(c *rawConn, more func() bool) {
		id, err := c.ask(http.MethodPost, ConfigMaps.Path(), false)
		if err == nil {
			c.repeat(more, func() error { return c.framer.WriteData(id, false, nil) })
		}
	}},
}

// repeat writes the same frame again and again.
func (c *rawConn) repeat(more func() bool, frame func() error) {
	for more() {
		c.writing.Lock()
		err := frame()
		c.writing.Unlock()
		if err != nil {
			return
		}
	}
}

func TestT86_floods_of_one_client(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	w := r.All.Watch(t, resumed(cursor))
	usual := r.Admin(0) // memory is measured behind the usual traffic of a client
	var others []*Recording
	for range 250 {
		others = append(others, usual.Watch(t, ConfigMaps.Path()+"?watch=1"))
	}
	for _, one := range others {
		one.UntilObjects(3, patience)
		one.Close()
	}
	count, peak, before := 0, 0, r.resident()
	for _, flood := range floods {
		c := openRaw(t, r)
		clock, deadline := e2e.StartClock(), time.Now().Add(patience)
		_ = c.conn.SetWriteDeadline(deadline)
		frames := atomic.Int64{}
		var group sync.WaitGroup
		group.Go(func() { flood.run(c, func() bool { return frames.Add(1) <= 50_000 && time.Now().Before(deadline) }) })
		r.Shards[count%3].Maps.Put(fmt.Sprint(r.Shards[count%3].Name, "-during"), Data("n", flood.name))
		count++
		if err := c.ends(deadline); err != nil {
			t.Errorf("%s: the connection is %v", flood.name, err)
		}
		took := clock.Spent()
		t.Logf("%s: closed after %v and %d frames", flood.name, took, frames.Load())
		if took > 2*time.Second {
			t.Errorf("%s: closed after %v", flood.name, took)
		}
		peak = max(peak, r.resident())
		_ = c.conn.NetConn().Close()
		group.Wait()
		w.UntilObjects(count, patience)
	}
	orderly(t, w.Objects())
	if w.Ended() {
		t.Errorf("the other client's watch ended: %v", w.Fault())
	}
	if answer := r.All.Get(ConfigMaps.Path()); answer.Status != http.StatusOK {
		t.Error(answer)
	}
	t.Logf("%d KiB more", peak-before)
	if peak-before > 4<<10 {
		t.Errorf("%d KiB more", peak-before)
	}
}
