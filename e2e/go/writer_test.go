package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

const (
	writeDeadline  = 60 * time.Second // of one write with all its attempts
	attemptTimeout = 10 * time.Second
	namePrefix     = "w-"
)

// entry is what the server acknowledged last for one name.
type entry struct {
	exists  bool
	version uint64
	sum     string
	uid     types.UID
}

// journal is what all writers of a test sent and what was acknowledged.
type journal struct {
	mutex        sync.Mutex
	acknowledged map[string]entry
	issued       map[string]bool // checksums of everything that was ever sent
	counts       map[string]int
	latest       uint64
}

func newJournal() *journal {
	return &journal{acknowledged: map[string]entry{}, issued: map[string]bool{}, counts: map[string]int{}}
}

func (j *journal) snapshot() map[string]entry {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return maps.Clone(j.acknowledged)
}

func (j *journal) of(name string) entry {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.acknowledged[name]
}

func (j *journal) count(what string) int {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.counts[what]
}

func (j *journal) add(what string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.counts[what]++
}

func (j *journal) wasIssued(sum string) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.issued[sum]
}

func (j *journal) issue(sum string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.issued[sum] = true
}

func (j *journal) acknowledge(verb, name string, state entry) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.acknowledged[name] = state
	j.counts[verb]++
	j.counts["writes"]++
	j.latest = max(j.latest, state.version)
}

// writer makes random writes of ConfigMaps whose names no other writer uses.
type writer struct {
	client  typedcorev1.ConfigMapInterface
	random  *rand.Rand
	journal *journal
	names   []string
	deletes bool
	largest int // bytes of the body
	label   string
	next    int
}

func newWriter(config *rest.Config, number, names int, seed int64, j *journal) (*writer, error) {
	// Without Retry-After the client library leaves every retry to the writer, which must know what it sent.
	config = Protobuf(config)
	config.Timeout = attemptTimeout
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil {
				response.Header.Del("Retry-After")
			}
			return response, err
		})
	})
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w := &writer{client: client.ConfigMaps("default"), random: rand.New(rand.NewSource(seed + int64(number))), journal: j,
		deletes: true, largest: 2000, label: strconv.Itoa(number)}
	for n := range names {
		w.names = append(w.names, fmt.Sprintf("%s%d-%03d", namePrefix, number, n))
	}
	return w, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// step makes one random write and returns when its outcome is certain.
func (w *writer) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	name := w.names[w.random.Intn(len(w.names))]
	before := w.journal.of(name)
	switch {
	case !before.exists:
		return w.create(ctx, name)
	case w.deletes && w.random.Intn(5) == 0:
		return w.remove(ctx, name, before)
	default:
		return w.update(ctx, name, before)
	}
}

func (w *writer) create(ctx context.Context, name string) error {
	object := w.compose(name)
	return w.write(ctx, "create", name, func(uncertain bool) error {
		made, err := w.client.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) && uncertain {
			made, err = w.adopt(ctx, object)
		}
		return w.took("create", object, made, err)
	})
}

func (w *writer) update(ctx context.Context, name string, before entry) error {
	object := w.compose(name)
	object.ResourceVersion = strconv.FormatUint(before.version, 10)
	object.UID = before.uid
	return w.write(ctx, "update", name, func(uncertain bool) error {
		made, err := w.client.Update(ctx, object, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) && uncertain {
			made, err = w.adopt(ctx, object)
		}
		return w.took("update", object, made, err)
	})
}

func (w *writer) remove(ctx context.Context, name string, before entry) error {
	version := strconv.FormatUint(before.version, 10)
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &before.uid, ResourceVersion: &version}}
	return w.write(ctx, "delete", name, func(uncertain bool) error {
		err := w.client.Delete(ctx, name, options)
		if isMissing(err, name) && uncertain {
			w.journal.add("uncertain, but done")
			err = nil
		}
		if err == nil {
			w.journal.acknowledge("delete", name, entry{version: before.version})
		}
		return err
	})
}

// write repeats an attempt while its outcome is unknown or the server asks for patience.
func (w *writer) write(ctx context.Context, verb, name string, attempt func(uncertain bool) error) error {
	for uncertain := false; ; uncertain = true {
		err := attempt(uncertain)
		if err == nil {
			return nil
		}
		kind, again := retryable(err)
		if !again || ctx.Err() != nil {
			return fmt.Errorf("%s %s: %w", verb, name, err)
		}
		w.journal.add(kind)
		time.Sleep(5 * time.Millisecond)
	}
}

// adopt finds out whether an earlier attempt of this write was done.
func (w *writer) adopt(ctx context.Context, sent *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	found, err := w.client.Get(ctx, sent.Name, metav1.GetOptions{})
	if err == nil && found.Data["sum"] != sent.Data["sum"] {
		return nil, fmt.Errorf("somebody else wrote it: %v", found.Data["label"])
	}
	if err == nil {
		w.journal.add("uncertain, but done")
	}
	return found, err
}

func (w *writer) took(verb string, sent, made *corev1.ConfigMap, err error) error {
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(made.ResourceVersion, 10, 64)
	if err != nil {
		return &refusal{err}
	}
	if before := w.journal.of(sent.Name); version <= before.version {
		return &refusal{fmt.Errorf("acknowledged at %d, not above %d", version, before.version)}
	}
	if made.Data["sum"] != sent.Data["sum"] {
		return &refusal{errors.New("acknowledged with other data than was sent")}
	}
	w.journal.acknowledge(verb, sent.Name, entry{exists: true, version: version, sum: made.Data["sum"], uid: made.UID})
	return nil
}

func (w *writer) compose(name string) *corev1.ConfigMap {
	w.next++
	body := make([]byte, (20+w.random.Intn(w.largest))/2)
	w.random.Read(body)
	data := map[string]string{"label": w.label + "/" + strconv.Itoa(w.next), "body": hex.EncodeToString(body)}
	data["sum"] = checksum(name, data)
	w.journal.issue(data["sum"])
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

func checksum(name string, data map[string]string) string {
	sum := sha256.Sum256([]byte(name + "\n" + data["label"] + "\n" + data["body"]))
	return hex.EncodeToString(sum[:])
}

// refusal is an error that no retry can help.
type refusal struct{ error }

// retryable tells whether the write may be tried again, and what happened.
func retryable(err error) (string, bool) {
	var wrong *refusal
	if errors.As(err, &wrong) {
		return "", false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		lost := code == 502 && strings.Contains(status.Status().Message, "may have been executed")
		return fmt.Sprintf("status %d", code), code == 429 || code == 503 || code == 504 || lost
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeouts", true
	}
	return "connection errors", true
}

// isMissing is true for "this object is not there", false for "this logical cluster is not there".
func isMissing(err error, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name && details.Kind == "configmaps"
}

// failures collects errors of goroutines, which must not end the test themselves.
type failures struct {
	mutex sync.Mutex
	first error
	count int
}

func (f *failures) add(format string, arguments ...any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.count++; f.first == nil {
		f.first = fmt.Errorf(format, arguments...)
	}
}

func (f *failures) err() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.count > 1 {
		return fmt.Errorf("%w (and %d more)", f.first, f.count-1)
	}
	return f.first
}
