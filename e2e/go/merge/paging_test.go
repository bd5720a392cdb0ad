package merge

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
)

// pages reads a list page by page.
func pages(t *testing.T, c *Client, path string, limit int) (all []Object, each []Object) {
	t.Helper()
	for token := ""; ; {
		page := c.List(t, query(path, "limit", fmt.Sprint(limit), "continue", token))
		if len(page.Items) > limit {
			t.Errorf("%d items on a page of %d", len(page.Items), limit)
		}
		all, each = append(all, page.Items...), append(each, page)
		if token = page.Metadata.Continue; token == "" {
			return all, each
		}
	}
}

// complete checks that pages have every object once and tell the same revision.
func complete(t *testing.T, all, each []Object, want Model) {
	t.Helper()
	same(t, ModelOf(all), want)
	if len(all) != len(want) {
		t.Errorf("%d items of %d objects", len(all), len(want))
	}
	left := len(want)
	for n, page := range each {
		left -= len(page.Items)
		if page.Metadata.ResourceVersion != each[0].Metadata.ResourceVersion {
			t.Errorf("page %d at %s, page 0 at %s", n, page.Metadata.ResourceVersion, each[0].Metadata.ResourceVersion)
		}
		if rest := page.Metadata.Remaining; rest != nil && int(*rest) != left {
			t.Errorf("page %d: %d remain, not %d", n, left, *rest)
		}
	}
}

func TestT20_pages_have_every_object_once(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(601, 41, 611)
	want := Union(r.Maps()...)
	for _, limit := range []int{2, 7, 500} {
		all, each := pages(t, r.All, ConfigMaps.Path(), limit)
		complete(t, all, each, want)
		for n, page := range each {
			if len(page.Items) == 0 && page.Metadata.Continue != "" {
				t.Errorf("limit %d: page %d is empty and goes on", limit, n)
			}
		}
	}
	for _, f := range r.Shards { // one by one takes its time
		for name := range f.Maps.Versions() {
			if !strings.HasSuffix(name, "1") {
				f.Maps.Delete(name[strings.LastIndexByte(name, '/')+1:])
			}
		}
	}
	all, each := pages(t, r.All, ConfigMaps.Path(), 1)
	complete(t, all, each, Union(r.Maps()...))
}

func TestT21_pages_end_with_shards(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(6, 0, 4)
	for _, limit := range []int{2, 3, 6, 10} {
		all, each := pages(t, r.All, ConfigMaps.Path(), limit)
		complete(t, all, each, Union(r.Maps()...))
		empty := 0
		for _, page := range each {
			if len(page.Items) == 0 {
				empty++
			}
		}
		if empty > 1 {
			t.Errorf("limit %d: %d empty pages", limit, empty)
		}
	}
}

func TestT23_pages_show_one_state(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(4, 4, 4)
	want := Union(r.Maps()...)
	page := r.All.List(t, ConfigMaps.Path()+"?limit=3")
	got := page.Items
	r.A.Maps.Put("a-new")
	r.C.Maps.Put("c-new")
	r.C.Maps.Delete("c-3")
	r.B.Maps.Put("b-2", Data("v", "changed"))
	for page.Metadata.Continue != "" {
		page = r.All.List(t, query(ConfigMaps.Path(), "limit", "3", "continue", page.Metadata.Continue))
		got = append(got, page.Items...)
	}
	same(t, ModelOf(got), want)
}

// testForgotten reads one page, lets one shard forget, and goes on.
func testForgotten(t *testing.T, first, limit int, victim func(r *Rig) *Fake) {
	r := NewRig(t)
	r.Fill(4, 4, 4)
	page := r.All.List(t, query(ConfigMaps.Path(), "limit", fmt.Sprint(first)))
	got := ModelOf(page.Items)
	f := victim(r)
	f.Maps.Put(f.Name + "-new")
	f.Forget()
	refusals := 0
	for token := page.Metadata.Continue; token != ""; {
		answer := r.All.Get(query(ConfigMaps.Path(), "limit", fmt.Sprint(limit), "continue", token))
		o := answer.Object(t)
		switch answer.Status {
		case http.StatusOK:
			got.with(ModelOf(o.Items))
		case http.StatusGone:
			refusals++
			if o.Reason != "Expired" || o.Metadata.Continue == "" || refusals > 1 {
				t.Fatalf("refusal %d: %s", refusals, answer)
			}
		default:
			t.Fatal(answer)
		}
		token = o.Metadata.Continue
	}
	if refusals != 1 {
		t.Errorf("%d refusals", refusals)
	}
	same(t, got, Union(r.Maps()...))
}

func TestT24_forgotten_pin_in_the_middle_of_a_shard(t *testing.T) {
	begin(t)
	testForgotten(t, 6, 2, func(r *Rig) *Fake { return r.B })
}

func TestT24b_forgotten_pin_of_the_next_shard(t *testing.T) {
	begin(t)
	testForgotten(t, 2, 7, func(r *Rig) *Fake { return r.B })
}

func TestT24c_client_go_falls_back(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(4, 4, 4)
	client, err := dynamic.NewForConfig(r.Rest())
	if err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	asked := 0
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if asked++; asked == 3 {
			for _, f := range r.Shards {
				f.Forget()
			}
		}
		return maps.List(ctx, o)
	})
	p.PageSize = 3
	list, _, err := p.ListWithAlloc(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := meta.LenList(list); n != 12 {
		t.Errorf("%d objects", n)
	}
}

func TestT25_T26_tokens_belong_to_their_list(t *testing.T) {
	begin(t)
	r := NewRig(t)
	for _, f := range r.Shards {
		for n := range 3 {
			f.Maps.Put(fmt.Sprint(f.Name, n), Labels("app", "web"))
		}
	}
	path := query(ConfigMaps.Path(), "limit", "2", "labelSelector", "app=web")
	token := r.All.List(t, path).Metadata.Continue
	if token == "" {
		t.Fatal("no token")
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 {
		if bit%7 != 0 {
			continue
		}
		code := http.StatusBadRequest
		if bit/8 == 1 { // of another key, as it seems (SE-166)
			code = http.StatusGone
		}
		raw[bit/8] ^= 1 << (bit % 8)
		r.All.Refused(t, code, path+"&continue="+base64.RawURLEncoding.EncodeToString(raw))
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for _, bad := range []string{"x", "%00%ff", strings.Repeat("A", 200), token[:len(token)-1], token[1:], token + "A", "AAAA" + token} {
		r.All.Refused(t, http.StatusBadRequest, path+"&continue="+bad)
	}
	for _, other := range []string{query(ConfigMaps.Path(), "labelSelector", "app=db"), ConfigMaps.Path() + "?",
		query(ConfigMaps.Path(), "labelSelector", "app=web", "fieldSelector", "metadata.name=a0"),
		query(Widgets.Path(), "labelSelector", "app=web")} {
		r.All.Refused(t, http.StatusBadRequest, other+"&limit=2&continue="+token)
	}
	if r.Source == "static" {
		r.All.Refused(t, http.StatusBadRequest, query(ConfigMaps.In(), "labelSelector", "app=web")+"&limit=2&continue="+token)
	}
	for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" { // bits that mean nothing are bits too
		if text := token[:len(token)-1] + string(last); text != token {
			r.All.Refused(t, http.StatusBadRequest, path+"&continue="+text)
		}
	}
	other := NewRig(t)
	other.Fill(1, 1, 1)
	other.All.Refused(t, http.StatusBadRequest, path+"&continue="+token)
	r.All.List(t, path+"&continue="+token)
}

func TestT27_a_shard_leaves_between_pages(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(4, 4, 4)
	token := r.All.List(t, ConfigMaps.Path()+"?limit=2").Metadata.Continue
	r.Leave(r.C)
	eventually(t, patience, "410", func() error {
		answer := r.All.Get(query(ConfigMaps.Path(), "limit", "2", "continue", token))
		if answer.Status != http.StatusGone {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
}

func TestT28_a_shard_joins_between_pages(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(4, 4, 4)
	page := r.All.List(t, ConfigMaps.Path()+"?limit=5")
	got := ModelOf(page.Items)
	before := Union(r.Maps()...)
	d := r.AddFake("d")
	d.Maps.Put("d-1")
	d.Maps.Put("d-2")
	r.Join(d)
	r.Ready(4)
	for page.Metadata.Continue != "" {
		page = r.All.List(t, query(ConfigMaps.Path(), "limit", "5", "continue", page.Metadata.Continue))
		got.with(ModelOf(page.Items))
	}
	same(t, got, before)
	w := r.All.Watch(t, query(ConfigMaps.Path(), "watch", "1", "resourceVersion", page.Metadata.ResourceVersion))
	for _, e := range w.UntilObjects(2, patience) {
		if e.Type != "ADDED" {
			t.Error(e.Type)
		}
	}
	same(t, got.Apply(w.Objects()), Union(r.Maps()...))
}

func TestT29_tokens_outlive_the_proxy(t *testing.T) {
	begin(t)
	r := NewRig(t)
	r.Fill(4, 4, 4)
	page := r.All.List(t, ConfigMaps.Path()+"?limit=5")
	r.Restart(true)
	rest := r.All.List(t, query(ConfigMaps.Path(), "limit", "50", "continue", page.Metadata.Continue))
	same(t, ModelOf(page.Items).with(ModelOf(rest.Items)), Union(r.Maps()...))
	if rest.Metadata.ResourceVersion != page.Metadata.ResourceVersion {
		t.Errorf("%s, not %s", rest.Metadata.ResourceVersion, page.Metadata.ResourceVersion)
	}
}
