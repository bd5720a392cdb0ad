package model

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	e2e "kintsugi.dev/e2e"
)

// Selection is what a client selects by labels.
type Selection uint8

const (
	Everything Selection = 1 << iota
	OfModel              // model=yes: what the writers made
	Picked               // pick=yes: some of that, and only for a while
)

var selectors = map[Selection]string{Everything: "", OfModel: "model=yes", Picked: "pick=yes"}

// Object is as much as the model knows of one.
type Object struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		ResourceVersion string            `json:"resourceVersion"`
		Continue        string            `json:"continue"`
		UID             string            `json:"uid"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Details struct {
		Causes []struct {
			Field   string `json:"field"`
			Message string `json:"message"`
		} `json:"causes"`
	} `json:"details"`
}

func (o *Object) causes() string { return fmt.Sprint(o.Details.Causes) }

type watchEvent struct {
	Type   string `json:"type"`
	Object Object `json:"object"`
}

const (
	clusterMark = "kcp.io/cluster"
	nonceMark   = "model/write"
	endMark     = "k8s.io/initial-events-end"
)

func (o *Object) cluster() string { return o.Metadata.Annotations[clusterMark] }

// key of an object over all shards.
func (o *Object) key() string {
	return o.cluster() + "|" + o.Metadata.Namespace + "/" + o.Metadata.Name
}

func (o *Object) version() uint64 {
	version, _ := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	return version
}

func (o *Object) selection() Selection {
	s := Everything
	if o.Metadata.Labels["model"] == "yes" {
		s |= OfModel
	}
	if o.Metadata.Labels["pick"] == "yes" {
		s |= Picked
	}
	return s
}

// change is one event of one shard.
type change struct {
	version     uint64
	key         string
	deleted     bool
	before, now Selection // 0: not there
	nonce       string
}

// as tells what a watch with this selection shows of the change; "": nothing.
func (c *change) as(s Selection) string {
	was, is := c.before&s != 0, c.now&s != 0
	switch {
	case is && was:
		return "MODIFIED"
	case is:
		return "ADDED"
	case was:
		return "DELETED"
	}
	return ""
}

type state struct {
	version   uint64
	selection Selection
}

// Log is the history of one resource on one shard, as the shard itself tells it.
type Log struct {
	shard, resource string
	mutex           sync.Mutex
	base            map[string]state // at the beginning
	now             map[string]state
	changes         []change
	known           map[string]bool // "key@version" of everything that ever was, deletions as "key@-version"
	head            uint64          // everything up to here is in the log
	final           bool            // nothing will come any more
	fault           error
}

func newLog(shard, resource string) *Log {
	return &Log{shard: shard, resource: resource, base: map[string]state{}, now: map[string]state{}, known: map[string]bool{}}
}

func versionKey(key string, version uint64, deleted bool) string {
	if deleted {
		return fmt.Sprintf("%s@-%d", key, version)
	}
	return fmt.Sprintf("%s@%d", key, version)
}

// visible leaves out the logical clusters that every shard has of its own and merged reads exclude.
func visible(o *Object) bool { return !strings.HasPrefix(o.cluster(), "system:") }

func (l *Log) begin(items []Object, version uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i := range items {
		if o := &items[i]; visible(o) {
			l.base[o.key()] = state{o.version(), o.selection()}
			l.known[versionKey(o.key(), o.version(), false)] = true
		}
	}
	l.now, l.head = maps.Clone(l.base), version
}

func (l *Log) add(event *watchEvent) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	o := &event.Object
	version := o.version()
	if version <= l.head {
		if event.Type != "BOOKMARK" && l.fault == nil {
			l.fault = fmt.Errorf("the shard's own watch went back from %d to %s %s %d", l.head, event.Type, o.key(), version)
		}
		return
	}
	l.head = version
	if event.Type == "BOOKMARK" || !visible(o) {
		return
	}
	c := change{version: version, key: o.key(), deleted: event.Type == "DELETED", before: l.now[o.key()].selection,
		nonce: o.Metadata.Annotations[nonceMark]}
	if c.deleted {
		delete(l.now, c.key)
	} else {
		c.now = o.selection()
		l.now[c.key] = state{version, c.now}
	}
	l.known[versionKey(c.key, version, c.deleted)] = true
	l.changes = append(l.changes, c)
}

// Reaches waits until the log knows everything up to a version.
func (l *Log) Reaches(ctx context.Context, version uint64) error {
	for clock := e2e.StartClock(); ; time.Sleep(3 * time.Millisecond) {
		l.mutex.Lock()
		done, head, fault := l.final || l.head >= version, l.head, l.fault
		l.mutex.Unlock()
		switch {
		case fault != nil:
			return fault
		case done:
			return nil
		case ctx.Err() != nil || clock.Spent() > 120*time.Second:
			return fmt.Errorf("%s of %s: the shard's own watch is at %d, not at %d", l.resource, l.shard, head, version)
		}
	}
}

// next finds the first change at or behind an index that a selection shows; false: there is none yet.
func (l *Log) next(from int, s Selection) (int, change, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i := from; i < len(l.changes); i++ {
		if l.changes[i].as(s) != "" {
			return i, l.changes[i], true
		}
	}
	return len(l.changes), change{}, false
}

// after is the index of the first change behind a version.
func (l *Log) after(version uint64) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return sort.Search(len(l.changes), func(i int) bool { return l.changes[i].version > version })
}

// Was tells whether an object ever had a version, or was deleted at it. A selection makes deletions of changes.
func (l *Log) Was(key string, version uint64, deleted bool) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.known[versionKey(key, version, false)] || deleted && l.known[versionKey(key, version, true)]
}

func (l *Log) Exists(key string, s Selection) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.now[key].selection&s != 0
}

// Now is the present state: key -> version.
func (l *Log) Now(s Selection) map[string]uint64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	found := map[string]uint64{}
	for key, entry := range l.now {
		if entry.selection&s != 0 {
			found[key] = entry.version
		}
	}
	return found
}

// History of one object, for reports.
func (l *Log) History(key string) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var lines []string
	if entry, there := l.base[key]; there {
		lines = append(lines, fmt.Sprintf("at first at %d", entry.version))
	}
	for _, c := range l.changes {
		if c.key == key {
			lines = append(lines, fmt.Sprintf("%d %s (write %s, selected %b after %b)", c.version, c.as(Everything), c.nonce, c.now, c.before))
		}
	}
	if len(lines) > 12 {
		lines = append([]string{"…"}, lines[len(lines)-12:]...)
	}
	return fmt.Sprintf("%s of %s, known up to %d: %s", l.resource, l.shard, l.head, strings.Join(lines, "; "))
}

// view is the state of a log at a version that moves on.
type view struct {
	log     *Log
	index   int
	version uint64
	objects map[string]state
}

func (v *view) at(version uint64, s Selection) map[string]uint64 {
	v.log.mutex.Lock()
	defer v.log.mutex.Unlock()
	if v.objects == nil || version < v.version {
		v.objects, v.index = maps.Clone(v.log.base), 0
	}
	v.version = version
	for ; v.index < len(v.log.changes) && v.log.changes[v.index].version <= version; v.index++ {
		if c := &v.log.changes[v.index]; c.deleted {
			delete(v.objects, c.key)
		} else {
			v.objects[c.key] = state{c.version, c.now}
		}
	}
	found := map[string]uint64{}
	for key, entry := range v.objects {
		if entry.selection&s != 0 {
			found[key] = entry.version
		}
	}
	return found
}

// difference names the first objects that differ; "": none do.
func difference(want, got map[string]uint64) (key, text string) {
	var keys []string
	for k, version := range want {
		if got[k] != version {
			keys = append(keys, k)
		}
	}
	for k := range got {
		if _, there := want[k]; !there {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return "", ""
	}
	slices.Sort(keys)
	return keys[0], fmt.Sprintf("%d of %d objects differ, first %s: has %d, not %d (0: none)", len(keys), len(want), keys[0],
		got[keys[0]], want[keys[0]])
}

// Truth is the history of all resources of all shards.
type Truth struct {
	mutex  sync.Mutex
	logs   map[string]*Log // "shard/resource"
	owners map[string]string
	group  sync.WaitGroup
}

func (t *Truth) Log(shard, resource string) *Log {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.logs[shard+"/"+resource]
}

// Owner of a logical cluster; "": no shard has shown an object of it.
func (t *Truth) Owner(cluster string) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.owners[cluster]
}

func (t *Truth) own(cluster, shard string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.owners[cluster] = shard
}

// Follow records a resource of a shard until ctx ends. It has the state when it returns.
func (t *Truth) Follow(ctx context.Context, client *http.Client, shard, base, resource string) error {
	log := newLog(shard, resource)
	var list struct {
		Object
		Items []Object `json:"items"`
	}
	answer, err := client.Get(base + "/clusters/*/api/v1/" + resource)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s of %s: %s", resource, shard, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return err
	}
	log.begin(list.Items, list.version())
	for i := range list.Items {
		if o := &list.Items[i]; visible(o) {
			t.own(o.cluster(), shard)
		}
	}
	t.mutex.Lock()
	t.logs[shard+"/"+resource] = log
	t.mutex.Unlock()
	t.group.Go(func() {
		for ctx.Err() == nil {
			if err := t.stream(ctx, client, base, log); err != nil {
				log.mutex.Lock()
				log.fault = err
				log.mutex.Unlock()
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return nil
}

func (t *Truth) stream(ctx context.Context, client *http.Client, base string, log *Log) error {
	log.mutex.Lock()
	from := log.head
	log.mutex.Unlock()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s/clusters/*/api/v1/%s?watch=true&allowWatchBookmarks=true&resourceVersion=%d", base, log.resource, from), nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil // down
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusGone {
		return fmt.Errorf("%s of %s: history before %d is gone", log.resource, log.shard, from)
	}
	if answer.StatusCode != http.StatusOK {
		return nil
	}
	lines := bufio.NewReaderSize(answer.Body, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if ctx.Err() == nil && err == io.EOF {
				return nil
			}
			return nil
		}
		var event watchEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil // cut
		}
		if event.Type == "ERROR" {
			if event.Object.Code == http.StatusGone {
				return fmt.Errorf("%s of %s: history before %d is gone: %s", log.resource, log.shard, from, event.Object.Message)
			}
			return nil
		}
		if event.Type != "BOOKMARK" && visible(&event.Object) {
			t.own(event.Object.cluster(), log.shard)
		}
		log.add(&event)
	}
}
