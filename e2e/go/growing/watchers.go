package growing

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"sync"
	"time"
)

// Watcher lists and watches, at changing places, and remembers all it is told.
type Watcher struct {
	*Workload
	label       string
	cluster     string // "*": all
	shard       string
	random      *rand.Rand
	http        map[string]*http.Client
	mutex       sync.Mutex
	segments    []*Segment
	connections []Connection
	cursor      string // where it resumes
	expired     int
}

func (l *Workload) newWatcher(label, shard, cluster string, seed int64) *Watcher {
	return &Watcher{Workload: l, label: label, cluster: cluster, shard: shard, random: rand.New(rand.NewSource(seed)),
		http: map[string]*http.Client{"admin": l.w.Client("admin"), "shard-admin": l.w.Client("shard-admin")}}
}

func (s *Watcher) merged() bool { return s.cluster == "*" }

func (s *Watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.mutex.Lock()
		anew := len(s.segments) == 0 || !s.segments[len(s.segments)-1].Whole
		s.mutex.Unlock()
		place, certificate := proxies[s.random.Intn(len(proxies))], "admin"
		if !s.merged() {
			place, certificate = s.w.place(s.random, s.shard)
		}
		url := s.w.url(place) + "/clusters/" + s.cluster + "/api/v1/configmaps?" + selector
		if anew {
			if s.list(place, url, s.http[certificate]) {
				continue
			}
		} else {
			s.watch(ctx, place, url, s.http[certificate])
		}
		pause(ctx, time.Duration(50+s.random.Intn(300))*time.Millisecond)
	}
}

func (o *Object) key() string {
	return o.Metadata.Annotations["kcp.io/cluster"] + "/" + o.Metadata.Name
}

// list begins a segment.
func (s *Watcher) list(place, url string, client *http.Client) bool {
	heard, err := s.w.ask(client, http.MethodGet, url, nil)
	if err != nil || heard.status != http.StatusOK {
		s.refuse("watcher's list " + heardAs(heard, err))
		return false
	}
	segment := &Segment{Name: fmt.Sprintf("watch %s/%d", s.label, len(s.segments)), Merged: s.merged(), Listed: map[string]Entry{}, Whole: true, At: s.w.now()}
	if !s.merged() {
		segment.Scope = s.cluster + "/"
	}
	for i := range heard.Items {
		item := &heard.Items[i]
		e := Entry{Revision: item.revision(), Version: item.Data["version"]}
		segment.Listed[item.key()] = e
		s.book.Note(item.key(), e)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.cursor = heard.Metadata.ResourceVersion
	s.segments = append(s.segments, segment)
	return true
}

// expire ends the segment: what comes after may begin anywhere.
func (s *Watcher) expire(place, why string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.expired++
	s.segments[len(s.segments)-1].Whole = false
	s.w.Say("watch %s: 410 at %s: %s", s.label, place, why)
}

func (s *Watcher) watch(ctx context.Context, place, url string, client *http.Client) {
	seconds := 4 + s.random.Intn(40)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+10)*time.Second)
	defer cancel()
	url += fmt.Sprintf("&watch=true&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s", seconds, s.cursor)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		s.w.Fail("%v", err)
		return
	}
	response, err := client.Do(request)
	if err != nil {
		s.refuse("watch " + heardAs(nil, err))
		return
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusGone {
		s.expire(place, "as an answer")
		return
	}
	if response.StatusCode != http.StatusOK {
		s.refuse(fmt.Sprintf("watch %d", response.StatusCode))
		return
	}
	number := s.connect(place)
	ended := "ended"
	defer func() { s.disconnect(number, ended) }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var told struct {
			Type   string `json:"type"`
			Object Object `json:"object"`
		}
		if json.Unmarshal(lines.Bytes(), &told) != nil {
			ended = "cut in the middle"
			return
		}
		if told.Type == "ERROR" {
			ended = fmt.Sprintf("with %d %s", told.Object.Code, told.Object.Message)
			if told.Object.Code == http.StatusGone {
				s.expire(place, told.Object.Message)
			} else {
				s.refuse(fmt.Sprintf("watch's error %d %s", told.Object.Code, told.Object.Message))
			}
			return
		}
		s.told(told.Type, &told.Object)
	}
	if err := lines.Err(); err != nil {
		ended = "by " + err.Error()
	}
}

func (s *Watcher) connect(place string) (number int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.connections = append(s.connections, Connection{Place: place, From: s.cursor, Begin: s.w.now()})
	return len(s.connections) - 1
}

func (s *Watcher) disconnect(number int, how string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.connections[number].End, s.connections[number].Ended = s.w.now(), how
}

func (s *Watcher) told(kind string, o *Object) {
	e := Event{Type: kind, Connection: len(s.connections) - 1, At: s.w.now(), Entry: Entry{Revision: o.revision(), Version: o.Data["version"], Deleted: kind == "DELETED"}}
	if kind != "BOOKMARK" {
		e.Key = o.key()
		if !e.Deleted || !s.w.Excused(e.At) { // a difference tells deletions first, whenever they were
			s.book.Note(e.Key, e.Entry)
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if kind == "BOOKMARK" || !s.merged() {
		s.cursor = o.Metadata.ResourceVersion
	}
	last := s.segments[len(s.segments)-1]
	last.Events = append(last.Events, e)
}

// check tells what is wrong with all it saw.
func (s *Watcher) check(chains map[string][]Entry, excused func(time.Duration) bool) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.segments) == 0 {
		return fmt.Errorf("watch %s: never had a list", s.label)
	}
	for _, segment := range s.segments {
		if err := segment.Check(chains, excused); err != nil {
			return err
		}
	}
	return nil
}
