package differ

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"time"
)

// normal makes the answers of one server in one case comparable: what no two servers have in common becomes a name by
// the order in which it appeared.
type normal struct {
	uids, versions, generated map[string]string
	hosts                     []string
}

func newNormal(hosts ...string) *normal {
	return &normal{uids: map[string]string{}, versions: map[string]string{}, generated: map[string]string{}, hosts: hosts}
}

var (
	uidText   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeText  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	ageText   = regexp.MustCompile(`^(\d+d)?(\d+h)?(\d+m)?(\d+s)?$`)
	nameText  = regexp.MustCompile(`[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	numbers   = regexp.MustCompile(`(current: |in record \(|too old resource version: \d+ \()\d+`)
	numbered  = regexp.MustCompile(`(StorageError: invalid object, Code: 4, Key: )[^,]*`)
	patched   = regexp.MustCompile(`(?s)Invalid value: "\{.*\}": `)
	inScheme  = regexp.MustCompile(`in scheme "[^"]*"`)
	resolved  = regexp.MustCompile(`; resolution errors: \[.*\]`)
	denied    = ": access denied"
	ownPrefix = regexp.MustCompile(`^(.*[./])?kcp\.io/`)
)

// label names a value after its owner and the number of values that the owner has had.
func label(names map[string]string, kind, owner, value string) string {
	key := owner + " " + value
	if names[key] == "" {
		count := 1
		for other := range names {
			if strings.HasPrefix(other, owner+" ") {
				count++
			}
		}
		names[key] = fmt.Sprintf("<%s %s %d>", kind, owner, count)
	}
	return names[key]
}

func (n *normal) text(s string) string {
	s = uidText.ReplaceAllStringFunc(s, func(uid string) string {
		if strings.HasPrefix(uid, "00000000-") {
			return uid
		}
		if name := n.uids[uid]; name != "" {
			return name
		}
		return "<uid>"
	})
	s = timeText.ReplaceAllStringFunc(s, func(text string) string {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || time.Since(at).Abs() > 24*time.Hour {
			return text
		}
		return fmt.Sprintf("<time.%d>", strings.Count(text, "")-21)
	})
	s = numbers.ReplaceAllString(s, "${1}<number>")
	s = numbered.ReplaceAllString(s, "${1}<key>")
	s = resolved.ReplaceAllString(s, "")
	s = inScheme.ReplaceAllString(s, "in scheme")
	if strings.HasPrefix(s, ` "" is invalid: patch: `) || strings.HasPrefix(s, "Invalid value: \"{") {
		s = patched.ReplaceAllString(s, "Invalid value: <object>: ")
	}
	for name, text := range n.generated {
		s = strings.ReplaceAll(s, name, text)
	}
	for _, host := range n.hosts {
		s = strings.ReplaceAll(s, host, "<host>")
	}
	return strings.TrimSuffix(s, denied)
}

// value rewrites a decoded JSON value in place and returns it.
func (n *normal) value(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		n.object(v, key)
		return v
	case []any:
		for at := range v {
			v[at] = n.value(v[at], key+"[]")
		}
		if key == "causes" {
			v = distinct(v)
			sort.SliceStable(v, func(a, b int) bool { return conflictKey(v[a]) < conflictKey(v[b]) })
			return v
		}
		if key == "managedFields" {
			sort.SliceStable(v, func(a, b int) bool { return entryKey(v[a]) < entryKey(v[b]) })
		}
		return v
	case string:
		switch key {
		case "resourceVersion":
			return "<rv>"
		case "continue":
			if v != "" {
				return "<continue>"
			}
		case "cells[]":
			if v != "" && ageText.MatchString(v) {
				return "<age>"
			}
		}
		return n.text(v)
	}
	return v
}

func (n *normal) object(o map[string]any, key string) {
	// A list's own version has no fixed relation to those of its items.
	if kind, _ := o["kind"].(string); strings.HasSuffix(kind, "List") || kind == "Table" || kind == "Scale" {
		if meta, ok := o["metadata"].(map[string]any); ok && kind != "Scale" && meta["resourceVersion"] != nil {
			meta["resourceVersion"] = json.Number("0")
		}
	}
	if base, ok := o["generateName"].(string); ok {
		if name, ok := o["name"].(string); ok && strings.HasPrefix(name, base) && nameText.MatchString(name) {
			n.generated[name] = base + "<generated>"
			o["name"] = n.generated[name]
		}
	}
	if key == "metadata" {
		owner, _ := o["name"].(string)
		if uid, ok := o["uid"].(string); ok && uidText.MatchString(uid) {
			n.uids[uid] = "<uid " + owner + ">"
			o["uid"] = n.uids[uid]
		}
		if version, ok := o["resourceVersion"].(string); ok && owner != "" {
			o["resourceVersion"] = label(n.versions, "rv", owner, version)
		}
	}
	if key == "annotations" || key == "labels" {
		for name := range o {
			if ownPrefix.MatchString(name) {
				delete(o, name)
			}
		}
	}
	keys := make([]string, 0, len(o))
	for name := range o {
		keys = append(keys, name)
	}
	sort.Slice(keys, func(a, b int) bool { // metadata first: it says what uids there are
		if first, second := keys[a] == "metadata", keys[b] == "metadata"; first != second {
			return first
		}
		return keys[a] < keys[b]
	})
	for _, name := range keys {
		if plain := n.text(name); plain != name {
			o[plain] = o[name]
			delete(o, name)
			name = plain
		}
		if text, _ := o[name].(string); key == "metadata" && strings.HasPrefix(text, "<") {
			continue
		}
		o[name] = n.value(o[name], name)
		if inner, ok := o[name].(map[string]any); ok && len(inner) == 0 && (name == "annotations" || name == "labels") {
			delete(o, name)
		}
	}
}

// distinct is a list without repetitions: the reference reports some errors twice.
func distinct(list []any) (kept []any) {
	seen := map[string]bool{}
	for _, one := range list {
		if text := show(one); !seen[text] {
			seen[text] = true
			kept = append(kept, one)
		}
	}
	return kept
}

// conflictKey orders the causes of an apply conflict, which come in no order. Other causes stay as they are.
func conflictKey(cause any) string {
	if o, _ := cause.(map[string]any); o["reason"] == "FieldManagerConflict" {
		return show(cause)
	}
	return ""
}

func entryKey(entry any) string {
	o, ok := entry.(map[string]any)
	if !ok {
		return ""
	}
	return fmt.Sprint(o["manager"], " ", o["operation"], " ", o["subresource"], " ", o["apiVersion"])
}

// difference is one place where two answers are not the same.
type difference struct{ path, want, got string }

func (d difference) String() string {
	return fmt.Sprintf("%s\n      kube %.600s\n      ours %.600s", d.path, d.want, d.got)
}

func show(v any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// differences compares two decoded JSON values.
func differences(path string, want, got any) (found []difference) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		names := map[string]bool{}
		for name := range w {
			names[name] = true
		}
		for name := range g {
			names[name] = true
		}
		sorted := make([]string, 0, len(names))
		for name := range names {
			sorted = append(sorted, name)
		}
		sort.Strings(sorted)
		for _, name := range sorted {
			inWant, haveWant := w[name]
			inGot, haveGot := g[name]
			at := path + "/" + name
			switch {
			case !haveWant:
				found = append(found, difference{at, "<absent>", show(inGot)})
			case !haveGot:
				found = append(found, difference{at, show(inWant), "<absent>"})
			default:
				found = append(found, differences(at, inWant, inGot)...)
			}
		}
		return found
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for n := range w {
			found = append(found, differences(fmt.Sprintf("%s/%d", path, n), w[n], g[n])...)
		}
		return found
	}
	if a, b := show(want), show(got); a != b {
		return []difference{{path, a, b}}
	}
	return nil
}
