// Package h2spec holds the conformance suite for HTTP/2 of that name against a proxy and a shard (SE-123, SE-T040).
package h2spec

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"

	"kintsugi.dev/e2e"
)

const cases = 145 + 1 // one of the suite's strict cases

// visit calls do for each case of a group and those below it, by its number in the suite: http2/5.1/8.
func visit(group *spec.TestGroup, do func(name string, one *spec.TestCase)) {
	for n, one := range slices.Concat(group.Tests, group.StrictTests) {
		do(fmt.Sprintf("%s/%d", group.ID(), n+1), one)
	}
	for _, below := range group.Groups {
		visit(below, do)
	}
}

// against runs all cases, and names those that fail.
func against(t *testing.T, port int) {
	t.Helper()
	// The longest wait for something that has to come; nothing waits for it to be over.
	how := &config.Config{Host: "127.0.0.1", Port: port, Path: "/livez?verbose", Timeout: 8 * time.Second, MaxHeaderLen: 4000, TLS: true, Insecure: true}
	seen := 0
	for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		visit(group, func(name string, one *spec.TestCase) {
			seen++
			t.Run(name, func(t *testing.T) {
				conn, err := spec.Dial(how)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				switch err := one.Run(how, conn); {
				case errors.Is(err, spec.ErrSkipped):
					t.Errorf("%s: not run", one.Desc)
				case err != nil:
					t.Errorf("%s: %s\n%v", one.Desc, one.Requirement, err)
				}
			})
		})
	}
	if seen != cases {
		t.Errorf("%d cases instead of %d", seen, cases)
	}
}

func TestSE_T040_SE_123_all_cases_pass_at_the_proxy_and_at_a_shard(t *testing.T) {
	installation := e2e.StartInstallation(t, "--shards", "1")
	t.Run("proxy", func(t *testing.T) { against(t, installation.Port) })
	t.Run("shard", func(t *testing.T) {
		config, err := installation.ShardConfig("root", "")
		if err != nil {
			t.Fatal(err)
		}
		at, err := url.Parse(config.Host)
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(at.Port())
		if err != nil {
			t.Fatal(err)
		}
		against(t, port)
	})
}
