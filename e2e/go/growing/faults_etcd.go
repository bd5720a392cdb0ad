package growing

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"
)

// What happens to etcd as a whole: its quota is reached, a member comes back without its data.

const (
	little   = "--quota-backend-bytes=65536" // less than any member has
	existing = "--initial-cluster-state=existing"
	healing  = 2 * time.Minute // of what others may stand in the way of, as long as they last
)

// until waits for something that other faults may be in the way of.
func (f *Faults) until(check func() error) error {
	for begin := f.w.now(); ; time.Sleep(300 * time.Millisecond) {
		err := check()
		if err == nil || f.w.now() > begin+healing {
			return err
		}
	}
}

// space lets a member have too little room for what it has: etcd raises an alarm, and takes no writes anywhere until it is disarmed.
func (f *Faults) space(wait func()) (string, error) {
	if !f.begin("space") {
		return "", nil
	}
	defer f.end("space")
	m := f.member(isEtcd)
	if m == nil {
		return "", nil
	}
	defer f.release(m)
	what := "no space at " + m.Name
	f.w.Say("%s", what)
	words := m.words
	m.Kill()
	m.Become(append(slices.Clone(words), little))
	if err := f.w.Start(m); err != nil {
		return what, err
	}
	client := f.w.Client("etcd-client")
	defer client.CloseIdleConnections()
	raised := f.until(func() error {
		filler := base64.StdEncoding.EncodeToString([]byte("filler"))
		_, _ = f.w.etcd(client, m.Name, "kv/put", map[string]any{"key": filler, "value": filler}) // is refused, and raises it
		found, err := f.w.alarms(client, m.Name)
		if err == nil && len(found.Alarms) == 0 {
			err = fmt.Errorf("no alarm yet")
		}
		return err
	})
	if raised == nil {
		f.w.Say("etcd has no space any more")
		over := make(chan struct{})
		go func() {
			wait()
			close(over)
		}()
		f.look(over)
	}
	m.Kill()
	m.Become(words)
	if err := f.w.Start(m); err != nil {
		return what, err
	}
	if err := f.until(func() error { return f.w.disarm(client) }); err != nil {
		f.w.Fail("%s: the alarm cannot be disarmed: %v", what, err)
	}
	if err := f.until(func() error { _, err := f.w.aside(f.w.Client("admin"), http.MethodPut, nil); return err }); err != nil {
		f.w.Fail("%s: no write is taken after it: %v", what, err)
	}
	return what, raised
}

// look sends writes and reads while there is no space: those are refused with a Status that says so, these are answered.
func (f *Faults) look(over <-chan struct{}) {
	client := f.w.Client("admin")
	defer client.CloseIdleConnections()
	refused, read := 0, 0
	var last error
	for {
		select {
		case <-over:
			f.w.Say("without space: %d writes refused, %d reads answered, the last write: %v", refused, read, last)
			if f.alone() && (refused == 0 || read == 0) {
				f.w.Fail("without space %d writes were refused, %d reads answered: %v", refused, read, last)
			}
			return
		case <-time.After(200 * time.Millisecond):
		}
		heard, err := f.w.aside(client, http.MethodPut, map[string]string{"at": fmt.Sprint(f.w.now())})
		last = err
		if heard != nil && heard.status >= 500 {
			refused++
			if heard.Kind != "Status" || heard.Reason == "" || heard.Message == "" {
				f.w.Fail("a write without space is answered %d %s", heard.status, heard.text)
			}
		}
		if _, err := f.w.aside(client, http.MethodGet, nil); err == nil {
			read++
		}
	}
}

// aside asks for an object that no client of the workload knows.
func (w *World) aside(client *http.Client, method string, data map[string]string) (*answer, error) {
	url := w.url(proxies[0]) + mapsOf(w.clusters["root"][0]) + "/aside"
	var body any
	if method != http.MethodGet {
		body = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "aside"}, "data": data}
	}
	heard, err := w.ask(client, method, url, body)
	if err == nil && heard.status == http.StatusNotFound && method == http.MethodPut {
		heard, err = w.ask(client, http.MethodPost, w.url(proxies[0])+mapsOf(w.clusters["root"][0]), body)
	}
	if err == nil && heard.status >= 300 && heard.status != http.StatusNotFound {
		err = fmt.Errorf("%d %s", heard.status, heard.text)
	}
	return heard, err
}

func (w *World) alarms(client *http.Client, member string) (*etcdAnswer, error) {
	return w.etcd(client, member, "maintenance/alarm", map[string]any{"action": "GET"})
}

// disarm ends all alarms, as an operator does once there is room.
func (w *World) disarm(client *http.Client) error {
	var last error
	for _, member := range etcds {
		found, err := w.alarms(client, member)
		if err != nil {
			last = err
			continue
		}
		for _, one := range found.Alarms {
			if _, err := w.etcd(client, member, "maintenance/alarm", map[string]any{"action": "DEACTIVATE", "memberID": one.Member, "alarm": one.Alarm}); err != nil {
				return err
			}
		}
		if len(found.Alarms) == 0 {
			return nil
		}
		last = fmt.Errorf("there were %d", len(found.Alarms))
	}
	return last
}

// replace takes a member out of etcd, and puts one without data in its place.
func (f *Faults) replace(wait func()) (string, error) {
	if !f.begin("replace") {
		return "", nil
	}
	defer f.end("replace")
	m := f.member(isEtcd)
	if m == nil {
		return "", nil
	}
	defer f.release(m)
	what := "replace " + m.Name
	f.w.Say("%s", what)
	m.Kill()
	client := f.w.Client("etcd-client")
	defer client.CloseIdleConnections()
	if err := f.until(func() error { return f.w.expel(client, m.Name) }); err != nil {
		return what, fmt.Errorf("it stays: %w; %v", err, f.w.Start(m))
	}
	f.w.Say("%s is no member any more", m.Name)
	wait()
	if err := os.RemoveAll(f.w.dir + "/disk/" + m.Name + "/data"); err != nil {
		return what, err
	}
	if err := f.until(func() error { return f.w.admit(client, m.Name) }); err != nil {
		f.w.Fail("%s: it cannot become a member again: %v", what, err)
		return what, err
	}
	m.Become(append(slices.DeleteFunc(slices.Clone(m.words), func(word string) bool { return word == existing }), existing))
	return what, f.w.Start(m)
}

// membership asks the other members who is one. An answer may be old: it is asked again after each change.
func (w *World) membership(client *http.Client, without string) (asked string, found []etcdMember, err error) {
	for _, asked := range etcds {
		if asked == without {
			continue
		}
		var heard *etcdAnswer
		if heard, err = w.etcd(client, asked, "cluster/member/list", map[string]any{}); err == nil {
			return asked, heard.Members, nil
		}
	}
	return "", nil, err
}

func (w *World) expel(client *http.Client, name string) error {
	asked, members, err := w.membership(client, name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members, func(one etcdMember) bool { return slices.Contains(one.Peers, w.peer(name)) })
	if i < 0 {
		return nil
	}
	_, err = w.etcd(client, asked, "cluster/member/remove", map[string]any{"ID": members[i].ID})
	return err
}

func (w *World) admit(client *http.Client, name string) error {
	asked, members, err := w.membership(client, name)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(members, func(one etcdMember) bool { return slices.Contains(one.Peers, w.peer(name)) }) {
		return nil
	}
	_, err = w.etcd(client, asked, "cluster/member/add", map[string]any{"peerURLs": []string{w.peer(name)}})
	return err
}
