package merge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// lone is one Fake without a proxy, and a client of it.
func lone(t *testing.T) (*Fake, *Client, *rest.Config) {
	t.Helper()
	ca := NewAuthority(t, "ca")
	f := NewFake(t, "a", 1000, ca.Sign(t, "a", nil, false, aDay), ca.Pool())
	f.store.marker = "a"
	return f, NewClient(t, f.URL(), ca.Pool(), nil, 0), &rest.Config{Host: f.URL(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: ca.PEM}}
}

func TestFakeIsAServerForInformers(t *testing.T) {
	t.Parallel()
	f, _, config := lone(t)
	for n := range 30 {
		f.Maps.Put(fmt.Sprintf("m%02d", n))
		f.Widgets.Put(fmt.Sprintf("w%02d", n))
	}
	typed := StartInformer(t, config, true, ConfigMaps)
	dynamic := StartInformer(t, config, false, Widgets)
	keyed := StartKeyed(t, config, Widgets, true)
	typed.Equals(t, patience, f.Maps)
	dynamic.Equals(t, patience, f.Widgets)
	retry := StartRetry(t, config, fmt.Sprint(f.RV()), f.Maps.Versions())
	var group sync.WaitGroup
	for n := range 200 {
		name := fmt.Sprintf("m%02d", n%40)
		if n%7 == 0 {
			f.Maps.Delete(name)
		} else {
			f.Maps.Put(name, Data("n", fmt.Sprint(n)))
		}
		f.Widgets.Put(fmt.Sprintf("w%02d", n%40), Data("n", fmt.Sprint(n)))
		if n == 60 {
			f.Cut(true)
		}
		if n == 120 {
			group.Go(f.Goaway)
			f.EndAll(EndStream)
		}
		if n == 160 {
			f.Stop()
			f.Start(t)
		}
	}
	group.Wait()
	typed.Equals(t, patience, f.Maps)
	dynamic.Equals(t, patience, f.Widgets)
	keyed.Equals(t, patience, f.Widgets)
	retry.Equals(t, patience, f.Maps)
	f.Forget()
	f.Cut(false)
	f.Maps.Put("after")
	typed.Equals(t, patience, f.Maps)
	if c := typed.Counts(); c.WatchLists < 2 && c.Lists < 1 {
		t.Errorf("nothing was listed again: %s", typed)
	}
}

func TestFakePages(t *testing.T) {
	t.Parallel()
	f, client, _ := lone(t)
	for n := range 10 {
		f.Maps.Put(fmt.Sprintf("m%02d", n))
	}
	rv := f.RV()
	page := client.List(t, ConfigMaps.Path()+"?limit=3")
	f.Maps.Put("m99")
	f.Maps.Delete("m05")
	seen := ModelOf(page.Items)
	for page.Metadata.Continue != "" {
		page = client.List(t, ConfigMaps.Path()+"?limit=3&continue="+page.Metadata.Continue)
		if page.Metadata.ResourceVersion != fmt.Sprint(rv) {
			t.Errorf("a page at %s, not %d", page.Metadata.ResourceVersion, rv)
		}
		seen.with(ModelOf(page.Items))
	}
	exact := client.List(t, fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=Exact", ConfigMaps.Path(), rv))
	if err := seen.Equal(ModelOf(exact.Items)); err != nil || len(seen) != 10 {
		t.Errorf("%d objects: %v", len(seen), err)
	}
	token := client.List(t, ConfigMaps.Path()+"?limit=3").Metadata.Continue
	f.Forget()
	gone, _ := client.Refused(t, http.StatusGone, ConfigMaps.Path()+"?limit=3&continue="+token)
	rest := client.List(t, ConfigMaps.Path()+"?limit=100&continue="+gone.Metadata.Continue)
	if len(rest.Items) != 7 {
		t.Errorf("%d objects after the inconsistent token", len(rest.Items))
	}
	client.Refused(t, http.StatusGatewayTimeout, ConfigMaps.Path()+"?resourceVersion=99999")
	if s, _ := client.Refused(t, http.StatusBadRequest, ConfigMaps.Path()+"?labelSelector=a%20in%20("); s.Reason != "BadRequest" {
		t.Error(s)
	}
}

func TestFakeWatches(t *testing.T) {
	t.Parallel()
	f, client, _ := lone(t)
	f.Maps.Put("m1", Labels("app", "web"))
	f.Maps.Put("m2")
	for name, accept := range map[string]string{"JSON": JSON, "protobuf": Proto, "partial": One, "partial protobuf": OnePB} {
		t.Run(name, func(t *testing.T) {
			w := client.Watch(t, ConfigMaps.Path()+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
				"Accept", accept)
			w.UntilSynced(patience)
			if err := (Model{}).Apply(w.Objects()).Equal(f.Maps.Versions()); err != nil {
				t.Error(err)
			}
		})
	}
	w := client.Watch(t, ConfigMaps.Path()+"?watch=1&labelSelector=app%3Dweb", "Accept", TableV1)
	w.UntilObjects(1, patience)
	f.Maps.Put("m1", Labels("app", "db"))
	f.Maps.Put("m1", Labels("app", "web"))
	events := w.UntilObjects(3, patience)
	if events[1].Type != "DELETED" || events[2].Type != "ADDED" || len(events[0].Object.Columns) != 3 || len(events[1].Object.Columns) != 0 {
		t.Error(tell(events))
	}
	w = client.Watch(t, fmt.Sprintf("%s?watch=1&resourceVersion=%d", ConfigMaps.Path(), f.RV()))
	f.SendAll([]byte("{\"type\":"))
	f.EndAll(EndStream)
	w.UntilEnd(patience)
	if w.Fault() != nil || !w.Torn() {
		t.Error("half of an event is a whole one")
	}
	w = client.Watch(t, fmt.Sprintf("%s?watch=1&resourceVersion=%d", ConfigMaps.Path(), f.RV()))
	f.EndAll(Reset)
	w.UntilEnd(patience)
	if w.Fault() == nil || !strings.Contains(w.Fault().Error(), "INTERNAL_ERROR") {
		t.Errorf("ended by %v", w.Fault())
	}
	f.Forget()
	w = client.Watch(t, ConfigMaps.Path()+"?watch=1&resourceVersion=1000")
	w.UntilEnd(patience)
	if events := w.Events(); w.Fault() != nil || len(events) != 1 || events[0].Object.Code != http.StatusGone {
		t.Errorf("%v, %s", w.Fault(), tell(events))
	}
	f.Set(func(b *Behavior) { b.RefuseInitial = http.StatusUnprocessableEntity })
	client.Refused(t, http.StatusUnprocessableEntity, ConfigMaps.Path()+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
}

func TestFakeFaults(t *testing.T) {
	t.Parallel()
	f, client, _ := lone(t)
	f.Maps.Put("m1")
	f.Answer(1, http.StatusServiceUnavailable, map[string]string{"Retry-After": "7"}, "<html>")
	if answer := client.Get(ConfigMaps.Path()); answer.Status != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "7" {
		t.Error(answer)
	}
	f.Set(func(b *Behavior) { b.EmptyRV = true })
	if list := client.List(t, ConfigMaps.Path()); list.Metadata.ResourceVersion != "" || len(list.Items) != 1 {
		t.Error(list)
	}
	stop := make(chan struct{})
	f.Set(func(b *Behavior) { *b = Behavior{HoldHeaders: stop} })
	begun := make(chan *Recording)
	go func() { begun <- client.Open(t, ConfigMaps.Path()+"?watch=1", nil) }()
	select {
	case <-begun:
		t.Error("headers are not held")
	case <-time.After(20 * time.Millisecond):
	}
	close(stop)
	w := <-begun
	w.UntilObjects(1, patience)
	f.Blackhole(true)
	f.Maps.Put("m2")
	f.Blackhole(false)
	w.UntilObjects(2, patience)
	f.Set(func(b *Behavior) { *b = Behavior{GzipWatch: true} })
	zipped := client.Open(t, ConfigMaps.Path()+"?watch=1", nil)
	if zipped.Header.Get("Content-Encoding") != "gzip" {
		t.Error(zipped.Header)
	}
	at := f.RV()
	f.Maps.Put("m3")
	f.Rollback(1)
	if f.RV() != at || f.Maps.Get("m3") != nil || f.Maps.Get("m2") == nil {
		t.Error("not rolled back")
	}
	if len(f.Asked(true)) == 0 || f.Asked(true)[0].Query.Get("watch") != "1" {
		t.Error("nothing is logged")
	}
}

func TestFakeWritesBothKeyOrders(t *testing.T) {
	t.Parallel()
	f, client, _ := lone(t)
	f.Maps.Put("m1", Data("k", "v"))
	f.Widgets.Put("w1", Data("k", "v"))
	if text := string(client.Get(ConfigMaps.Path()).Body); !strings.HasPrefix(text, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{`) {
		t.Error(text)
	}
	if text := string(client.Get(Widgets.Path()).Body); !strings.HasPrefix(text, `{"apiVersion":"example.test/v1","items":[{"apiVersion":`) {
		t.Error(text)
	}
	for accept, kind := range map[string]string{JSON: "ConfigMapList", Proto: "ConfigMapList", Partial: "PartialObjectMetadataList",
		PartialPB: "PartialObjectMetadataList", TableV1: "Table"} {
		answer := client.Get(ConfigMaps.Path(), "Accept", accept)
		list, err := decodeProto(answer.Body)
		if err != nil || list.Kind != kind || len(list.Items)+len(list.Rows) != 1 {
			t.Errorf("%s: %v, %s", accept, err, answer)
		}
	}
	body := must(json.Marshal(map[string]any{"metadata": map[string]any{"name": "m1"}, "data": map[string]any{"k": "w"}}))
	if answer := client.Do(http.MethodPut, ConfigMaps.In()+"/m1", body, "Content-Type", JSON); answer.Status != http.StatusOK ||
		f.Maps.Get("m1")["data"].(map[string]any)["k"] != "w" {
		t.Error(answer)
	}
}
