package growing

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	epoch      = 20 * time.Second // so long a set of keys is used: histories of a key stay short
	lastReader = 100              // number of the client that reads at the end
	perEpoch   = 3                // keys of a logical cluster
	selector   = "labelSelector=growing%3Dyes"
)

// Workload is what clients do, and what they heard.
type Workload struct {
	w        *World
	book     *Book
	mutex    sync.Mutex
	history  []Operation
	refused  map[string]int // answers that say that nothing has happened
	unknown  int
	findings []string // all that is known about what watches told wrongly
}

func (l *Workload) record(o Operation) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.history = append(l.history, o)
	if o.Outcome == Unknown {
		l.unknown++
	}
}

func (l *Workload) refuse(why string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.refused[why]++
}

// writer is a client that has one request at a time.
type writer struct {
	*Workload
	number int
	random *rand.Rand
	http   map[string]*http.Client // by certificate
	known  map[string]Entry        // what it heard last of each key
	writes int
}

func (l *Workload) newWriter(number int, seed int64) *writer {
	return &writer{Workload: l, number: number, random: rand.New(rand.NewSource(seed)), known: map[string]Entry{},
		http: map[string]*http.Client{"admin": l.w.Client("admin"), "shard-admin": l.w.Client("shard-admin")}}
}

func (c *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.step()
		pause(ctx, time.Duration(10+c.random.Intn(60))*time.Millisecond)
	}
}

// place chooses where a request goes: mostly a proxy, sometimes a process of the shard itself.
func (w *World) place(random *rand.Rand, shard string) (name, certificate string) {
	if random.Intn(8) == 0 {
		return shard + []string{"-a", "-b"}[random.Intn(2)], "shard-admin"
	}
	return proxies[random.Intn(len(proxies))], "admin"
}

func (w *World) anyCluster(random *rand.Rand) (shard, cluster string) {
	shard = []string{"root", "shard-1"}[random.Intn(2)]
	return shard, w.clusters[shard][random.Intn(len(w.clusters[shard]))]
}

func mapsOf(cluster string) string {
	return "/clusters/" + cluster + "/api/v1/namespaces/default/configmaps"
}

func name(number int, at time.Duration) string { return fmt.Sprintf("k%d-%d", number, at/epoch) }

func (c *writer) step() {
	shard, cluster := c.w.anyCluster(c.random)
	place, certificate := c.w.place(c.random, shard)
	o := Operation{Key: cluster + "/" + name(c.random.Intn(perEpoch), c.w.now()), Client: c.number}
	url := c.w.url(place) + mapsOf(cluster)
	switch dice := c.random.Intn(100); {
	case dice < 15:
		o.Verb = Create
	case dice < 55:
		o.Verb = Update
	case dice < 66:
		o.Verb = Delete
	case dice < 90:
		o.Verb = Read
	default:
		c.list(cluster, place, url, c.http[certificate])
		return
	}
	c.send(o, place, url, c.http[certificate])
}

// send makes one request for one object and writes down what was heard.
func (c *writer) send(o Operation, place, url string, client *http.Client) Outcome {
	id := o.Key[strings.Index(o.Key, "/")+1:]
	known, guarded := c.known[o.Key]
	guarded = guarded && !known.Deleted && c.random.Intn(8) != 0
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	metadata := map[string]any{"name": id, "labels": map[string]string{"growing": "yes"}}
	object["metadata"] = metadata
	var method string
	var body any
	if o.Verb == Create || o.Verb == Update {
		c.writes++
		o.Version = fmt.Sprintf("w%d.%d", c.number, c.writes)
		object["data"] = map[string]string{"version": o.Version}
		body = object
	}
	if guarded && (o.Verb == Update || o.Verb == Delete) {
		o.Guard = known.Version
	}
	switch o.Verb {
	case Create:
		method = http.MethodPost
	case Update:
		method, url = http.MethodPut, url+"/"+id
		if guarded {
			metadata["resourceVersion"] = fmt.Sprint(known.Revision)
		}
	case Delete:
		method, url = http.MethodDelete, url+"/"+id
		if guarded {
			body = map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]string{"resourceVersion": fmt.Sprint(known.Revision)}}
		}
	case Read:
		method, url = http.MethodGet, url+"/"+id
	}
	o.Begin = c.w.now()
	heard, err := c.w.ask(client, method, url, body)
	o.End = c.w.now()
	o.Outcome = outcome(o, id, heard, err)
	o.Told = place + ": " + heardAs(heard, err)
	if o.Outcome == "" {
		c.refuse(fmt.Sprintf("%s %s", o.Verb, heardAs(heard, err)))
		time.Sleep(100 * time.Millisecond)
		return o.Outcome
	}
	if o.Outcome == Done && o.Verb != Delete {
		e := Entry{Revision: heard.revision(), Version: heard.Data["version"]}
		o.Version = e.Version
		c.book.Note(o.Key, e)
		c.known[o.Key] = e
	}
	if o.Outcome == Absent || (o.Outcome == Done && o.Verb == Delete) {
		delete(c.known, o.Key)
	}
	c.record(o)
	if o.Outcome == Unknown {
		time.Sleep(100 * time.Millisecond) // as one who was told to come back later
	}
	return o.Outcome
}

func heardAs(heard *answer, err error) string {
	if err != nil {
		text := err.Error()
		return text[strings.LastIndex(text, `": `)+1:]
	}
	if heard.status < 300 {
		return fmt.Sprintf("%d %s", heard.status, heard.Metadata.ResourceVersion)
	}
	return fmt.Sprintf("%d %s", heard.status, heard.Message)
}

// outcome of what was heard; "" where it says that nothing has happened, and nothing of what is there.
func outcome(o Operation, id string, heard *answer, err error) Outcome {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return "" // was never sent
	}
	if err != nil || heard.status >= 500 {
		if o.Verb == Read {
			return ""
		}
		return Unknown
	}
	switch {
	case heard.status < 300:
		return Done
	case heard.status == http.StatusNotFound && heard.Details.Name == id && heard.Details.Kind == "configmaps":
		return Absent
	case heard.Reason == "AlreadyExists":
		return Exists
	case heard.status == http.StatusConflict && o.Guard != "":
		return Conflict
	}
	return ""
}

func (o *Object) revision() (out uint64) {
	_, _ = fmt.Sscan(o.Metadata.ResourceVersion, &out)
	return out
}

// list reads all keys of this time in a logical cluster.
func (c *writer) list(cluster, place, url string, client *http.Client) {
	begin := c.w.now()
	heard, err := c.w.ask(client, http.MethodGet, url+"?"+selector, nil)
	end := c.w.now()
	if err != nil || heard.status != http.StatusOK {
		c.refuse("list " + heardAs(heard, err))
		time.Sleep(100 * time.Millisecond)
		return
	}
	found := map[string]Entry{}
	for i := range heard.Items {
		item := &heard.Items[i]
		found[item.Metadata.Name] = Entry{Revision: item.revision(), Version: item.Data["version"]}
		c.book.Note(cluster+"/"+item.Metadata.Name, found[item.Metadata.Name])
	}
	for number := range perEpoch {
		id := name(number, begin)
		o := Operation{Key: cluster + "/" + id, Client: c.number, Verb: Read, Outcome: Absent, Begin: begin, End: end,
			Told: fmt.Sprintf("%s: list of %s", place, heard.Metadata.ResourceVersion)}
		if e, there := found[id]; there {
			o.Version, o.Outcome = e.Version, Done
			c.known[o.Key] = e
		}
		c.record(o)
	}
}

// last reads every key that was ever used, once all is well again: what was acknowledged is there, and nothing else.
func (l *Workload) last(seed int64) {
	reader := l.newWriter(lastReader, seed)
	keys := map[string]bool{}
	for _, o := range l.history {
		keys[o.Key] = true
	}
	for key := range keys {
		cluster := key[:strings.Index(key, "/")]
		for clock := l.w.now(); ; time.Sleep(200 * time.Millisecond) {
			place := proxies[reader.random.Intn(len(proxies))]
			got := reader.send(Operation{Key: key, Client: lastReader, Verb: Read}, place, l.w.url(place)+mapsOf(cluster), reader.http["admin"])
			if got == Done || got == Absent {
				break
			}
			if l.w.now() > clock+60*time.Second {
				l.w.Fail("%s cannot be read at the end", key)
				return
			}
		}
	}
}

// Settled gives unknown writes that somebody has seen an end: they had happened by then. It is less to search for the same answer.
func Settled(history []Operation) []Operation {
	seen := map[string]time.Duration{}
	for _, o := range history {
		if o.Verb != Read || o.Outcome != Done {
			continue
		}
		if end, known := seen[o.Version]; !known || o.End < end {
			seen[o.Version] = o.End
		}
	}
	out := append([]Operation(nil), history...)
	for i := range out {
		o := &out[i]
		end, known := seen[o.Version]
		if o.Outcome == Unknown && (o.Verb == Create || o.Verb == Update) && known && end > o.Begin {
			o.Outcome, o.End = Done, end
		}
	}
	return out
}
