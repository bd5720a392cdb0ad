package growing

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Wrong is what a stream told of one object and should not have.
type Wrong struct {
	Segment, Key string
	At           time.Duration // of the event; 0: something lacks at the end
	What         error
}

func (w *Wrong) Error() string {
	at := ""
	if w.At != 0 {
		at = fmt.Sprintf(" at +%.3f s", w.At.Seconds())
	}
	return fmt.Sprintf("%s%s: %v", w.Segment, at, w.What)
}

// Connection is one answer to a watch, or a list that a segment began with.
type Connection struct {
	Place, From string // where it was asked; resourceVersion
	Begin, End  time.Duration
	Ended       string // how; "": it runs
}

func (c Connection) String() string {
	end := "runs"
	if c.Ended != "" {
		end = fmt.Sprintf("+%.3f s %s", c.End.Seconds(), c.Ended)
	}
	return fmt.Sprintf("+%.3f s at %s from %s, %s", c.Begin.Seconds(), c.Place, c.From, end)
}

// line is one of a report that is in the order of time.
type line struct {
	at   time.Duration
	text string
}

// lines are the watcher's connections, and what they told of an object.
func (s *Watcher) lines(key string, connections bool) (out []line) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if connections {
		for number, one := range s.connections {
			out = append(out, line{one.Begin, fmt.Sprintf("watch %s #%d: %s", s.label, number, one)})
		}
	}
	for _, segment := range s.segments {
		for _, e := range segment.Events {
			if e.Key == key {
				one := s.connections[e.Connection]
				out = append(out, line{e.At, fmt.Sprintf("%s #%d (%s from %s) told %s of %d:%s",
					segment.Name, e.Connection, one.Place, one.From, e.Type, e.Revision, e.Version)})
			}
		}
		if e, listed := segment.Listed[key]; listed {
			out = append(out, line{segment.At, fmt.Sprintf("%s begins with a list that has %d:%s", segment.Name, e.Revision, e.Version)})
		}
	}
	return out
}

// about tells all of an object that a stream was wrong about: what was asked for, what all watches told, and that watch's connections.
func (l *Workload) about(wrong *Wrong, of *Watcher, watchers []*Watcher) string {
	var all []line
	for _, one := range watchers {
		all = append(all, one.lines(wrong.Key, one == of)...)
	}
	for _, o := range l.history {
		if o.Key == wrong.Key && (o.Verb != Read || o.Client == lastReader) {
			all = append(all, line{o.Begin, fmt.Sprintf("client %d %s %s guard=%q until +%.3f s: %s (%s)",
				o.Client, o.Verb, o.Version, o.Guard, o.End.Seconds(), o.Outcome, o.Told)})
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return int(a.at - b.at) })
	var text strings.Builder
	fmt.Fprintf(&text, "%v\n", wrong)
	for _, one := range all {
		fmt.Fprintf(&text, "    +%.3f s %s\n", one.at.Seconds(), one.text)
	}
	return text.String()
}

// note fails the run for what a watcher was told, and keeps what is known about it.
func (l *Workload) note(err error, of *Watcher, watchers []*Watcher) {
	l.w.Fail("%v", err)
	var wrong *Wrong
	if errors.As(err, &wrong) {
		l.findings = append(l.findings, l.about(wrong, of, watchers))
	}
}

// keep writes what was found, what happened and all logs to a folder that outlives the run, and names it.
func (l *Workload) keep(seed int64) (string, error) {
	folder := os.Getenv("KINTSUGI_KEEP")
	var err error
	if folder == "" {
		folder, err = os.MkdirTemp("", fmt.Sprintf("kintsugi-growing-%d-", seed))
	} else {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return folder, err
	}
	text := strings.Join(slices.Concat(l.w.failures, l.findings, l.w.said), "\n")
	if err := os.WriteFile(filepath.Join(folder, "findings.txt"), []byte(text+"\n"), 0o600); err != nil {
		return folder, err
	}
	return folder, command("cp", "-r", l.w.dir+"/logs", folder)
}
