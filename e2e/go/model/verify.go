package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	e2e "kintsugi.dev/e2e"
)

// step is one thing that a client did or saw, in its order.
type step struct {
	what    string // start, ADDED, MODIFIED, DELETED, BOOKMARK, list
	at      time.Time
	version string // of the request, the bookmark or the list
	object  Object // without labels and annotations other than the cluster
	items   []Object
	end     bool // of the initial events; start: it is waited for
	initial bool // start: the client asks for the present objects
}

func (s *step) String() string {
	text := s.at.Format("04:05.000 ") + s.what
	if s.version != "" {
		text += " " + s.version
	}
	if s.object.Metadata.Name != "" {
		text += " " + s.object.key() + " " + s.object.Metadata.ResourceVersion
	}
	if s.items != nil {
		text += fmt.Sprintf(" of %d", len(s.items))
	}
	return text
}

type slotMode uint8

const (
	relaxed  slotMode = iota // present objects come in any order: only known states, forward
	exact                    // every event is the shard's next one
	repeated                 // resumed at an event's own version: from somewhere before
)

// slotCheck is what one client must see of one shard.
type slotCheck struct {
	log     *Log
	mode    slotMode
	index   int // exact, repeated: of the next change
	version uint64
	view    view
	objects map[string]uint64 // what the client has
	seen    map[string]uint64 // versions on this stream
}

// Checker compares everything that one client sees with the histories of the shards.
type Checker struct {
	name, resource string
	selection      Selection
	world          *World
	mutex          sync.Mutex // of the next three
	queue          []step
	pending        int // taken out of the queue, not looked at
	ended          bool
	look           sync.Mutex // of all others
	slots          map[string]*slotCheck
	recent         []step
	cursor         string // the last one on this stream
	waiting        bool   // for the end of the initial events
	done           chan struct{}
	events, marks  int
}

func newChecker(world *World, name, resource string, selection Selection) *Checker {
	c := &Checker{name: name, resource: resource, selection: selection, world: world, slots: map[string]*slotCheck{},
		done: make(chan struct{})}
	go c.run()
	return c
}

// Saw hands a step over; nothing waits.
func (c *Checker) Saw(s step) {
	s.at = time.Now()
	s.object.Metadata.Labels = nil
	if s.what != "BOOKMARK" && s.object.Metadata.Annotations != nil {
		s.object.Metadata.Annotations = map[string]string{clusterMark: s.object.cluster()}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.queue = append(c.queue, s)
}

// End lets the checker finish what it was given.
func (c *Checker) End() {
	c.mutex.Lock()
	c.ended = true
	c.mutex.Unlock()
	<-c.done
}

func (c *Checker) run() {
	defer close(c.done)
	for broken := false; ; {
		c.mutex.Lock()
		queue, ended := c.queue, c.ended
		c.queue = nil
		c.pending = len(queue)
		c.mutex.Unlock()
		if len(queue) == 0 {
			if ended {
				return
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		for i := range queue {
			if broken {
				break
			}
			if c.recent = append(c.recent, queue[i]); len(c.recent) > 400 {
				c.recent = slices.Clone(c.recent[200:])
			}
			c.look.Lock()
			fault, key := c.take(&queue[i])
			c.look.Unlock()
			c.mutex.Lock()
			c.pending--
			c.mutex.Unlock()
			if fault != nil {
				broken = true // what follows would only repeat it
				c.world.Fail(c.name, "%s\n%s", fault, c.story(key))
			}
		}
	}
}

// story tells how a client came to what it has of an object.
func (c *Checker) story(key string) string {
	var lines []string
	if owner := c.world.truth.Owner(clusterOf(key)); owner != "" {
		lines = append(lines, c.world.truth.Log(owner, c.resource).History(key))
	}
	first := max(0, len(c.recent)-40)
	for i := range c.recent {
		s := &c.recent[i]
		if i >= first || s.what == "start" || s.what == "list" || key != "" && s.object.key() == key {
			lines = append(lines, "  "+s.String())
		}
	}
	return strings.Join(lines, "\n")
}

func clusterOf(key string) string {
	cluster, _, _ := strings.Cut(key, "|")
	return cluster
}

func (c *Checker) take(s *step) (error, string) {
	switch s.what {
	case "start":
		return c.start(s), ""
	case "list":
		return c.list(s)
	case "BOOKMARK":
		c.marks++
		return c.bookmark(s)
	default:
		c.events++
		return c.event(s), s.object.key()
	}
}

func (c *Checker) slot(shard string) *slotCheck {
	found := c.slots[shard]
	if found == nil {
		log := c.world.truth.Log(shard, c.resource)
		found = &slotCheck{log: log, view: view{log: log}, objects: map[string]uint64{}, seen: map[string]uint64{}}
		c.slots[shard] = found
	}
	return found
}

// components by shard.
func (c *Checker) components(version string) (map[string]uint64, error) {
	v, err := parseVector(version)
	if err != nil {
		return nil, err
	}
	uids := c.world.slots.UIDs(c.resource, v)
	for clock := e2e.StartClock(); uids == nil; uids = c.world.slots.UIDs(c.resource, v) {
		if clock.Spent() > 5*time.Second {
			return nil, fmt.Errorf("the check of %s fits no order of the shards", version)
		}
		time.Sleep(50 * time.Millisecond)
	}
	found := map[string]uint64{}
	for slot, uid := range uids {
		// An earlier slot of a shard that came back is zero.
		name := c.world.slots.Name(uid)
		found[name] = max(found[name], v.Components[slot])
	}
	return found, nil
}

func (c *Checker) start(s *step) error {
	c.cursor, c.waiting = "", s.end
	for _, slot := range c.slots {
		slot.seen = map[string]uint64{}
	}
	if s.initial {
		c.slots = map[string]*slotCheck{}
		return nil
	}
	if !isCursor(s.version) {
		for _, slot := range c.slots {
			if slot.mode == exact {
				slot.mode = repeated
			}
		}
		return nil
	}
	components, err := c.components(s.version)
	if err != nil {
		return err
	}
	c.cursor = s.version
	for _, shard := range slices.Sorted(maps.Keys(components)) {
		slot, component := c.slot(shard), components[shard]
		if component == notDelivered {
			slot.mode, slot.objects = relaxed, map[string]uint64{}
			continue
		}
		if err := slot.settle(c.world.ctx, component, c.selection); err != nil {
			return err
		}
		slot.objects = slot.view.at(component, c.selection)
	}
	return nil
}

// settle expects the shard's next event behind a version.
func (s *slotCheck) settle(ctx context.Context, version uint64, selection Selection) error {
	if err := s.log.Reaches(ctx, version); err != nil {
		return err
	}
	s.mode, s.version, s.index = exact, version, s.log.after(version)
	return nil
}

func (c *Checker) list(s *step) (error, string) {
	components, err := c.components(s.version)
	if err != nil {
		return err, ""
	}
	got := map[string]map[string]uint64{}
	for i := range s.items {
		o := &s.items[i]
		owner := c.world.truth.Owner(o.cluster())
		if got[owner] == nil {
			got[owner] = map[string]uint64{}
		}
		if _, twice := got[owner][o.key()]; twice {
			return fmt.Errorf("%s is in the list twice", o.key()), o.key()
		}
		got[owner][o.key()] = o.version()
	}
	c.slots = map[string]*slotCheck{}
	for _, shard := range slices.Sorted(maps.Keys(components)) {
		slot, component := c.slot(shard), components[shard]
		if component == notDelivered {
			if len(got[shard]) > 0 {
				return fmt.Errorf("a list at %s has %d objects of %s, of which it says that nothing was delivered", s.version,
					len(got[shard]), shard), ""
			}
			continue
		}
		if err := slot.settle(c.world.ctx, component, c.selection); err != nil {
			return err, ""
		}
		slot.objects = slot.view.at(component, c.selection)
		if key, text := difference(slot.objects, got[shard]); text != "" {
			return fmt.Errorf("the list is not the state of %s at %d: %s", shard, component, text), key
		}
	}
	for shard := range got {
		if _, covered := components[shard]; !covered {
			return fmt.Errorf("the list has objects of %q, which its cursor does not cover", shard), ""
		}
	}
	return nil, ""
}

func (c *Checker) bookmark(s *step) (error, string) {
	components, err := c.components(s.version)
	if err != nil {
		return err, ""
	}
	if c.cursor != "" && compareCursors(s.version, c.cursor) < 0 {
		return fmt.Errorf("cursor %s comes after %s", s.version, c.cursor), ""
	}
	if s.end && !c.waiting {
		return fmt.Errorf("an end of initial events that nobody waits for"), ""
	}
	if s.end {
		c.waiting = false
	}
	c.cursor = s.version
	for _, shard := range slices.Sorted(maps.Keys(components)) {
		if len(c.slot(shard).objects) == 0 && c.world.removedSince(shard, s.at.Add(-farewell)) {
			continue // all of its objects were deleted, and the table without it is on its way
		}
		if err, key := c.position(c.slot(shard), shard, components[shard]); err != nil {
			return fmt.Errorf("at bookmark %s: %w", s.version, err), key
		}
	}
	return nil, ""
}

// position checks that the client has exactly the shard's state at a component of a bookmark.
func (c *Checker) position(slot *slotCheck, shard string, component uint64) (error, string) {
	switch {
	case component == notDelivered:
		if len(slot.objects) > 0 && slot.mode == exact {
			return fmt.Errorf("nothing delivered of %s, it says, but %d objects were", shard, len(slot.objects)),
				slices.Min(slices.Collect(maps.Keys(slot.objects)))
		}
		return nil, ""
	case component == begun:
		return nil, ""
	case slot.mode == exact && component < slot.version:
		return fmt.Errorf("%s was delivered up to %d, not %d", shard, slot.version, component), ""
	case slot.mode == exact && component == slot.version:
		return nil, ""
	case slot.mode == repeated && component < slot.version:
		return nil, "" // still repeating
	}
	if err := slot.settle(c.world.ctx, component, c.selection); err != nil {
		return err, ""
	}
	if key, text := difference(slot.view.at(component, c.selection), slot.objects); text != "" {
		return fmt.Errorf("the client does not have the state of %s at %d: %s", shard, component, text), key
	}
	return nil, ""
}

func (c *Checker) event(s *step) error {
	o := &s.object
	shard := c.world.truth.Owner(o.cluster())
	for clock := e2e.StartClock(); shard == ""; shard = c.world.truth.Owner(o.cluster()) {
		if clock.Spent() > 10*time.Second {
			return fmt.Errorf("%s %s: no shard has such an object", s.what, o.key())
		}
		time.Sleep(5 * time.Millisecond)
	}
	slot, version := c.slot(shard), o.version()
	if version == 0 {
		return fmt.Errorf("%s %s: has version %q", s.what, o.key(), o.Metadata.ResourceVersion)
	}
	gone := c.world.removedSince(shard, s.at.Add(-farewell))
	resynced := gone || c.world.expiredSince(shard, s.at.Add(-slack))
	// The deletion of what vanished meanwhile has the version of a list, which may be the object's own.
	last := slot.seen[o.key()]
	if version < last || version == last && !(resynced && s.what == "DELETED") {
		return fmt.Errorf("%s %s: %d comes after %d on one stream", s.what, o.key(), version, last)
	}
	slot.seen[o.key()] = version
	if gone && s.what == "DELETED" {
		delete(slot.seen, o.key()) // with the shard; it may come back with what it had
	}
	if err := slot.log.Reaches(c.world.ctx, version); err != nil && !gone {
		return err
	}
	if slot.mode != relaxed {
		if fault := slot.expect(s, c.selection); fault != nil {
			if !resynced {
				return fault
			}
			slot.mode = relaxed // differences instead of events
		}
	}
	if slot.mode == relaxed {
		deleted := s.what == "DELETED"
		synthetic := deleted && (gone || !slot.log.Exists(o.key(), c.selection))
		if !synthetic && !slot.log.Was(o.key(), version, deleted) {
			return fmt.Errorf("%s %s %d: it never had this version", s.what, o.key(), version)
		}
	}
	switch {
	case slot.mode == repeated: // the client has it, or what came after it
	case s.what == "DELETED":
		delete(slot.objects, o.key())
	default:
		slot.objects[o.key()] = version
	}
	return nil
}

// expect compares with the shard's next event.
func (s *slotCheck) expect(got *step, selection Selection) error {
	o := &got.object
	version := o.version()
	if s.mode == repeated {
		if version <= s.version {
			if !s.log.Was(o.key(), version, got.what == "DELETED") {
				return fmt.Errorf("%s %s %d: it never had this version", got.what, o.key(), version)
			}
			return nil
		}
		s.mode = exact
	}
	index, want, found := s.log.next(s.index, selection)
	if !found || want.key != o.key() || want.version != version || want.as(selection) != got.what {
		what := "nothing more"
		if found {
			what = fmt.Sprintf("%s %s %d", want.as(selection), want.key, want.version)
		}
		kind := "wrong event"
		switch {
		case version <= s.version:
			kind = "an event twice"
		case found && want.version < version:
			kind = "a lost event"
		}
		return fmt.Errorf("%s: %s after %d comes %s, here came %s %s %d", kind, s.log.shard, s.version, what, got.what, o.key(), version)
	}
	s.index, s.version = index+1, version
	return nil
}

// Behind tells in what the client differs from what the shards have now; "": in nothing.
func (c *Checker) Behind() (key, text string) {
	c.mutex.Lock()
	busy := len(c.queue) + c.pending
	c.mutex.Unlock()
	if busy > 0 {
		return "", fmt.Sprintf("%d steps are not looked at yet", busy)
	}
	c.look.Lock()
	defer c.look.Unlock()
	got := map[string]uint64{}
	for _, slot := range c.slots {
		maps.Copy(got, slot.objects)
	}
	return difference(c.world.Union(c.resource, c.selection), got)
}
