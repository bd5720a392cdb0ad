package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"sync"
	"time"
)

// resources that are written and watched. Names of configmaps are different everywhere; secrets of all workspaces have the
// same names.
var resources = []string{"configmaps", "secrets"}

const namesPerWorkspace = 24

// Journal is what the writers sent, and what was acknowledged.
type Journal struct {
	mutex        sync.Mutex
	sent         map[string]bool // nonces
	acknowledged []written
	uncertain    int
}

type written struct {
	log     *Log
	key     string
	version uint64 // 0: deleted
	nonce   string
	at      time.Time
}

// Writer makes, changes and deletes objects in one workspace.
type Writer struct {
	world   *World
	shard   *Shard
	number  int // of the workspace
	random  *rand.Rand
	journal *Journal
	http    map[string]*http.Client
	next    int
}

func newWriter(w *World, shard *Shard, number int, seed int64, journal *Journal) *Writer {
	writer := &Writer{world: w, shard: shard, number: number, random: rand.New(rand.NewSource(seed)), journal: journal,
		http: map[string]*http.Client{}}
	for _, certificate := range []string{"admin", "shard-admin"} {
		writer.http[certificate] = w.Client(certificate)
		writer.http[certificate].Timeout = 10 * time.Second
	}
	return writer
}

// run writes until stop is closed.
func (w *Writer) run(stop <-chan struct{}, pause time.Duration) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(w.random.Int63n(int64(2 * pause)))):
			if w.world.there(w.shard) {
				w.step()
			}
		}
	}
}

// address of the workspace: at a proxy, or at the shard itself.
func (w *Writer) address() (*http.Client, string) {
	if choice := w.random.Intn(3); choice < 2 {
		return w.http["admin"], w.world.proxies[choice].URL() + "/clusters/" + w.shard.workspaces[w.number]
	}
	return w.http["shard-admin"], w.shard.base + "/clusters/" + w.shard.clusters[w.number]
}

func (w *Writer) step() {
	w.next++
	cluster := w.shard.clusters[w.number]
	resource := resources[w.random.Intn(len(resources))]
	name := fmt.Sprintf("same-%02d", w.random.Intn(namesPerWorkspace))
	if resource == "configmaps" {
		name = fmt.Sprintf("%s-%d-%02d", w.shard.Name, w.number, w.random.Intn(namesPerWorkspace))
	}
	client, base := w.address()
	collection := base + "/api/v1/namespaces/default/" + resource
	nonce := fmt.Sprintf("%s-%d-%d", w.shard.Name, w.number, w.next)
	labels := map[string]any{"model": "yes"}
	if w.random.Intn(2) == 0 {
		labels["pick"] = "yes"
	}
	object := map[string]any{"metadata": map[string]any{"name": name, "labels": labels, "annotations": map[string]any{nonceMark: nonce}}}
	verb := w.random.Intn(6)
	w.journal.mutex.Lock()
	w.journal.sent[nonce] = true
	w.journal.mutex.Unlock()
	var status int
	var made Object
	var err error
	switch verb {
	case 0:
		status, made, err = call(client, http.MethodDelete, collection+"/"+name, nil)
	case 1, 2:
		status, made, err = call(client, http.MethodPost, collection, object)
	default:
		status, made, err = call(client, http.MethodPut, collection+"/"+name, object)
	}
	if err != nil || status >= 500 {
		w.journal.mutex.Lock()
		w.journal.uncertain++
		w.journal.mutex.Unlock()
		return
	}
	switch status {
	case http.StatusOK, http.StatusCreated:
		done := written{log: w.world.truth.Log(w.shard.Name, resource), key: cluster + "|default/" + name, nonce: nonce, at: time.Now()}
		if verb != 0 {
			done.version = made.version()
		}
		w.journal.mutex.Lock()
		w.journal.acknowledged = append(w.journal.acknowledged, done)
		w.journal.mutex.Unlock()
	case http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests:
	case http.StatusGone: // a fault that the relay makes
	case http.StatusForbidden:
		// The shard is not in the installation, or the proxy does not know of it yet.
		if w.shard.Name != lateShard {
			w.world.Fail("writer of "+nonce, "status %d: %s", status, made.Message)
		}
	default:
		w.world.Fail("writer of "+nonce, "status %d: %s", status, made.Message)
	}
}

func call(client *http.Client, method, url string, body any) (int, Object, error) {
	var object Object
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, object, err
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, url, reader)
	if err != nil {
		return 0, object, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return 0, object, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode < 500 {
		err = json.Unmarshal(text, &object)
	}
	return answer.StatusCode, object, err
}

// Check compares what was acknowledged with the histories of the shards.
func (j *Journal) Check(w *World) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range j.acknowledged {
		if a := &j.acknowledged[i]; a.version != 0 && !a.log.Was(a.key, a.version, false) {
			w.Fail("journal", "write %s of %s was acknowledged at %d and is not in the history of the shard\n%s", a.nonce, a.key, a.version,
				a.log.History(a.key))
			return
		}
	}
	for _, log := range w.truth.logs {
		for i := range log.changes {
			if c := &log.changes[i]; !c.deleted && c.now&OfModel != 0 && !j.sent[c.nonce] {
				w.Fail("journal", "%s has at %d what nobody wrote: %q", c.key, c.version, c.nonce)
				return
			}
		}
	}
}
