package differ

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Nothing that is right takes as long: these end what will never come.
const (
	answerDeadline = 2 * time.Minute
	silence        = 300 * time.Millisecond // after which nothing more is taken to come
	pause          = 20 * time.Millisecond  // before a server is asked again
)

// compared are the headers that a client may look at.
var compared = []string{"Content-Type", "Warning", "Retry-After", "Cache-Control", "Allow", "Vary", "Content-Encoding",
	"X-Content-Type-Options", "Location", "Www-Authenticate"}

var objects = func() *runtime.Scheme {
	all := runtime.NewScheme()
	_ = scheme.AddToScheme(all)
	_ = apiextensionsv1.AddToScheme(all)
	metav1.AddToGroupVersion(all, schema.GroupVersion{Version: "v1"})
	_ = metav1.AddMetaToScheme(all)
	return all
}()

var protobufs = protobuf.NewSerializer(objects, objects)

// target is one server, in one case.
type target struct {
	base    string
	client  *http.Client
	plain   *http.Client // without the administrator's certificate
	vars    map[string]string
	normal  *normal
	watches map[string]*stream
}

// stream is an open watch.
type stream struct {
	events chan string
	cancel context.CancelFunc
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	value  any
}

func (t *target) expand(text string) string {
	for {
		begin := strings.Index(text, "${")
		if begin < 0 {
			return text
		}
		end := strings.Index(text[begin:], "}") + begin
		name := text[begin+2 : end]
		value, ok := t.vars[name]
		if times, what := 0, ""; !ok && strings.HasPrefix(name, "$repeat:") {
			if n, _ := fmt.Sscanf(name, "$repeat:%d:%s", &times, &what); n == 2 {
				value, ok = strings.Repeat(what, times), true
			}
		}
		if !ok {
			value = "<no " + name + ">"
		}
		text = text[:begin] + value + text[end+1:]
	}
}

func toProtobuf(body string) ([]byte, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal([]byte(body), &meta); err != nil {
		return nil, err
	}
	object, err := objects.New(meta.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(body), object); err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(meta.GroupVersionKind())
	var out bytes.Buffer
	err = protobufs.Encode(object, &out)
	return out.Bytes(), err
}

func (t *target) clientOf(s *step) *http.Client {
	if s.bearer != "" {
		return t.plain
	}
	return t.client
}

func (t *target) request(ctx context.Context, s *step) (*http.Request, error) {
	body := []byte(t.expand(s.body))
	if s.protobuf {
		var err error
		if body, err = toProtobuf(string(body)); err != nil {
			return nil, err
		}
	}
	var reader io.Reader
	if len(body) > 0 {
		reader = bytes.NewReader(body)
	}
	method := s.method
	if method == "WATCH" {
		method = "GET"
	}
	request, err := http.NewRequestWithContext(ctx, method, t.base+strings.ReplaceAll(t.expand(s.path), " ", "%20"), reader)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "differ/1")
	request.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
		if s.protobuf {
			request.Header.Set("Content-Type", "application/vnd.kubernetes.protobuf")
		}
	}
	for name, value := range s.header {
		if value = t.expand(value); value == "-" {
			request.Header[name] = nil
		} else {
			request.Header.Set(name, value)
		}
	}
	if s.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+t.expand(s.bearer))
	}
	if len(s.as) > 0 {
		request.Header.Set("Impersonate-User", t.expand(s.as[0]))
		for _, group := range s.as[1:] {
			request.Header.Add("Impersonate-Group", group)
		}
	}
	return request, nil
}

// decode turns a body into a JSON value; what has no such form is a text.
func decode(header http.Header, body []byte) any {
	kind := header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "application/json"):
	case strings.HasPrefix(kind, "application/yaml"):
		if text, err := yaml.YAMLToJSON(body); err == nil {
			body = text
		}
	case strings.HasPrefix(kind, "application/vnd.kubernetes.protobuf"):
		object, gvk, err := protobufs.Decode(body, nil, nil)
		if err != nil {
			return "protobuf: " + err.Error()
		}
		object.GetObjectKind().SetGroupVersionKind(*gvk)
		if body, err = json.Marshal(object); err != nil {
			return err.Error()
		}
	default:
		return string(body)
	}
	numbers := json.NewDecoder(bytes.NewReader(body))
	numbers.UseNumber()
	var value any
	if err := numbers.Decode(&value); err != nil {
		return string(body)
	}
	return value
}

// call sends a request. A connection that did not come about is tried again, the server has not seen the request, and so is
// what a server was too busy for.
func (t *target) call(ctx context.Context, s *step) (*http.Response, error) {
	for end := time.Now().Add(answerDeadline); ; time.Sleep(pause) {
		request, err := t.request(ctx, s)
		if err != nil {
			return nil, err
		}
		response, err := t.clientOf(s).Do(request)
		again := err != nil && unconnected(err) || err == nil && busy(response)
		if !again || time.Now().After(end) {
			return response, err
		}
		if err == nil {
			response.Body.Close()
		}
	}
}

func unconnected(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial" || strings.Contains(err.Error(), "TLS handshake timeout")
}

// busy tells whether a server says that it could not look at the request, and to ask again: that its caches are not
// filled yet, or that it has too much to do.
func busy(response *http.Response) bool {
	again := response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable
	return again && response.Header.Get("Retry-After") != ""
}

func (t *target) send(s *step) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerDeadline)
	defer cancel()
	response, err := t.call(ctx, s)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return &answer{response.StatusCode, response.Header, body, decode(response.Header, body)}, nil
}

// settled sends a step until its answer is what the step waits for.
func (t *target) settled(s *step) (*answer, error) {
	for end := time.Now().Add(answerDeadline); ; time.Sleep(pause) {
		got, err := t.send(s)
		if err != nil {
			return nil, err
		}
		if reached(t, s, got) {
			return got, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("not what the step waits for within %v, but %d: %.600s", answerDeadline, got.status, got.body)
		}
	}
}

func reached(t *target, s *step, got *answer) bool {
	if s.status != 0 && got.status != s.status {
		return false
	}
	found := pointer(got.value, t.expand(s.has))
	return s.has == "" || found != nil && (s.text == "" || found == s.text)
}

// watch opens a stream; its answer is without a body unless it is refused.
func (t *target) watch(s *step) (*answer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	late := time.AfterFunc(answerDeadline, cancel)
	defer late.Stop()
	response, err := t.call(ctx, s)
	if err != nil {
		cancel()
		return nil, err
	}
	got := &answer{status: response.StatusCode, header: response.Header}
	if response.StatusCode != http.StatusOK {
		got.body, err = io.ReadAll(response.Body)
		got.value = decode(response.Header, got.body)
		response.Body.Close()
		cancel()
		return got, err
	}
	opened := &stream{events: make(chan string, 1000), cancel: cancel}
	go func() {
		defer close(opened.events)
		defer response.Body.Close()
		lines := bufio.NewReader(response.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			opened.events <- line
		}
	}()
	t.watches[s.name] = opened
	return got, nil
}

// next are a watch's next events, and a moment's silence if none are to come.
func (t *target) next(s *step) (*answer, error) {
	open := t.watches[s.name]
	if open == nil {
		return nil, fmt.Errorf("no watch %q", s.name)
	}
	events := []any{}
	limit := answerDeadline
	if s.method == "EVENTS" && s.count == 0 {
		limit = silence
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for s.method == "END" || s.count == 0 || len(events) < s.count {
		select {
		case line, ok := <-open.events:
			if !ok {
				return &answer{status: 1, value: append(events, "<end>")}, nil
			}
			numbers := json.NewDecoder(strings.NewReader(line))
			numbers.UseNumber()
			var event any = line
			_ = numbers.Decode(&event)
			events = append(events, event)
		case <-deadline.C:
			if limit == answerDeadline {
				return nil, fmt.Errorf("no more than %d events within %v: %.600s", len(events), limit, show(events))
			}
			return &answer{status: 1, value: events}, nil
		}
	}
	return &answer{status: 1, value: events}, nil
}

func (t *target) do(s *step) (*answer, error) {
	switch s.method {
	case "WATCH":
		return t.watch(s)
	case "EVENTS", "END":
		return t.next(s)
	}
	return t.settled(s)
}

func (t *target) close() {
	for _, open := range t.watches {
		open.cancel()
	}
}

// pointer is the value at a JSON pointer, nil if there is none. An element of a list may be named by `key=value`.
func pointer(value any, path string) any {
	for _, word := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		word = strings.NewReplacer("~1", "/", "~0", "~").Replace(word)
		switch v := value.(type) {
		case map[string]any:
			value = v[word]
		case []any:
			value = element(v, word)
		default:
			return nil
		}
	}
	return value
}

func element(list []any, word string) any {
	for n, one := range list {
		if fmt.Sprint(n) == word {
			return one
		}
		if key, want, ok := strings.Cut(word, "="); ok {
			if o, _ := one.(map[string]any); o != nil && fmt.Sprint(o[key]) == want {
				return one
			}
		}
	}
	return nil
}
