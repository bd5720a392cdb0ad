package merge

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kintsugi.dev/e2e"
)

// fixedTable makes replicas that agree by configuration.
func fixedTable(generation int) Option { return Set("topology.generation", generation) }

func TestT54b_a_generation_of_a_moment_ago(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t, fixedTable(7))
	r.Fill(2, 2, 2)
	p2 := r.Replica(fixedTable(8))
	list := p2.All.List(t, ConfigMaps.Path())
	page := p2.All.List(t, query(ConfigMaps.Path(), "limit", "2"))
	if list.Metadata.ResourceVersion[3:9] != "000008" {
		t.Fatal(list.Metadata.ResourceVersion)
	}
	r.B.Maps.Put("b-live")
	learnt, begun := make(chan struct{}), time.Now()
	go func() {
		defer close(learnt)
		time.Sleep(400 * time.Millisecond)
		r.config["topology.generation"] = 8
		r.Configure(r.Shards...)
	}()
	w := r.All.Watch(t, resumed(list.Metadata.ResourceVersion))
	if waited := w.Headers.Sub(begun); waited < 300*time.Millisecond {
		t.Errorf("headers after %v", waited)
	}
	<-learnt
	w.UntilObjects(1, patience)
	exact := r.All.List(t, query(ConfigMaps.Path(), "resourceVersion", list.Metadata.ResourceVersion, "resourceVersionMatch", "Exact"))
	if len(exact.Items) != 6 {
		t.Errorf("%d items", len(exact.Items))
	}
	// What nobody tells of is 410, not earlier than after the wait.
	for _, path := range []string{query(ConfigMaps.Path(), "resourceVersion", list.Metadata.ResourceVersion[:3]+"000009"+list.Metadata.ResourceVersion[9:]),
		query(ConfigMaps.In()+"/b-1", "resourceVersion", list.Metadata.ResourceVersion[:3]+"000009"+list.Metadata.ResourceVersion[9:])} {
		clock := e2e.StartClock()
		if _, answer := r.All.Refused(t, http.StatusGone, path); answer.Took < 2500*time.Millisecond || clock.Of(answer.Took) > 5*time.Second {
			t.Errorf("after %v", answer.Took)
		}
	}
	// Its token is signed with a key of its own.
	r.All.Refused(t, http.StatusBadRequest, query(ConfigMaps.Path(), "limit", "2", "continue", page.Metadata.Continue))
}

// together are replicas with one slot table, one token key and one count of starts.
func together(t *testing.T, change ...Option) (r, p2 *Rig) {
	t.Helper()
	dir := t.TempDir()
	r = NewRig(t, append(change, Set("aggregation.shared_file", filepath.Join(dir, "record")))...)
	return r, r.Replica()
}

func TestT54_resume_at_another_replica(t *testing.T) {
	begin(t)
	plainOnly(t)
	r, p2 := together(t)
	r.Fill(3, 3, 3)
	list := r.All.List(t, ConfigMaps.Path())
	if there := p2.All.List(t, ConfigMaps.Path()); there.Metadata.ResourceVersion != list.Metadata.ResourceVersion { // T14
		t.Errorf("%s at one, %s at the other", list.Metadata.ResourceVersion, there.Metadata.ResourceVersion)
	}
	again := away(t, r, p2.All)
	native := again.Objects()[40].Object.Metadata.ResourceVersion
	gone(t, r.All.Open(t, resumed(native), nil)) // who delivered it, and what else, is not known there
}

func TestT54c_a_shard_joins_and_leaves_all_replicas(t *testing.T) {
	begin(t)
	plainOnly(t)
	r, p2 := together(t)
	r.Fill(2, 2, 2)
	before := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	w := p2.All.Watch(t, ConfigMaps.Path()+"?"+newest)
	w.UntilSynced(patience)
	d := r.AddFake("d")
	p2.Shards = r.Shards
	d.Maps.Put("d-1")
	r.Join(d)
	r.Ready(4)
	here := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	p2.Join(d)
	eventually(t, patience, "equal cursors with the shard", func() error {
		there := p2.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
		if there != here || number6(here[3:9]) != number6(before[3:9])+1 {
			return fmt.Errorf("%s, then %s at one, %s at the other", before, here, there)
		}
		return nil
	})
	w.UntilObjects(7, patience)
	cursor := w.UntilMarked(patience)
	r.All.Watch(t, resumed(cursor))
	// It leaves: first where it came last.
	p2.Leave(d)
	r.Leave(d)
	eventually(t, patience, "equal cursors without the shard", func() error {
		one, two := r.All.Get(ConfigMaps.Path()), p2.All.Get(ConfigMaps.Path())
		if one.Status != http.StatusOK || two.Status != http.StatusOK {
			return fmt.Errorf("%s, %s", one, two)
		}
		a, b := one.Object(t).Metadata.ResourceVersion, two.Object(t).Metadata.ResourceVersion
		if a != b || number6(a[3:9]) != number6(here[3:9])+1 {
			return fmt.Errorf("%s, %s", a, b)
		}
		return nil
	})
}

func TestT54d_a_record_that_is_gone_is_written_again(t *testing.T) {
	begin(t)
	plainOnly(t)
	r, p2 := together(t)
	r.Fill(2, 2, 2)
	cursor := r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion
	record := r.config["aggregation.shared_file"].(string)
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "a record", func() error { _, err := os.Stat(record); return err })
	for _, one := range []*Rig{r, p2} {
		one.Restart(false)
		if now := one.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion; now != cursor {
			t.Errorf("%s, not %s", now, cursor)
		}
	}
}

func TestT29b_tokens_of_replicas_and_keys_that_change(t *testing.T) {
	begin(t)
	plainOnly(t)
	keys := filepath.Join(t.TempDir(), "keys")
	key := func(id int) string { return fmt.Sprintf("%d %s\n", id, strings.Repeat(fmt.Sprintf("%02x", id), 32)) }
	write(t, keys, []byte(key(1)))
	r, p2 := together(t, Set("aggregation.token_keys_file", keys))
	r.Fill(4, 4, 4)
	page := r.All.List(t, ConfigMaps.Path()+"?limit=5")
	next := query(ConfigMaps.Path(), "limit", "50", "continue", page.Metadata.Continue)
	works := func(c *Client) {
		t.Helper()
		same(t, ModelOf(page.Items).with(ModelOf(c.List(t, next).Items)), Union(r.Maps()...))
	}
	r.Restart(true)
	works(r.All)
	works(p2.All)
	rotate := func(lines string) {
		write(t, keys, []byte(lines))
		for _, one := range []*Rig{r, p2} {
			head := strings.TrimSpace(lines[:strings.Index(lines, " ")])
			eventually(t, patience, "tokens of the new key", func() error {
				token := one.All.List(t, ConfigMaps.Path()+"?limit=5").Metadata.Continue
				if id := int(tokenBytes(t, token)[1]); fmt.Sprint(id) != head {
					return fmt.Errorf("key %d", id)
				}
				return nil
			})
		}
	}
	rotate(key(2) + key(1))
	works(r.All)
	works(p2.All)
	rotate(key(3) + key(2))
	r.All.Refused(t, http.StatusGone, next)
	p2.All.Refused(t, http.StatusGone, next)
}

// sealed makes a token as the proxy does (SE-166): version, id of the key, AES-256-GCM of the rest with what it is bound to.
func sealed(t *testing.T, id byte, secret, plain []byte, bound ...string) string {
	t.Helper()
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("kintsugi: tokens that are sealed"))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	head, nonce := []byte{2, id}, make([]byte, gcm.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		t.Fatal(err)
	}
	text := string(head)
	for _, part := range bound {
		text += fmt.Sprintf("%d:%s", len(part), part)
	}
	return base64.RawURLEncoding.EncodeToString(gcm.Seal(append(head, nonce...), nonce, plain, []byte(text)))
}

// The token of the example, with its key and its installation: what is in it is asked for, by whom it is bound to.
func TestT100b_the_token_of_the_example(t *testing.T) {
	begin(t)
	plainOnly(t)
	keys := filepath.Join(t.TempDir(), "keys")
	write(t, keys, []byte("3 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"))
	r := NewRig(t, fixedTable(7), Set("aggregation.token_keys_file", keys))
	r.B.Reset()
	plain := []byte{0, 0, 0, 7, 0x0c, 0xab, 0xd6, 0, 1, 0, 3}
	for _, pin := range []uint64{4711, 15, 982} {
		plain = binary.BigEndian.AppendUint64(plain, pin)
	}
	plain = append(append(plain, 0, 11), "MEMBERTOKEN"...)
	secret := make([]byte, 32)
	for i := range secret {
		secret[i] = byte(i)
	}
	token := func(payer string) string {
		return sealed(t, 3, secret, plain, "merged", "/clusters/*", "apps", "v1", "deployments", "", "app=web", "", "", payer)
	}
	path := func(token string) string {
		return query(Deployments.Path(), "labelSelector", "app=web", "limit", "5", "continue", token)
	}
	r.All.Refused(t, http.StatusBadRequest, path(token("user somebody-else")))
	r.All.Get(path(token("user admin")))
	asked := r.B.Log(func(e Entry) bool { return strings.HasSuffix(e.Path, "/deployments") })
	if len(asked) != 1 || asked[0].Query.Get("continue") != "MEMBERTOKEN" {
		t.Errorf("%v", asked)
	}
}

func TestT107g_replicas_never_mint_one_number(t *testing.T) {
	begin(t)
	plainOnly(t)
	r, p2 := together(t, numbers())
	r.Fill(2, 2, 2)
	one := sequenceOf(t, r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion)
	two := sequenceOf(t, p2.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion)
	r.Restart(true)
	three := sequenceOf(t, r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion)
	if one>>44 >= two>>44 || two>>44 >= three>>44 {
		t.Errorf("epochs %d, %d, %d", one>>44, two>>44, three>>44)
	}
	gone(t, p2.All.Open(t, resumed(fmt.Sprint(three)), nil))
}

func tokenBytes(t *testing.T, token string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < 2 {
		t.Fatalf("token %q", token)
	}
	return raw
}
